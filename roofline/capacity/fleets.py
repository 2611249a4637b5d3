"""Fleets: how many deployments of a plan a rate of requests takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InvalidInput, Number, number
from ..report import Rows, Step
from ..specs.electricity import JOULES_OF_A_KWH, WATTS_OF_A_KILOWATT
from ..specs.prices import usd_per_million_tokens
from .arrivals import arrivals_of, with_arrivals
from .candidates import LATENCIES, MEMORY, WEIGHTS, Array
from .plan_sentences import HOURS_PER_MONTH, fleet_sentence
from .plan_steps import fleet_steps
from .plans import Plan
from .sizing import ROUNDING, whole_deployments


@dataclass(frozen=True, eq=False, repr=False)
class Fleet(Rows):
    """For every accelerator of a plan, the cheapest fleet that serves a request rate, the cheapest one first.

    If the plan ranks by energy, the fleet that takes the least power, and the lowest power first.

    Attributes
    ----------
    plan : Plan
        One row per fleet: the candidate of which it is made.
    floor : Plan
        One row per fleet: the candidate that would need the fewest accelerators if all software were perfect.
    requests_per_s : float
        Arrivals.
    utilization : float
        Share of its throughput up to which a deployment may be loaded; `load` is its actual load.
    assumptions : tuple of str
        What the figures rest on.

    Columns
    -------
    engine, basis, queue
        As in `Plan`.
    load
        Share of its throughput that the fleet is loaded with.
    ttft_s, tpot_s
        The SLO's statistic over requests, queueing included, with the ends of their intervals.
    replicas, gpus
        Deployments, and accelerators of all of them.
    gpus_low, gpus_high
        Accelerators if every pass took the lower or the upper end of its estimate's interval.
    tie
        Whether the intervals cannot tell which fleet is better, this one or the first one: the price, or the number of
        accelerators, of one lies within the interval of the other.
    usd_per_hour, usd_per_month
        Price of all accelerators, and for a month of 730 hours; not known without a price.
    usd_per_million_tokens
        All that the fleet costs over the tokens that it generates, prompts and idle time included.
    usd_per_million_input_tokens, usd_per_million_cached_tokens, usd_per_million_output_tokens
        The same, split as in `Plan`, at the load of the fleet.
    watts
        Mean power of the fleet, with what the plan's ``power`` adds: its deployments run at their batch for the share
        of the time given by their load, and idle for the rest.
    joules_per_request, gco2_per_request
        That power divided by the requests that the fleet serves.
    electricity_usd_per_month
        For that power, if the plan's ``power`` has the price of a kWh; not part of the price of the fleet.
    replicas_at_floor, gpus_at_floor, usd_per_hour_at_floor
        The least that any software would need, in deployments with a layout of the plan (`roofline.capacity.floors`).
    """

    plan: Plan
    floor: Plan
    requests_per_s: float
    utilization: float
    assumptions: tuple[str, ...] = ()

    columns = (
        "accelerator",
        "precision",
        "engine",
        "basis",
        "layout",
        "batch",
        "replicas",
        "gpus",
        "gpus_low",
        "gpus_high",
        "tie",
        "usd_per_hour",
        "usd_per_month",
        "usd_per_million_tokens",
        "usd_per_million_input_tokens",
        "usd_per_million_cached_tokens",
        "usd_per_million_output_tokens",
        "watts",
        "joules_per_request",
        "gco2_per_request",
        "electricity_usd_per_month",
        *LATENCIES,
        "load",
        "queue",
        "replicas_at_floor",
        "gpus_at_floor",
        "usd_per_hour_at_floor",
    )
    printed = {  # noqa: RUF012
        "accelerator": "accelerator",
        "precision": "precision",
        "layout": "layout",
        "batch": "batch",
        "replicas": "replicas",
        "gpus": "GPUs",
        "basis": "basis",
        "usd_per_hour": "USD/h",
        "load": "load",
        "ttft_s": "TTFT",
        "tpot_s": "TPOT",
        "gpus_at_floor": "GPUs at floor",
        "usd_per_hour_at_floor": "USD/h at floor",
    }

    def __getattr__(self, name: str) -> Array:
        if name in OF_THE_PLAN:
            column: Array = getattr(self.plan, name)
            return column
        raise AttributeError(f"a fleet has no {name!r}")

    def summary(self) -> str:
        """The cheapest fleet, in a sentence."""
        return fleet_sentence(self)

    def _derivation(self) -> tuple[Step, ...]:
        """The derivation of the plan, then how many deployments the rate takes, and what they cost."""
        return (*self.plan.explain(), *fleet_steps(self, ROUNDING))

    @property
    def replicas(self) -> Array:
        """Deployments."""
        return np.asarray(self.plan.replicas)

    @property
    def gpus(self) -> Array:
        """Accelerators of all deployments."""
        return np.asarray(self.replicas * self.plan.gpus)

    @property
    def gpus_low(self) -> Array:
        """Accelerators if every pass took the lower end of its interval."""
        return self._gpus_at(self.plan.busy_low_s)

    @property
    def gpus_high(self) -> Array:
        """Accelerators if every pass took the upper end of its interval."""
        return self._gpus_at(self.plan.busy_high_s)

    def _gpus_at(self, busy_s: Array) -> Array:
        scaled = self.replicas * busy_s / self.plan.busy_s
        return np.asarray(np.maximum(whole_deployments(scaled), 1.0) * self.plan.gpus)

    @property
    def tie(self) -> Array:
        """Whether a fleet may well be as good as the first one."""
        priced = np.isfinite(self.usd_per_hour)
        each = np.where(priced, self.plan.usd_per_hour, np.where(priced.any(), np.nan, 1.0))
        cost, low, high = (each * gpus for gpus in (self.gpus, self.gpus_low, self.gpus_high))
        within = ((cost <= high[0]) & (cost >= low[0])) | ((low <= cost[0]) & (high >= cost[0]))
        within[:1] = False
        return np.asarray(within)

    @property
    def usd_per_hour(self) -> Array:
        """Price of all of them."""
        return np.asarray(self.gpus * self.plan.usd_per_hour)

    @property
    def usd_per_month(self) -> Array:
        """Price of all of them for a month."""
        return self.usd_per_hour * HOURS_PER_MONTH

    @property
    def usd_per_million_tokens(self) -> Array:
        """All that the fleet costs over the tokens that it generates, prompts and idle time included."""
        return self.usd_per_million_tokens_at(self.load)

    @property
    def load(self) -> Array:
        """Share of its throughput that the fleet is loaded with; at most the target, as deployments come whole."""
        return np.asarray(self.requests_per_s / self.capacity_requests_per_s)

    @property
    def capacity_requests_per_s(self) -> Array:
        """Requests that the fleet could finish per second if it were fully loaded."""
        return np.asarray(self.replicas / self.plan.busy_s)

    def usd_per_million_tokens_at(self, utilization: Number) -> Array:
        """`usd_per_million_tokens` at another share of the fleet's throughput: its cost stays, its tokens do not.

        Parameters
        ----------
        utilization : float or array
            Share of its throughput; broadcasts against the fleets.

        Returns
        -------
        array
            USD.
        """
        tokens_per_s = utilization * self.capacity_requests_per_s * self.plan.load.output_tokens
        return np.asarray(usd_per_million_tokens(self.usd_per_hour, tokens_per_s))

    @property
    def usd_per_million_input_tokens(self) -> Array:
        """The plan's price at the load of the fleet."""
        return np.asarray(self.plan.usd_per_million_input_tokens / self.load)

    @property
    def usd_per_million_cached_tokens(self) -> Array:
        """The plan's price at the load of the fleet."""
        return np.asarray(self.plan.usd_per_million_cached_tokens / self.load)

    @property
    def usd_per_million_output_tokens(self) -> Array:
        """The plan's price at the load of the fleet."""
        return np.asarray(self.plan.usd_per_million_output_tokens / self.load)

    @property
    def watts(self) -> Array:
        """Mean power of the fleet, W: deployments at their batch while they are loaded, idle for the rest."""
        idle = self.plan.gpus * self.plan.power.at_the_meter(self.plan.idle_watts)
        loaded = self.load * self.plan.watts
        waiting = np.where(self.load < 1 - ROUNDING, (1 - self.load) * idle, 0.0)
        return np.asarray(self.replicas * (loaded + waiting))

    @property
    def joules_per_request(self) -> Array:
        """Energy of the fleet over the requests that it serves."""
        return np.asarray(self.watts / self.requests_per_s)

    @property
    def gco2_per_request(self) -> Array:
        """Grams of CO2 that the electricity of a request causes; NaN if the power does not say what a kWh does."""
        each = self.plan.power.gco2_per_kwh
        return np.asarray(self.joules_per_request / JOULES_OF_A_KWH * (np.nan if each is None else each))

    @property
    def electricity_usd_per_month(self) -> Array:
        """Price of its electricity; NaN if the power does not say what a kWh costs."""
        each = self.plan.power.usd_per_kwh
        kwh = self.watts * HOURS_PER_MONTH / WATTS_OF_A_KILOWATT
        return np.asarray(kwh * (np.nan if each is None else each))

    def break_even(self, api_in: float, api_cached: float | None = None, api_out: float = 0.0) -> Array:
        """Requests per second at which the fleet costs what an API asks for the same requests.

        The fleet costs the same at any load, the API by the token: with ``b`` the bill of a request,
        ``requests_per_s = usd_per_hour / 3600 / b``.

        Parameters
        ----------
        api_in, api_out : float
            USD per million input and output tokens.
        api_cached : float, optional
            USD per million input tokens that are found in the cache; that of other input tokens if not given.

        Returns
        -------
        array
            One rate for each fleet; infinite where it is more than the fleet can serve, NaN without a price.

        Raises
        ------
        InvalidInput
            A price that is not a finite number >= 0, or a request that costs nothing.

        Examples
        --------
        >>> import roofline as rl
        >>> found = rl.plan("llama-3.1-8b", "h100-sxm", rl.Workload(1500, 300), prices={"h100-sxm": 2.5})
        >>> need = rl.fleet(found, requests_per_s=10)
        >>> round(float(need.break_even(api_in=0.2, api_out=0.2)[0] * 1800 * 0.2e-6 * 3600 / need.gpus[0]), 3)
        2.5
        """
        cached = api_in if api_cached is None else api_cached
        for name, usd in (("api_in", api_in), ("api_cached", cached), ("api_out", api_out)):
            number(name, usd)
        request, found = self.plan.load, self.plan.computed.cached_tokens
        bill = (request.context_tokens - found) * api_in + found * cached + request.output_tokens * api_out
        if not bill > 0:
            raise InvalidInput(f"a request must cost something at the API: {api_in!r} in and {api_out!r} out are free")
        rate = self.usd_per_hour / 3600 / (bill * 1e-6)
        return np.where(rate > self.capacity_requests_per_s * (1 + ROUNDING), np.inf, rate)

    @property
    def replicas_at_floor(self) -> Array:
        """The same at the floor, fully loaded."""
        return whole_deployments(self.floor.busy_at_floor_s * self.requests_per_s)

    @property
    def gpus_at_floor(self) -> Array:
        """Accelerators at the floor."""
        return np.asarray(self.replicas_at_floor * self.floor.gpus)

    @property
    def usd_per_hour_at_floor(self) -> Array:
        """Price at the floor."""
        return np.asarray(self.gpus_at_floor * self.floor.usd_per_hour)


