"""Pass times: the forward passes that a scenario runs, each with everything that the scenario adds to it.

A pass of a scenario is one or several passes of models (a verification and the drafts before it), run with extra time
for dequantization or padding, with a fixed time for each kernel launched, and with the part of the cache that lives in
host memory crossing the host link.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from ..errors import InvalidInput, Number
from ..operators.operator import Segment
from ..phases.deployment import Deployment
from ..phases.passes import CAPTURED_DRAFT, Phase, prefill, run_pass
from ..phases.workload import Workload
from ..values import Value
from .scenario import Scenario

Run = tuple[Number, Phase]
"""How often a pass runs, and the pass; drafts that cost a share of a decode step run that share of it."""


@dataclass(frozen=True)
class PassTime(Value):
    """A forward pass of a scenario.

    Attributes
    ----------
    runs : tuple of (float or array, Phase)
        Passes of models that it consists of, the model's own first.
    overhead : float or array
        Extra time as a share of that of the runs; the floor knows none.
    launch_s : float or array
        Fixed time of every kernel launched, seconds; the floor knows none.
    host_s : float or array
        Time in which cache crosses the host link, seconds; the floor overlaps it.
    """

    runs: tuple[Run, ...]
    overhead: Number = 0.0
    launch_s: Number = 0.0
    host_s: Number = 0.0

    @property
    def phase(self) -> Phase:
        """The model's own pass."""
        return self.runs[0][1]

    def seconds(self, time: str) -> Number:
        """Time of the pass; at the floor that of the busiest resource of all runs together.

        Parameters
        ----------
        time : str
            ``floor_s``, ``roofline_s`` or ``estimate_s``.
        """
        if time == "floor_s":
            return reduce(np.maximum, self.resources_s().values())
        runs_s = sum((count * getattr(phase, time) for count, phase in self.runs), 0.0)
        return runs_s * (1.0 + self.overhead) + self._launches_s + self.host_s

    @property
    def spent_j(self) -> Number:
        """Energy of the pass beyond that of idle boards, J, all accelerators of the deployment together.

        Extra time runs kernels; what crosses the host link is left out.
        """
        spent: Number = 0.0
        for count, phase in self.runs:
            energy = phase.energy
            spent = spent + count * (energy.busy_j * (1.0 + self.overhead) + energy.memory_j + energy.compute_j)
        return spent

    @property
    def _launches_s(self) -> Number:
        if not np.any(self.launch_s):
            return 0.0
        return self.launch_s * sum(float(np.max(count, initial=0.0)) * launches(phase) for count, phase in self.runs)

    def resources_s(self, *, weights: bool = True) -> dict[str, Number]:
        """Least busy time of each resource of an accelerator, all runs together.

        Parameters
        ----------
        weights : bool
            Whether the weights are read for this pass; without, they are read for another pass that it shares.
        """
        busy: dict[str, Number] = {}
        for count, phase in self.runs:
            for name, seconds in phase.resources_s.items():
                spared_s = _weights_s(phase) if name == "memory" and not weights else 0.0
                busy[name] = busy.get(name, 0.0) + count * (seconds - spared_s)
        if np.any(self.host_s):
            busy["host link"] = self.host_s
        return busy


def _weights_s(phase: Phase) -> Number:
    """Least time in which the weights of a pass are read; part of the busy time of the memory."""
    weights = sum(item.operator.count * item.operator.least.weight_bytes for item in phase.operators)
    return weights * phase.schedule.once / phase.deployment.accelerator.memory_bytes_per_s


def prompt_pass(case: Scenario, load: Workload) -> PassTime:
    """The pass over the prompts of ``load``, and that of a draft model, which needs a cache of them too."""
    phase = prefill(case.serve, load)
    return PassTime(_drafted((1.0, phase), case), case.prefill_overhead, case.launch_s)


def packed_prompts(case: Scenario, load: Workload, prompts: Number) -> PassTime:
    """A pass in which every lane computes ``prompts`` prompts: each replica, and each stage of a pipeline one group.

    The pass takes the time in which one group goes through all stages; in that time every stage works on each group.
    """
    lanes = case.serve.parallel.data * case.serve.parallel.pipeline
    segment = Segment(prompts * lanes, load.prompt_tokens, load.cached_tokens)
    phase = run_pass(case.serve, "prompts", segment)
    return PassTime(_drafted((1.0, phase), case), case.prefill_overhead, case.launch_s)


def _drafted(run: Run, case: Scenario) -> tuple[Run, ...]:
    """A pass over prompts, and what drafting adds: the draft model's own, or the share of one of given cost."""
    if case.drafts is None:
        return (run,)
    drafting = case.drafting
    if drafting is None:
        share = case.drafts.share * np.minimum(case.drafts.tokens, 1)
        return (run, (share, run[1]))
    return (run, (1.0, run_pass(drafting, "draft", *run[1].segments)))


