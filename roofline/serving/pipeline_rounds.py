"""Rounds of a pipeline in closed form: how often prompts of one microbatch hold up the others, and for how long.

A round is one pass of each of the ``p`` microbatches of a pipeline (`roofline.serving.pipeline`).  Passes of equal
time ``T`` follow each other every ``T / p``, so a round takes ``T``.  A longer pass cannot be overtaken: the ``p -
1`` passes behind it leave the pipeline after it, and the round takes as long as it does.

While a request is in the system, its microbatch makes ``N`` passes, a share ``q`` of them with prompts.  Count passes
of all microbatches in the order in which they enter.  A pass with prompts begins a stall, which lasts for the ``p``
passes of a round; further prompts among these wait behind the first one and begin none.  After the stall, it takes
``(1 - q) / q`` passes until the next one with prompts.  So stalls are

    s = p / (p + (1 - q) / q)

of the rounds, which is ``q`` without a pipeline.  A stall has ``k = p q / s`` passes with prompts.  The ``k - 1``
behind the first one each take their time in the last stage, a ``p``-th of the whole, after it.  Those that come as
soon as the stall is over begin the next one, which overlaps with what is left of this one.  It counts the ``r``
passes behind the first one for which the next stall has not begun, ``p - 1`` at most:

    T = N (s long (1 + r / (p - 1) (k - 1) / p) + (1 - s) step),    r = (1 - (1 - q)^(p - 1)) (1 - q) / q

Two things change ``s``:

- A prompt of ``C`` chunks has passes in ``C`` rounds in succession.  Such runs of different microbatches begin at any
  time, and only their last rounds are cut short, so that a share ``1 - (1 - q)^p`` of the rounds have a run going on,
  less a ``C``-th of what this exceeds the form above.
- In a closed loop, a client's next request takes some time to arrive and misses the ``m`` passes that start meanwhile.
  Microbatches that wait behind a stall take these requests with them, and none are left for the next ``m`` rounds: ``m
  p`` passes without prompts follow a stall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import scalar
from ..errors import Number
from .closed_forms import RequestTimes


class Rounds(NamedTuple):
    """Rounds of a pipeline while a request is in the system.

    Attributes
    ----------
    plain : float or array
        Rounds in which all microbatches make a decode step.
    stalls : float or array
        Rounds in which some microbatch has prompts.
    stretch : float or array
        Time of such a round, divided by that of a pass with prompts.
    """

    plain: Number
    stalls: Number
    stretch: Number

    def total_s(self, step_s: Number, stall_s: Number) -> Number:
        """Return the time of all rounds, with steps and stalls of these times, seconds."""
        return self.stalls * stall_s * self.stretch + self.plain * step_s

    def mean_s(self, step_s: Number, stall_s: Number) -> Number:
        """Return the time of the average round, seconds."""
        return self.total_s(step_s, stall_s) / (self.plain + self.stalls)


def rounds(steps: Number, passes: Number, stages: Number, *, chunks: Number, busy: Number, missed: Number) -> Rounds:
    """Return the rounds with and without prompts while a request is in the system.

    Parameters
    ----------
    steps : float or array
        Rounds in which the request's own microbatch has no prompts.
    passes : float or array
        Rounds in which it has.
    stages : float or array
        Stages of the pipeline.
    chunks : float or array
        Passes per prompt.
    busy : float or array
        Requests of the average microbatch divided by those of the request's own; below 1 if some have none.
    missed : float or array
        Rounds that begin before the next request of a client arrives.

    Returns
    -------
    Rounds

    Examples
    --------
    >>> rounds(300.0, 25.0, 1, chunks=1.0, busy=1.0, missed=0.0)
    Rounds(plain=300.0, stalls=25.0, stretch=1.0)
    >>> found = rounds(300.0, 25.0, 8, chunks=1.0, busy=1.0, missed=0.0)
    >>> round(found.stalls), round(found.stretch, 2)  # 8 microbatches with 25 prompts each, 1.5 to a stall
    (130, 1.05)
    """
    count = np.asarray(steps + passes, dtype=float)
    own = passes / count
    share = np.minimum(own * busy, 1.0)
    gap = (1.0 - share) / np.maximum(share, TINY)
    cut = stages / (stages + (1.0 - share) * missed * stages + gap)
    running = 1.0 - (1.0 - share) ** stages
    stalled = np.clip(running - (running - cut) / chunks, own, 1.0)
    alone = np.less_equal(stages, 1)
    stalled = np.where(alone, own, stalled)
    further = np.maximum(stages * share / stalled - 1.0, 0.0)
    before = (1.0 - (1.0 - share) ** (stages - 1.0)) * gap + (1.0 - share) * missed * stages
    behind = np.maximum(stages - 1.0, 1.0)
    stretch = np.where(alone, 1.0, 1.0 + np.minimum(before / behind, 1.0) * further / stages)
    return Rounds(scalar(count * (1.0 - stalled)), scalar(count * stalled), scalar(stretch))


TINY = 1e-12
"""Least share of passes with prompts, so that the gap between two is finite."""


def request_times(steps: Number, step_s: Number, made: Rounds, *, stall_s: Number, ttft_s: Number) -> RequestTimes:
    """Return the request times in a pipeline.

    Parameters
    ----------
    steps, step_s : float or array
        Decode steps of a request, and the time of a round of them, seconds.
    made : Rounds
        Rounds while the request is in the system.
    stall_s : float or array
        Time of a pass with prompts, at least that of a step, seconds.
    ttft_s : float or array
        Time to first token, seconds; all of the time in the system if there are no steps.

    Returns
    -------
    RequestTimes
    """
    total_s = made.total_s(step_s, stall_s)
    return RequestTimes(np.where(np.asarray(steps) > 0, np.minimum(ttft_s, total_s), total_s), total_s)
