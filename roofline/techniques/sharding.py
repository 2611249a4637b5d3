"""Tensor parallelism for latency: the speedup from more accelerators, and how much of it communication takes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..arrays import scalar
from ..errors import InvalidInput, number, unknown
from ..phases.deployment import Deployment, check_deployment
from ..phases.passes import Phase, decode, prefill
from ..phases.workload import Workload, check_load
from ..report import Report, Step
from ..serving.scenario import Scenario
from .technique import HARDWARE, Technique


@dataclass(frozen=True, eq=False, kw_only=True)
class TensorParallelism(Technique):
    """Divide matrices among several accelerators (Megatron-LM, arXiv:1909.08053), with two all-reduces per layer.

    Attributes
    ----------
    tensor : int
        Number of accelerators that share every layer.
    """

    slug: ClassVar[str] = "tensor-parallelism"
    name: ClassVar[str] = "tensor parallelism"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "each accelerator computes and reads its part of every matrix"
    costs: ClassVar[str] = "two all-reduces per layer"
    effort: ClassVar[str] = HARDWARE

    tensor: int = 2

    def __post_init__(self) -> None:
        number("tensor", self.tensor, least=1, whole=True)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides how many accelerators share a layer."""
        return ("how many accelerators share a layer",)

    def had(self, case: Scenario) -> bool:
        """Whether this many accelerators already share a layer."""
        return bool(np.all(np.asarray(case.serve.parallel.tensor) >= self.tensor))

    def refusal(self, case: Scenario) -> str:
        """Reject accelerators without a link, and degrees that are not a multiple of the ranks of a divided cache."""
        gpu, divided = case.serve.accelerator, int(np.max(case.serve.parallel.decode_context))
        if self.tensor % divided:
            return f"tensor must be a multiple of the {divided} ranks that share the cache: {self.tensor}"
        known = self.tensor == 1 or gpu.scale_up or gpu.host_bytes_per_s
        return "" if known else f"{gpu.name} has no link between accelerators"

    def in_layout(self, case: Scenario) -> bool:
        """Whether the layout shares a layer among this many accelerators."""
        return not self.refusal(case) and bool(np.all(np.asarray(case.serve.parallel.tensor) == self.tensor))

    def after(self, case: Scenario) -> Scenario:
        """Share each layer among this many accelerators; experts divided over all of them remain so."""
        if self.had(case):
            return case
        before = case.serve.parallel
        tensor = np.full(np.shape(before.tensor), self.tensor) if np.ndim(before.tensor) else self.tensor
        spread = np.asarray(before.expert)
        expert = np.where(spread == before.tensor * before.data, tensor * before.data, spread)[()]
        expert = np.where(spread > 1, expert, spread)[()]
        parallel = dataclasses.replace(before, tensor=tensor, expert=expert)
        return case.replace(serve=case.serve.replace(parallel=parallel))


