"""Pass-by-pass record of a simulated server over an interval of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, number
from ..values import Value
from .outcome import Simulation
from .request_loops import play
from .scheduler import Scheduler

Array = npt.NDArray[np.float64]

FIELDS = ("lane", "start_s", "end_s", "steps", "running", "prompt_tokens", "waiting", "emits")


@dataclass(frozen=True, eq=False)
class Journal(Value):
    """Passes of a simulated server, ordered by lane and then by time; all arrays have the same length.

    Attributes
    ----------
    lane : array
        Index of the scheduler: a replica, or a microbatch of a pipeline.
    start_s, end_s : array
        Start and end of the pass, seconds from the start of the run.
    steps : array
        Number of decode steps in the pass; several if nothing happens between them.
    running : array
        Number of running sequences.
    prompt_tokens : array
        Number of prompt tokens computed.
    waiting : array
        Number of requests waiting for a slot or for memory.
    emits : array of bool
        Whether the running sequences get tokens; if not, they wait for prompts to be computed.
    """

    lane: Array
    start_s: Array
    end_s: Array
    steps: Array
    running: Array
    prompt_tokens: Array
    waiting: Array
    emits: npt.NDArray[np.bool_]

    def of_lane(self, lane: float) -> Journal:
        """Return the passes of one scheduler.

        Parameters
        ----------
        lane : int
            Index of the scheduler, as in ``lane``.

        Returns
        -------
        Journal
            Its passes, ordered by time.
        """
        return Journal(**{name: getattr(self, name)[self.lane == lane] for name in FIELDS})

    @property
    def stalls(self) -> npt.NDArray[np.bool_]:
        """Passes during which running sequences get no token."""
        return (self.running > 0) & ~self.emits


def journal(found: Simulation, *, start_s: float, span_s: float) -> Journal:
    """Repeat a simulation with its seed and record the passes in an interval of time.

    Parameters
    ----------
    found : Simulation
        Result of `roofline.simulate`.
    start_s, span_s : float
        Start and length of the interval, seconds of the run.

    Returns
    -------
    Journal
        Every pass that overlaps the interval.

    Raises
    ------
    InvalidInput
        ``start_s`` is negative, or ``span_s`` is not above 0.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment("llama-3.1-8b", "h100-sxm", engine="vllm")
    >>> run = rl.simulate(serve, rl.Workload(1500, 300), requests_per_s=5.0, requests=100)
    >>> noted = journal(run, start_s=2.0, span_s=1.0)
    >>> bool((noted.end_s > 2.0).all() and (noted.start_s < 3.0).all() and noted.prompt_tokens.max() >= 1500)
    True
    """
    number("start_s", start_s)
    if not span_s > 0:
        raise InvalidInput(f"span_s must be above 0 seconds: {span_s!r}")
    rows: list[tuple[Any, ...]] = []
    recorders: list[_Recorder] = []

    def recorder(*arguments: Any) -> Scheduler:
        made = _Recorder(*arguments)
        made.note = _into(rows, len(recorders), start_s, start_s + span_s)
        recorders.append(made)
        return made

    play(found.deployment, found.load, found.demand, found.times, scheduler=recorder)
    columns = np.array(rows, float).reshape(-1, len(FIELDS)).T
    named: dict[str, Any] = dict(zip(FIELDS, columns, strict=True))
    return Journal(**named | {"emits": named["emits"].astype(bool)})


Note = Callable[[float, float, int, int, int, int, bool], None]


def _into(rows: list[tuple[Any, ...]], lane: int, low: float, high: float) -> Note:
    """Return a callback that records a pass of a lane if it overlaps the interval."""

    def note(start: float, end: float, *more: Any) -> None:
        if end > low and start < high:
            rows.append((lane, start, end, *more))

    return note


class _Recorder(Scheduler):
    """A scheduler that records its passes."""

    note: Note

    def _pass(self, took: float, steps: int, tokens: int = 0) -> None:
        now = self.timeline.now
        self.note(now, now + took, steps, self.running, tokens, len(self.waiting), steps > 0)
        super()._pass(took, steps, tokens)
