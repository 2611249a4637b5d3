"""Pass times: the forward passes of a scenario, each with everything that the scenario adds to it.

A pass of a scenario is one or more passes of models, such as a verification and the drafts before it.  It adds extra
time for dequantization or padding, a fixed time per kernel launch, and the transfer of cache in host memory over the
host link.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from ..arrays import scalar
from ..efficiency.forms import join
from ..errors import InvalidInput, Number
from ..model.rewriting import is_linear
from ..operators.operator import Operator, Segment
from ..phases.deployment import Deployment
from ..phases.host import EAGER_NORM, HostTimes
from ..phases.passes import Phase, prefill, run_pass
from ..phases.scheduling import CAPTURED_DRAFT, DRAFT
from ..phases.workload import Workload
from ..values import Value
from .scenario import Scenario
from .sources import prompts_segment, steps_segment

BALANCED = 0.0
"""Marks a split into two pools in which neither waits: each part then takes as long as both did in turns."""

LINK_REACHED = 0.8
"""Share of a host link's rate that copies of pinned memory reach, one way: 50 of 64 GB/s over PCIe 5 (vLLM
blog on KV offloading, January 2026, H100), 25 to 26 of 32 over PCIe 4.  Headers and flow control of PCIe take a tenth,
the rest goes between copies."""

Run = tuple[Number, Phase]
"""Number of times that a pass runs, and the pass; a draft of given cost is a fraction of a decode step."""


@dataclass(frozen=True, eq=False)
class PassTime(Value):
    """A forward pass of a scenario.

    Attributes
    ----------
    runs : tuple of (float or array, Phase)
        Model passes and how often each runs, the served model's first.
    overhead : float or array
        Extra time as a share of the time of the runs; not part of the floor.
    launch_s : float or array
        Fixed time per kernel launch, seconds; not part of the floor.
    host_s : float or array
        Time to transfer cache over the host link, seconds; the floor overlaps it.
    layer_launch_s : float or array
        Host time to launch the kernels of a layer one by one, seconds; it overlaps with the device's work.
    serial_s : float or array
        Host time of this pass, seconds; the device waits for it unless ``asynchronous``.
    step_host_s : float or array
        Host time of this pass whatever its size, seconds, which is waited for in the same way; the scheduler's time in
        passes that verify drafts (``drafted``) is not added to it.
    asynchronous : bool
        Whether the host prepares the next pass while the device works on this one.
    halves : bool
        Whether the runs are halves of a batch, one of which communicates while the other computes.
    pool_share : float, optional
        Share of the accelerators dedicated to attention, `BALANCED` for the share that keeps both pools busy; by
        default all accelerators run both.
    fetch_s : float or array
        Time to fetch the cached prefix of a prompt from another memory tier, seconds.
    fetch_overlap : float or array
        Share of the pass that can hide the fetch.
    host_beyond_s, fetch_beyond_s : float or array
        Time that copies take beyond ``host_s`` and ``fetch_s``, which assume the full rate of the link, seconds; part
        of the estimate only.
    drafted : bool
        Whether the pass verifies drafts, for which the scheduler of some engines waits (``drafting_step_s``).
    """

    runs: tuple[Run, ...]
    overhead: Number = 0.0
    launch_s: Number = 0.0
    host_s: Number = 0.0
    layer_launch_s: Number = 0.0
    serial_s: Number = 0.0
    step_host_s: Number = 0.0
    asynchronous: bool = False
    halves: bool = False
    pool_share: float | None = None
    fetch_s: Number = 0.0
    fetch_overlap: Number = 1.0
    host_beyond_s: Number = 0.0
    fetch_beyond_s: Number = 0.0
    drafted: bool = False

    def replace(self, **changes: Any) -> PassTime:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def of_part(self, share: Number) -> PassTime:
        """Return a pass over a share of the prompts, with the same share of the costs beside the pass."""
        part = np.minimum(share, 1.0)
        fetch_s, beyond_s = (part * each_s for each_s in (self.fetch_s, self.fetch_beyond_s))
        return self.replace(serial_s=part * self.serial_s, fetch_s=fetch_s, fetch_beyond_s=beyond_s)

    @property
    def phase(self) -> Phase:
        """The served model's own pass."""
        return self.runs[0][1]

    def seconds(self, time: str) -> Number:
        """Return the time of the pass; for the floor, that of the busiest resource over all runs.

        Parameters
        ----------
        time : str
            ``floor_s``, ``roofline_s``, ``estimate_s`` or an end of its interval, ``estimate_low_s``.
        """
        if time == "floor_s":
            return reduce(np.maximum, self.resources_s().values())
        server, estimated = self.phase.deployment.server, time.startswith("estimate")
        host_s, fetch_s = self.host_s, self.fetch_s
        if estimated:
            host_s, fetch_s = host_s + self.host_beyond_s, fetch_s + self.fetch_beyond_s
        runs_s = sum((count * self._run_s(phase, time) for count, phase in self.runs), 0.0)
        device_s = runs_s * (1.0 + self.overhead) + self._kernels_s(self.launch_s) + host_s
        if np.any(self.layer_launch_s):
            device_s = join(EAGER_NORM, device_s, self._launching_s)
        if np.any(fetch_s):
            hidden_s = self.fetch_overlap * device_s
            device_s = np.maximum(fetch_s, hidden_s) + device_s - hidden_s
        if self.drafted and estimated:
            device_s = device_s + np.maximum((server.drafting_step_s or 0.0) - self.step_host_s, 0.0)
        host_s = self.serial_s + self.step_host_s
        if not self.asynchronous:
            return device_s + host_s
        engine_s = HostTimes.of(server).step_s if estimated else 0.0
        return np.maximum(device_s - engine_s, engine_s + host_s)

    @property
    def spent_j(self) -> Number:
        """Return the energy of the pass above idle, J, summed over all accelerators of the deployment.

        Extra time counts as running kernels; transfers over the host link are left out.
        """
        spent: Number = 0.0
        for count, phase in self.runs:
            energy = phase.energy
            spent = spent + count * (energy.busy_j * (1.0 + self.overhead) + energy.memory_j + energy.compute_j)
        return spent

    def _run_s(self, phase: Phase, time: str) -> Number:
        """Return the time of one run; for two halves of a batch, the longer of computing and communicating."""
        whole_s = getattr(phase, time)
        if not self.halves and self.pool_share is None:
            return whole_s  # type: ignore[no-any-return]
        hidden = 1.0 - phase.deployment.parallel.overlap
        exchanged_s = hidden * part_s(phase, time, lambda item: item.message is not None)
        if self.pool_share is None:
            return np.maximum(whole_s - exchanged_s, exchanged_s)  # type: ignore[no-any-return]
        experts_s = part_s(phase, time, is_feed_forward)
        attention_s = whole_s - exchanged_s - experts_s
        if self.pool_share == BALANCED:
            return attention_s + experts_s + exchanged_s  # type: ignore[no-any-return]
        return np.maximum(attention_s / self.pool_share, experts_s / (1.0 - self.pool_share)) + exchanged_s  # type: ignore[no-any-return]

    @property
    def _launching_s(self) -> Number:
        """Return the host time to launch the kernels of all layers; it overlaps with the device's work."""
        layers = sum((count * phase.deployment.model.layer_count for count, phase in self.runs), 0.0)
        return layers * np.asarray(self.layer_launch_s, dtype=float)

    def _kernels_s(self, each_s: Number) -> Number:
        """Return the time of all kernel launches at a fixed time each."""
        if not np.any(each_s):
            return 0.0
        return each_s * sum(float(np.max(count, initial=0.0)) * launches(phase) for count, phase in self.runs)

    def resources_s(self, *, weights: bool = True) -> dict[str, Number]:
        """Return the least busy time of each resource of an accelerator, summed over all runs.

        Parameters
        ----------
        weights : bool
            Whether this pass reads the weights. If not, it shares the reads of another pass, including weights that
            cross the host link; only the fetched prefix then still crosses it for prompts.
        """
        busy: dict[str, Number] = {}
        for count, phase in self.runs:
            for name, seconds in phase.resources_s.items():
                spared_s = phase.weights_s if name == "memory" and not weights else 0.0
                busy[name] = busy.get(name, 0.0) + count * (seconds - spared_s)
        host_s = self.host_s if weights else 0.0
        if np.any(host_s) or np.any(self.fetch_s):
            busy["host link"] = host_s + self.fetch_s
        return busy


