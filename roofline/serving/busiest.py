"""The most loaded of several ranks that step together, for the closed forms.

Prompts arrive at the ranks at random.  If ``k`` prompts share a step of ``R`` ranks, the busiest rank has more than its
part ``k / R`` and sets the pace: with eight prompts on eight ranks it has 2.6 on average.

Why a prompt costs more if ranks wait: on each of ``R`` ranks, ``b`` sequences make ``n`` steps each, so that a prompt
comes with a step of the rank with probability ``q = b / n`` while prompts are rare.  All ranks stall in a step with a
prompt on any of them, ``1 - (1 - q)^R`` of the steps.  If each of those takes ``p`` longer, the time per request that
all ranks lose, multiplied by the ``R`` requests that they finish meanwhile, is ``p (1 - (1 - q)^R) / q``: close to ``R
p`` for rare prompts, while ranks without experts in common lose ``p`` each.  With many prompts per step it falls to the
``p`` of prompts that line up, times what the busiest rank has above its part.  The closed forms
(`roofline.serving.closed_forms`) say the same of one lane that has the requests of all ranks: it packs ``k`` prompts
into a pass, which takes the time of `busiest` of them on one rank and of the experts for ``k / R`` on each.
"""

from __future__ import annotations

from functools import lru_cache
from math import erf, factorial, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import Number
from ..operators.operator import Operator
from ..phases.deployment import Deployment
from ..specs.engines import Engine

EXCHANGES = ("dispatch", "combine", "gather")
"""Collectives between attention replicas and their experts."""


def spans_ranks(operator: Operator) -> bool:
    """Return whether an operator works on the tokens of all attention replicas that share experts."""
    return operator.kind == "experts" or operator.name in EXCHANGES


def sharing_ranks(serve: Deployment) -> Number:
    """Return the number of attention replicas that share experts; 1 in a pipeline, whose microbatches run alone."""
    parallel = serve.parallel
    if not serve.model.has_experts:
        return 1
    ranks = np.floor(np.minimum(parallel.expert_replicas, parallel.data))
    return np.where(np.asarray(parallel.pipeline) > 1, 1.0, ranks)[()]


def waiting_ranks(serve: Deployment, engine: Engine) -> Number:
    """Return the number of schedulers that share experts and step together; 1 if each is alone.

    Experts that span attention replicas exchange tokens between all of them in every layer, so that a step takes as
    long as on the most loaded one.  An engine whose ``ranks_wait`` is off runs them in parallel as if all always had
    equally many tokens.

    Parameters
    ----------
    serve : Deployment
        Deployment; its degrees of parallelism may be arrays.
    engine : Engine
        Settings of the engine.

    Returns
    -------
    int or array
        At least 1.
    """
    return sharing_ranks(serve) if engine.ranks_wait or engine.balance_wait_steps else 1


TABULATED = 64
"""Prompts up to which the busiest rank is computed exactly."""

GRID = 0.05
"""Distance of the tokens at which the busiest rank is computed, in mean prompts."""

Array = npt.NDArray[np.float64]


@lru_cache(maxsize=64)
def _exact(ranks: int, spread: float = 0.0) -> tuple[Array, Array]:
    """Return some tokens ``x``, and the mean of the largest of ``ranks`` sums of 0 to `TABULATED` prompts, cut at each.

    No rank has more than ``x`` in ``k! [z^k] (sum over c of F_c(x) z^c / c!)^R`` of the ``R^k`` cases, where ``F_c(x)``
    is the probability that ``c`` prompts have at most ``x`` tokens, in units of the mean prompt.  The mean of the
    largest is the integral of the other cases over all ``x``; up to a certain ``x`` it is that of the largest, cut
    there.
    """
    if not spread:
        places, weight = np.arange(TABULATED, dtype=float), 1.0
    else:
        most = TABULATED / ranks + 5.0 * sqrt(TABULATED / ranks * (1.0 + spread**2)) + 5.0 * spread
        places, weight = np.arange(GRID / 2.0, most, GRID), GRID
    terms = np.array([1.0 / factorial(count) for count in range(TABULATED + 1)]) * _within(places, spread)
    cases = np.array([factorial(count) / float(ranks) ** count for count in range(TABULATED + 1)])
    power, product, left = terms, np.eye(1, TABULATED + 1), ranks
    while left:  # by squaring
        if left % 2:
            product = _times(product, power)
        power, left = _times(power, power), left // 2
    beyond = 1.0 - np.clip(product * cases, 0.0, 1.0)
    beyond[:, 0] = 0.0
    up_to: Array = np.concatenate([np.zeros((1, TABULATED + 1)), weight * np.cumsum(beyond, axis=0)])
    return weight * np.arange(len(up_to), dtype=float), up_to


