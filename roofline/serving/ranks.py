"""Ranks of data-parallel attention that share experts, which step together.

Replicas of attention that share one set of experts exchange tokens in every layer, so none can begin a step before all
can.  A prompt on one rank makes the others wait; an engine that balances them (`roofline.serving.gates`) lets them
compute their prompts together.  A step takes the time of attention and dense layers on the most loaded rank, plus the
experts' time for the tokens of all ranks:

    step = max over ranks (step_r - experts(tokens_r)) + experts(mean tokens)

with ``step_r`` and ``experts`` from `roofline.serving.step_times`, where every rank has the same tokens.  Ranks
without requests take part with an empty step.  Engines that run prompts first stop decoding on all ranks meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf

from ..specs.engines import Engine
from .clock import Polyline
from .gates import BalanceGate
from .request_records import Piece, Tally
from .scheduler import Scheduler
from .timeline import Timeline


class Ranks:
    """Schedulers that step together.

    Parameters
    ----------
    schedulers : sequence of Scheduler
        One scheduler per rank.
    engine : Engine
        Settings of the engine.
    """

    def __init__(self, schedulers: Sequence[Scheduler], engine: Engine) -> None:
        self.ranks = list(schedulers)
        self.clock = schedulers[0].clock
        self.requests = schedulers[0].requests
        self.gate = BalanceGate.of(engine)
        self.mixes = engine.scheduler == "mixed"
        self.timeline = Timeline()
        for rank in self.ranks:
            rank.timeline = self.timeline

    @property
    def tally(self) -> Tally:
        """Totals of the first rank."""
        return self.ranks[0].tally

    def next_time(self) -> float:
        """Time of the next event; infinite if there is none."""
        return min(rank.next_time() for rank in self.ranks)

    def advance(self, horizon: float = inf) -> bool:
        """Handle the next event that begins by ``horizon``; return False if there is none."""
        if self.next_time() > horizon or not self._look():
            return False
        for rank in self.ranks:
            rank.tally.events += 1
        ready, held = self._gate()
        pieces: list[list[Piece]] = [[] for _ in self.ranks] if held else [rank._fill() for rank in self.ranks]
        if any(pieces):
            self._prompts(pieces)
        elif any(rank.running for rank in self.ranks):
            count = self._decode(held if any(ready) else 0, horizon)
            if self.gate is not None:
                self.gate.pass_by(count, ready)
        else:
            return not self.ranks[0].prefills and not all(rank.idle for rank in self.ranks)
        return True

    def _look(self) -> bool:
        """Receive arrivals; return False if nothing is left to do."""
        timeline = self.timeline
        if all(rank.idle for rank in self.ranks):
            next_at = self.next_time()
            if next_at == inf:
                return False
            timeline.now = max(timeline.now, next_at)
        for rank in self.ranks:
            incoming = rank.incoming
            if incoming and incoming[0][0] <= timeline.now and (rank.idle or rank._looks()):
                rank._take()
        return True

    def _gate(self) -> tuple[list[bool], int]:
        """Return which ranks have prompts ready, and for how many steps these are held back; none without a gate."""
        if self.gate is None:
            return [], 0
        ready = [rank.ready for rank in self.ranks]
        return ready, self.gate.holds(ready, [rank.running > 0 for rank in self.ranks])

    def _together_s(self, own_s: Sequence[float], tokens: Sequence[float], factor: float) -> float:
        """Return the time of a joint step of ranks that would each take ``own_s`` if all had equally many tokens.

        ``factor`` is the time of such a step divided by the time of its kernels.
        """
        experts_s = self.clock.experts_s
        apart = max(own - factor * experts_s(each) for own, each in zip(own_s, tokens, strict=True))
        return max(apart, 0.0) + factor * experts_s(sum(tokens) / len(tokens))

    def _prompts(self, pieces: list[list[Piece]]) -> None:
        """Run one step with prompts on some ranks."""
        tokens = []
        for at, rank in enumerate(self.ranks):
            if pieces[at] and not rank.reserves:
                pieces[at] = rank._room_for(pieces[at])
            elif rank.running and self.mixes:
                rank._make_room()
            tokens.append(sum(take for _, take in pieces[at]) + (rank.running if self.mixes else 0))
        own_s = [rank._step_s(each) for rank, each in zip(self.ranks, pieces, strict=True)]
        took = self._together_s(own_s, tokens, float(self.clock.times.host.prefill_factor))
        emits = self.mixes and any(rank.running for rank in self.ranks)
        for rank, each, own in zip(self.ranks, pieces, own_s, strict=True):
            if each:
                rank._prompts_pass(each, took)
            elif rank.running:
                rank._pass(took, int(self.mixes))
                rank.tally.prompts_s += max(took - own, 0.0)  # held up by prompts of other ranks
        self._advance(took, 1, took, took, emits=emits)
        for rank, each in zip(self.ranks, pieces, strict=True):
            if each:
                rank._compute(each)
            rank._end()

    def _advance(self, took: float, passes: int, first_s: float, last_s: float, *, emits: bool) -> None:
        """Advance the time by some passes; in decode steps, running sequences get tokens."""
        timeline = self.timeline
        first_at = timeline.now + first_s
        timeline.advance(took, passes)
        if emits:
            timeline.emit(passes, first_at, last_s, self.requests.gap)

    def _decode(self, held: int, horizon: float) -> int:
        """Run as many decode steps as have the same sequences; at most ``held`` if not 0, and up to ``horizon``."""
        busy = [rank for rank in self.ranks if rank.running]
        count = min(rank._alike() for rank in busy)
        if held:
            count = min(count, held)
        paces, shared_s = self._paces(busy)
        first_s = _joint_s(paces, shared_s, 0.0)
        stop = min(horizon, *(rank._next_start(bool(held)) for rank in self.ranks))
        if stop < inf:
            count = max(min(count, ceil((stop - self.timeline.now) / first_s)), 1)
        all_s = count * _joint_s(paces, shared_s, (count - 1) / 2)
        last_s = _joint_s(paces, shared_s, count - 1)
        for rank in busy:
            rank._pass(all_s, count)
        self._advance(all_s, count, first_s, last_s, emits=True)
        for rank in busy:
            rank._end()
        return count

    def _paces(self, busy: Sequence[Scheduler]) -> tuple[list[Pace], float]:
        """Return what sets the pace of decode steps on each rank, and the time of the experts for all of them."""
        clock, factor = self.clock, float(self.clock.times.host.decode_factor)
        paces = [
            (clock.line(rank.running), rank.contexts / rank.running, factor * clock.experts_s(rank.running))
            for rank in busy
        ]
        tokens = sum(rank.running for rank in busy) / len(self.ranks)
        return paces, factor * clock.experts_s(tokens)


Pace = tuple[Polyline, float, float]
"""Decode step of a rank by its mean context, the mean context now, and the experts' part of the step."""


def _joint_s(paces: Sequence[Pace], shared_s: float, further: float) -> float:
    """Return the time of the joint decode step ``further`` tokens per sequence from now."""
    apart = max(line.at(context + further) - experts_s for line, context, experts_s in paces)
    return max(apart, 0.0) + shared_s
