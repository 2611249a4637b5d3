"""The host: how kernels are launched, and whether the device waits for the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..errors import Number, number
from ..report import Step
from ..serving.pass_times import launches
from ..serving.scenario import Scenario
from .technique import FLAG, Technique

OPERATOR_KERNELS = 5
"""Kernels that an eager framework launches for an operator of a model: the product or the norm itself, and the copies,
casts, rotations and writes to the cache around it that a captured or compiled step has fused."""


@dataclass(frozen=True, kw_only=True)
class CudaGraphs(Technique):
    """A decode step is captured once and launched as one graph, against kernels that are launched one by one.

    The host launches ahead of the device, so an eager step takes the longer of the two:

        eager step = max(device, kernels * launch) + host,   graph step = device + host

    Small models and small batches on fast devices wait for the host; a large batch does not.

    Attributes
    ----------
    kernel_launch_s : float or array
        Host time of launching a kernel, seconds: 5 to 10 microseconds.
    operator_kernels : float or array
        Kernels of an eager framework for each operator of the model.
    """

    slug: ClassVar[str] = "cuda-graphs"
    name: ClassVar[str] = "CUDA graphs"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "one launch for a whole step: the device never waits for the host"
    costs: ClassVar[str] = "memory for a graph of each batch size; fixed shapes"
    effort: ClassVar[str] = FLAG
    baseline: ClassVar[str] = "kernels launched one by one"
    in_place: ClassVar[bool] = True

    kernel_launch_s: Number = 7.5e-6
    operator_kernels: Number = OPERATOR_KERNELS

    def __post_init__(self) -> None:
        for name in ("kernel_launch_s", "operator_kernels"):
            number(name, getattr(self, name))

    @property
    def decides(self) -> tuple[str, ...]:
        """How kernels are launched."""
        return ("how the kernels of a step are launched",)

    def without(self, case: Scenario) -> Scenario:
        """Every kernel launched by the host."""
        return case.replace(eager_s=self.kernel_launch_s * self.operator_kernels)

    def after(self, case: Scenario) -> Scenario:
        """One graph."""
        return case.replace(eager_s=0.0)

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Time that the host takes to launch an eager step."""
        from ..phases.passes import decode

        count = launches(decode(case.serve, case.running))
        known = {"operators": count, "kernels": self.operator_kernels, "launch_s": self.kernel_launch_s}
        value = count * self.operator_kernels * self.kernel_launch_s
        return (Step("eager_host_s", "operators * kernels * launch_s", known, value, "beside the device"),)


@dataclass(frozen=True, kw_only=True)
class AsyncScheduling(Technique):
    """The host schedules and samples the next step while the device runs this one: their maximum, not their sum.

    Beside a fixed time of each step the host spends about 18 microseconds on each sequence: scheduling, sampling,
    detokenization.  That is the median of four servers of gpt-oss that were measured with and without
    (``1 / rate before - 1 / rate after``: 5 to 23 microseconds a token; gpustack's performance lab).

    Attributes
    ----------
    host_sequence_s : float or array
        Host time of a step for each sequence, seconds.
    """

    slug: ClassVar[str] = "async-scheduling"
    name: ClassVar[str] = "asynchronous scheduling"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "the host works beside the device instead of after it"
    costs: ClassVar[str] = "a step of delay before a sequence that ends is seen"
    effort: ClassVar[str] = FLAG
    baseline: ClassVar[str] = "the device waits for the host between steps"

    host_sequence_s: Number = 1.8e-5

    def __post_init__(self) -> None:
        number("host_sequence_s", self.host_sequence_s)

    @property
    def decides(self) -> tuple[str, ...]:
        """Whether the device waits."""
        return ("whether the device waits for the host",)

    def had(self, case: Scenario) -> bool:
        """SGLang and TensorRT-LLM overlap by default."""
        return case.serve.server.name in OVERLAPPING

    def without(self, case: Scenario) -> Scenario:
        """One after the other."""
        return case.replace(sequence_s=self.host_sequence_s)

    def given(self, case: Scenario) -> Scenario:
        """The host's time for each sequence stated."""
        return case.replace(sequence_s=self.host_sequence_s)

    def after(self, case: Scenario) -> Scenario:
        """Both at once."""
        return case.replace(asynchronous=True)


OVERLAPPING = ("sglang", "trtllm")
"""Engines whose scheduler overlaps with the device by default (SGLang since v0.4, TensorRT-LLM's overlap scheduler)."""
