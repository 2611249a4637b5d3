"""A profile of kernels against the operators of a pass: each kind of operator under its own roof."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidInput, unknown
from ..phases.bounds import Bound
from ..phases.deployment import Deployment
from ..phases.passes import Phase, decode, prefill
from ..phases.workload import Workload
from ..report import Report
from ..units import humanize
from .kernels import KernelProfile

PHASES = ("decode", "prefill")

OF_ATTENTION = ("flash", "fmha", "splitkv", "attention", "attn", "batchdecode", "batchprefill")
"""Names of kernels that run once a layer and pass."""

NOT_ATTENTION = ("combine", "reduce", "merge", "cache")
"""Companions of attention kernels, which need not run once a layer."""


@dataclass(frozen=True, eq=False, repr=False)
class KernelHeadroom(Report):
    """Time of a pass by kind of operator: measured, and its bounds.

    Attributes
    ----------
    profile : KernelProfile
        The kernels.
    phase : Phase
        The pass with which they are compared.
    steps : float
        Passes that the profile covers.
    """

    profile: KernelProfile
    phase: Phase
    steps: float
    notes: tuple[str, ...] = ()

    columns = (
        "kind",
        "calls",
        "measured_s",
        "floor_s",
        "roofline_s",
        "estimate_s",
        "share_of_roofline",
        "share_of_estimate",
        "mfu",
        "mbu",
        "limit",
    )

    @property
    def _kinds(self) -> list[str]:
        operators = dict.fromkeys(item.operator.kind for item in self.phase.operators)
        kernels = dict.fromkeys(str(kind) for kind in self.profile.kind)
        return [*operators, *(kind for kind in kernels if kind not in operators)]

    @property
    def kind(self) -> Any:
        """Kinds of operator, then kinds of kernels that the pass has no operator of."""
        return np.array(self._kinds)

    def _kernels(self, kind: str) -> list[Any]:
        return [kernel for kernel in self.profile.kernels if (kernel.kind or "unmatched") == kind]

    def _operators(self, kind: str) -> list[Bound]:
        return [item for item in self.phase.operators if item.operator.kind == kind]

    @property
    def calls(self) -> Any:
        """Calls of a kind's kernels a pass."""
        return self._of_kernels("calls") / self.steps

    @property
    def measured_s(self) -> Any:
        """Time of a kind's kernels a pass."""
        return self._of_kernels("total_s") / self.steps

    def _of_kernels(self, name: str) -> Any:
        """Sum over the kernels of each kind."""
        return np.array([_total(self._kernels(kind), name) for kind in self._kinds])

    def _sums(self, name: str) -> Any:
        """Sum over the operators of each kind."""
        return np.array([_total(self._operators(kind), name) for kind in self._kinds])

    @property
    def floor_s(self) -> Any:
        """Least time of a kind's operators, each by itself."""
        return self._sums("floor_s")

    @property
    def roofline_s(self) -> Any:
        """Roofline of a kind's operators."""
        return self._sums("roofline_s")

    @property
    def estimate_s(self) -> Any:
        """Expected time of a kind's operators."""
        return self._sums("estimate_s")

    def _over_measured(self, values: Any) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.measured_s > 0, values / self.measured_s, np.nan)

    @property
    def share_of_roofline(self) -> Any:
        """Roofline over measured time; NaN where no kernel was matched."""
        return self._over_measured(self.roofline_s)

    @property
    def share_of_estimate(self) -> Any:
        """Estimate over measured time; NaN where no kernel was matched."""
        return self._over_measured(self.estimate_s)

    @property
    def mfu(self) -> Any:
        """Time that the FLOPs take at the dense peaks over measured time."""
        return self._over_measured(self._sums("compute_s"))

    @property
    def mbu(self) -> Any:
        """Time that the moved bytes take at the memory bandwidth over measured time."""
        return self._over_measured(self._sums("memory_s"))

    @property
    def limit(self) -> Any:
        """What limits a kind's operators; ``none`` where the pass has none of them."""
        sums = {name: self._sums(f"{name}_s") for name in ("memory", "compute", "network")}
        words = np.array(list(sums))[np.argmax(np.stack(list(sums.values())), axis=0)]
        return np.where(self.roofline_s > 0, words, "none")

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """The number of passes, kernels that could not be matched, and kinds that beat their roofline."""
        return (*self.notes, *self._missing(), *self._beaten(), *self.profile.assumptions)

    def _missing(self) -> Iterator[str]:
        for kind, measured, roof in zip(self._kinds, self.measured_s, self.roofline_s, strict=True):
            if roof and not measured:
                yield f"no kernel was matched to {kind}, {humanize('s', roof)} at its roofline; it may be fused"
            if measured and not roof and kind != "unmatched":
                yield f"{kind} kernels take {humanize('s', measured)} per pass, but the model has no such operator"

    def _beaten(self) -> Iterator[str]:
        for kind, measured, floor in zip(self._kinds, self.measured_s, self.floor_s, strict=True):
            if 0 < measured < floor:
                yield (
                    f"{kind} takes {humanize('s', measured)} and its floor is {humanize('s', floor)}: the number of "
                    "passes, batch or format may differ, or kernels were assigned to another kind"
                )

    def __repr__(self) -> str:
        lines = [f"KernelHeadroom of {self.profile.source}, {self.phase.name}, {self.steps:g} passes"]
        for kind, measured, roof in zip(self._kinds, self.measured_s, self.roofline_s, strict=True):
            share = f", {roof / measured:.0%} of its roofline" if measured and roof else ""
            lines.append(f"{kind}: {humanize('s', float(measured))} a pass{share}")
        return "\n  ".join([*lines, *(f"note: {note}" for note in self.assumptions)])


def kernel_headroom(
    serve: Deployment, profile: KernelProfile, *, load: Workload | None, phase: str, steps: float | None
) -> KernelHeadroom:
    """Compare ``profile`` with the operators of a pass (see `roofline.headroom`)."""
    if phase not in PHASES:
        raise unknown("phase", phase, PHASES)
    if load is None:
        raise InvalidInput(
            f"{profile.source} is a kernel profile, which contains no shapes; give the load (batch and prompt tokens) "
            "and the phase, decode or prefill"
        )
    found = decode(serve, load) if phase == "decode" else prefill(serve, load)
    if steps is not None:
        if not 0 < steps < float("inf"):
            raise InvalidInput(f"steps must be a finite number > 0: {steps!r}")
        return KernelHeadroom(profile, found, float(steps), (f"{steps:g} passes, as given",))
    counted = _passes(profile, found)
    return KernelHeadroom(
        profile, found, counted, (f"{counted:g} passes, derived from the number of attention kernels",)
    )


def _passes(profile: KernelProfile, phase: Phase) -> float:
    """Passes that a profile covers: attention kernels divided by layers with attention."""
    layers = sum(float(item.operator.count) for item in phase.operators if item.operator.kind == "attention")
    calls = sum(kernel.calls for kernel in profile.kernels if _runs_once_a_layer(kernel.name))
    if not layers or not calls or calls % layers:
        raise InvalidInput(
            f"{profile.source} has {calls} attention kernels, which is not a multiple of {layers:g} layers; give "
            "steps, the number of passes that it covers"
        )
    return calls / layers


def _runs_once_a_layer(name: str) -> bool:
    lowered = name.lower()
    return any(word in lowered for word in OF_ATTENTION) and not any(word in lowered for word in NOT_ATTENTION)


def _total(items: Iterable[Any], name: str) -> float:
    return sum(float(getattr(item, name)) for item in items)
