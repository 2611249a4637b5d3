"""Tensor parallelism for latency: what more accelerators give a request, and where exchanging results eats it."""

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
    """Matrices are divided over several accelerators (Megatron-LM, arXiv:1909.08053), with two all-reduces per layer.

    Attributes
    ----------
    tensor : int
        Accelerators that share every layer.
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
        """How many share a layer."""
        return ("how many accelerators share a layer",)

    def had(self, case: Scenario) -> bool:
        """Whether as many share a layer already."""
        return bool(np.all(np.asarray(case.serve.parallel.tensor) >= self.tensor))

    def refusal(self, case: Scenario) -> str:
        """There has to be a link, and each part of a divided cache a rank."""
        gpu, divided = case.serve.accelerator, int(np.max(case.serve.parallel.decode_context))
        if self.tensor % divided:
            return f"the cache is divided over {divided} ranks of a layer, which must divide tensor: {self.tensor}"
        known = self.tensor == 1 or gpu.scale_up or gpu.host_bytes_per_s
        return "" if known else f"{gpu.name} has no link between accelerators"

    def in_layout(self, case: Scenario) -> bool:
        """As many share a layer."""
        return not self.refusal(case) and bool(np.all(np.asarray(case.serve.parallel.tensor) == self.tensor))

    def after(self, case: Scenario) -> Scenario:
        """As many accelerators for every layer, unless there are; experts spread over all of them still are."""
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
        Degrees.
    prefill_s, step_s : object
        Times.
    prefill_exchange_share, step_exchange_share : object
        Shares of the times spent exchanging results.
    time : str
        Which of the times they are.
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
        """Against the smallest degree."""
        return self.prefill_s[0] / self.prefill_s

    @property
    def step_speedup(self) -> Any:
        """Against the smallest degree."""
        return self.step_s[0] / self.step_s

    @property
    def prefill_efficiency(self) -> Any:
        """Speedup for each accelerator more."""
        return self.prefill_speedup * self.tensor[0] / self.tensor

    @property
    def step_efficiency(self) -> Any:
        """Speedup for each accelerator more."""
        return self.step_speedup * self.tensor[0] / self.tensor

    @property
    def best_for_prefill(self) -> int:
        """The degree of the shortest prefill."""
        return int(self.tensor[np.argmin(self.prefill_s)])

    @property
    def best_for_decode(self) -> int:
        """The degree of the shortest step."""
        return int(self.tensor[np.argmin(self.step_s)])

    @property
    def half_eaten_at(self) -> dict[str, float]:
        """By phase the first degree at which less than half of the accelerators' worth is left; infinite if none."""
        pairs = {"prefill": self.prefill_efficiency, "decode": self.step_efficiency}
        return {name: float(np.min(self.tensor[left < 0.5], initial=np.inf)) for name, left in pairs.items()}

    def _derivation(self) -> tuple[Step, ...]:
        """How efficiency follows from time."""
        last = {"one_s": self.step_s[0], "many_s": self.step_s[-1], "times": self.tensor[-1] / self.tensor[0]}
        return (Step("step_efficiency", "one_s / many_s / times", last, self.step_efficiency[-1], self.time),)


def tensor_limits(
    serve: Deployment,
    load: Workload,
    *,
    degrees: tuple[int, ...] = (1, 2, 4, 8),
    time: str = "estimate_s",
) -> TensorLimits:
    """What each degree of tensor parallelism gives both phases, and how much of it exchanging results takes.

    An all-reduce of a decode step carries kilobytes, so what it costs is latency, which only ``estimate_s`` knows; one
    of a prefill carries megabytes, which ``roofline_s`` knows too.

    Parameters
    ----------
    degrees : tuple of int
        From the smallest to the largest.
    time : str
        ``roofline_s`` or ``estimate_s``.

    Raises
    ------
    InvalidInput
        No degree, one that is not a whole number >= 1, or a workload that is a sweep.
    UnknownName
        Another time.

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
    """Time of the collectives of a pass."""
    exchanges = (item for item in phase.operators if item.operator.kind == "collective")
    return scalar(sum((getattr(item, time) for item in exchanges), 0.0) * phase.schedule.rounds)