def part_s(phase: Phase, time: str, chosen: Callable[[Operator], bool]) -> Number:
    """Return the summed time of the selected operators of a pass.

    At an end of the estimate's interval, every operator is scaled by the factor of the whole pass.
    """
    of_items = "estimate_s" if time.startswith("estimate") else time
    factor = 1.0 if of_items == time else getattr(phase, time) / phase.estimate_s
    found = [getattr(item, of_items) for item in phase.operators if chosen(item.operator)]
    return sum(found, 0.0) * phase.schedule.rounds * factor


FEED_FORWARD = ("gate_proj", "up_proj", "down_proj", "shared_gate_proj", "shared_up_proj", "shared_down_proj")


def is_feed_forward(operator: Operator) -> bool:
    """Return whether an operator belongs to experts or an MLP."""
    return operator.kind == "experts" or (operator.kind == "matmul" and operator.name in FEED_FORWARD)


def prompt_pass(case: Scenario, load: Workload) -> PassTime:
    """Return the pass over the prompts of ``load``, including that of a draft model, which also needs their cache."""
    phase = prefill(case.serve, load)
    if case.load.has_media:
        media = case.media(load.prompt_tokens)
        phase = run_pass(case.serve, phase.name, replace(phase.segments[0], **media))
    return _of_prompts(case, phase, load, load.batch / case.serve.parallel.data)