def _within(places: Array, spread: float) -> Array:
    """Return the probability that 0 to `TABULATED` prompts have at most each number of tokens.

    Sums are taken as log-normal, with their mean and variance.
    """
    counts = np.arange(TABULATED + 1)
    if not spread:
        return (counts <= places[:, None]).astype(float)
    squared = np.log1p(spread**2 / np.maximum(counts, 1e-9))
    middle = np.log(np.maximum(counts, 1e-9)) - squared / 2.0
    below = (np.log(places)[:, None] - middle) / np.sqrt(squared)
    return np.vectorize(erf)(below / sqrt(2.0)) / 2.0 + 0.5  # type: ignore[no-any-return]


def _times(first: Array, second: Array) -> Array:
    """Multiply polynomials up to the power `TABULATED`, one a row."""
    found = np.zeros(np.broadcast_shapes(first.shape, second.shape))
    for power in range(TABULATED + 1):
        found[:, power:] += first[:, power : power + 1] * second[:, : TABULATED + 1 - power]
    return found


def highest_of(count: Number) -> Any:
    """Return the mean of the largest of ``count`` standard normal numbers; between whole numbers, interpolated.

    Examples
    --------
    >>> round(float(highest_of(2)), 4), round(float(highest_of(8)), 4)  # 1 / sqrt(pi); Harter 1961, Biometrika 48
    (0.5642, 1.4236)
    """
    most = int(np.ceil(np.max(count, initial=1.0)))
    return np.interp(count, np.arange(1.0, most + 1.0), [_highest_of(each) for each in range(1, most + 1)])


@lru_cache(maxsize=1024)
def _highest_of(count: int) -> float:
    places = np.arange(-8.0, 8.0, 0.01) + 0.005
    below = _NORMAL**count
    return float(0.01 * np.sum(np.where(places > 0, 1.0 - below, -below)))


_NORMAL = np.vectorize(erf)((np.arange(-8.0, 8.0, 0.01) + 0.005) / sqrt(2.0)) / 2.0 + 0.5


def busiest(prompts: Number, ranks: Number, spread: float = 0.0, most: Number = np.inf) -> Any:
    """Return the mean number of prompts on the busiest of ``ranks`` ranks if ``prompts`` share a step.

    Each prompt is on any rank with equal probability.  Beyond `TABULATED` prompts, the excess over the mean grows with
    its standard deviation.

    Parameters
    ----------
    prompts : float or array
        Prompts of the step, on all ranks together.
    ranks : int or array
        Number of ranks.
    spread : float
        Standard deviation of the lengths of prompts, divided by their mean: the result then counts the tokens of the
        rank with the most tokens, in mean prompts.  Sums of lengths are taken as log-normal.
    most : float or array
        Prompts that fit in the step of a rank; the rest waits for the next step.

    Returns
    -------
    float or array
        At least ``prompts / ranks``, unless more than ``most``.

    Examples
    --------
    >>> round(float(busiest(2, 2)), 6), round(float(busiest(8, 8)), 1)  # both on one rank in half of the cases
    (1.5, 2.6)
    >>> round(float(busiest(2, 2, most=1)), 6)
    1.0
    >>> round(float(busiest(2, 1000, spread=0.5)), 2)  # the longer of two: 1 + erf(sqrt(log(1.25)) / 2)
    1.26
    """
    found = np.zeros(np.broadcast_shapes(np.shape(prompts), np.shape(ranks), np.shape(most)))
    wanted, cut = np.asarray(prompts, dtype=float), np.asarray(most, dtype=float)
    for each in np.unique(np.asarray(ranks)):
        found = np.where(np.equal(ranks, each), _busiest(wanted, int(each), spread, cut), found)
    return found


def _busiest(prompts: Array, ranks: int, spread: float, most: Array) -> Array:
    places, up_to = _exact(ranks, spread)
    last = up_to[-1, -1] - TABULATED / ranks
    beyond = prompts / ranks + last * np.sqrt(np.maximum(prompts, 1.0)) / sqrt(TABULATED)
    few = np.clip(prompts, 0.0, TABULATED - 1e-9)
    cut = np.clip(most / places[1], 0.0, len(places) - 1.0 - 1e-9)
    row, column = np.floor(cut).astype(int), np.floor(few).astype(int)
    down, right = cut - row, few - column
    above = up_to[row, column] + right * (up_to[row, column + 1] - up_to[row, column])
    below = up_to[row + 1, column] + right * (up_to[row + 1, column + 1] - up_to[row + 1, column])
    exact = above + down * (below - above)
    found: Array = np.where(prompts <= TABULATED, exact, np.minimum(beyond, most))
    return found


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
