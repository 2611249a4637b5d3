"""Steady state: latency and throughput of a deployment that keeps ``B`` requests in the system.

Each request that ends is replaced by a new one at once.  Its time in the system and the throughput follow from the
times of the passes (`roofline.serving.pass_times`) by the forms of `roofline.serving.closed_forms`, one for each way in
which prompts meet running sequences:

==============================  ====================================================================================
prompts first (the default)     prompts run in passes of their own, packed up to the token budget of a step
``chunk_tokens``                chunks of prompts ride on the decode steps
``handover_bytes_per_s``        prompts run on a pool of their own
``slots_used``                  a static batch, which starts together and runs until its longest sequence ends
==============================  ====================================================================================

Little's law holds exactly: ``requests_in_system = requests_per_s * total_s``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np

from ..arrays import scalar
from ..errors import Number, unknown
from ..footprint.memory_use import Memory
from ..phases.passes import TIMES
from ..phases.workload import Workload
from ..report import Report, Step
from ..report.dimensions import Dimensions
from ..units import humanize
from . import closed_forms
from .closed_forms import RequestTimes
from .pipeline_rounds import Rounds, request_times
from .request_passes import Passes
from .scenario import Scenario
from .slo import HIGH_END

PLANNED_TIMES = (*TIMES, HIGH_END)
"""Allowed values of ``time``: each of the three times, or the upper end of the estimate's interval."""

STEP_TOGETHER = (
    "replicas of attention that share experts step together: a prompt on one stalls the tokens of all; the floor and"
    " the roofline include no such waiting"
)
"""Note of the estimate if the engine's replicas wait for each other (`roofline.serving.busiest`)."""


NO_OVERTAKING = (
    "microbatches of a pipeline do not overtake each other: a prompt in one holds up all; the floor and the roofline"
    " include no such waiting"
)
"""Note of the estimate of a pipeline (`roofline.serving.pipeline_rounds`)."""


