"""Microbatches of a pipeline, none of which overtakes another.

A pipeline of ``p`` stages works on ``p`` microbatches, each with sequences of its own.  A pass of microbatch ``i`` that
takes ``T_i`` on an idle pipeline spends ``t_i = T_i / p`` in each of the equal stages.  It enters when the pass before
it has left the first stage, and leaves the last stage after the pass before it, which both use one at a time:

    start_i = max(ready_i, start_before + t_before)
    end_i   = max(start_i + T_i, end_before + t_i)

These two suffice: passes are proportionate (a short one is short in every stage), so one that catches up with a longer
one in a stage stays behind it.  If all passes are equally long, every microbatch takes a pass in each round of ``p t =
T``.  One long pass makes that round last as long as itself for all of them.

All engines keep this order.  vLLM's V0 has a scheduler for each microbatch and a lock for each stage (``pp_locks``).
V1 has one scheduler and a queue of ``p`` batches in flight whose oldest is awaited first (``step_with_batch_queue``).
SGLang (``event_loop_pp``) and TensorRT-LLM (``_executor_loop_pp``) go around their microbatches in turn.  Where engines
share a queue of requests, requests here go to the microbatches in turn as well.

References
----------
Garey, Johnson and Sethi 1976, The Complexity of Flowshop and Jobshop Scheduling; Pinedo, Scheduling, section 6.1
(proportionate flow shops).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf

from .request_records import Piece, Tally
from .scheduler import Scheduler

ROUNDING = 1e-9
"""Relative tolerance of times: passes that follow each other without a gap are not held up."""


class Pipeline:
    """Schedulers of the microbatches of one pipeline.

    Parameters
    ----------
    schedulers : sequence of Scheduler
        One scheduler per microbatch, as many as stages.
    """

    def __init__(self, schedulers: Sequence[Scheduler]) -> None:
        self.microbatches = list(schedulers)
        self.stages = len(self.microbatches)
        self.enters = 0.0  # when the first stage is free
        self.leaves = 0.0  # when the last stage is free

    @property
    def tally(self) -> Tally:
        """Totals of the first microbatch."""
        return self.microbatches[0].tally

    def next_time(self) -> float:
        """Time of the next event; infinite if there is none."""
        return min(each.next_time() for each in self.microbatches)

    def advance(self, horizon: float = inf) -> bool:
        """Handle the next event that begins by ``horizon``; return False if there is none."""
        one = min(self.microbatches, key=Scheduler.next_time)
        begins, timeline = one.next_time(), one.timeline
        if begins > horizon or begins == inf:
            return False
        if self.enters > timeline.now:
            one.tally.busy_s += 0.0 if one.idle else self.enters - timeline.now
            timeline.now = self.enters
        one._look()
        self.tally.events += 1
        if one.gate is not None:
            one._close_gate()
        chunks = [] if one.held else one._fill()
        if chunks:
            self._prompts(one, chunks)
        elif one.running:
            self._decode(one, horizon)
        else:
            return not one.prefills and not one.idle
        return True

    def _took(self, now: float, pass_s: float) -> float:
        """Let a pass of ``pass_s`` into the pipeline now; return the time until it leaves the last stage."""
        in_stage_s = pass_s / self.stages
        self.enters = now + in_stage_s
        self.leaves = max(now + pass_s, self.leaves + in_stage_s)
        return self.leaves - now

    def _prompts(self, one: Scheduler, chunks: list[Piece]) -> None:
        """Run a pass with prompts of one microbatch."""
        if not one.reserves:
            chunks = one._room_for(chunks)
        one._prompts_lasting(chunks, self._took(one.timeline.now, one._step_s(chunks)))

    def _decode(self, one: Scheduler, horizon: float) -> None:
        """Run a decode step of one microbatch, or the rounds of all until something changes."""
        alike = one._alike()
        own_s = _step_s(one, 0.0)
        count = self._rounds(one, own_s, alike, horizon)
        if count > 1:
            self._run_rounds(count)
            return
        took = self._took(one.timeline.now, own_s)
        if one.held and one.gate is not None:
            one.gate.pass_by(1)
        one._decode(1, took, took, took)

    def _rounds(self, one: Scheduler, own_s: float, count: int, horizon: float) -> int:
        """Return for how many rounds every microbatch only decodes, at most ``count``; 1 if that is not certain."""
        busy = [each for each in self.microbatches if not each.idle]
        if count < 2 or any(each.held or each.ready or not each.running for each in busy):
            return 1
        now, round_s = one.timeline.now, self._round_s(busy, 0.0)
        on_time = now + ROUNDING * (now + round_s)
        if self.enters > on_time or self.leaves + own_s / self.stages > on_time + round_s:
            return 1
        stop = horizon - now
        for each in self.microbatches:
            stop = min(stop, each._next_start() - (each.timeline.now if each.running else now))
        count = min(count, *(each._alike() for each in busy))
        return count if stop == inf else max(min(count, ceil(stop / round_s)), 1)

    def _round_s(self, busy: Sequence[Scheduler], further: float) -> float:
        """Return the time of a round of decode steps, ``further`` tokens per sequence from now: its longest pass."""
        return max(_step_s(each, further) for each in busy)

    def _run_rounds(self, count: int) -> None:
        """Run ``count`` rounds of decode steps, one of every busy microbatch in each."""
        busy = [each for each in self.microbatches if not each.idle]
        first_s, last_s = self._round_s(busy, 0.0), self._round_s(busy, count - 1)
        all_s = count * self._round_s(busy, (count - 1) / 2)
        for each in busy:
            each._decode(count, first_s, all_s, last_s)
        self.enters += all_s
        self.leaves += all_s


def _step_s(one: Scheduler, further: float) -> float:
    """Return the time of a decode step of a microbatch alone, ``further`` tokens per sequence from now."""
    return one.clock.line(one.running).at(one.contexts / one.running + further)