@dataclass(frozen=True, eq=False, repr=False)
class TensorLimits(Report):
    """Prefill and one decode step by degree of tensor parallelism.

    Attributes
    ----------
    tensor : array
        Degrees of tensor parallelism.
    prefill_s, step_s : object
        Times of prefill and of a decode step, s.
    prefill_exchange_share, step_exchange_share : object
        Shares of these times spent in collectives.
    time : str
        Kind of time: ``roofline_s`` or ``estimate_s``.
    """

    tensor: npt.NDArray[np.float64]
    prefill_s: Any
    step_s: Any
    prefill_exchange_share: Any
    step_exchange_share: Any
    time: str
    assumptions: tuple[str, ...] = ()

    columns = (
        "tensor",
        "prefill_s",
        "step_s",
        "prefill_exchange_share",
        "step_exchange_share",
        "prefill_speedup",
        "step_speedup",
        "prefill_efficiency",
        "step_efficiency",
    )

    @property
    def prefill_speedup(self) -> Any:
        """Speedup of prefill over the smallest degree."""
        return self.prefill_s[0] / self.prefill_s

    @property
    def step_speedup(self) -> Any:
        """Speedup of a decode step over the smallest degree."""
        return self.step_s[0] / self.step_s

    @property
    def prefill_efficiency(self) -> Any:
        """Prefill speedup divided by the growth in accelerators."""
        return self.prefill_speedup * self.tensor[0] / self.tensor

    @property
    def step_efficiency(self) -> Any:
        """Decode speedup divided by the growth in accelerators."""
        return self.step_speedup * self.tensor[0] / self.tensor

    @property
    def best_for_prefill(self) -> int:
        """Degree with the shortest prefill."""
        return int(self.tensor[np.argmin(self.prefill_s)])

    @property
    def best_for_decode(self) -> int:
        """Degree with the shortest decode step."""
        return int(self.tensor[np.argmin(self.step_s)])

    @property
    def half_eaten_at(self) -> dict[str, float]:
        """First degree with an efficiency below one half, by phase; infinite if there is none."""
        pairs = {"prefill": self.prefill_efficiency, "decode": self.step_efficiency}
        return {name: float(np.min(self.tensor[left < 0.5], initial=np.inf)) for name, left in pairs.items()}

    def _derivation(self) -> tuple[Step, ...]:
        """Efficiency from the times."""
        last = {"one_s": self.step_s[0], "many_s": self.step_s[-1], "times": self.tensor[-1] / self.tensor[0]}
        return (Step("step_efficiency", "one_s / many_s / times", last, self.step_efficiency[-1], self.time),)


def tensor_limits(
    serve: Deployment,
    load: Workload,
    *,
    degrees: tuple[int, ...] = (1, 2, 4, 8),
    time: str = "estimate_s",
) -> TensorLimits:
    """Compute prefill and decode times for each degree of tensor parallelism, and their share of communication.

    An all-reduce of a decode step carries kilobytes, so its time is mostly latency, which only ``estimate_s`` includes.
    An all-reduce of a prefill carries megabytes, which ``roofline_s`` includes too.

    Parameters
    ----------
    degrees : tuple of int
        Degrees in ascending order.
    time : str
        ``roofline_s`` or ``estimate_s``.

    Raises
    ------
    InvalidInput
        ``degrees`` is empty or has a value that is not an integer >= 1, or the workload is a sweep.
    UnknownName
        ``time`` is not one of these.

    Examples
    --------
    >>> import roofline as rl
    >>> from roofline.techniques import tensor_limits
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> found = tensor_limits(serve, rl.Workload(), time="roofline_s")
    >>> [round(float(left), 2) for left in found.prefill_efficiency]
    [1.0, 0.9, 0.8, 0.65]
    """
    check_deployment(serve)
    check_load(load)
    if time not in ("roofline_s", "estimate_s"):
        raise unknown("time", time, ("roofline_s", "estimate_s"))
    if not len(degrees):
        raise InvalidInput("degrees is empty; give at least one degree")
    if any(np.ndim(value) for value in (load.batch, load.prompt_tokens, load.output_tokens, load.cached_tokens)):
        raise InvalidInput("tensor_limits takes a single workload, not a sweep")
    tensor = np.asarray(number("degrees", degrees, least=1, whole=True), dtype=float)
    many = serve.replace(parallel=dataclasses.replace(serve.parallel, tensor=tensor))
    both = (prefill(many, load), decode(many, load))
    prefill_s, step_s = (np.broadcast_to(getattr(phase, time), tensor.shape) for phase in both)
    shares = [_exchange_s(phase, time) / getattr(phase, time) for phase in both]
    return TensorLimits(tensor, prefill_s, step_s, shares[0], shares[1], time, both[0].assumptions)


def _exchange_s(phase: Phase, time: str) -> Any:
    """Time of the collectives of a pass, s."""
    exchanges = (item for item in phase.operators if item.operator.kind == "collective")
    return scalar(sum((getattr(item, time) for item in exchanges), 0.0) * phase.schedule.rounds)
