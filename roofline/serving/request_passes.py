"""The passes that requests take in steady state, in groups that move together, whichever time is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from ..arrays import scalar
from ..errors import Number
from ..footprint.memory_use import Memory
from ..phases.workload import Workload
from ..values import Value
from . import closed_forms
from .closed_forms import Chunks, Packing
from .pass_times import PassTime, handover_s, mixed_pass, packed_prompts, prompt_pass, step_pass
from .scenario import Scenario

Weighted = tuple[Number, PassTime]
"""A pass, and its weight in a mean."""

ROUNDING = 1e-9
"""A number that rounding puts a hair above a whole one is that whole one."""

COUNTS_APART = 1.25
"""Ratio of neighboring numbers of prompts beyond `WHOLE_UP_TO`."""

WHOLE_UP_TO = 8
"""Passes are computed for every number of prompts up to this; beyond, in steps of a quarter, with lines in between."""


@dataclass(frozen=True, eq=False)
class Passes(Value):
    """The passes that the requests of a scenario take; they are the same whichever of the three times is asked for.

    Attributes
    ----------
    case : Scenario
        What runs where, for which requests, served how.
    """

    case: Scenario

    @cached_property
    def load(self) -> Workload:
        """What is left to compute once compression and cache hits are taken off."""
        return self.case.running

    @property
    def lanes(self) -> Number:
        """Groups of sequences that move together: replicas of attention, times the stages of a pipeline."""
        parallel = self.case.serve.parallel
        return parallel.data * parallel.pipeline

    @property
    def lane_batch(self) -> Number:
        """Requests of a lane that is not idle."""
        return np.maximum(self.load.batch / self.lanes, 1.0)

    @property
    def tokens_after_first(self) -> Number:
        """Tokens of a request that decode steps generate."""
        return np.maximum(np.asarray(self.load.output_tokens, dtype=float) - 1.0, 0.0)

    @property
    def tokens_per_step(self) -> Number:
        """Expected tokens that a step gives each sequence."""
        return 1.0 if self.case.drafts is None else self.case.drafts.tokens_per_step

    @property
    def steps(self) -> Number:
        """Decode steps of a request."""
        return self.tokens_after_first / self.tokens_per_step

    @cached_property
    def prompt(self) -> PassTime:
        """A prompt by itself, one on each replica."""
        return prompt_pass(self.case, replace(self.load, batch=self.case.serve.parallel.data))

    @cached_property
    def step(self) -> PassTime:
        """A decode step of the batch at the mean context, which is exact where its time is linear in the context."""
        middle = np.floor(self.load.context_tokens + np.maximum(self.tokens_after_first - 1.0, 0.0) / 2.0)
        return step_pass(self.case, self.load.batch, middle)

    @cached_property
    def packing(self) -> Packing:
        """How many prompts share a pass."""
        most = np.floor(np.divide(self.case.token_budget, self.load.prompt_tokens))
        if self.case.slots_used is not None:
            return Packing(self.lane_batch, self.lane_batch, np.maximum(most, 1.0))
        return closed_forms.packing(self.lane_batch, self.steps, most)

    @cached_property
    def _packed_counts(self) -> npt.NDArray[np.float64]:
        """Numbers of prompts at which a packed pass is computed."""
        largest = np.minimum(np.maximum(self.packing.seen, self.packing.per_pass), self.packing.most)
        counts = [1.0]
        while counts[-1] < np.max(largest, initial=1.0):
            last = counts[-1]
            counts.append(last + 1.0 if last < WHOLE_UP_TO else np.ceil(last * COUNTS_APART))
        return np.array(counts)

    @cached_property
    def _packed(self) -> PassTime:
        """Packed passes, the number of prompts on a first axis."""
        return packed_prompts(self.case, self.load, self._packed_counts.reshape(-1, *(1,) * self._axes))

    @property
    def _axes(self) -> int:
        """Axes of the scenario, so that one more can be put before them."""
        parallel, accelerator = self.case.serve.parallel, self.case.serve.accelerator
        load = self.load
        rates = (accelerator.memory_bytes_per_s, *accelerator.dense_flops_per_s.values())
        values = (load.prompt_tokens, load.cached_tokens, load.batch, self.steps, *parallel.degrees, *rates)
        return max(np.ndim(value) for value in values)

    def packed_s(self, prompts: Number, time: str) -> Number:
        """A pass with so many prompts of each lane, within the budget; of a fraction, the mean of whole numbers."""
        return self._of_packed(prompts, lambda each: each.seconds(time))

    @property
    def prompt_j(self) -> Number:
        """Energy of a prompt beyond that of idle boards, J: its part of the pass that it is packed into."""
        if len(self._packed_counts) == 1:
            return self.prompt.spent_j / self.case.serve.parallel.data
        prompts = np.clip(self.packing.per_pass, 1.0, self.packing.most)
        return self._of_packed(prompts, lambda each: each.spent_j) / (prompts * self.lanes)

    def _of_packed(self, prompts: Number, of: Callable[[PassTime], Number]) -> Number:
        """A figure of a pass with so many prompts of each lane."""
        counts = self._packed_counts
        if len(counts) == 1:
            return of(self.prompt)
        wanted = np.minimum(prompts, self.packing.most)
        figures = of(self._packed)
        shape = np.broadcast_shapes(np.shape(wanted), np.shape(figures)[1:])
        rows = np.broadcast_to(figures, (len(counts), *shape))
        wanted = np.broadcast_to(wanted, shape)
        below = np.clip(np.searchsorted(counts, wanted, side="right") - 1, 0, len(counts) - 2)
        low, high = (np.take_along_axis(rows, places[None], axis=0)[0] for places in (below, below + 1))
        part = (wanted - counts[below]) / (counts[below + 1] - counts[below])
        return scalar(low + part * (high - low))

    @cached_property
    def chunks(self) -> Chunks:
        """How chunks of prompts meet running sequences."""
        chunk = self.case.chunk_tokens
        assert chunk is not None
        return closed_forms.chunks(self.lane_batch, self.steps, self.load.prompt_tokens, chunk)

    @property
    def _chunk(self) -> Number:
        """Tokens of a chunk, all chunks of a prompt being equal."""
        return np.divide(self.load.prompt_tokens, self.chunks.passes)

    @cached_property
    def _mixed(self) -> tuple[Weighted, ...]:
        """Passes with a chunk from the middle of a prompt, for the whole numbers around those wanted, with weights.

        Sequences come whole, and a layout may round them up, so a mean of 2.3 riders is that of 2 and of 3.
        """
        middle = (self.load.prompt_tokens - self._chunk) / 2.0
        found: list[Weighted] = []
        for prompts, part in _around(self.chunks.prompts):
            for riders, share in _around(self.chunks.riders):
                found += self._with_riders(prompts, riders, middle, part * share)
        return tuple(found)

    @cached_property
    def _last_mixed(self) -> tuple[Weighted, ...]:
        """The longest pass with a chunk: the last of a prompt."""
        prompts, riders = (np.ceil(value - ROUNDING) for value in (self.chunks.prompts, self.chunks.riders))
        return tuple(self._with_riders(prompts, riders, self.load.prompt_tokens - self._chunk, 1.0))

    def _with_riders(self, prompts: Number, riders: Number, past_tokens: Number, weight: Number) -> Iterator[Weighted]:
        """A pass with a chunk, by itself where nothing rides on it: kernels are not launched for no sequences."""
        alone = np.asarray(riders) == 0
        mixed = partial(
            mixed_pass, self.case, self.load, prompts=prompts, chunk_tokens=self._chunk, past_tokens=past_tokens
        )
        if np.any(alone):
            yield weight * alone, mixed(riders=0.0)
        if not np.all(alone):
            yield weight * ~alone, mixed(riders=np.maximum(riders, 1.0))

    def mixed_s(self, time: str) -> Number:
        """A pass with a chunk, averaged over the chunks of a prompt, whose times are linear in the tokens before."""
        return sum(weight * each.seconds(time) for weight, each in self._mixed)

    @property
    def mixed_j(self) -> Number:
        """Energy of a pass with a chunk beyond that of idle boards, averaged as `mixed_s`."""
        return sum(weight * each.spent_j for weight, each in self._mixed)

    def last_mixed_s(self, time: str) -> Number:
        """The longest pass with a chunk, the last of a prompt."""
        return sum(weight * each.seconds(time) for weight, each in self._last_mixed)

    @property
    def handover_s(self) -> Number:
        """Time in which the cache of a prompt crosses to the decode pool; 0 within one pool."""
        return handover_s(self.case, self.load)

    @cached_property
    def memory(self) -> Memory:
        """What is resident."""
        return self.case.memory


def _around(value: Number) -> tuple[tuple[Number, Number], ...]:
    """The whole numbers around a value with the weights that give it back; a whole one alone."""
    below = np.floor(value + ROUNDING)
    part = np.maximum(value - below, 0.0)
    if not np.any(part):
        return ((below, 1.0),)
    return ((below, 1.0 - part), (below + 1.0, part))