def _of_prompts(case: Scenario, phase: Phase, load: Workload, prompts: Number) -> PassTime:
    """Return a pass over ``prompts`` prompts on each replica, with everything that the scenario adds."""
    weights_s, fetch_s = _weights_from_host_s(case, phase), _fetch_s(case, load, prompts)
    return PassTime(
        _drafted((1.0, phase), case),
        case.prefill_overhead,
        case.launch_s,
        weights_s,
        serial_s=case.prompt_host_s + case.encode_s * prompts,
        halves=case.two_batches,
        fetch_s=fetch_s,
        fetch_overlap=case.fetch_overlap,
        host_beyond_s=_beyond_s(case, weights_s, case.weights_host_bytes_per_s),
        fetch_beyond_s=_beyond_s(case, fetch_s, case.fetch_bytes_per_s),
    )


def packed_prompts(case: Scenario, load: Workload, prompts: Number) -> PassTime:
    """Return a pass in which every lane (a replica, or a group in a pipeline) computes ``prompts`` prompts.

    The pass takes the time in which one group goes through all stages; in that time every stage works on each group.
    """
    lanes = case.serve.parallel.data * case.serve.parallel.pipeline
    segment = Segment(prompts * lanes, load.prompt_tokens, load.cached_tokens, **case.media(load.prompt_tokens))
    if case.model.encoder is not None:
        segment = prompts_segment(case.model, prompts * lanes, load.prompt_tokens, 0.0)
    return _of_prompts(case, run_pass(case.serve, "prompts", segment), load, prompts)


def _drafted(run: Run, case: Scenario) -> tuple[Run, ...]:
    """Return a pass over prompts and what drafting adds: the draft model's pass, or a share if the cost is given."""
    if case.drafts is None:
        return (run,)
    drafting = case.drafting
    if drafting is None:
        share = case.drafts.share * np.minimum(case.drafts.tokens, 1)
        return (run, (share, run[1]))
    return (run, (1.0, run_pass(drafting, DRAFT, *run[1].segments)))


