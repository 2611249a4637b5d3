"""The host: kernel launches, and whether the device waits for the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..arrays import scalar
from ..errors import Number, number
from ..report import Step
from ..serving.scenario import Scenario
from ..specs.engines import GENERIC, Engine
from .technique import FLAG, Technique


@dataclass(frozen=True, eq=False, kw_only=True)
class CudaGraphs(Technique):
    """Capture a decode step once and launch it as a single graph, instead of kernel by kernel.

    The host launches ahead of the device, so an eager step takes the longer of the two times, with a smooth maximum:

        eager step = (device^4 + (layers * launch)^4)^(1/4) + host,   graph step = device + host

    A framework launches some 60 to 130 kernels per layer at 5 to 10 microseconds each: products, norms, and the copies,
    casts, rotations and cache writes around them, which a captured or compiled step fuses.  Fitted to measured servers
    it is 0.53 ms per layer (``eager_layer_s`` of the engine, or of the generic one where it states none).  Small models
    and small batches on fast devices wait for the host; large batches do not.

    Attributes
    ----------
    layer_launch_s : float or array, optional
        Host time of launching the kernels of a layer one by one, seconds; by default the engine's.
    """

    slug: ClassVar[str] = "cuda-graphs"
    name: ClassVar[str] = "CUDA graphs"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "one launch for a whole step: the device never waits for the host"
    costs: ClassVar[str] = "memory for a graph of each batch size; fixed shapes"
    effort: ClassVar[str] = FLAG
    baseline: ClassVar[str] = "kernels launched one by one"
    in_place: ClassVar[bool] = True

    layer_launch_s: Number | None = None

    def __post_init__(self) -> None:
        if self.layer_launch_s is not None:
            number("layer_launch_s", self.layer_launch_s)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides how kernels are launched."""
        return ("how the kernels of a step are launched",)

    def _layer_s(self, case: Scenario) -> Number:
        given = self.layer_launch_s
        if given is None:
            return case.serve.server.eager_layer_s or Engine(GENERIC).on(case.serve.accelerator).eager_layer_s or 0.0
        return given

    def without(self, case: Scenario) -> Scenario:
        """Baseline: the host launches every kernel."""
        return case.replace(layer_launch_s=self._layer_s(case))

    def after(self, case: Scenario) -> Scenario:
        """Launch each step as one graph."""
        return case.replace(layer_launch_s=0.0)

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Host time to launch an eager step."""
        known = {"layers": case.model.layer_count, "layer_launch_s": self._layer_s(case)}
        value = scalar(np.multiply(known["layers"], known["layer_launch_s"]))
        return (Step("eager_host_s", "layers * layer_launch_s", known, value, "beside the device"),)


@dataclass(frozen=True, eq=False, kw_only=True)
class AsyncScheduling(Technique):
    """Prepare the next step on the host while the device runs the current one; a step takes the longer of the two.

    In addition to a fixed time per step, the host spends about 18 microseconds on each sequence for scheduling,
    sampling and detokenization. That is the median over four gpt-oss servers measured with and without overlap
    (``1 / rate before - 1 / rate after``: 5 to 23 microseconds per token; gpustack's performance lab).

    Engines that overlap by default state no time per step.  Without overlap their scheduler takes what it takes where
    speculation turns the overlap off: 1.1 ms in SGLang (``drafting_step_s`` of the engine).

    Attributes
    ----------
    host_sequence_s : float or array
        Host time per sequence and step, seconds.
    host_step_s : float or array, optional
        Host time per step on top of the engine's own, seconds; by default ``drafting_step_s`` of engines that overlap.
    """

    slug: ClassVar[str] = "async-scheduling"
    name: ClassVar[str] = "asynchronous scheduling"
    helps: ClassVar[str] = "decode"
    why: ClassVar[str] = "the host prepares the next step while the device runs this one"
    costs: ClassVar[str] = "finished sequences are noticed one step late"
    effort: ClassVar[str] = FLAG
    baseline: ClassVar[str] = "the device waits for the host between steps"

    host_sequence_s: Number = 1.8e-5
    host_step_s: Number | None = None

    def __post_init__(self) -> None:
        number("host_sequence_s", self.host_sequence_s)
        if self.host_step_s is not None:
            number("host_step_s", self.host_step_s)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides whether the device waits for the host."""
        return ("whether the device waits for the host",)

    def had(self, case: Scenario) -> bool:
        """Whether the engine already overlaps, as SGLang and TensorRT-LLM do by default."""
        return case.serve.server.name in OVERLAPPING

    def without(self, case: Scenario) -> Scenario:
        """Baseline: host and device work in turn."""
        return self.given(case)

    def given(self, case: Scenario) -> Scenario:
        """State the host's times per sequence and step."""
        return case.replace(sequence_s=self.host_sequence_s, step_host_s=self._step_s(case))

    def _step_s(self, case: Scenario) -> Number:
        """Host time per step that the engine's own times lack."""
        if self.host_step_s is not None:
            return self.host_step_s
        if self.had(case):
            return case.serve.server.drafting_step_s or 0.0
        return 0.0

    def after(self, case: Scenario) -> Scenario:
        """Overlap host and device."""
        return case.replace(asynchronous=True)


OVERLAPPING = ("sglang", "trtllm")
"""Engines that overlap scheduling with the device by default (SGLang since v0.4, TensorRT-LLM's overlap scheduler)."""
