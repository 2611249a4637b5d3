"""Prompts that gather while the next requests are on their way, in engines that run prompts first.

A client sends its next request when the last one has ended, and the server takes a time ``h`` to hand it to the
scheduler (HTTP, tokenizer, queues between processes).  Decode steps take ``d`` meanwhile, and only they end requests.
So a cycle follows from the ends of ``a = B / n`` requests in a step, with ``G = 1 / (1 - (1 - 1 / n)^B)`` steps until
one of them ends any:

- Decode steps run until the first request has ended (``G`` of them) and its successor has arrived, ``H = ceil(h / d)``
  more steps, since the scheduler looks at the end of a step.  All of these steps end requests.
- Then come passes over prompts, during which nothing ends.  The first has the ``a G`` successors of one step.  During a
  pass of ``p`` the successors of ``J = min(p / d, H)`` steps arrive; if there are any, with probability ``1 - (1 - 1 /
  n)^(B J)``, they share the next pass.  This goes on until those of all ``H`` steps are computed.

A cycle thus has ``G + H`` steps with ``a (G + H)`` prompts, in

    1 + sum over windows of J steps: (1 - (1 - 1 / n)^(B J))

passes.  Passes longer than ``h`` collect everything in one window: at ``a = 1`` and ``h = 4 d``, two passes in 6.1
steps, where each step would be followed by 0.63.  Without handling, ``H = 0``, there is a pass after every step that
ends a request (`roofline.serving.closed_forms.packing`), and also if a pass is no longer than a step, ``J = 1``.

The first pass may be shorter than the others, as it has fewer prompts.

A prompt of the first pass has waited for half a step, and one of a window for the pass in progress, ``p - J d / 2`` on
average.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..errors import Number
from .closed_forms import EPSILON, Packing


def gathering(
    pack: Packing, lane_batch: Number, steps: Number, *, away_steps: Number, first_steps: Number, pass_steps: Number
) -> Packing:
    """Return how many prompts share a pass if the next requests take some time to arrive.

    Parameters
    ----------
    pack : Packing
        Prompts per pass if they arrive at once.
    lane_batch, steps : float or array
        Requests of a lane, decode steps of a request.
    away_steps : float or array
        Decode steps from the end of a request to the arrival of the next.
    first_steps, pass_steps : float or array
        Decode steps that fit in the time of the first pass of a cycle, and of a later one.

    Returns
    -------
    Packing
        With the mean wait for passes in progress, in decode steps.

    Examples
    --------
    >>> from roofline.serving.closed_forms import packing
    >>> at_once = packing(256, 255, 1024)
    >>> round(float(at_once.per_pass), 2)
    1.58
    >>> found = gathering(at_once, 256, 255, away_steps=4, first_steps=5, pass_steps=5)
    >>> round(float(found.per_pass), 2)
    3.06
    """
    rate = 1.0 / np.maximum(steps, 1.0)
    others = np.maximum(lane_batch - 1.0, 0.0)
    ends = others * rate  # of other requests, in a step
    behind = _whole_steps(away_steps)
    none_ends = others * np.log1p(-np.minimum(rate, 1.0 - EPSILON))  # logarithm of the probability, for one step
    prompts: Number = pack.per_pass + ends * behind
    passes: Number = 1.0
    seen: Number = pack.per_pass
    wait = pack.per_pass * np.where(others > 0, behind - away_steps, 0.0)
    for count, window, lasts in _windows(behind, first_steps, pass_steps):
        passes = passes - count * np.expm1(none_ends * window)
        seen = seen + ends * count * window**2
        wait = wait + ends * count * window * (np.maximum(lasts, 1.0) - window / 2.0)
    found = Packing(prompts / passes, 1.0 + ends * seen / prompts, pack.most, wait / prompts)
    arrives_later = np.logical_and(np.asarray(steps) > 0, np.asarray(away_steps) > 0)
    return Packing(*(np.where(arrives_later, new, old)[()] for new, old in zip(found, pack, strict=True)))


def _whole_steps(away_steps: Number) -> Number:
    """Return the decode steps that begin before an arrival, at least 1; half of them are one more at an integer.

    Steps and handling vary by `JITTER`, so that the number does not jump.
    """
    below = np.floor(away_steps)
    part = away_steps - below
    found: Number = below + np.clip((part + JITTER) / (2.0 * JITTER), 0.0, 1.0)
    found = found + np.clip((part - (1.0 - JITTER)) / (2.0 * JITTER), 0.0, 1.0)
    return np.maximum(found, 1.0)


JITTER = 0.25
"""Variation of the decode steps that a request is away, for the mean of a whole number of them."""


def _windows(behind: Number, first_steps: Number, pass_steps: Number) -> Iterator[tuple[Number, Number, Number]]:
    """Yield the windows of passes in which the prompts of ``behind`` steps arrive: how many, their steps, the pass."""
    first = np.clip(first_steps, 1.0, behind)
    yield 1.0, first, first_steps
    left = behind - first
    window = np.clip(pass_steps, 1.0, np.maximum(left, 1.0))
    full = np.floor(left / window)
    yield full, window, pass_steps
    yield 1.0, left - full * window, pass_steps


def wait_for_step(away_steps: Number, pass_steps: Number, share: Number) -> Number:
    """Return the mean wait of an arrival for the step in progress in an engine with mixed steps, in decode steps.

    The request comes a time ``h`` after the end of another, which is the end of a step.  Each of the following steps
    carries prompts and takes ``q`` with probability ``f``, else it takes 1.  It waits for the first to end after ``h``:

        W = sum over j < h: (1 - f)^j f (j + q - h) + (1 - f)^J (J - h),  J = ceil(h)

    In ``h > 0`` close to 0 this is a whole step, ``1 + f (q - 1)``, as the next one has just begun.  Where several
    steps with prompts end before ``h``, it is the mean rest of a step, ``(f q^2 + 1 - f) / 2 (f q + 1 - f)``.

    Parameters
    ----------
    away_steps, pass_steps : float or array
        ``h`` and ``q``, in decode steps.
    share : float or array
        Share ``f`` of the steps that carry prompts.

    Returns
    -------
    float or array

    Examples
    --------
    >>> round(float(wait_for_step(0.001, 5.0, 0.5)), 2), float(wait_for_step(0.0, 5.0, 0.5))
    (3.0, 0.0)
    """
    rest = (share * pass_steps**2 + 1.0 - share) / 2.0 / (share * pass_steps + 1.0 - share)
    wait: Number = 0.0 * (rest + away_steps)
    plain: Number = 1.0  # probability that no step so far carried prompts
    for step in range(STEPS_AWAY):
        comes_later = np.greater(away_steps, step)
        left = step + pass_steps - away_steps
        with_prompts = np.where(left >= 0, left, rest)
        without = np.where(np.less_equal(away_steps, step + 1.0), step + 1.0 - away_steps, 0.0)
        wait = wait + np.where(comes_later, plain * (share * with_prompts + (1.0 - share) * without), 0.0)
        plain = plain * (1.0 - share)
    return wait + np.where(np.greater(away_steps, STEPS_AWAY), plain * rest, 0.0)


class Meeting(NamedTuple):
    """How prompts that arrive at any time share passes.

    Attributes
    ----------
    prompts : float or array
        Prompts per pass.
    row : float or array
        Passes in succession after a decode step, if there are any.
    begins : float or array
        Probability that a decode step is followed by a pass.
    """

    prompts: Number
    row: Number
    begins: Number


def met_at_rate(rate: Number, step_s: Number, *, one_s: Number, further_s: Number, spread_s: Number = 0.0) -> Meeting:
    """Return how prompts that arrive at any time (Poisson arrivals) share passes.

    Unlike the ends of requests in a closed loop, arrivals meet long passes more often than short steps.  Those during a
    step or pass are computed in the next one.  A decode step of ``d`` is followed by prompts with probability ``1 -
    exp(-rate d)``.  A pass of ``k`` prompts takes ``p + (k - 1) s``.  If ``k`` is the number of arrivals in a time with
    a mean of ``m``, given that there are any, no prompts follow it with probability

        b = exp(-rate (p - s)) (exp(m (exp(-rate s) - 1)) - exp(-m)) / (1 - exp(-m)) cosh(rate v)

    where the last factor is that of prompts of two equally frequent lengths, ``v`` above and below the mean time.
    Otherwise the next pass has those of this one, ``m = rate`` times its mean duration.  So a step is followed by ``r
    = (1 - exp(-rate d)) (1 + (1 - b_1) (1 + (1 - b_2) (1 + ...)))`` passes on average, and each has the arrivals of
    this time divided by ``r``.  Steps with prompts of an engine that mixes are such passes.

    Parameters
    ----------
    rate : float or array
        Arrivals per second.
    step_s : float or array
        Time of a decode step, seconds.
    one_s, further_s : float or array
        Time of a pass with one prompt, and what each further prompt adds, seconds.
    spread_s : float or array
        Standard deviation of the time of a pass with one prompt, seconds.

    Returns
    -------
    Meeting

    Examples
    --------
    >>> round(float(met_at_rate(0.01, 0.02, one_s=0.1, further_s=0.0).prompts), 3)
    1.0
    >>> round(float(met_at_rate(30.0, 0.02, one_s=0.1, further_s=0.0).prompts), 2)  # 3 arrive during a pass
    3.07
    """
    further_s = np.maximum(further_s, 0.0)
    arriving: Number = np.maximum(rate * step_s, 1e-9)
    begins = -np.expm1(-arriving)
    lengths = np.cosh(np.minimum(rate * spread_s, 700.0))
    reached: Number = 1.0  # probability that the passes after a step go on up to this one
    passes: Number = 0.0
    prompts: Number = rate * step_s
    for _ in range(PASSES):
        some = -np.expm1(-arriving)
        lasts = one_s + (arriving / some - 1.0) * further_s
        fewer = np.exp(-arriving * -np.expm1(-rate * further_s)) - np.exp(-arriving)
        breaks = np.exp(-np.minimum(rate * (one_s - further_s), 700.0)) * fewer / some * lengths
        passes, prompts = passes + reached, prompts + begins * reached * rate * lasts
        reached = reached * (1.0 - np.clip(breaks, 0.0, 1.0))
        arriving = rate * lasts
    rest = reached / np.maximum(breaks, 1e-9)  # all further passes are like the last one
    found = (prompts + begins * rest * rate * lasts) / (begins * (passes + rest))
    return Meeting(np.maximum(found, 1.0), passes + rest, begins)


def following_passes(made: Meeting, steps: Number, meanwhile: Number, *, mixed: bool) -> Number:
    """Return how many more passes hold up a request than there are of those that arrive while it is in the system.

    A request starts after a pass, which is followed by ``R - 1`` others if ``R`` come in a row, and then makes ``n``
    steps.  If passes stop its steps, ``R - 1`` of them come before its first step instead of the ``u R`` after others,
    with the probability ``u`` that a step is followed by any.  If they are mixed steps, a share ``f = u R / (1 + u R)``
    of all steps, each is followed by another with probability ``q = 1 - 1 / R``, and a plain step by one with ``u``. Of
    ``n`` steps after a mixed one, ``(1 - f) (x + x^2 + ... + x^n)`` more than ``f n`` are mixed, with ``x = q - u``.

    The closed form of ``B = 1 + rate T`` requests has ``B / k`` passes, its own one among them: in place of these
    ``(1 + rate p) / k - 1`` for the own prompt and those that arrive during its pass.

    Parameters
    ----------
    made : Meeting
        Passes and their prompts.
    steps : float or array
        Decode steps of a request.
    meanwhile : float or array
        Mean number of arrivals in a pass.
    mixed : bool
        Whether sequences generate in passes with prompts.

    Returns
    -------
    float or array

    Examples
    --------
    >>> made = met_at_rate(10.0, 0.01, one_s=0.1, further_s=0.0)
    >>> round(float(made.row), 2), round(float(made.prompts), 2)  # e, and 0.1 / (0.095 e) + 1
    (2.72, 1.39)
    >>> round(float(following_passes(made, 299.0, 1.0, mixed=False)), 2)  # e - 1 - 0.095 e - (2 / 1.39 - 1)
    1.02
    """
    counted = (1.0 + meanwhile) / made.prompts - 1.0
    average = made.begins * made.row
    if not mixed:
        beyond = np.maximum(made.row - 1.0 - average, 0.0)
    else:
        lasting = np.clip(1.0 - 1.0 / made.row - made.begins, 0.0, 1.0 - 1e-9)
        beyond = lasting * (1.0 - lasting**steps) / (1.0 - lasting) / (1.0 + average)
    return np.where(np.asarray(steps) > 0, beyond - counted, 0.0)


PASSES = 8
"""Passes after a decode step that are followed one by one."""

STEPS_AWAY = 16
"""Steps for which the wait is computed one by one; a request that is away for longer meets a step anywhere."""