def step_pass(case: Scenario, batch: Number, context_tokens: Number) -> PassTime:
    """Return a decode step of sequences with ``context_tokens`` in the cache, including any verification and drafts."""
    context_tokens = _kept(case, context_tokens)
    cache_s = _host_s(case, batch, context_tokens)
    beyond_s = _beyond_s(case, cache_s, case.serve.accelerator.host_bytes_per_s)
    if not case.cache:
        again = run_pass(case.serve, "recompute", Segment(batch, context_tokens + 1.0, 0.0))
        return PassTime(((1.0, again),), case.decode_overhead, case.launch_s, cache_s, host_beyond_s=beyond_s)
    split, batch_of_run = (2.0, np.maximum(batch / 2.0, 1.0)) if case.two_batches else (1.0, batch)
    step = run_pass(case.serve, "decode", _riders(case, batch_of_run, context_tokens))
    drafting = ((split * count, phase) for count, phase in _drafting(case, batch_of_run, context_tokens))
    weights_s = split * _weights_from_host_s(case, step)
    return PassTime(
        ((split, step), *drafting),
        case.decode_overhead,
        case.launch_s,
        cache_s + weights_s,
        host_beyond_s=beyond_s + _beyond_s(case, weights_s, case.weights_host_bytes_per_s),
        layer_launch_s=case.layer_launch_s,
        serial_s=case.sequence_s * batch / case.serve.parallel.data,
        step_host_s=case.step_host_s,
        asynchronous=case.asynchronous,
        halves=case.two_batches,
        pool_share=case.pool_share,
        drafted=case.drafts is not None,
    )


def _kept(case: Scenario, context_tokens: Number) -> Number:
    """Return the tokens of a sequence that stay in the cache."""
    return context_tokens if case.kept_tokens is None else np.minimum(context_tokens, case.kept_tokens)


def _fetch_s(case: Scenario, load: Workload, prompts: Number) -> Number:
    """Return the time to fetch the cached prefixes of ``prompts`` prompts of a replica from another memory tier."""
    if case.fetch_bytes_per_s is None:
        return 0.0
    found = case.model.cache_bytes(case.found_tokens, case.serve.precision.kv)
    rate = np.asarray(case.fetch_bytes_per_s, dtype=float) * links(case.serve)
    return prompts * found / rate


def _beyond_s(case: Scenario, crossing_s: Number, rate: Number | None) -> Number:
    """Return the copy time beyond ``crossing_s`` if ``rate`` is the host link's; 0 for a rate given by the user."""
    own = case.serve.accelerator.host_bytes_per_s
    if rate is None or own is None or not np.any(crossing_s):
        return 0.0
    return np.where(np.asarray(rate) == own, crossing_s * (1.0 / LINK_REACHED - 1.0), 0.0)


def _weights_from_host_s(case: Scenario, phase: Phase) -> Number:
    """Return the time to process the weights in host memory in a pass."""
    if not np.any(case.weights_host_share):
        return 0.0
    touched = sum(
        (
            item.operator.count * item.operator.work.weight_bytes
            for item in phase.operators
            if is_linear(item.operator) and (item.operator.kind == "experts" or not case.experts_alone)
        ),
        0.0,
    )
    rate = case.weights_host_bytes_per_s
    assert rate is not None
    return case.weights_host_share * touched / rate


def _riders(case: Scenario, batch: Number, context_tokens: Number) -> Segment:
    """Return the generating sequences: one token each, or all drafts and one more to verify."""
    if case.model.encoder is not None:
        return steps_segment(case.model, batch, context_tokens, case.load.prompt_tokens)
    if case.drafts is None:
        return Segment(batch, 1.0, context_tokens)
    new = case.drafts.verify_width
    return Segment(batch, new, context_tokens, new)


def _drafting(case: Scenario, batch: Number, context_tokens: Number) -> tuple[Run, ...]:
    """Return the draft passes before a verification, and the one that adds accepted tokens to the drafter's cache."""
    drafts, drafting = case.drafts, case.drafting
    if drafts is None or not np.any(drafts.draft_passes):
        return ()
    if drafting is None:
        one = run_pass(case.serve, "decode", Segment(batch, 1.0, context_tokens))
        return ((drafts.draft_passes * drafts.share, one),)
    name = CAPTURED_DRAFT if drafts.captured else DRAFT
    each = run_pass(drafting, name, _generating(batch, drafts.drafted_by_pass, context_tokens))
    if not drafts.extends:
        return ((drafts.draft_passes, each),)
    extending = run_pass(drafting, name, _generating(batch, drafts.verify_width, context_tokens))
    return ((drafts.draft_passes, each), (np.minimum(drafts.draft_passes, 1.0), extending))


