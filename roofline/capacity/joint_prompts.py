"""Prompts of a prefill worker whose ranks share experts and so compute them in joint passes.

``R`` ranks that wait for each other are one server, which takes up to ``m`` prompts on each of them: all that arrive in
one pass start together in the next (bulk service; Bailey, On queueing processes with bulk service, J. R. Stat. Soc. B
16, 1954).  Attention and dense layers take the time of the busiest rank, with ``b`` prompts, and experts that of the
mean (`roofline.serving.ranks`), if ``k`` prompts share a pass:

    pass(k, b) = whole(b) - (experts(b) - experts(k / R))

with ``whole`` for a pass in which every rank has ``b`` prompts.

A prompt goes to the rank with the fewest, those in progress included.  If ``k`` arrive while ``n`` are computed, every
rank ends with ``floor((n + k) / R)`` or one more, less those in progress.  A rank with fewer than the others in one
pass so has more of the next, and again fewer of the one after it: the differences do not fade, and ties add to them,
until some rank has none in progress.  It waits with ``floor((n + k) / R)``, or one more if it is among the ``(n + k)
mod R`` of ``R`` ranks with one more.  On average the busiest rank thus has

    b = (n + k) / R,    at least ceil(k / R), at most m

If lengths of prompts differ, with coefficient of variation ``c``, it has the tokens of ``b + c h sqrt(b)`` mean
prompts, where ``h`` is the mean of the largest of ``min(k, R)`` standard normal numbers, but no more than the budget of
a step.

If prompts always wait, all ranks have ``m``, and the capacity is that of ranks whose prompts line up.  Below it, they
do not.  Arrivals during a pass are Poisson with mean ``a = r T``, where ``T`` is the mean time of a pass.  The next
pass has them all; if there are none, the ranks idle for ``1 / r`` on average and then compute one prompt:

    T       = E[pass(max(A, 1))],    A ~ Poisson(a)
    P(busy) = T / (T + exp(-a) / r) = a / (a + exp(-a))

A prompt that finds the ranks idle is computed alone.  The others arrive in a pass with a probability in proportion to
its length, at any point of it (renewals; Cox, Renewal Theory, 1962, section 5.4), wait for the rest, and share their
own pass with all others that arrive in it, more of them the longer it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..serving.busiest import highest_of, waiting_ranks
from ..serving.rank_experts import experts_of_ranks_s
from ..serving.scenario import Scenario
from ..serving.slo import SLO
from ..values import Value
from .queues import Array

ARRIVING = 64
"""Numbers of arrivals per pass at which the queue is computed; between them, interpolated linearly."""

FEWEST_ARRIVING = 1e-3
"""Smallest of these numbers."""

QUANTILES = 16
"""Equally probable numbers of arrivals that stand for their distribution."""

TOKENS = 32
"""Numbers of tokens at which the time of the experts is computed; between them, interpolated linearly."""


class _Met(NamedTuple):
    """What prompts meet at some rates of arrivals, 1/s.

    The probability that a pass is in progress, the mean rest of it and the mean pass of a prompt that finds one, and
    the time within which a given share of all prompts is computed.
    """

    rate: Array
    busy: Array
    rest_s: Array
    own_s: Array
    late_s: Array


@dataclass(frozen=True, eq=False)
class JointPasses(Value):
    """Joint passes of the ranks of a worker.

    Attributes
    ----------
    ranks : int
        Ranks that compute prompts together.
    most : int
        Prompts that fit in the step of a rank.
    loads : array
        Prompts of a rank, in ascending order, at which times are given.
    whole_s, experts_s : array
        Time of a pass in which all ranks have as many, and the part of their shared experts.
    spread : float
        Coefficient of variation of the lengths of prompts.
    budget : float
        Mean prompts of as many tokens as fit in the step of a rank.
    """

    ranks: int
    most: int
    loads: Array
    whole_s: Array
    experts_s: Array
    spread: float = 0.0
    budget: float = np.inf

    @property
    def least_s(self) -> float:
        """Time of a pass over one prompt while the other ranks have none."""
        return float(self.pass_s(np.array(1.0), np.array(1.0)))

    @property
    def capacity(self) -> float:
        """Maximum rate of prompts of one rank, 1/s."""
        most = np.arange(1.0, self.most + 1.0)
        return float(np.max(most / self.pass_s(most * self.ranks, most)))

    def pass_s(self, prompts: Array, busiest: Array) -> Array:
        """Return the time of a pass over some prompts of all ranks, by those of the busiest one."""
        loaded = busiest
        if self.spread:
            beyond = self.spread * np.sqrt(busiest) * highest_of(np.minimum(prompts, self.ranks))
            loaded = np.maximum(np.minimum(busiest + beyond, self.budget), busiest)
        whole_s, busiest_s = (np.interp(loaded, self.loads, each) for each in (self.whole_s, self.experts_s))
        return np.asarray(whole_s - busiest_s + np.interp(prompts / self.ranks, self.loads, self.experts_s))

    def _after_s(self, before: Array, prompts: Array) -> Array:
        """Return the mean time of a pass over prompts that arrived during one over ``before`` others."""
        prompts = np.minimum(prompts, self.ranks * self.most)
        busiest = np.maximum((before + prompts) / self.ranks, np.ceil(prompts / self.ranks))
        return self.pass_s(prompts, np.minimum(busiest, self.most))

    @cached_property
    def _met(self) -> dict[float, _Met]:
        """Results of `_computed`, by share."""
        return {}

    def _meets(self, share: float) -> _Met:
        """Return what prompts meet, and the time within which a share of them is computed."""
        if share not in self._met:
            self._met[share] = self._computed(share)
        return self._met[share]

    def _computed(self, share: float) -> _Met:
        """Return the queue by number of arrivals; the next axes are prompts in progress and prompts that wait.

        A pass that is ``l`` times as long as the mean has arrivals with mean ``a l``, which deviate from it like those
        of the mean pass, times ``sqrt(l)``.
        """
        arriving = np.geomspace(FEWEST_ARRIVING, self.ranks * self.most, ARRIVING)
        mean, drawn = arriving[:, None], _poisson(arriving)
        before = np.clip(drawn, 1.0, self.ranks * self.most)
        first_s = np.mean(self._after_s(before[:, :, None], before[:, None, :]), axis=1)
        longer = first_s / np.mean(first_s, axis=1, keepdims=True)
        spread = (drawn - mean)[:, None, :] * np.sqrt(longer)[:, :, None]
        after = np.maximum((mean * longer)[:, :, None] + spread, 0.0)
        next_s = self._after_s(before[:, :, None], np.maximum(after, 1.0))
        own_s = self._after_s(before[:, :, None], after + 1.0)
        mean_s = np.mean(next_s, axis=(1, 2))
        busy = arriving / (arriving + np.exp(-arriving))
        rest = (np.arange(QUANTILES) + 0.5) / QUANTILES
        seen_s = first_s[:, :, None, None] * rest + own_s[..., None]
        weight = np.broadcast_to(longer[:, :, None, None], seen_s.shape) * busy[:, None, None, None]
        rows = zip(seen_s.reshape(ARRIVING, -1), weight.reshape(ARRIVING, -1), busy, strict=True)
        return _Met(
            rate=np.maximum.accumulate(arriving / mean_s),
            busy=busy,
            rest_s=np.mean(next_s**2, axis=(1, 2)) / (2.0 * mean_s),
            own_s=np.mean(longer[:, :, None] * own_s, axis=(1, 2)),
            late_s=np.array([self._within_s(*row, share) for row in rows]),
        )

    def _within_s(self, seen_s: Array, weight: Array, busy: float, share: float) -> float:
        """Return the time within which a share of the prompts is computed, those that find the ranks idle included."""
        order = np.argsort(seen_s)
        up_to = 1.0 - busy + np.cumsum(weight[order]) / len(weight)
        return float(np.interp(share, up_to, seen_s[order], left=self.least_s))

    def times_s(self, rate: Array, slo: SLO) -> tuple[Array, Array]:
        """Return the mean time of a prompt's pass, and the wait for the pass before it by the SLO's statistic.

        Parameters
        ----------
        rate : array
            Arrivals at all ranks together, 1/s.
        slo : SLO
            Names the statistic.

        Returns
        -------
        tuple of array
            Seconds; beyond the mean, the wait is what the two together take more than the mean of the pass.
        """
        met = self._meets(0.5 if slo.statistic == "mean" else slo.share)
        busy, rest_s, own_s, late_s = (np.interp(rate, met.rate, each) for each in met[1:])
        mean_s = np.asarray(busy * own_s + (1.0 - busy) * self.least_s)
        if slo.statistic == "mean":
            return mean_s, np.asarray(busy * rest_s)
        return mean_s, np.asarray(late_s - mean_s)


def _poisson(means: Array) -> Array:
    """Return equally probable values ``[..., QUANTILES]`` of Poisson numbers with the given means."""
    most = int(np.max(means) + 6.0 * np.sqrt(np.max(means)) + 6.0)
    counts = np.arange(most + 1)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(counts[1:]))])
    up_to = np.cumsum(np.exp(counts * np.log(means)[:, None] - means[:, None] - factorials), axis=1)
    parts = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return np.array([np.searchsorted(row, parts) for row in up_to], dtype=float)


def joint_passes(
    case: Scenario, counts: Array, pass_s: Array, estimate_s: Array, spread: float
) -> tuple[JointPasses | None, ...]:
    """Return the joint passes of the layouts ``[L, 1]`` of a prefill worker; None where no rank waits for another.

    At an end of the estimate's interval, the time of experts is scaled like the pass.

    Parameters
    ----------
    case : Scenario
        How the requests are served.
    counts : array
        Prompts per rank ``[K]``, from 1 to the most that fit.
    pass_s, estimate_s : array
        Time ``[L, K]`` of passes in which all ranks have as many, and its estimate if ``pass_s`` is an end of the
        interval.
    spread : float
        Coefficient of variation of the lengths of prompts.

    Returns
    -------
    tuple of JointPasses
        One per layout.
    """
    ranks = np.broadcast_to(waiting_ranks(case.serve, case.serve.server), (len(pass_s), 1))[:, 0]
    if not np.any(ranks > 1):
        return (None,) * len(ranks)
    prompt_tokens, most = float(np.max(case.running.prompt_tokens)), float(counts[-1])
    budget = max(float(np.min(case.token_budget)) / prompt_tokens, 1.0)
    loads = np.union1d(np.geomspace(1.0 / float(np.max(ranks)), most, TOKENS), counts)
    experts_s = np.broadcast_to(experts_of_ranks_s(case, loads * prompt_tokens), (len(ranks), len(loads)))

    def passes(row: int) -> JointPasses:
        whole_s, known_s = (np.interp(loads, counts, each[row]) for each in (pass_s, estimate_s))
        shared_s = experts_s[row] * whole_s / known_s
        return JointPasses(int(ranks[row]), int(most), loads, whole_s, shared_s, spread, budget)

    return tuple(passes(row) if ranks[row] > 1 else None for row in range(len(ranks)))
