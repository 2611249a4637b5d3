"""Performance: what a scenario gives, by phase and as users see it, and what it needs of the memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np

from ..errors import InvalidInput, Number, unknown
from ..footprint import memory_use as footprint
from ..model.rewriting import Rewritten
from ..operators.operator import Segment
from ..phases.deployment import Deployment
from ..phases.passes import TIMES, Phase, prefill, run_pass
from ..phases.workload import Workload
from ..report import Report, Step
from ..values import Value
from .scenario import Scenario, plain_number

STEPS = 256
"""Blocks that the decode steps of a generation are gathered in, as in `roofline.phases.passes.generate`."""

Counted = tuple[Number, Phase]


@dataclass(frozen=True, repr=False)
class Performance(Report):
    """What a scenario gives.

    Attributes
    ----------
    case : the scenario
    time : which of the three times the figures are
    """

    case: Scenario
    time: str = "roofline_s"

    columns = (
        "prefill_s",
        "step_s",
        "tokens_per_step",
        "ttft_s",
        "tpot_s",
        "total_s",
        "prefill_share",
        "tokens_per_s",
        "gap_s",
        "weights_bytes",
        "kv_bytes_per_sequence",
        "max_batch",
        "capacity_tokens_per_s",
    )

    def __post_init__(self) -> None:
        if self.time not in TIMES:
            raise unknown("time", self.time, TIMES)

    @cached_property
    def load(self) -> Workload:
        """What is left to compute once compression and cache hits are taken off."""
        return self.case.running

    @cached_property
    def prefill_s(self) -> Number:
        """The passes over all prompts of the batch, a draft model's included."""
        return plain_number(prefill_s(self.case, self.load, self.time))

    @cached_property
    def step_s(self) -> Number:
        """A decode step, averaged over the contexts of the generation: a verification with its drafts, if any."""
        return plain_number(np.mean(step_s(self.case, *_steps_of(self.load), self.time), axis=-1))

    @property
    def tokens_per_step(self) -> Number:
        """Expected tokens that a step gives each sequence."""
        return 1.0 if self.case.drafts is None else self.case.drafts.tokens_per_step

    @cached_property
    def _mixed(self) -> Mixed | None:
        return None if self.case.chunk_tokens is None else mixed(self.case, self.load, self.time)

    @property
    def ttft_s(self) -> Number:
        """Time to first token of the whole batch, hand-over to a decode pool included."""
        if self._mixed is not None:
            return plain_number(self._mixed.passes * self._mixed.pass_s)
        return plain_number(self.prefill_s + handover_s(self.case, self.load))

    @cached_property
    def tpot_s(self) -> Number:
        """Time per output token after the first."""
        steps = np.maximum(np.asarray(self.load.output_tokens, dtype=float) - 1, 0)
        step_s = np.where(steps > 0, self.step_s / self.tokens_per_step, 0.0)
        if self._mixed is None:
            return plain_number(step_s)
        riding = np.minimum(steps, self._mixed.riding)
        return plain_number((riding * self._mixed.pass_s + (steps - riding) * step_s) / np.maximum(steps, 1))

    @property
    def total_s(self) -> Number:
        """End to end: the first token and all others."""
        return plain_number(self.ttft_s + (np.asarray(self.load.output_tokens) - 1) * self.tpot_s)

    @property
    def prefill_share(self) -> Number:
        """Share of the prefill in the total."""
        return plain_number(self.ttft_s / self.total_s)

    @property
    def busy_s(self) -> Number:
        """Time that the accelerators are busy with the batch: mixed passes do both phases at once."""
        steps = np.asarray(self.load.output_tokens, dtype=float) - 1
        if self._mixed is None:
            return plain_number(self.prefill_s + steps * self.step_s / self.tokens_per_step)
        rest = np.maximum(steps - self._mixed.riding, 0.0)
        return plain_number(self._mixed.passes * self._mixed.pass_s + rest * self.step_s / self.tokens_per_step)

    @property
    def tokens_per_s(self) -> Number:
        """Generated tokens of the batch a second; slots whose sequence has ended generate nothing."""
        return plain_number(self.load.batch * self.load.output_tokens * self.case.slots_used / self.busy_s)

    @cached_property
    def gap_s(self) -> Number:
        """Longest gap between two tokens of a running sequence while another prompt comes in."""
        if self._mixed is not None:
            return plain_number(self._mixed.last_s)
        if self.case.handover_bytes_per_s is not None:
            return self.step_s
        return plain_number(self.step_s + prefill_s(self.case, replace(self.load, batch=1), self.time))

    @property
    def weights_bytes(self) -> Number:
        """Weights resident in memory, a draft's included."""
        return room(self.case, self.load)[0]

    @property
    def kv_bytes_per_sequence(self) -> Number:
        """Device memory that a sequence's cache takes at its full length."""
        return room(self.case, self.load)[1]

    @property
    def max_batch(self) -> Number:
        """Sequences that fit beside the weights by the bytes of their cache; `rl.memory` counts activations as well."""
        return room(self.case, self.load)[2]

    @cached_property
    def capacity_tokens_per_s(self) -> Number:
        """Throughput with the largest batch that fits; 0 if none does."""
        load = replace(self.case.load, batch=np.maximum(self.max_batch, 1.0))
        full = Performance(self.case.replace(load=load), self.time)
        return plain_number(np.where(np.asarray(self.max_batch) >= 1, full.tokens_per_s, 0.0))

    @property
    def assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Notes of the passes underneath."""
        return prefill(self.case.serve, self.load).assumptions

    def explain(self) -> tuple[Step, ...]:
        """How what users see follows from the passes."""
        total = {"ttft_s": self.ttft_s, "output": self.load.output_tokens, "tpot_s": self.tpot_s}
        rate = {
            "batch": self.load.batch,
            "output": self.load.output_tokens,
            "slots_used": self.case.slots_used,
            "busy_s": self.busy_s,
        }
        return (
            self._tpot_step(),
            Step("total_s", "ttft_s + (output - 1) * tpot_s", total, self.total_s, "the first token and all others"),
            Step("tokens_per_s", "batch * output * slots_used / busy_s", rate, self.tokens_per_s, "the whole batch"),
        )

    def _tpot_step(self) -> Step:
        steps = np.maximum(np.asarray(self.load.output_tokens, dtype=float) - 1, 0)
        known: dict[str, Any] = {"step_s": self.step_s, "tokens_per_step": self.tokens_per_step, "steps": steps}
        if self._mixed is None:
            formula = "step_s / tokens_per_step * min(steps, 1)"
            return Step("tpot_s", formula, known, self.tpot_s, "a step and the tokens that it yields")
        known |= {"riding": np.minimum(steps, self._mixed.riding), "pass_s": self._mixed.pass_s}
        formula = "(riding * pass_s + (steps - riding) * step_s / tokens_per_step) / max(steps, 1)"
        return Step(
            "tpot_s", formula, known, self.tpot_s, "steps that carry a chunk of a prompt, and those that do not"
        )


@dataclass(frozen=True)
class Mixed(Value):
    """Passes that compute a chunk of one prompt and a token for every other sequence of the batch.

    ``passes`` bring in all prompts; a sequence rides on ``riding`` of them, those of the others.
    """

    passes: Number
    riding: Number
    pass_s: Number
    last_s: Number


def time_of(phases: list[Counted], time: str) -> Number:
    """Time of ``(how often, phase)`` pairs: their sum, or for the floor the busiest resource of all together."""
    if time != "floor_s":
        return sum((count * getattr(phase, time) for count, phase in phases), 0.0)
    busy: dict[str, Number] = {}
    for count, phase in phases:
        for name, seconds in phase.resources_s.items():
            busy[name] = busy.get(name, 0.0) + count * seconds
    return reduce(np.maximum, busy.values()) if busy else 0.0


def prefill_s(case: Scenario, load: Workload, time: str) -> Number:
    """Time of the passes over the prompts: the model's, and that of a draft model, which needs a cache too."""
    phases, more = _with_draft(case, prefill(case.serve, load))
    return time_of(phases, time) * (1 + more) * _slack(case.prefill_overhead, time) + _launches_s(case, phases, time)