def _generating(batch: Number, tokens: Number, context_tokens: Number) -> Segment:
    """Return sequences that generate some tokens each and need the logits of all of them."""
    return Segment(batch, tokens, context_tokens, tokens)


def mixed_pass(
    case: Scenario, load: Workload, *, prompts: Number, chunk_tokens: Number, past_tokens: Number, riders: Number
) -> PassTime:
    """Return a pass in which every lane computes a chunk of ``prompts`` prompts and a step of ``riders`` sequences.

    Parameters
    ----------
    case, load : Scenario, Workload
        How the requests are served, and the requests.
    prompts, riders : float or array
        Prompts and generating sequences of a lane.
    chunk_tokens, past_tokens : float or array
        Tokens of each prompt in this chunk, and in the chunks before it.
    """
    lanes = case.serve.parallel.data * case.serve.parallel.pipeline
    cached = load.cached_tokens + past_tokens
    part = Segment(prompts * lanes, chunk_tokens, cached, **case.media(chunk_tokens))
    overhead = np.maximum(case.prefill_overhead, case.decode_overhead)
    if not np.any(riders):
        chunk = run_pass(case.serve, "chunk", part)
        alone = _of_prompts(case, chunk, load, prompts)
        return alone.replace(overhead=overhead).of_part(chunk_tokens / load.prompt_tokens)
    context = _kept(case, load.context_tokens + (np.asarray(load.output_tokens, dtype=float) - 1.0) / 2.0)
    both = run_pass(case.serve, "mixed", part, _riders(case, riders * lanes, context))
    runs: tuple[Run, ...] = ((1.0, both),)
    if case.drafts is not None:
        chunk = run_pass(case.serve, "chunk", part)
        runs = (*runs, *_drafted((1.0, chunk), case)[1:], *_drafting(case, riders * lanes, context))
    chunks = _of_prompts(case, both, load, prompts).of_part(chunk_tokens / load.prompt_tokens)
    made = chunks.replace(runs=runs, overhead=overhead)
    cache_s = _host_s(case, riders * lanes, context)
    return made.replace(
        host_s=made.host_s + cache_s,
        host_beyond_s=made.host_beyond_s + _beyond_s(case, cache_s, case.serve.accelerator.host_bytes_per_s),
        serial_s=made.serial_s + case.sequence_s * riders * case.serve.parallel.pipeline,
        step_host_s=case.step_host_s,
        asynchronous=case.asynchronous,
    )


def handover_s(case: Scenario, load: Workload) -> Number:
    """Return the time to transfer the cache of one prompt to the decode pool, seconds; 0 within one pool."""
    if case.handover_bytes_per_s is None:
        return 0.0
    cache = case.model.cache_bytes(load.context_tokens, case.serve.precision.kv)
    return cache / (case.handover_bytes_per_s * links(case.serve))


def links(serve: Deployment) -> Number:
    """Return the number of accelerators that hold a part of a sequence's cache and send it over their own links."""
    return serve.parallel.accelerators / serve.parallel.data


def launches(phase: Phase) -> Number:
    """Return the number of kernels launched in a pass; elementwise operators without own activations are fused."""
    found = (item.operator for item in phase.operators)
    return scalar(
        sum(item.launches for item in found if item.kind != "elementwise" or np.any(item.work.activation_bytes))
    )


def _host_s(case: Scenario, batch: Number, context_tokens: Number) -> Number:
    """Return the time per step to transfer the cache in host memory over the host link."""
    if not np.any(case.host_share):
        return 0.0
    rate = case.serve.accelerator.host_bytes_per_s
    if rate is None:
        raise InvalidInput(f"{case.serve.accelerator.name} has no host_bytes_per_s: offload needs a host link")
    cache = case.model.cache_bytes(np.floor(context_tokens), case.serve.precision.kv)
    crossing: Any = case.host_share * batch * cache / (rate * case.serve.parallel.accelerators)
    return crossing  # type: ignore[no-any-return]
