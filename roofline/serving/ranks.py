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

from collections.abc import Container, Sequence
from math import ceil, inf

from ..specs.engines import Engine
from .gates import BalanceGate
from .request_records import Piece, Tally
from .scheduler import Scheduler
from .stretches import JointStretch, Stretch
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
        self.stretches: list[Stretch | None] = [None] * len(self.ranks)
        self.joint: JointStretch | None = None
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
        if (horizon < inf and self.next_time() > horizon) or not self._look():
            return False
        self.tally.events += 1
        ready, held = self._gate()
        pieces = {} if held else self._fill()
        if pieces:
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
        now = timeline.now
        for rank in self.ranks:
            incoming = rank.incoming
            if incoming and incoming[0][0] <= now and (rank.idle or rank._looks()):
                rank._take()
        return True

    def _gate(self) -> tuple[list[bool], int]:
        """Return which ranks have prompts ready, and for how many steps these are held back; none without a gate."""
        if self.gate is None:
            return [], 0
        ready = [rank.ready for rank in self.ranks]
        return ready, self.gate.holds(ready, [rank.running > 0 for rank in self.ranks])

    def _fill(self) -> dict[int, list[Piece]]:
        """Return the chunks of the next step by the place of their rank."""
        pieces = {}
        for at, rank in enumerate(self.ranks):
            if rank.prompts or rank.waiting:
                self.joint = self.stretches[at] = None  # sequences may start
                if chunks := rank._fill():
                    pieces[at] = chunks
        return pieces

    def _generating(self, but: Container[int] = ()) -> list[Stretch]:
        """Return the stretches of the ranks with sequences, except those at the places ``but``."""
        step = self.timeline.step
        for at, stretch in enumerate(self.stretches):
            if stretch is None or stretch.until <= step:
                rank = self.ranks[at]
                self.stretches[at] = Stretch.of(rank) if rank.running and at not in but else None
        return [stretch for stretch in self.stretches if stretch is not None]

    def _joint(self) -> JointStretch:
        """Return the stretch of decode steps that all ranks are in."""
        found = self.joint
        if found is None or found.until <= self.timeline.step:
            found = self.joint = JointStretch(self._generating(), len(self.ranks))
        return found

    def _end(self, stretches: Sequence[Stretch]) -> None:
        """Remove the sequences whose last token is out from the ranks at the end of their stretch."""
        step = self.timeline.step
        for stretch in stretches:
            if stretch.until <= step:
                stretch.rank._end()

    def _prompts(self, pieces: dict[int, list[Piece]]) -> None:
        """Run one step with prompts on some ranks."""
        for at, chunks in pieces.items():
            if not self.ranks[at].reserves:
                pieces[at] = self.ranks[at]._room_for(chunks)
        pieces = {at: chunks for at, chunks in pieces.items() if chunks}
        riders = self._generating(but=pieces) if self.mixes else []
        riding_s = [rider.step_s(self.timeline.step) for rider in riders]
        took = self._prompts_s(pieces, riders, riding_s)
        emits = self.mixes and any(rank.running for rank in self.ranks)
        for at, chunks in pieces.items():
            self.ranks[at]._prompts_pass(chunks, took)
        for rider, own_s in zip(riders, riding_s, strict=True):
            rider.rank._pass(took, 1)
            rider.rank.tally.prompts_s += max(took - own_s, 0.0)  # held up by prompts of other ranks
        if not self.mixes:
            self._stall(took, pieces)
        self._advance(took, 1, took, took, emits=emits)
        for at, chunks in pieces.items():
            self.ranks[at]._compute(chunks)
            self.ranks[at]._end()
        self._end(riders)

    def _stall(self, took: float, pieces: Container[int]) -> None:
        """Let the sequences of ranks without ``pieces`` wait for the prompts of others."""
        for at, rank in enumerate(self.ranks):
            if rank.running and at not in pieces:
                rank._pass(took, 0)
                rank.tally.prompts_s += took

    def _prompts_s(self, pieces: dict[int, list[Piece]], riders: Sequence[Stretch], riding_s: Sequence[float]) -> float:
        """Return the time of a step with prompts on some ranks, while sequences of others get a token.

        Each rank would take the time of its own step, ``riding_s`` for the latter, if all had as many tokens as it; the
        experts have the tokens of all. Theirs are times of kernels, which the prefill factor makes times of a step.
        """
        experts_s, factor = self.clock.experts_s, float(self.clock.times.host.prefill_factor)
        apart_s, tokens = 0.0, 0
        for at, chunks in pieces.items():
            rank = self.ranks[at]
            own = sum(take for _, take in chunks) + (rank.running if self.mixes else 0)
            apart_s = max(apart_s, rank._step_s(chunks) - factor * experts_s(own))
            tokens += own
        for rider, own_s in zip(riders, riding_s, strict=True):
            apart_s = max(apart_s, own_s - factor * rider.experts_s)
            tokens += rider.running
        return apart_s + factor * experts_s(tokens / len(self.ranks))

    def _advance(self, took: float, passes: int, first_s: float, last_s: float, *, emits: bool) -> None:
        """Advance the time by some passes; in decode steps, running sequences get tokens."""
        timeline = self.timeline
        first_at = timeline.now + first_s
        timeline.advance(took, passes)
        if emits:
            timeline.emit(passes, first_at, last_s, self.requests.gap)

    def _decode(self, held: int, horizon: float) -> int:
        """Run as many decode steps as have the same sequences; at most ``held`` if not 0, and up to ``horizon``."""
        joint, timeline = self._joint(), self.timeline
        now, step = timeline.now, timeline.step
        count = joint.until - step
        if held:
            count = min(count, held)
        first_s = joint.step_s(step)
        stop = min(horizon, self._next_start(bool(held)))
        if stop < inf:
            count = max(min(count, ceil((stop - now) / first_s)), 1)
        all_s, last_s = joint.steps_s(step, count, first_s)
        for stretch in joint.stretches:
            stretch.rank._pass(all_s, count)
        self._advance(all_s, count, first_s, last_s, emits=True)
        if joint.until <= timeline.step:
            self._end(joint.stretches)
        return count

    def _next_start(self, held: bool) -> float:
        """Return the time of the next arrival that could start at once."""
        return min([rank._next_start(held) for rank in self.ranks if rank.incoming], default=inf)