def step_pass(case: Scenario, batch: Number, context_tokens: Number) -> PassTime:
    """A decode step of sequences with ``context_tokens`` in the cache: a verification and its drafts, if any."""
    host_s = _host_s(case, batch, context_tokens)
    if not case.cache:
        again = run_pass(case.serve, "recompute", Segment(batch, context_tokens + 1.0, 0.0))
        return PassTime(((1.0, again),), case.decode_overhead, case.launch_s, host_s)
    step = run_pass(case.serve, "decode", _riders(case, batch, context_tokens))
    runs = ((1.0, step), *_drafting(case, batch, context_tokens))
    return PassTime(runs, case.decode_overhead, case.launch_s, host_s)


def _riders(case: Scenario, batch: Number, context_tokens: Number) -> Segment:
    """Sequences that generate: one token each, or all drafts and one more to verify."""
    if case.drafts is None:
        return Segment(batch, 1.0, context_tokens)
    new = case.drafts.verify_width
    return Segment(batch, new, context_tokens, new)


def _drafting(case: Scenario, batch: Number, context_tokens: Number) -> tuple[Run, ...]:
    """The draft passes before a verification, and the one that extends what drafts by what was accepted."""
    drafts, drafting = case.drafts, case.drafting
    if drafts is None or not np.any(drafts.draft_passes):
        return ()
    if drafting is None:
        one = run_pass(case.serve, "decode", Segment(batch, 1.0, context_tokens))
        return ((drafts.draft_passes * drafts.share, one),)
    name = CAPTURED_DRAFT if drafts.captured else "draft"
    each = run_pass(drafting, name, _generating(batch, drafts.drafted_by_pass, context_tokens))
    if not drafts.extends:
        return ((drafts.draft_passes, each),)
    extending = run_pass(drafting, name, _generating(batch, drafts.verify_width, context_tokens))
    return ((drafts.draft_passes, each), (np.minimum(drafts.draft_passes, 1.0), extending))


def _generating(batch: Number, tokens: Number, context_tokens: Number) -> Segment:
    """Sequences that generate some tokens each, all of whose logits are needed."""
    return Segment(batch, tokens, context_tokens, tokens)


def mixed_pass(
    case: Scenario, load: Workload, *, prompts: Number, chunk_tokens: Number, past_tokens: Number, riders: Number
) -> PassTime:
    """A pass in which every lane computes a chunk of ``prompts`` prompts and a step of ``riders`` sequences.

    Parameters
    ----------
    case, load : Scenario, Workload
        How the requests are served, and which.
    prompts, riders : float or array
        Prompts and generating sequences of a lane.
    chunk_tokens, past_tokens : float or array
        Tokens of each prompt in this chunk, and of the same prompt in the chunks before it.
    """
    lanes = case.serve.parallel.data * case.serve.parallel.pipeline
    part = Segment(prompts * lanes, chunk_tokens, load.cached_tokens + past_tokens)
    overhead = np.maximum(case.prefill_overhead, case.decode_overhead)
    if not np.any(riders):
        chunk = run_pass(case.serve, "chunk", part)
        return PassTime(_drafted((1.0, chunk), case), overhead, case.launch_s)
    context = load.context_tokens + (np.asarray(load.output_tokens, dtype=float) - 1.0) / 2.0
    both = run_pass(case.serve, "mixed", part, _riders(case, riders * lanes, context))
    runs: tuple[Run, ...] = ((1.0, both),)
    if case.drafts is not None:
        chunk = run_pass(case.serve, "chunk", part)
        runs = (*runs, *_drafted((1.0, chunk), case)[1:], *_drafting(case, riders * lanes, context))
    return PassTime(runs, overhead, case.launch_s, _host_s(case, riders * lanes, context))


def handover_s(case: Scenario, load: Workload) -> Number:
    """Time in which the cache of one prompt crosses to the decode pool, seconds; 0 within one pool."""
    if case.handover_bytes_per_s is None:
        return 0.0
    cache = case.model.cache_bytes(load.context_tokens, case.serve.precision.kv)
    return cache / (case.handover_bytes_per_s * links(case.serve))


def links(serve: Deployment) -> Number:
    """Accelerators that hold a part of a sequence's cache and send it over links of their own."""
    return serve.parallel.accelerators / serve.parallel.data


def launches(phase: Phase) -> float:
    """Kernels launched in a pass; an elementwise operator that moves no activations of its own rides on another."""
    kernels = (item.operator for item in phase.operators)
    return float(
        sum(item.count for item in kernels if item.kind != "elementwise" or np.any(item.work.activation_bytes))
    )


def _host_s(case: Scenario, batch: Number, context_tokens: Number) -> Number:
    """Time in which the cache that lives in host memory crosses the host link in a step."""
    if not np.any(case.host_share):
        return 0.0
    rate = case.serve.accelerator.host_bytes_per_s
    if rate is None:
        raise InvalidInput(f"{case.serve.accelerator.name} states no host_bytes_per_s: offload needs a host link")
    cache = case.model.cache_bytes(np.floor(context_tokens), case.serve.precision.kv)
    crossing: Any = case.host_share * batch * cache / (rate * case.serve.parallel.accelerators)
    return crossing  # type: ignore[no-any-return]