OF_THE_PLAN = (
    "accelerator",
    "precision",
    "engine",
    "basis",
    "layout",
    "batch",
    *LATENCIES,
    "queue",
)
"""Columns of a fleet that its plan has."""


def fleet(
    plan: Plan,
    *,
    requests_per_s: float | None = None,
    utilization: float | None = None,
    burstiness: float = 1.0,
    method: str | None = None,
) -> Fleet:
    """Size a fleet for ``requests_per_s`` for every accelerator and precision of ``plan``.

    Every deployment gets an equal share of the requests, which queue there; the fleet is the smallest that meets the
    SLO (`roofline.capacity.sizing`). Of all candidates it uses the one with the lowest price, with the fewest
    accelerators if no price is given, or with the least energy per request if the plan ranks by energy. Techniques,
    formats, engine and power are those of the plan.

    Parameters
    ----------
    plan : Plan
        The candidates; at the rate asked for, if one is given.
    requests_per_s : float, optional
        Mean rate of arrivals; that of the plan if not given.
    utilization : float, optional
        Share of its throughput up to which a deployment may be loaded (0-1]; below 1 leaves headroom for bursts. If not
        given, 0.7 without a latency target, and with one as much as the queue allows.
    burstiness : float
        Squared coefficient of variation of the gaps between arrivals: 1 is Poisson. A trace has its own.
    method : str, optional
        How queues are computed: ``closed-form``, or ``simulation`` of those that may win, which is the default.

    Returns
    -------
    Fleet
        One row for each accelerator and precision, the cheapest first; accelerators without timings of their own come
        last, unless the plan has ``allow_uncalibrated``.

    Raises
    ------
    InvalidInput
        A rate that is not above 0 or not that of the plan, a utilization outside (0, 1], or a plan in which no
        candidate meets the SLO.
    UnknownName
        ``method`` is neither of the two.

    Examples
    --------
    >>> import roofline as rl
    >>> found = rl.plan("llama-3.1-8b", ["h100-sxm"], rl.Workload(1500, 300), slo=rl.SLO(tpot_s=0.03))
    >>> need = rl.fleet(found, requests_per_s=100)
    >>> bool(need.gpus[0] >= need.gpus_at_floor[0] > 0)
    True
    """
    if plan.stream is None:
        stream = arrivals_of(plan.lengths or plan.load, requests_per_s, burstiness=burstiness)
        if stream is None:
            raise InvalidInput("a fleet needs requests_per_s: the plan has no rate")
        _require_feasible(plan, plan.table.failure)
        plan = with_arrivals(plan, stream, utilization=utilization, method=method)
    elif requests_per_s not in (None, plan.stream.requests_per_s):
        raise InvalidInput(f"the plan is for {plan.stream.requests_per_s:g} requests/s: {requests_per_s!r}")
    assert plan.stream is not None
    _require_feasible(plan, plan.table.failure)
    rate = plan.stream.requests_per_s
    best = plan.take(plan.feasible).by_accelerator
    ideal = _fewest_at_floor(plan, rate)
    keys = _keys(plan)
    floors = plan.take(ideal[np.searchsorted(keys[ideal], _keys(best))])
    found = Fleet(best, floors, rate, plan.most_load, plan.assumptions)
    by = found.watts if plan.rank == "energy" else found.usd_per_hour
    guessed = ~best.calibrated & (not plan.allow_uncalibrated)
    order = np.lexsort((found.gpus, np.where(np.isfinite(by), by, np.inf), guessed))
    return Fleet(best.take(order), floors.take(order), rate, plan.most_load, plan.assumptions)


def _require_feasible(plan: Plan, failure: Array) -> None:
    """Refuse a plan that leaves nothing to make a fleet of."""
    sized = plan.stream is not None
    possible = (failure == "") if sized or not plan.slo.latencies else ~np.isin(failure, (WEIGHTS, MEMORY))
    if not possible.any():
        raise InvalidInput(f"no candidate meets the SLO; the closest: {plan.reason[0]}")


def _fewest_at_floor(plan: Plan, rate: float) -> Array:
    """Places of the row with the fewest accelerators at the floor, for every accelerator and precision."""
    places = np.flatnonzero(plan.feasible_at_floor)
    gpus = (whole_deployments(plan.busy_at_floor_s * rate) * plan.gpus)[places]
    order = places[np.lexsort((plan.gpus[places], gpus))]
    _, first = np.unique(_keys(plan)[order], return_index=True)
    return np.asarray(order[first])


def _keys(plan: Plan) -> Array:
    return np.char.add(np.char.add(plan.accelerator, "/"), plan.precision)
