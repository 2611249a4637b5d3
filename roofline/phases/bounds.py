"""Bounds: the times of one operator on one accelerator, with their derivation (`roofline.operators.roofline`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Words, anywhere, everywhere, larger, log, read_only
from ..efficiency.estimate_steps import explain_estimate
from ..efficiency.estimates import Estimate, estimate, faster
from ..efficiency.forms import TINY_S
from ..efficiency.joining import shares
from ..efficiency.kinds import kind_of
from ..efficiency.lookup import profiles_run
from ..errors import Number, number, of_kind
from ..hardware import Accelerator
from ..operators.operator import Operator
from ..operators.roofline import (
    NOTHING_RESIDENT,
    Times,
    compute_s,
    exponentials_s,
    name_limits,
    operator_floor_s,
    times,
)
from ..operators.work import Work
from ..report import Report, Step
from ..specs.library import get_accelerator
from ..values import Value
from .pass_sentences import operator_sentence


class Part(NamedTuple):
    """One operator's share of a kernel that computes several."""

    kernel: Bound
    share: Number


class Deviations(NamedTuple):
    """An estimated time multiplied by the logarithms of (low / time) and (high / time), so that they add up."""

    below_s: Number
    above_s: Number


@dataclass(frozen=True, eq=False)
class Kernels(Value):
    """Operators of a pass that an engine runs as one kernel; determined when an estimate first needs it.

    Attributes
    ----------
    operators : tuple of Operator
        All operators of one pass, in the model's order.
    accelerator : Accelerator
        Accelerator that runs them.
    engine : str or None
        Engine whose kernels are used; the median of all engines if None.
    routing_skew : float
        Exponent of the power law by which tokens choose experts.
    """

    operators: tuple[Operator, ...]
    accelerator: Accelerator
    engine: str | None
    routing_skew: float

    @cached_property
    def parts(self) -> tuple[Part | None, ...]:
        """The shared kernel of each operator; None where it has its own kernel (`roofline.efficiency.joining`)."""
        wholes: dict[int, Bound] = {}
        found: list[Part | None] = []
        for joined in shares(self.operators, self.routing_skew):
            if joined is None:
                found.append(None)
                continue
            kernel = joined.kernel
            if id(kernel) not in wholes:
                wholes[id(kernel)] = self._whole(kernel)
            found.append(Part(wholes[id(kernel)], joined.share))
        return tuple(found)

    def _whole(self, kernel: Operator) -> Bound:
        """The bound of a shared kernel, with the kernels that the engine has for it."""
        kind = kind_of(kernel, self.accelerator.math_on_chip(kernel.work.math))
        engine, *others = profiles_run(self.accelerator, kind, self.engine, dispatched=self.dispatches)
        return Bound(kernel, self.accelerator, engine=engine, other_engines=tuple(others))

    @cached_property
    def dispatches(self) -> bool:
        """Whether an all-to-all brings tokens to the experts."""
        messages = (item.message for item in self.operators if item.message is not None)
        return any(each.collective == "all_to_all" and everywhere(each.accelerators > 1) for each in messages)