def _with_draft(case: Scenario, phase: Phase) -> tuple[list[Counted], Number]:
    """A pass over prompts, the same of a draft model, and the share that one of given cost takes more."""
    if case.drafts is None:
        return [(1.0, phase)], 0.0
    if case.drafts.model is None:
        return [(1.0, phase)], case.drafts.share * np.minimum(case.drafts.tokens, 1)
    draft = case.serve.replace(model=case.drafts.model)
    return [(1.0, phase), (1.0, run_pass(draft, "draft", *phase.segments))], 0.0


def step_s(case: Scenario, batch: Number, context: Number, time: str) -> Number:
    """Time of a decode step whose sequences have ``context`` tokens, on a last axis, in the cache."""
    phases, more = _step_phases(case, batch, context)
    passes_s = time_of(phases, time) + _at_once(more) * getattr(phases[-1][1], time)
    busy_s = passes_s * _slack(_at_once(case.decode_overhead), time) + _at_once(_launches_s(case, phases, time))
    crossing_s = _host_s(case, batch, context)
    step: Number = np.maximum(busy_s, crossing_s) if time == "floor_s" else busy_s + crossing_s
    return step


def _step_phases(case: Scenario, batch: Number, context: Number) -> tuple[list[Counted], Number]:
    """The passes of a step, a plain decode step last if drafts cost a share of it, and how many such shares."""
    if not case.cache:
        return [(1.0, run_pass(case.serve, "recompute", Segment(batch, context + 1, 0.0)))], 0.0
    plain = run_pass(case.serve, "decode", Segment(batch, 1.0, context))
    if case.drafts is None:
        return [(1.0, plain)], 0.0
    count = _at_once(case.drafts.tokens)
    verify = run_pass(case.serve, "verify", Segment(batch, count + 1, context, count + 1))
    if case.drafts.model is None:
        return [(1.0, verify), (0.0, plain)], case.drafts.tokens * case.drafts.share
    draft = run_pass(case.serve.replace(model=case.drafts.model), "draft", Segment(batch, 1.0, context))
    return [(1.0, verify), (count, draft)], 0.0


