"""Timeline of a scheduler: the time, the steps made so far, and the gaps between tokens.

All running sequences get a token in every decode step, on every rank of a group that steps together.  So ranks share a
timeline, and what a decode step changes is recorded once.
"""

from __future__ import annotations

from .request_records import Gaps


class Timeline:
    """Timeline of one scheduler, or of several that step together.

    Attributes
    ----------
    now : float
        Time, seconds.
    passes, step : int
        Passes of either kind, and decode steps.
    fresh : list of int
        Running sequences that have not had a decode step yet.
    last_of : dict
        When these and preempted requests got their last token.
    last_token : float
        Time of the last decode step.
    gaps : Gaps
        Gaps between the tokens of sequences that keep running.
    """

    __slots__ = ("fresh", "gaps", "last_of", "last_token", "now", "passes", "step")

    def __init__(self) -> None:
        self.now = 0.0
        self.passes = 0
        self.step = 0
        self.fresh: list[int] = []
        self.last_of: dict[int, float] = {}
        self.last_token = 0.0
        self.gaps = Gaps()

    def advance(self, took: float, passes: int) -> None:
        """Advance the time by some passes."""
        self.now += took
        self.passes += passes

    def emit(self, count: int, first_at: float, last_s: float, widest: list[float]) -> None:
        """Record ``count`` tokens per running sequence: the first at ``first_at``, the last now, after ``last_s``.

        ``widest`` are the widest gaps of all requests, to which those of fresh sequences are added.
        """
        last_of, gaps = self.last_of, self.gaps
        for request in self.fresh:
            widest[request] = max(widest[request], first_at - last_of.pop(request))
        self.fresh.clear()
        gaps.note(self.step + 1, first_at - self.last_token)
        if count > 1:
            gaps.note(self.step + count, last_s)
        self.step += count
        self.last_token = self.now
