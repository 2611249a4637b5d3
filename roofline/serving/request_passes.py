"""Passes of requests in steady state, grouped into lanes; the estimate groups lanes that wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce

import numpy as np
import numpy.typing as npt

from ..arrays import scalar
from ..errors import Number
from ..footprint.memory_use import Memory
from ..phases.workload import Workload
from ..values import Value
from . import closed_forms
from .busiest import busiest, sharing_ranks, waiting_ranks
from .closed_forms import Chunks, Packing
from .gathering import gathering
from .pass_times import PassTime, handover_s, mixed_pass, packed_prompts, prompt_pass, step_pass
from .pipeline_rounds import Rounds, rounds
from .rank_experts import experts_of_ranks_busy_s, experts_of_ranks_s
from .scenario import Scenario
from .sources import encoded_beside

Weighted = tuple[Number, PassTime]
"""A pass, and its weight in a mean."""

ROUNDING = 1e-9
"""Tolerance: a number within rounding above an integer counts as that integer."""

COUNTS_APART = 1.25
"""Ratio of neighboring prompt counts beyond `WHOLE_UP_TO`."""

WHOLE_UP_TO = 8
"""Passes are computed for every prompt count up to this; beyond, in steps of a quarter, interpolated linearly."""


@dataclass(frozen=True, eq=False)
class Passes(Value):
    """Passes of the requests of a scenario.

    Attributes
    ----------
    case : Scenario
        Scenario: deployment, requests and serving options.
    waits : bool
        Whether replicas that share experts and microbatches of a pipeline wait for each other's prompts, and engines
        that run prompts first gather those on their way (`roofline.serving.gathering`), as in the estimate; in the
        floor and the roofline prompts line up and arrive at once.
    """

    case: Scenario
    waits: bool = False

    @cached_property
    def load(self) -> Workload:
        """Workload left to compute after compression and cache hits."""
        return self.case.running

    @property
    def lanes(self) -> Number:
        """Groups of sequences that move together: replicas of attention, times the stages of a pipeline."""
        parallel = self.case.serve.parallel
        return parallel.data * parallel.pipeline

    def waiting(self, waits: bool) -> Passes:
        """Return the passes with or without waiting; the same ones if nothing has any to wait for."""
        serve = self.case.serve
        alone = not np.any(np.greater(waiting_ranks(serve, serve.server) * serve.parallel.pipeline, 1))
        at_once = not np.any(self._away_s)
        return self if (alone and at_once) or waits == self.waits else replace(self, waits=waits)

    @cached_property
    def ranks(self) -> Number:
        """Lanes that step together and whose prompts do not line up (`roofline.serving.busiest`).

        Prompts line up if all of a batch start together, in a prefill pool that always has prompts for all replicas,
        and where the engine balances replicas.  At a rate below its capacity the prompts of a pool do not
        (`roofline.capacity.joint_prompts`).
        """
        engine = self.case.serve.server
        apart = self.case.slots_used is not None or self.case.handover_bytes_per_s is not None
        if not self.waits or apart or engine.balance_wait_steps:
            return 1.0
        return np.where(np.asarray(self.steps) > 0, waiting_ranks(self.case.serve, engine), 1.0)[()]

    @cached_property
    def stages(self) -> Number:
        """Microbatches of a pipeline, whose prompts hold each other up (`roofline.serving.pipeline_rounds`).

        They line up in the cases that `ranks` names as well.
        """
        apart = self.case.slots_used is not None or self.case.handover_bytes_per_s is not None
        if not self.waits or apart:
            return 1.0
        return np.where(np.asarray(self.steps) > 0, self.case.serve.parallel.pipeline, 1.0)[()]

    def rounds(self, lane_passes: Number, chunks: Number = 1.0) -> Rounds:
        """Return the rounds of a pipeline while a request is in the system.

        Parameters
        ----------
        lane_passes : float or array
            Passes in which its lane computes prompts.
        chunks : float or array
            Passes of one prompt.
        """
        saturated = np.maximum(lane_passes - chunks, 0.0) if self.case.chunk_tokens is not None else 0.0
        plain = np.maximum(self.steps - saturated, 0.0)
        busy = np.minimum(self.load.batch / self.lanes * self.ranks / self.lane_batch, 1.0)
        missed = np.ceil(self._away_s / self.step.seconds("estimate_s"))
        return rounds(plain, lane_passes, self.stages, chunks=chunks, busy=busy, missed=missed)

    @property
    def lane_batch(self) -> Number:
        """Requests of a lane that is not idle, or of all lanes that step together."""
        return np.maximum(self.load.batch / self.lanes * self.ranks, 1.0)

    @property
    def tokens_after_first(self) -> Number:
        """Tokens per request generated by decode steps."""
        return np.maximum(np.asarray(self.load.output_tokens, dtype=float) - 1.0, 0.0)

    @property
    def tokens_per_step(self) -> Number:
        """Expected tokens per sequence and step."""
        return 1.0 if self.case.drafts is None else self.case.drafts.tokens_per_step

    @property
    def steps(self) -> Number:
        """Decode steps per request."""
        return self.tokens_after_first / self.tokens_per_step

    @cached_property
    def prompt(self) -> PassTime:
        """Pass over one prompt on each replica."""
        return prompt_pass(self.case, replace(self.load, batch=self.case.serve.parallel.data))

    @cached_property
    def least_prompt_s(self) -> Number:
        """Floor of a pass over one prompt while the other replicas have none, so that it has all shared experts."""
        ranks, tokens = sharing_ranks(self.case.serve), self.load.prompt_tokens
        if not np.any(np.asarray(ranks) > 1):
            return self.prompt.seconds("floor_s")
        all_s = experts_of_ranks_busy_s(self.case, tokens)
        own_s = experts_of_ranks_busy_s(self.case, tokens / ranks)
        busy = self.prompt.resources_s()
        each = [busy_s - all_s.get(name, 0.0) + own_s.get(name, 0.0) for name, busy_s in busy.items()]
        return reduce(np.maximum, each)

    @cached_property
    def step(self) -> PassTime:
        """Decode step of the batch at the mean context; exact if its time is linear in the context."""
        middle = np.floor(self.load.context_tokens + np.maximum(self.tokens_after_first - 1.0, 0.0) / 2.0)
        return step_pass(self.case, self.load.batch, middle)

    @cached_property
    def packing(self) -> Packing:
        """How many prompts share a pass."""
        tokens = self.load.prompt_tokens + encoded_beside(self.case.model)
        most = np.floor(np.divide(self.case.token_budget, tokens))
        if self.case.slots_used is not None:
            return Packing(self.lane_batch, self.lane_batch, np.maximum(most, 1.0))
        at_once = closed_forms.packing(self.lane_batch, self.steps, np.maximum(most, 1.0) * self.ranks)
        if not self.waits or not np.any(self._away_s):
            return at_once
        step_s = self.step.seconds("estimate_s")
        away, lasts = self._away_s / step_s, self.prompt.seconds("estimate_s") / step_s
        away = np.where(np.greater(self.stages, 1), 0.0, away)
        return gathering(at_once, self.lane_batch, self.steps, away_steps=away, first_steps=lasts, pass_steps=lasts)

    @property
    def _away_s(self) -> Number:
        """Time in which the next request reaches the scheduler of an engine that runs prompts first, seconds."""
        engine, load = self.case.serve.server, self.load
        if engine.scheduler != "prefill_first":
            return 0.0
        return engine.handling_s(load.prompt_tokens + load.cached_tokens)

    @cached_property
    def _packed_counts(self) -> npt.NDArray[np.float64]:
        """Prompt counts at which a packed pass is computed."""
        largest = self._on_the_busiest(np.maximum(self.packing.seen, self.packing.per_pass))
        counts = [1.0]
        while counts[-1] < np.max(largest, initial=1.0):
            last = counts[-1]
            counts.append(last + 1.0 if last < WHOLE_UP_TO else np.ceil(last * COUNTS_APART))
        return np.array(counts)

    @cached_property
    def _packed(self) -> PassTime:
        """Packed passes, with the prompt count on the first axis."""
        return packed_prompts(self.case, self.load, self._packed_counts.reshape(-1, *(1,) * self._axes))

    @property
    def _axes(self) -> int:
        """Number of axes of the scenario, so that one more can be put before them."""
        parallel, accelerator = self.case.serve.parallel, self.case.serve.accelerator
        load = self.load
        rates = (accelerator.memory_bytes_per_s, *accelerator.dense_flops_per_s.values())
        values = (load.prompt_tokens, load.cached_tokens, load.batch, self.steps, *parallel.degrees, *rates)
        return max(np.ndim(value) for value in values)

    def packed_s(self, prompts: Number, time: str) -> Number:
        """Return the time of a pass with ``prompts`` of a lane, within the budget; fractions are interpolated.

        Of lanes that step together, the one with most prompts sets the pace.
        """
        most = self._on_the_busiest(prompts)

        def whole_s(of: str) -> Number:
            return self._of_packed(most, lambda each: each.seconds(of))

        tokens, shared = self.load.prompt_tokens, np.minimum(prompts, self.packing.most) / self.ranks
        return self._joint_s(whole_s, time, most * tokens, shared * tokens)

    def _on_the_busiest(self, prompts: Number) -> Number:
        """Return the prompts of the most loaded lane in a packed pass."""
        return self._most_loaded(prompts, self.packing.most)

    def _most_loaded(self, prompts: Number, most: Number) -> Number:
        """Return the prompts of the most loaded lane; at most ``most`` fit on all lanes that step together."""
        prompts = np.minimum(prompts, most)
        if not self._joint:
            return prompts
        found: Number = np.clip(busiest(prompts, self.ranks), 1.0, most / self.ranks)
        return found

    @property
    def _joint(self) -> bool:
        return bool(np.any(np.asarray(self.ranks) > 1))

    def _joint_s(self, whole_s: Callable[[str], Number], time: str, busiest_tokens: Number, tokens: Number) -> Number:
        """Return the time of a joint pass, from that of a pass in which all lanes are as loaded as the busiest.

        The experts compute ``tokens`` per lane, not ``busiest_tokens``. At an end of the estimate's interval, the
        difference is scaled like the pass.
        """
        if not self._joint:
            return whole_s(time)
        spared_s = experts_of_ranks_s(self.case, busiest_tokens) - experts_of_ranks_s(self.case, tokens)
        return scalar(whole_s(time) * (1.0 - spared_s / whole_s("estimate_s")))

    @property
    def prompt_j(self) -> Number:
        """Energy of a prompt above idle, J: its part of the pass that computes it."""
        if len(self._packed_counts) == 1:
            return self.prompt.spent_j / self.case.serve.parallel.data
        prompts = np.clip(self.packing.per_pass, 1.0, self.packing.most)
        return self._of_packed(prompts, lambda each: each.spent_j) / (prompts * self.lanes)

    def _of_packed(self, prompts: Number, of: Callable[[PassTime], Number]) -> Number:
        """Return a value of a pass with ``prompts`` prompts per lane."""
        counts = self._packed_counts
        if len(counts) == 1:
            return of(self.prompt)
        figures = of(self._packed)
        shape = np.broadcast_shapes(np.shape(prompts), np.shape(figures)[1:])
        rows = np.broadcast_to(figures, (len(counts), *shape))
        wanted = np.broadcast_to(prompts, shape)
        below = np.clip(np.searchsorted(counts, wanted, side="right") - 1, 0, len(counts) - 2)
        low, high = (np.take_along_axis(rows, places[None], axis=0)[0] for places in (below, below + 1))
        part = (wanted - counts[below]) / (counts[below + 1] - counts[below])
        return scalar(low + part * (high - low))

    @cached_property
    def chunks(self) -> Chunks:
        """How chunked prompts share passes with running sequences."""
        chunk = self.case.chunk_tokens
        assert chunk is not None
        prompt, steps = self.load.prompt_tokens, self.steps
        one = np.maximum(self.load.batch / self.lanes, 1.0)
        made = closed_forms.chunks(one, steps, prompt, chunk)
        met = closed_forms.met_prompts(self.lane_batch, steps, made.passes)
        return closed_forms.chunks_together(made, self.lane_batch, steps, gathered=met, most=self._chunks_fit)

    @property
    def _chunks_fit(self) -> Number:
        """Prompts whose chunks fit in a pass of all lanes that step together."""
        chunk = self.case.chunk_tokens
        assert chunk is not None
        return np.maximum(np.divide(chunk, self.load.prompt_tokens), 1.0) * self.ranks

    @property
    def _chunks_on_a_lane(self) -> tuple[Number, Number]:
        """Prompts of the most loaded lane in a pass with chunks, and riders of each lane."""
        return self._most_loaded(self.chunks.prompts, self._chunks_fit), self.chunks.riders / self.ranks

    @property
    def _chunk(self) -> Number:
        """Tokens per chunk; all chunks of a prompt are equal."""
        return np.divide(self.load.prompt_tokens, self.chunks.passes)

    @cached_property
    def _mixed(self) -> tuple[Weighted, ...]:
        """Passes with a chunk from the middle of a prompt, at the integers around the mean counts, with weights.

        Counts of sequences are integers, and a layout may round them up, so 2.3 riders is a mean of 2 and 3 riders.
        """
        middle = (self.load.prompt_tokens - self._chunk) / 2.0
        found: list[Weighted] = []
        most, each = self._chunks_on_a_lane
        for prompts, part in _around(most):
            for riders, share in _around(each):
                found += self._with_riders(prompts, riders, middle, part * share)
        return tuple(found)

    @cached_property
    def _last_mixed(self) -> tuple[Weighted, ...]:
        """Longest pass with a chunk: the last one of a prompt."""
        prompts, riders = (np.ceil(value - ROUNDING) for value in self._chunks_on_a_lane)
        return tuple(self._with_riders(prompts, riders, self.load.prompt_tokens - self._chunk, 1.0))

    def _with_riders(self, prompts: Number, riders: Number, past_tokens: Number, weight: Number) -> Iterator[Weighted]:
        """Yield weighted passes with a chunk; without riders no decode kernels are launched."""
        alone = np.asarray(riders) == 0
        mixed = partial(
            mixed_pass, self.case, self.load, prompts=prompts, chunk_tokens=self._chunk, past_tokens=past_tokens
        )
        if np.any(alone):
            yield weight * alone, mixed(riders=0.0)
        if not np.all(alone):
            yield weight * ~alone, mixed(riders=np.maximum(riders, 1.0))

    def mixed_s(self, time: str) -> Number:
        """Return the mean time of a pass with a chunk; the time is linear in the prompt tokens before it."""
        return self._with_chunks_s(self._mixed, time)

    def _with_chunks_s(self, passes: tuple[Weighted, ...], time: str) -> Number:
        """Return the mean time of passes with a chunk."""

        def whole_s(of: str) -> Number:
            return sum(weight * each.seconds(of) for weight, each in passes)

        most, riders = self._chunks_on_a_lane
        each = self.chunks.prompts / self.ranks
        return self._joint_s(whole_s, time, riders + most * self._chunk, riders + each * self._chunk)

    @property
    def mixed_j(self) -> Number:
        """Energy of a pass with a chunk above idle, J, averaged as in `mixed_s`."""
        return sum(weight * each.spent_j for weight, each in self._mixed)

    def last_mixed_s(self, time: str) -> Number:
        """Return the time of the longest pass with a chunk, the last one of a prompt."""
        return self._with_chunks_s(self._last_mixed, time)

    @property
    def handover_s(self) -> Number:
        """Return the time to transfer the cache of a prompt to the decode pool; 0 within one pool."""
        return handover_s(self.case, self.load)

    @cached_property
    def memory(self) -> Memory:
        """Resident memory."""
        return self.case.memory


def _around(value: Number) -> tuple[tuple[Number, Number], ...]:
    """Return the integers around a value, with interpolation weights; an integer is returned alone."""
    below = np.floor(value + ROUNDING)
    part = np.maximum(value - below, 0.0)
    if not np.any(part):
        return ((below, 1.0),)
    return ((below, 1.0 - part), (below + 1.0, part))