def mixed(case: Scenario, load: Workload, time: str) -> Mixed:
    """The passes that all prompts of the batch take in chunks, all but one sequence generating meanwhile.

    A prompt of ``P`` tokens is ``ceil(P / c)`` passes; each streams the weights once for the chunk and for a token of
    every running sequence.  The time is linear in the tokens before the chunk, so their mean is exact; the last chunk
    is the longest pass.
    """
    chunk = np.minimum(np.asarray(case.chunk_tokens, dtype=float), load.prompt_tokens)
    chunks = np.ceil(load.prompt_tokens / chunk)
    even = load.prompt_tokens / chunks
    riders = Segment(np.asarray(load.batch) - 1, 1.0, load.context_tokens + (np.asarray(load.output_tokens) - 1) / 2)

    def pass_s(past: Number) -> Number:
        part = Segment(1.0, even, load.cached_tokens + past)
        phases, more = _with_draft(case, run_pass(case.serve, "chunk", part))
        drafting_s = time_of(phases[1:], time) + more * getattr(phases[0][1], time)
        both = run_pass(case.serve, "mixed", part, riders)
        slack = _slack(np.maximum(case.prefill_overhead, case.decode_overhead), time)
        seconds: Number = (getattr(both, time) + drafting_s) * slack + _launches_s(case, [(1.0, both)], time)
        return seconds

    last = load.prompt_tokens - even
    return Mixed(load.batch * chunks, (np.asarray(load.batch) - 1) * chunks, pass_s(last / 2), pass_s(last))


def handover_s(case: Scenario, load: Workload) -> Number:
    """Time in which the caches of the batch's prompts cross to the decode pool; 0 within one pool."""
    if case.handover_bytes_per_s is None:
        return 0.0
    bytes_ = load.batch * case.model.cache_bytes(load.context_tokens, case.serve.precision.kv)
    return bytes_ / (case.handover_bytes_per_s * links(case.serve))


