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
from .stretches import Stretch

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
        self.stretches: dict[Scheduler, Stretch] = {}
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
        chunks = [] if one.held else self._fill(one)
        if chunks:
            self._prompts(one, chunks)
        elif one.running:
            self._decode(one, horizon)
        else:
            return not one.prefills and not one.idle
        return True

    def _fill(self, one: Scheduler) -> list[Piece]:
        """Return the chunks of the next pass of a microbatch."""
        if one.prompts or one.waiting:
            self.stretches.pop(one, None)  # sequences may start
        return one._fill()

    def _lasting(self, one: Scheduler) -> Stretch | None:
        """Return the stretch of decode steps that a microbatch is in; None if its next pass begins another."""
        found = self.stretches.get(one)
        return found if found is not None and found.until > one.timeline.step else None

    def _stretch(self, one: Scheduler) -> Stretch:
        """Return the stretch of decode steps that a microbatch with sequences is in or begins."""
        found = self._lasting(one)
        if found is None:
            found = self.stretches[one] = Stretch.of(one)
        return found

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
        own_s = self._stretch(one).step_s(one.timeline.step)
        count = self._rounds(one, own_s, horizon)
        if count > 1:
            self._run_rounds(count)
            return
        took = self._took(one.timeline.now, own_s)
        if one.held and one.gate is not None:
            one.gate.pass_by(1)
        one._decode(1, took, took, took)

    def _rounds(self, one: Scheduler, own_s: float, horizon: float) -> int:
        """Return for how many rounds every microbatch only decodes; 1 if that is not certain."""
        now, stop = one.timeline.now, self._stop(one.timeline.now, horizon)
        busy = self._decoding() if stop > own_s else []
        if not busy:
            return 1
        stretches = [self._stretch(each) for each in busy]
        count = min(each.until - each.rank.timeline.step for each in stretches)
        round_s = _round_s(stretches, 0.0)
        on_time = now + ROUNDING * (now + round_s)
        if self.enters > on_time or self.leaves + own_s / self.stages > on_time + round_s:
            return 1
        return count if stop == inf else max(min(count, ceil(stop / round_s)), 1)

    def _decoding(self) -> list[Scheduler]:
        """Return the microbatches with requests if all of them only decode in their next pass; none if not.

        One whose cache is full may preempt prompts at its own turn.
        """
        busy = []
        for each in self.microbatches:
            if each.running and not (each.held or each.ready) and (self._lasting(each) or each._has_room()):
                busy.append(each)
            elif not each.idle:
                return []
        return busy

    def _stop(self, now: float, horizon: float) -> float:
        """Return the time until the next arrival that could start at once, at most until ``horizon``."""
        stop = horizon - now
        for each in self.microbatches:
            if each.incoming:
                stop = min(stop, each._next_start() - (each.timeline.now if each.running else now))
        return stop

    def _run_rounds(self, count: int) -> None:
        """Run ``count`` rounds of decode steps, one of every busy microbatch in each."""
        stretches = [self._stretch(each) for each in self.microbatches if not each.idle]
        first_s, last_s = _round_s(stretches, 0.0), _round_s(stretches, count - 1)
        all_s = count * _round_s(stretches, (count - 1) / 2)
        for each in stretches:
            each.rank._decode(count, first_s, all_s, last_s)
        self.enters += all_s
        self.leaves += all_s


def _round_s(stretches: Sequence[Stretch], further: float) -> float:
    """Return the time of a round of decode steps, ``further`` tokens per sequence from now: its longest pass."""
    return max([each.step_s(each.rank.timeline.step, further) for each in stretches])
