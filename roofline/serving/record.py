"""What a simulation keeps of its requests and of what its schedulers have done."""

from __future__ import annotations

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
