"""What a simulation keeps of its requests and of what its schedulers have done."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field


@dataclass
class Requests:
    """Requests by number: what they ask, and what became of them.

    ``prompt`` are the tokens to compute, ``cached`` those before them whose cache is there already, ``output`` the
    tokens to generate, and ``handling`` the seconds between sending a request and its scheduler's seeing it.  Times are
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
    """What a scheduler has done: times in seconds, and counts."""

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
"""When a request arrives, and which."""


def in_order(incoming: deque[Arrival], arrival: Arrival) -> None:
    """Put an arrival among later ones where its time is: a long prompt may be overtaken by one sent after it."""
    place = len(incoming)
    while place and incoming[place - 1][0] > arrival[0]:
        place -= 1
    incoming.insert(place, arrival)


class Gaps:
    """Gaps between tokens, of which only those matter that are the widest since some step: a list that falls."""

    __slots__ = ("spans", "steps")

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.spans: list[float] = []

    def __len__(self) -> int:
        return len(self.spans)

    def clear(self) -> None:
        """Forget all."""
        self.steps.clear()
        self.spans.clear()

    def note(self, step: int, span: float) -> None:
        """Note a gap before a step."""
        steps, spans = self.steps, self.spans
        while spans and spans[-1] <= span:
            steps.pop()
            spans.pop()
        steps.append(step)
        spans.append(span)

    def widest_after(self, step: int) -> float:
        """The widest of the gaps after a step; 0 if there is none."""
        at = bisect_right(self.steps, step)
        return self.spans[at] if at < len(self.spans) else 0.0
