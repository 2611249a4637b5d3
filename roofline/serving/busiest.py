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
from math import factorial, sqrt
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


@lru_cache(maxsize=64)
def _exact(ranks: int) -> npt.NDArray[np.float64]:
    """Return the mean of the largest of ``ranks`` counts, for 0 to `TABULATED` prompts.

    All counts are at most ``j`` in ``k! [x^k] (1 + x + x^2 / 2! + ... + x^j / j!)^R`` of the ``R^k`` cases.
    """
    found = np.zeros(TABULATED + 1)
    terms = np.array([1.0 / factorial(count) for count in range(TABULATED + 1)])
    cases = np.array([factorial(count) / float(ranks) ** count for count in range(TABULATED + 1)])
    for largest in range(TABULATED):
        power, product, left = terms[: largest + 1], np.ones(1), ranks
        while left:  # by squaring
            if left % 2:
                product = np.convolve(product, power)[: TABULATED + 1]
            power, left = np.convolve(power, power)[: TABULATED + 1], left // 2
        within = np.zeros(TABULATED + 1)
        within[: len(product)] = product
        found += 1.0 - np.minimum(within * cases, 1.0)
    found[0] = 0.0
    return found


def busiest(prompts: Number, ranks: Number) -> Any:
    """Return the mean number of prompts on the busiest of ``ranks`` ranks if ``prompts`` share a step.

    Each prompt is on any rank with equal probability.  Beyond `TABULATED` prompts, the excess over the mean grows with
    its standard deviation.

    Parameters
    ----------
    prompts : float or array
        Prompts of the step, on all ranks together.
    ranks : int or array
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
    found = np.zeros(np.broadcast_shapes(np.shape(prompts), np.shape(ranks)))
    for each in np.unique(np.asarray(ranks)):
        found = np.where(np.equal(ranks, each), _busiest(np.asarray(prompts, dtype=float), int(each)), found)
    return found


def _busiest(prompts: npt.NDArray[np.float64], ranks: int) -> npt.NDArray[np.float64]:
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
