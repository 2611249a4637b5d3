"""Records of the requests and schedulers of a simulation."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field


@dataclass
class Requests:
    """Requests by number: their lengths, and the times of their tokens.

    ``prompt`` are the tokens to compute, ``cached`` the tokens before them that are already cached, ``output`` the
    tokens to generate, and ``handling`` the seconds from sending a request until its scheduler sees it.  Times are
    those of the engine's clock.
    """

    prompt: list[int]
    cached: list[int]
    output: list[int]
    arrival: list[float]
    handling: list[float] = field(init=False)
    admitted: list[float] = field(init=False)
    first: list[float] = field(init=False)
    finish: list[float] = field(init=False)
    gap: list[float] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.prompt)
        for name in ("admitted", "first", "finish"):
            setattr(self, name, [-1.0] * count)
        self.gap = [0.0] * count
        self.handling = [0.0] * count


@dataclass
class Tally:
    """Totals of one scheduler: times in seconds, and counts."""

    busy_s: float = 0.0
    prompts_s: float = 0.0
    slots_s: float = 0.0
    memory_s: float = 0.0
    steps: int = 0
    events: int = 0
    preempted: int = 0
    most_waiting: int = 0


Piece = tuple[list[int], int]
"""A prompt (request, tokens left to compute, tokens before them), and how many of its tokens a step computes."""

Arrival = tuple[float, int]
"""Arrival time and number of a request."""


def in_order(incoming: deque[Arrival], arrival: Arrival) -> None:
    """Insert an arrival in order of time; a request sent later may overtake a long prompt."""
    place = len(incoming)
    while place and incoming[place - 1][0] > arrival[0]:
        place -= 1
    incoming.insert(place, arrival)


class Gaps:
    """Widest gaps between tokens since each step, kept as a decreasing list."""

    __slots__ = ("spans", "steps")

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.spans: list[float] = []

    def __len__(self) -> int:
        return len(self.spans)

    def clear(self) -> None:
        """Discard all gaps."""
        self.steps.clear()
        self.spans.clear()

    def note(self, step: int, span: float) -> None:
        """Record a gap before a step."""
        steps, spans = self.steps, self.spans
        while spans and spans[-1] <= span:
            steps.pop()
            spans.pop()
        steps.append(step)
        spans.append(span)

    def widest_after(self, step: int) -> float:
        """Return the widest gap after a step; 0 if there is none."""
        at = bisect_right(self.steps, step)
        return self.spans[at] if at < len(self.spans) else 0.0