@dataclass(frozen=True, eq=False, repr=False)
class Steady(Report):
    """Latency and throughput in steady state; values describe a request unless stated otherwise.

    Attributes
    ----------
    case : Scenario
        Scenario: deployment, requests and serving options; ``case.load.batch`` of them are in the system.
    time : str
        Which time the values are computed from, such as ``estimate_s``.
    """

    case: Scenario
    time: str
    passes: Passes = field(repr=False)

    columns = (
        "prompt_s",
        "step_s",
        "tokens_per_step",
        "ttft_s",
        "tpot_s",
        "total_s",
        "gap_s",
        "requests_per_s",
        "tokens_per_s",
        "prefill_share",
        "weights_bytes",
        "kv_bytes_per_sequence",
        "max_batch",
        "capacity_tokens_per_s",
        "time",
    )

    @property
    def heading(self) -> str:
        """Title: deployment and number of requests."""
        batch = humanize("batch", self.case.load.batch)
        return f"Steady: {self.case.serve}, {batch} request{'' if batch == '1' else 's'} in the system"

    @property
    def dimensions(self) -> Dimensions:
        """Names of the axes of a sweep."""
        return self.case.load.dimensions

    @property
    def inputs(self) -> dict[str, Any]:
        """Deployment and requests, by name."""
        return self.case.serve.inputs | self.case.load.counts

    @property
    def load(self) -> Workload:
        """Workload left to compute after compression and cache hits."""
        return self.passes.load

    @property
    def _floor(self) -> bool:
        return self.time == "floor_s"

    @cached_property
    def prompt_s(self) -> Number:
        """Time of a prompt alone until its first token, in chunks if chunked, seconds; the prefill phase."""
        if self.case.chunk_tokens is not None:
            return scalar(self.passes.chunks.passes * self.passes.mixed_s(self.time))
        return scalar(self.passes.prompt.seconds(self.time))

    @cached_property
    def step_s(self) -> Number:
        """Time of a decode step of the batch, including verification and drafts, if any, seconds."""
        return scalar(self.passes.step.seconds(self.time))

    @property
    def tokens_per_step(self) -> Number:
        """Expected tokens per sequence and step."""
        return self.passes.tokens_per_step

    @property
    def decode_s(self) -> Number:
        """Time per token of a decode step, without the prompts that stall it or ride on it, seconds."""
        token_s = np.divide(self.step_s, self.tokens_per_step)
        return scalar(np.where(self.passes.tokens_after_first > 0, token_s, 0.0))

    @cached_property
    def _times(self) -> RequestTimes:
        """Result of the closed form that matches how prompts are scheduled."""
        passes, time = self.passes, self.time
        batch, steps = passes.lane_batch, passes.steps
        if np.any(np.greater(passes.stages, 1)):
            return self._in_pipeline
        if self.case.chunk_tokens is not None:
            return closed_forms.chunked(batch, steps, self.step_s, made=passes.chunks, mixed_s=passes.mixed_s(time))
        if self.case.handover_bytes_per_s is not None:
            return closed_forms.on_two_pools(steps, self.step_s, prompt_s=self.prompt_s, handover_s=passes.handover_s)
        if self._floor:
            return closed_forms.fully_overlapped(
                self.load.batch,
                self._steps_run,
                self.step_s,
                prompt_s=self.passes.least_prompt_s,
                busy_s=self.least_busy_s,
            )
        pack = passes.packing
        pass_s = passes.packed_s(pack.per_pass, time)
        if self.case.slots_used is not None:
            return closed_forms.starting_together(
                batch, steps, self.step_s, pack=pack, pass_s=pass_s, slots_used=self.case.slots_used
            )
        seen_pass_s = passes.packed_s(pack.seen, time)
        return closed_forms.prompts_first(batch, steps, self.step_s, pack=pack, pass_s=pass_s, seen_pass_s=seen_pass_s)

    @cached_property
    def _rounds(self) -> Rounds:
        """Rounds of a pipeline while a request is in the system."""
        passes = self.passes
        if self.case.chunk_tokens is not None:
            made = passes.chunks
            return passes.rounds(passes.lane_batch / made.prompts * made.passes, made.passes)
        pack = passes.packing
        return passes.rounds(passes.lane_batch / np.minimum(pack.per_pass, pack.most))

    @cached_property
    def _stall_s(self) -> Number:
        """Time of a round of a pipeline in which some lane has prompts."""
        passes, time = self.passes, self.time
        pass_s = passes.mixed_s(time) if self.case.chunk_tokens is not None else passes.packed_s(_packed(passes), time)
        # Only the steps of other microbatches can be longer than the pass.
        return scalar(np.where(np.greater(passes.stages, 1), np.maximum(pass_s, self.step_s), pass_s))

    @property
    def _in_pipeline(self) -> RequestTimes:
        """Request times where the lanes of a pipeline do not overtake each other."""
        passes, made, stall_s = self.passes, self._rounds, self._stall_s
        if self.case.chunk_tokens is not None:
            own = made.plain + made.stalls - passes.steps
            ttft_s = np.maximum(own, 1.0) * stall_s * made.stretch
        else:
            pack = passes.packing
            queued = (np.maximum(pack.seen / pack.most, 1.0) + 1.0) / 2.0
            ttft_s = passes.packed_s(pack.seen, self.time) * queued
        return request_times(passes.steps, self.step_s, made, stall_s=stall_s, ttft_s=ttft_s)

    @property
    def _steps_run(self) -> Number:
        """Steps from the first token of a request to its end, or to the end of its batch if that is static."""
        used = 1.0 if self.case.slots_used is None else self.case.slots_used
        return self.passes.steps / used

    @cached_property
    def least_busy_s(self) -> Number:
        """Least time per request that the busiest resource of the deployment works, seconds, whichever time is used.

        Prompts share the reads of weights with the steps that they ride on, so only the steps are charged for them.
        """
        prompts = self.passes.prompt.resources_s(weights=False)
        steps = self.passes.step.resources_s()
        replicas = self.case.serve.parallel.data
        each = [
            prompts.get(name, 0.0) / replicas + self._steps_run * steps.get(name, 0.0) / self.load.batch
            for name in prompts | steps
        ]
        return reduce(np.maximum, each)

    @property
    def ttft_s(self) -> Number:
        """Time to first token of a request, seconds: its prompt, and those that are computed before or with it."""
        return scalar(self._times.ttft_s + self.case.encoded_elsewhere_s)

    @property
    def total_s(self) -> Number:
        """Time of a request in the system, seconds, from its arrival to its last token."""
        return scalar(self._times.total_s + self.case.encoded_elsewhere_s)

    @property
    def tpot_s(self) -> Number:
        """Time per output token of a request after the first, seconds, stalls by other prompts included."""
        tokens = self.passes.tokens_after_first
        if self._floor and self.case.chunk_tokens is None:
            tpot_s = np.divide(self.step_s, self.tokens_per_step)
        else:
            tpot_s = (self.total_s - self.ttft_s) / np.maximum(tokens, 1.0)
        return scalar(np.where(tokens > 0, tpot_s, 0.0))

    @cached_property
    def gap_s(self) -> Number:
        """Longest gap between two tokens of a request, seconds: a step, and the prompts that hold it up."""
        others = np.asarray(self.load.batch) > 1
        if self.case.chunk_tokens is not None:
            return scalar(np.where(others, self.passes.last_mixed_s(self.time), self.step_s))
        apart = self.case.handover_bytes_per_s is not None or self.case.slots_used is not None
        if apart or self._floor:
            return self.step_s
        pack = self.passes.packing
        prompts_s = self.passes.packed_s(pack.seen, self.time) * np.maximum(pack.seen / pack.most, 1.0)
        at_once = self.case.serve.parallel.pipeline / self.passes.stages
        return scalar(self.step_s + np.where(others, prompts_s / at_once, 0.0))

    @property
    def busy_s(self) -> Number:
        """Deployment time per request, seconds; of both pools together if there are two.

        Two pools are weighted by their numbers of accelerators: a prefill pool that keeps up with the decode pool is
        ``prompt / (n step / B)`` times as large.
        """
        if self.case.handover_bytes_per_s is None:
            return scalar(self.total_s / self.load.batch)
        return scalar(self.prompt_s / self.passes.lanes + self.passes.steps * self.step_s / self.load.batch)

    @property
    def requests_per_s(self) -> Number:
        """Requests finished per second by the deployment; two pools share its number of accelerators."""
        return scalar(1.0 / np.asarray(self.busy_s))

    @property
    def requests_in_system(self) -> Number:
        """Requests in the system, including those in a prefill pool or in transfer (Little's law)."""
        return scalar(np.multiply(self.requests_per_s, self.total_s))

    @property
    def tokens_per_s(self) -> Number:
        """Output tokens of the whole deployment, tokens/s."""
        return scalar(np.multiply(self.load.output_tokens, self.requests_per_s))

    @property
    def prefill_share(self) -> Number:
        """Share of the deployment's time spent on prompts, or on what they add to decode steps."""
        steps_s = self.passes.steps * self.step_s
        if self.case.handover_bytes_per_s is not None:
            return scalar(1.0 - steps_s / self.load.batch / self.busy_s)
        return scalar(np.clip(1.0 - steps_s / np.asarray(self.total_s), 0.0, 1.0))

    @property
    def limit(self) -> Any:
        """What limits the decode step."""
        return self.passes.step.phase.limit

    @property
    def memory(self) -> Memory:
        """Resident memory."""
        return self.passes.memory

    @property
    def weights_bytes(self) -> Number:
        """Weights resident on all accelerators, including a draft model's, bytes."""
        return scalar(self.memory.weights_bytes)

    @property
    def kv_bytes_per_sequence(self) -> Number:
        """Memory that the engine allocates to a sequence of full length, bytes."""
        return scalar(self.memory.paged_kv_bytes_per_sequence)

    @property
    def max_batch(self) -> Number:
        """Requests that memory holds at once (`Memory.max_batch`)."""
        return scalar(self.memory.max_batch)

    @cached_property
    def capacity_tokens_per_s(self) -> Number:
        """Throughput with the largest batch that fits, tokens/s; 0 if none fits."""
        load = replace(self.case.load, batch=np.maximum(self.max_batch, 1.0))
        full = steady_state(self.case.replace(load=load), time=self.time)
        return scalar(np.where(np.asarray(self.max_batch) >= 1, full.tokens_per_s, 0.0))

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Assumptions behind the results."""
        notes = list(self.passes.prompt.phase.assumptions)
        if np.any(np.asarray(self.passes.ranks) > 1):
            notes.append(STEP_TOGETHER)
        elif np.any(np.asarray(self.case.serve.parallel.data) > 1):
            notes.append("replicas of attention are assumed to run their prefills at the same time")
        if np.any(np.greater(self.passes.stages, 1)):
            notes.append(NO_OVERTAKING)
        elif np.any(np.asarray(self.case.serve.parallel.pipeline) > 1):
            notes.append("all stages of the pipeline are assumed to be busy")
        return tuple(notes)

    def at(self, time: str) -> Steady:
        """Return the steady state for another time, without recomputing any pass unless waiting differs."""
        return Steady(self.case, time, self.passes.waiting(_waits(time)))

    @property
    def low(self) -> Steady:
        """The steady state at the lower end of the estimate's interval; unchanged for the other times."""
        return self.at("estimate_low_s") if self.time.startswith("estimate") else self

    @property
    def high(self) -> Steady:
        """The steady state at the upper end of the estimate's interval; unchanged for the other times."""
        return self.at(HIGH_END) if self.time.startswith("estimate") else self

    def _derivation(self) -> tuple[Step, ...]:
        """Return how the request times are derived from the prompt and the decode step."""
        phases = (*self.passes.prompt.phase.explain(), *self.passes.step.phase.explain())
        tokens = self.passes.tokens_after_first
        times = {"total_s": self.total_s, "ttft_s": self.ttft_s, "tokens": tokens}
        throughput = {"output": self.load.output_tokens, "requests_per_s": self.requests_per_s}
        steps = [*self._total_steps()]
        if np.any(self.case.encoded_elsewhere_s):
            parts = {"served_s": steps[-1].value, "encoded_s": self.case.encoded_elsewhere_s}
            steps.append(Step("total_s", "served_s + encoded_s", parts, self.total_s, "encoders before the prompt"))
        if not self._floor:
            source = "tokens after the first"
            steps.append(Step("tpot_s", "(total_s - ttft_s) / max(tokens, 1)", times, self.tpot_s, source))
        if self.case.handover_bytes_per_s is None:
            known = {"batch": self.load.batch, "total_s": self.total_s}
            steps.append(Step("requests_per_s", "batch / total_s", known, self.requests_per_s, "Little's law"))
        tokens_step = Step("tokens_per_s", "output * requests_per_s", throughput, self.tokens_per_s, "all requests")
        return (*phases, *steps, tokens_step)

    def _total_steps(self) -> tuple[Step, ...]:
        """Return the derivation of the time in the system in the closed form."""
        passes, value = self.passes, scalar(self._times.total_s)
        name = "served_s" if np.any(self.case.encoded_elsewhere_s) else "total_s"
        known: dict[str, Any] = {"lane_batch": passes.lane_batch, "steps": passes.steps, "step_s": self.step_s}
        if np.any(np.greater(passes.stages, 1)):
            known = {**self._rounds._asdict(), "stall_s": self._stall_s, "step_s": self.step_s}
            formula = "stalls * stall_s * stretch + plain * step_s"
            return (Step(name, formula, known, value, "rounds with a prompt in some microbatch, and rounds of steps"),)
        if self.case.chunk_tokens is not None:
            made = passes.chunks
            known |= {"chunks": made.passes, "prompts": made.prompts, "mixed_s": passes.mixed_s(self.time)}
            formula = (
                "lane_batch / prompts * chunks * mixed_s + max(steps - (lane_batch / prompts - 1) * chunks, 0) * step_s"
            )
            return (Step(name, formula, known, value, "passes with a chunk, and steps without one"),)
        if self.case.handover_bytes_per_s is not None:
            known |= {"prompt_s": self.prompt_s, "handover_s": passes.handover_s}
            formula = "prompt_s + handover_s + steps * step_s"
            return (Step(name, formula, known, value, "a prompt, its hand-over, steps undisturbed"),)
        if self._floor:
            known = {"prompt_s": passes.least_prompt_s, "steps": self._steps_run, "step_s": self.step_s}
            known |= {"batch": self.load.batch, "busy_s": self.least_busy_s}
            formula = "max(prompt_s + steps * step_s, batch * busy_s)"
            return (Step(name, formula, known, value, "a request alone, or the busiest resource"),)
        packed = _packed(passes)
        known |= {"pass_s": passes.packed_s(packed, self.time), "prompts_of_a_pass": packed, "steps": self._steps_run}
        formula = "lane_batch * pass_s / prompts_of_a_pass + steps * step_s"
        return (Step(name, formula, known, value, "all prompts of the lane, and the request's own steps"),)


