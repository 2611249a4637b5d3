"""Stretches of decode steps in which ranks keep their sequences, so that little has to be looked up in each.

A rank that steps together with others (`roofline.serving.ranks`) stops decoding at the events of all of them, and a
microbatch of a pipeline at those of the others (`roofline.serving.pipeline`).  Its own sequences stay the same until
one of them ends, the cache is full, or a prompt starts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import inf

from .scheduler import Scheduler


class Stretch:
    """Decode steps in which a rank, or a microbatch, keeps its sequences.

    Attributes
    ----------
    rank : Scheduler
        Rank.
    running : int
        Number of sequences.
    until : int
        Step at which a sequence ends or the cache is full.
    experts_s : float
        Kernel time of the experts if all ranks had as many tokens.
    left, right, low, rise, run : float
        Piece of the line of decode times by mean context: where it begins and ends, the time where it begins, and how
        much longer a step is ``run`` tokens later.
    """

    __slots__ = ("experts_s", "left", "line", "low", "offset", "rank", "right", "rise", "run", "running", "until")

    def __init__(self, rank: Scheduler, until: int) -> None:
        self.rank, self.running, self.until = rank, rank.running, until
        self.offset = rank.context_offset
        self.experts_s = rank.clock.experts_s(rank.running)
        self.line = rank.clock.line(rank.running)
        self._move_to(rank.contexts / rank.running)

    @classmethod
    def of(cls, rank: Scheduler) -> Stretch:
        """Return the stretch that begins now, after making room for its first step."""
        count = rank._alike()
        return cls(rank, rank.timeline.step + count)

    def step_s(self, step: int, further: float = 0.0) -> float:
        """Return the time of the rank's own step ``further`` tokens per sequence after ``step``."""
        running = self.running
        context = (self.offset + running * step) / running + further
        if not self.left <= context < self.right:
            self._move_to(context)
        return self.low + self.rise * (context - self.left) / self.run

    def _move_to(self, context: float) -> None:
        """Find the piece of the line in which ``context`` is."""
        places, values = self.line.places, self.line.values
        below = bisect_right(places, context, 1, len(places) - 1) - 1
        self.left, self.low = places[below], values[below]
        self.rise, self.run = values[below + 1] - values[below], places[below + 1] - places[below]
        self.right = places[below + 1] if below + 2 < len(places) else inf


class JointStretch:
    """Decode steps in which all ranks keep their sequences.

    Parameters
    ----------
    stretches : sequence of Stretch
        Stretches of the ranks with sequences, at least one.
    ranks : int
        Number of all ranks.
    """

    __slots__ = ("experts_s", "factor", "stretches", "until")

    def __init__(self, stretches: Sequence[Stretch], ranks: int) -> None:
        clock = stretches[0].rank.clock
        self.stretches = stretches
        self.until = min([stretch.until for stretch in stretches])
        self.factor = float(clock.times.host.decode_factor)
        self.experts_s = self.factor * clock.experts_s(sum([stretch.running for stretch in stretches]) / ranks)

    def step_s(self, step: int, further: float = 0.0) -> float:
        """Return the time of the joint step ``further`` tokens per sequence after ``step``."""
        factor = self.factor
        apart_s = max([each.step_s(step, further) - factor * each.experts_s for each in self.stretches])
        return max(apart_s, 0.0) + self.experts_s

    def steps_s(self, step: int, count: int, first_s: float) -> tuple[float, float]:
        """Return the time of ``count`` joint steps from ``step``, and that of the last; the first takes ``first_s``."""
        if count == 1:
            return first_s, first_s
        return count * self.step_s(step, (count - 1) / 2), self.step_s(step, count - 1)