@dataclass(frozen=True, eq=False, repr=False)
class Bound(Report):
    """Bounds of one operator on one accelerator, summed over its ``count`` runs.

    Attributes
    ----------
    operator : Operator
        The operator.
    accelerator : Accelerator
        The accelerator.
    resident_bytes : float or array
        Bytes of its operands that are on the chip already and do not move.
    engine : str, optional
        Engine whose kernels the estimate describes (`roofline.efficiency.estimates`); the median of all if None.
    kernels : Kernels, optional
        Kernels of the pass that the operator belongs to; None for an operator outside a pass.
    place : int
        Index of the operator in that pass.
    other_engines : tuple of str or None
        Profiles of further kernels that the engine has for the operator; the fastest one runs.
    """

    operator: Operator
    accelerator: Accelerator
    resident_bytes: Number = NOTHING_RESIDENT
    engine: str | None = None
    kernels: Kernels | None = field(default=None, compare=False)
    place: int = field(default=0, compare=False)
    other_engines: tuple[str | None, ...] = ()
    math: str = field(init=False, compare=False)
    times: Times = field(init=False, compare=False)

    columns = (
        "name",
        "flops",
        "moved_bytes",
        "intensity_flops_per_byte",
        "compute_s",
        "memory_s",
        "floor_s",
        "roofline_s",
        "estimate_s",
        "limit",
    )

    def __post_init__(self) -> None:
        math = self.accelerator.math_on_chip(self.operator.work.math)
        object.__setattr__(self, "math", math)
        found = times(self.operator, self.accelerator, math, self.resident_bytes)
        # One check for all of them, since a pass has a dozen operators and most are not sweeps.
        object.__setattr__(self, "times", read_only(found) if isinstance(found.roofline_s, np.ndarray) else found)

    @property
    def name(self) -> str:
        """Name of the operator."""
        return self.operator.name

    @property
    def part(self) -> Part | None:
        """The kernel shared with other operators, and this one's share of it; None if it has its own kernel."""
        return None if self.kernels is None else self.kernels.parts[self.place]

    @property
    def heading(self) -> str:
        """Title: the operator and its accelerator."""
        return f"Bound: {self.name} on {self.accelerator.name}"

    def summary(self, time: str = "estimate_s") -> str:
        """How long the operator takes, by one of the three times, and what limits it."""
        return operator_sentence(self, time)

    @property
    def operators(self) -> tuple[Bound, ...]:
        """The bound itself, since it acts as a phase of one operator."""
        return (self,)

    @property
    def flops(self) -> Number:
        """FLOPs of all runs."""
        return self.times.flops

    @property
    def moved_bytes(self) -> Number:
        """Bytes that cross the memory interface in all runs: inputs and outputs minus resident bytes."""
        return self.times.moved_bytes

    @property
    def least_bytes(self) -> Number:
        """Bytes that no implementation can avoid: intermediate results stay on the chip."""
        return self.times.least_bytes

    @property
    def intensity_flops_per_byte(self) -> Number:
        """Arithmetic intensity; infinite if nothing has to move."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.divide(self.flops, self.moved_bytes)

    @property
    def compute_s(self) -> Number:
        """Time of the FLOPs at the dense peak, or of the exponentials at their rate if that is longer."""
        return self.times.compute_s

    @property
    def memory_s(self) -> Number:
        """Time of the moved bytes at the memory bandwidth."""
        return self.times.memory_s

    @property
    def network_s(self) -> Number:
        """Time of the message at the bandwidth of the links."""
        return self.times.network_s

    @property
    def roofline_s(self) -> Number:
        """The longest of compute, memory and network time (perfect overlap within the operator)."""
        return self.times.roofline_s

    @property
    def floor_s(self) -> Number:
        """Least possible time of this operator alone (`roofline.operators.roofline.operator_floor_s`)."""
        times = {"compute_s": self.compute_s, "memory_s": self.memory_s, "resident_bytes": self.resident_bytes}
        return larger(operator_floor_s(self.operator, self.accelerator, **times), self.network_s)

    @cached_property
    def estimate(self) -> Estimate:
        """Expected time with its interval (`roofline.efficiency.estimates`); never below the roofline."""
        roofline_s = self.times.roofline_s
        part = None if self.kernels is None else self.kernels.parts[self.place]
        if part is not None:
            whole, share = part.kernel.estimate, part.share
            time_s = larger(share * whole.time_s, roofline_s)
            low_s = larger(share * whole.low_s, self.floor_s)
            high_s = larger(share * whole.high_s, time_s)
            return Estimate(time_s, low_s, high_s, whole.basis, share * whole.fixed_s, whole.where)
        found = self._estimate_by(self.engine)
        for other in self.other_engines:
            found = faster(found, self._estimate_by(other))
        if not self.has_exponentials:
            return found
        time_s = larger(found.time_s, roofline_s)
        return found._replace(time_s=time_s, high_s=larger(found.high_s, time_s))

    def _estimate_by(self, engine: str | None) -> Estimate:
        """Expected time with the kernel of a profile."""
        return estimate(
            self.operator,
            self.accelerator,
            compute_s=compute_s(self.times.flops, self.accelerator, self.math),
            memory_s=self.times.memory_s,
            profile=engine,
        )

    @cached_property
    def deviations(self) -> Deviations:
        """Distances from the estimate to the ends of its interval, in the form that a pass sums."""
        found = self.estimate
        time_s = larger(found.time_s, TINY_S)
        below: Any = abs(log(larger(found.low_s, TINY_S) / time_s))
        above: Any = abs(log(larger(found.high_s, TINY_S) / time_s))
        return Deviations(found.time_s * below, found.time_s * above)

    @property
    def has_exponentials(self) -> bool:
        """Whether the chip states the rate of its exponentials and the operator computes any."""
        return self.operator.kind == "attention" and self.accelerator.exponentials_per_s is not None

    @property
    def follows_exponentials(self) -> bool:
        """Whether exponentials take about as long as the products, so that their rate matters too."""
        if not self.has_exponentials:
            return False
        products_s = compute_s(self.flops, self.accelerator, self.math)
        exponentials = self.operator.count * self.operator.work.exponentials
        nearly = 0.99  # within the step by which sensitivities vary a parameter to either side
        return anywhere(exponentials_s(exponentials, self.accelerator) > nearly * products_s)

    @property
    def estimate_s(self) -> Number:
        """Expected time."""
        return self.estimate.time_s

    @property
    def limit(self) -> Words:
        """``compute``, ``memory`` or ``network``, whichever takes longest; an array of strings for a sweep."""
        times = {"memory": self.memory_s, "compute": self.compute_s}
        return name_limits(times if self.operator.message is None else times | {"network": self.network_s})

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Assumptions behind the numbers."""
        return (*fallback_notes([self]), self.estimate.basis)

    def _derivation(self) -> tuple[Step, ...]:
        """Return the steps to FLOPs, bytes, times and limit, with numbers."""
        operator, gpu = self.operator, self.accelerator
        prefix = operator.name
        steps = [
            Step(f"{prefix}.{name}", formula, operator.inputs, getattr(operator.work, name), operator.source)
            for name, formula in operator.formulas.items()
        ]
        peak = f"dense_flops_per_s.{self.math}"
        bytes_ = {name: getattr(operator.work, name) for name in ("weight_bytes", "activation_bytes", "cache_bytes")}
        return (
            *steps,
            Step(
                f"{prefix}.flops",
                "count * flops_once",
                {"count": operator.count, "flops_once": operator.work.flops},
                self.flops,
                "all layers",
            ),
            Step(
                f"{prefix}.moved_bytes",
                "max(count * (weight_bytes + activation_bytes + cache_bytes) - resident_bytes, 0)",
                {"count": operator.count, **bytes_, "resident_bytes": self.resident_bytes},
                self.moved_bytes,
                "all layers",
            ),
            Step(
                f"{prefix}.compute_s",
                "max(flops / dense_flops_per_s, exponentials * seconds_of_one)",
                {
                    "flops": self.flops,
                    "dense_flops_per_s": gpu.dense_flops_per_s[self.math],
                    "exponentials": operator.count * operator.work.exponentials,
                    "seconds_of_one": exponentials_s(1.0, gpu),
                },
                self.compute_s,
                gpu.source_of(peak),
            ),
            Step(
                f"{prefix}.memory_s",
                "moved_bytes / memory_bytes_per_s",
                {"moved_bytes": self.moved_bytes, "memory_bytes_per_s": gpu.memory_bytes_per_s},
                self.memory_s,
                gpu.source_of("memory_bytes_per_s"),
            ),
            Step(
                f"{prefix}.roofline_s",
                "max(compute_s, memory_s, network_s)",
                {"compute_s": self.compute_s, "memory_s": self.memory_s, "network_s": self.network_s},
                self.roofline_s,
                "roofline model, CACM 52(4), 2009",
            ),
            *self._explain_estimate(),
        )

    def _explain_estimate(self) -> Iterator[Step]:
        """Yield the steps from kernel parameters to the estimate; a shared kernel is shown for its first operator."""
        if self.part is None:
            yield from self._explain_kernels()
            return
        whole, share = self.part.kernel, self.part.share
        if whole.name.partition("+")[0] == self.name:
            yield from whole._explain_estimate()
        inputs = {"share": share, "kernel_s": whole.estimate.time_s, "roofline_s": self.roofline_s}
        source = f"a share of {whole.name}: {whole.estimate.basis}"
        yield Step(f"{self.name}.estimate_s", "max(share * kernel_s, roofline_s)", inputs, self.estimate_s, source)

    def _explain_kernels(self) -> Iterator[Step]:
        """Yield the steps of each kernel that the engine has, and the fastest of them."""
        times = {"compute_s": self.compute_s, "memory_s": self.memory_s}
        if not self.other_engines:
            yield from explain_estimate(self.operator, self.accelerator, profile=self.engine, **times)
            return
        known = {}
        for engine in (self.engine, *self.other_engines):
            name = engine or "median"
            item = replace(self.operator, name=f"{self.name}.{name}")
            yield from explain_estimate(item, self.accelerator, profile=engine, **times)
            known[f"{name.replace('-', '_')}_s"] = self._estimate_by(engine).time_s
        yield Step(f"{self.name}.estimate_s", f"min({', '.join(known)})", known, self.estimate_s, "the fastest kernel")


