"""The most loaded of several ranks that step together, for the closed forms.

Prompts arrive at the ranks at random.  If ``k`` prompts share a step of ``R`` ranks, the busiest rank has more than its
part ``k / R`` and sets the pace: with eight prompts on eight ranks it has 2.6 on average.
"""

from __future__ import annotations

from functools import lru_cache
from math import factorial, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import Number

TABULATED = 64
"""Prompts up to which the busiest rank is computed exactly."""


@lru_cache(maxsize=64)
def _exact(ranks: int) -> npt.NDArray[np.float64]:
    """Return the mean of the largest of ``ranks`` counts, for 0 to `TABULATED` prompts.

    All counts are at most ``j`` in ``k! [x^k] (1 + x + x^2 / 2! + ... + x^j / j!)^R`` of the ``R^k`` cases.
    """
    found = np.zeros(TABULATED + 1)
    terms = np.array([1.0 / factorial(count) for count in range(TABULATED + 1)])
    cases = np.array([factorial(count) / float(ranks) ** count for count in range(TABULATED + 1)])
    for largest in range(TABULATED):
        each, product = terms[: largest + 1], np.ones(1)
        for _ in range(ranks):
            product = np.convolve(product, each)[: TABULATED + 1]
        within = np.zeros(TABULATED + 1)
        within[: len(product)] = product
        found += 1.0 - np.minimum(within * cases, 1.0)
    found[0] = 0.0
    return found


def busiest(prompts: Number, ranks: int) -> Any:
    """Return the mean number of prompts on the busiest of ``ranks`` ranks if ``prompts`` share a step.

    Each prompt is on any rank with equal probability.  Beyond `TABULATED` prompts, the excess over the mean grows with
    its standard deviation.

    Parameters
    ----------
    prompts : float or array
        Prompts of the step, on all ranks together.
    ranks : int
        Number of ranks.

    Returns
    -------
    float or array
        At least ``prompts / ranks``.

    Examples
    --------
    >>> round(float(busiest(2, 2)), 6), round(float(busiest(8, 8)), 1)  # both on one rank in half of the cases
    (1.5, 2.6)
    """
    prompts = np.asarray(prompts, dtype=float)
    exact = _exact(ranks)
    last = exact[-1] - TABULATED / ranks
    beyond = prompts / ranks + last * np.sqrt(np.maximum(prompts, 1.0)) / sqrt(TABULATED)
    return np.where(prompts <= TABULATED, np.interp(prompts, np.arange(TABULATED + 1.0), exact), beyond)


def busiest_in_turn(running: Number, ranks: int) -> Any:
    """Return the mean number of sequences on the busiest of ``ranks`` ranks that are sent requests in turn.

    A rank gets every ``R``-th arrival of a Poisson process.  The variance of such arrivals is an ``R``-th of that of
    requests that go to any rank (Cox 1962, Renewal Theory, section 4.2), which is assumed for the running sequences as
    well.  They depend on the spread of lengths, which the closed forms do not know: equal ones differ by one sequence
    at most, exponential ones by more.  For 64 sequences on 8 ranks, the excess over the mean is 0.4 and 2.9 when drawn
    at random, and 1.5 here.

    Parameters
    ----------
    running : float or array
        Sequences on all ranks together.
    ranks : int
        Number of ranks.

    Returns
    -------
    float or array
        At least ``running / ranks``.
    """
    even = np.asarray(running, dtype=float) / ranks
    return even + (busiest(running, ranks) - even) / sqrt(ranks)