def _packed(passes: Passes) -> Number:
    """Return the prompts of an average pass."""
    return np.minimum(passes.packing.per_pass, passes.packing.most)


def steady_state(case: Scenario, *, time: str = "estimate_s") -> Steady:
    """Compute the steady state of a scenario with ``case.load.batch`` requests in the system.

    Parameters
    ----------
    case : Scenario
        Scenario: deployment, requests and serving options.  Any number in it may be an array.
    time : str
        ``floor_s``, ``roofline_s``, ``estimate_s``, or the upper end of its interval, ``estimate_high_s``.

    Returns
    -------
    Steady
        TTFT, TPOT and time in the system of a request, throughput of the deployment, memory.

    Raises
    ------
    UnknownName
        ``time`` is not one of these.

    Examples
    --------
    >>> import roofline as rl
    >>> from roofline.serving.scenario import Scenario
    >>> from roofline.serving.steady_state import steady_state
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"))
    >>> found = steady_state(Scenario(serve, rl.Workload(1500, 300, batch=16)), time="roofline_s")
    >>> round(found.requests_per_s * found.total_s)
    16
    """
    if time not in PLANNED_TIMES:
        raise unknown("time", time, TIMES)
    return Steady(case, time, Passes(case, _waits(time)))


def _waits(time: str) -> bool:
    """Return whether a time includes that replicas wait for each other; the floor and the roofline do not."""
    return time.startswith("estimate")