def bound(
    work: Work,
    accelerator: Accelerator | str | Path,
    *,
    resident_bytes: Number = 0.0,
    name: str = "work",
    engine: str | None = None,
) -> Bound:
    """Return the bounds of ``work``, run once on ``accelerator``.

    Parameters
    ----------
    work : Work
        FLOPs and bytes, with the format of the math.
    accelerator : Accelerator, str or path
        Accelerator that runs it, or the name or path of one.
    resident_bytes : float or array
        Bytes of its operands that are in the on-chip cache already, as in a timing loop.
    name : str
        Name shown in plots and derivations.
    engine : str, optional
        Engine whose kernels the estimate describes (``vllm``, ``sglang``, ``trtllm``); the median of all if None.

    Raises
    ------
    InvalidInput
        ``resident_bytes`` is not a finite number >= 0.
    UnknownName
        The chip has no units for the math of ``work`` or for any wider format.

    Examples
    --------
    >>> import roofline as rl
    >>> gpu = rl.get_accelerator("h100-sxm")
    >>> rl.bound(rl.matmul(1, 8192, 8192), gpu).limit
    'memory'
    >>> rl.bound(rl.matmul(2000, 8192, 8192), gpu).limit
    'compute'
    """
    of_kind("work", work, Work, "matmul(1, 8192, 8192)")
    resident = number("resident_bytes", resident_bytes)
    kind = "work" if work.shape is None else "matmul"
    operator = Operator(name, kind, work, work, inputs=work.shape or {})
    return Bound(operator, get_accelerator(accelerator), resident, engine)


def notes_of_operators(bounds: Sequence[Bound]) -> tuple[tuple[str, ...], ...]:
    """Assumptions of operators in three groups: substituted formats, expert routing, basis of the estimates."""
    routed = any(bound.operator.kind == "experts" for bound in bounds)
    bases = dict.fromkeys(bound.estimate.basis for bound in bounds)
    return fallback_notes(list(bounds)), (ROUTING,) if routed else (), tuple(filter(None, bases))


ROUTING = "experts: the floor counts the top k, the roofline the number expected under uniform routing"


def fallback_notes(bounds: list[Bound]) -> tuple[str, ...]:
    """One sentence per format that the chip has no units for, naming the format used instead."""
    stand_ins = {
        (bound.operator.work.math, bound.math): bound.accelerator.name
        for bound in bounds
        if bound.operator.work.math != bound.math and np.any(bound.flops)
    }
    return tuple(
        f"{name} has no {wanted} units: computed at the {used} rate" for (wanted, used), name in stand_ins.items()
    )