def links(serve: Deployment) -> Number:
    """Accelerators that hold a part of a sequence's cache and send it over links of their own."""
    return serve.parallel.accelerators / serve.parallel.data


def room(case: Scenario, load: Workload) -> tuple[Number, Number, Number]:
    """Weights resident, memory of one sequence, and how many sequences fit.

    A reservation is rounded up to pages.  A prefix that all share is stored once; what lives in host memory takes no
    device memory; a draft model has weights and a cache of its own.
    """
    pages = np.ceil(np.divide(_reserved(case, load), case.page_tokens)) * case.page_tokens
    kept = replace(load, prompt_tokens=np.maximum(pages - load.output_tokens, 1.0), cached_tokens=0.0)
    need = footprint.memory(case.serve, kept)
    shared: Number = case.model.cache_bytes(case.found_tokens, case.serve.precision.kv) if case.shared_prefix else 0.0
    own = (need.kv_bytes_per_sequence - shared) * (1 - case.host_share)
    spared = case.model.spared_bytes(case.serve.precision) if isinstance(case.model, Rewritten) else 0.0
    weights = need.weights_bytes - spared
    if case.drafts is not None and case.drafts.model is not None:
        draft = footprint.memory(case.serve.replace(model=case.drafts.model), kept)
        weights, own = weights + draft.weights_bytes, own + draft.kv_bytes_per_sequence
    elif case.drafts is not None:
        used = 1 + case.drafts.share * np.minimum(case.drafts.tokens, 1)
        weights, own = weights * used, own * used
    free = np.maximum(need.available_bytes - weights - shared, 0.0)
    replicas = case.serve.parallel.data
    batch = np.floor(free / replicas / np.maximum(own, 1.0)) * replicas
    return plain_number(weights), plain_number(own), plain_number(batch)


def _reserved(case: Scenario, load: Workload) -> Number:
    return load.sequence_tokens if case.reserved_tokens is None else case.reserved_tokens


def _steps_of(load: Workload) -> tuple[Number, Number]:
    """Batch and mean contexts of equal blocks of decode steps, on a new last axis."""
    steps = np.asarray(load.output_tokens, dtype=float) - 1
    blocks = int(np.clip(np.max(steps), 1, STEPS))
    middles = (np.arange(blocks) + 0.5) / blocks
    context = np.asarray(load.context_tokens)[..., None] + np.maximum(steps[..., None] * middles - 0.5, 0.0)
    return np.asarray(load.batch)[..., None], context


def _slack(overhead: Number, time: str) -> Number:
    """Factor of the extra time; the floor knows none."""
    return 1.0 if time == "floor_s" else 1 + overhead


def _launches_s(case: Scenario, phases: list[Counted], time: str) -> Number:
    """Fixed time of every operator launched; the floor knows none."""
    if time == "floor_s" or not np.any(case.launch_s):
        return 0.0
    return case.launch_s * sum((float(np.max(count)) * launches(phase) for count, phase in phases), 0.0)


def launches(phase: Phase) -> float:
    """Kernels launched in a pass; an elementwise operator that moves no activations of its own rides on another."""
    kernels = (item.operator for item in phase.operators)
    return float(
        sum(item.count for item in kernels if item.kind != "elementwise" or np.any(item.work.activation_bytes))
    )


def _host_s(case: Scenario, batch: Number, context: Number) -> Number:
    """Time in which the cache that lives in host memory crosses the host link in a step."""
    if not np.any(case.host_share):
        return 0.0
    rate = case.serve.accelerator.host_bytes_per_s
    if rate is None:
        raise InvalidInput(f"{case.serve.accelerator.name} states no host_bytes_per_s: offload needs a host link")
    cache = case.model.cache_bytes(np.floor(context), case.serve.precision.kv)
    crossing: Number = _at_once(case.host_share) * batch * cache / (rate * case.serve.parallel.accelerators)
    return crossing


def _at_once(value: Any) -> Any:
    """An array with a last axis of one, to go with the contexts of a generation."""
    return np.asarray(value, dtype=float)[..., None] if np.ndim(value) else value
