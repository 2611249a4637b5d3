"""Fleets: how many deployments of a plan a request rate needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InvalidInput, Number, number, of_kind
from ..report import Rows, Step
from ..specs.electricity import JOULES_OF_A_KWH, WATTS_OF_A_KILOWATT
from ..specs.prices import usd_per_million_tokens
from .candidates import LATENCIES, MEMORY, WEIGHTS, Array
from .fleet_demand import arrivals_of, with_arrivals
from .plan_sentences import HOURS_PER_MONTH, fleet_sentence
from .plan_steps import fleet_steps
from .plans import Plan
from .sizing import ROUNDING, whole_deployments


@dataclass(frozen=True, eq=False, repr=False)
class Fleet(Rows):
    """The cheapest fleet of each accelerator and precision of a plan for a request rate, cheapest first.

    If the plan ranks by energy, the fleets with the least power, lowest power first.

    Attributes
    ----------
    plan : Plan
        One row per fleet: the candidate that is replicated.
    floor : Plan
        One row per fleet: the candidate that would need the fewest accelerators with perfect software.
    requests_per_s : float
        Rate of arrivals.
    utilization : float
        Maximum load of a deployment as a share of its throughput; `load` is the actual load.
    assumptions : tuple of str
        Assumptions behind the values.

    Columns
    -------
    engine, basis, queue
        As in `Plan`.
    load
        Load of the fleet as a share of its throughput.
    ttft_s, tpot_s
        The SLO's statistic over requests, including queueing, with the ends of their intervals.
    replicas, gpus
        Number of deployments, and of accelerators in all of them.
    gpus_low, gpus_high
        Accelerators if every pass took the lower or upper end of its interval.
    tie
        Whether this fleet may be as good as the first one: the price, or number of accelerators, of one lies within the
        interval of the other.
    usd_per_hour, usd_per_month
        Price of all accelerators per hour, and per month of 730 hours; unknown without a price.
    usd_per_million_tokens
        Cost of the fleet per generated token, including prompts and idle time.
    usd_per_million_input_tokens, usd_per_million_cached_tokens, usd_per_million_output_tokens
        Cost split as in `Plan`, at the load of the fleet.
    watts
        Mean power of the fleet, including host and losses of the plan's ``power``. Deployments run at their batch for a
        share of time equal to their load, and are idle otherwise.
    joules_per_request, gco2_per_request
        Energy and emissions per request, from that power.
    electricity_usd_per_month
        Price of that power, if the plan's ``power`` has a price per kWh; not part of the price of the fleet.
    replicas_at_floor, gpus_at_floor, usd_per_hour_at_floor
        Minimum for any software, with layouts of the plan (`roofline.capacity.floors`).
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
        "batch": "max batch",
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
        """One sentence on the cheapest fleet."""
        return fleet_sentence(self)

    def _derivation(self) -> tuple[Step, ...]:
        """Derivation of the plan, then of the number of deployments and their cost."""
        return (*self.plan.explain(), *fleet_steps(self, ROUNDING))

    @property
    def replicas(self) -> Array:
        """Number of deployments."""
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
        """Whether a fleet may be as good as the first one."""
        priced = np.isfinite(self.usd_per_hour)
        each = np.where(priced, self.plan.usd_per_hour, np.where(priced.any(), np.nan, 1.0))
        cost, low, high = (each * gpus for gpus in (self.gpus, self.gpus_low, self.gpus_high))
        within = ((cost <= high[0]) & (cost >= low[0])) | ((low <= cost[0]) & (high >= cost[0]))
        within[:1] = False
        return np.asarray(within)

    @property
    def usd_per_hour(self) -> Array:
        """Price of all accelerators per hour."""
        return np.asarray(self.gpus * self.plan.usd_per_hour)

    @property
    def usd_per_month(self) -> Array:
        """Price of all accelerators per month of 730 hours."""
        return self.usd_per_hour * HOURS_PER_MONTH

    @property
    def usd_per_million_tokens(self) -> Array:
        """Cost of the fleet per million generated tokens, including prompts and idle time."""
        return self.usd_per_million_tokens_at(self.load)

    @property
    def load(self) -> Array:
        """Load of the fleet as a share of its throughput; at most the target utilization."""
        return np.asarray(self.requests_per_s / self.capacity_requests_per_s)

    @property
    def capacity_requests_per_s(self) -> Array:
        """Requests per second that the fleet could finish if fully loaded."""
        return np.asarray(self.replicas / self.plan.busy_s)

    def usd_per_million_tokens_at(self, utilization: Number) -> Array:
        """`usd_per_million_tokens` at another utilization, with the same fleet and cost.

        Parameters
        ----------
        utilization : float or array
            Share of the fleet's throughput; broadcasts against the fleets.

        Returns
        -------
        array
            USD per million tokens.
        """
        tokens_per_s = utilization * self.capacity_requests_per_s * self.plan.load.output_tokens
        return np.asarray(usd_per_million_tokens(self.usd_per_hour, tokens_per_s))

    @property
    def usd_per_million_input_tokens(self) -> Array:
        """Price per million computed prompt tokens at the load of the fleet."""
        return np.asarray(self.plan.usd_per_million_input_tokens / self.load)

    @property
    def usd_per_million_cached_tokens(self) -> Array:
        """Price per million cached prompt tokens at the load of the fleet."""
        return np.asarray(self.plan.usd_per_million_cached_tokens / self.load)

    @property
    def usd_per_million_output_tokens(self) -> Array:
        """Price per million output tokens at the load of the fleet."""
        return np.asarray(self.plan.usd_per_million_output_tokens / self.load)

    @property
    def watts(self) -> Array:
        """Mean power of the fleet in watts; deployments are idle for the rest of their load."""
        idle = self.plan.gpus * self.plan.power.at_the_meter(self.plan.idle_watts)
        loaded = self.load * self.plan.watts
        waiting = np.where(self.load < 1 - ROUNDING, (1 - self.load) * idle, 0.0)
        return np.asarray(self.replicas * (loaded + waiting))

    @property
    def joules_per_request(self) -> Array:
        """Energy of the fleet per request."""
        return np.asarray(self.watts / self.requests_per_s)

    @property
    def gco2_per_request(self) -> Array:
        """Grams of CO2 per request; NaN if ``power`` has no carbon intensity."""
        each = np.array(self.plan.power.gco2_per_kwh, dtype=float)  # None becomes NaN
        return np.asarray(self.joules_per_request / JOULES_OF_A_KWH * each)

    @property
    def electricity_usd_per_month(self) -> Array:
        """Price of electricity per month; NaN if ``power`` has no price per kWh."""
        each = np.array(self.plan.power.usd_per_kwh, dtype=float)  # None becomes NaN
        return np.asarray(self.watts * HOURS_PER_MONTH / WATTS_OF_A_KILOWATT * each)

    def break_even(self, api_in: float, api_cached: float | None = None, api_out: float = 0.0) -> Array:
        """Request rate at which the fleet costs as much as an API for the same requests.

        The cost of the fleet does not depend on load, that of the API is per token. With ``b`` the API's price of a
        request, ``requests_per_s = usd_per_hour / 3600 / b``.

        Parameters
        ----------
        api_in, api_out : float
            USD per million input and output tokens.
        api_cached : float, optional
            USD per million cached input tokens; None uses the price of other input tokens.

        Returns
        -------
        array
            One rate per fleet; infinite if it exceeds the fleet's capacity, NaN without a price.

        Raises
        ------
        InvalidInput
            A price is not a finite number >= 0, or a request would cost nothing.

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
        """Number of deployments at the floor, fully loaded."""
        return whole_deployments(self.floor.busy_at_floor_s * self.requests_per_s)

    @property
    def gpus_at_floor(self) -> Array:
        """Number of accelerators at the floor."""
        return np.asarray(self.replicas_at_floor * self.floor.gpus)

    @property
    def usd_per_hour_at_floor(self) -> Array:
        """Price per hour at the floor."""
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
"""Columns that a fleet shares with its plan."""


def fleet(
    plan: Plan,
    *,
    requests_per_s: float | None = None,
    utilization: float | None = None,
    burstiness: float = 1.0,
    method: str | None = None,
) -> Fleet:
    """Size a fleet for ``requests_per_s`` for every accelerator and precision of ``plan``.

    Requests are shared equally between the deployments and queue there. The fleet is the smallest that meets the SLO
    (`roofline.capacity.sizing`). Among all candidates, the one with the lowest price is used; without prices, the one
    with the fewest accelerators; if the plan ranks by energy, the one with the least energy per request. Techniques,
    formats, engine and power are those of the plan.

    Parameters
    ----------
    plan : Plan
        Plan with the candidates, for the same rate if it has one.
    requests_per_s : float, optional
        Mean rate of arrivals; None uses that of the plan.
    utilization : float, optional
        Target utilization (0-1]; below 1 leaves headroom for bursts. None means 0.7 without a latency target, and as
        much as the queue allows with one.
    burstiness : float
        Squared coefficient of variation of the gaps between arrivals: 1 is Poisson. A trace has its own.
    method : str, optional
        How queues are computed: ``closed-form``, or ``simulation`` (default) of the best candidates.

    Returns
    -------
    Fleet
        One row per accelerator and precision, cheapest first; accelerators without timings of their own come last,
        unless the plan has ``allow_uncalibrated``.

    Raises
    ------
    InvalidInput
        The rate is not positive or differs from the plan's, the utilization is outside (0, 1], or no candidate of the
        plan meets the SLO.
    UnknownName
        ``method`` is unknown.

    Examples
    --------
    >>> import roofline as rl
    >>> found = rl.plan("llama-3.1-8b", ["h100-sxm"], rl.Workload(1500, 300), slo=rl.SLO(tpot_s=0.03))
    >>> need = rl.fleet(found, requests_per_s=100)
    >>> bool(need.gpus[0] >= need.gpus_at_floor[0] > 0)
    True
    """
    of_kind("plan", plan, Plan, "plan(model, hardware, load)")
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
    """Raise an error if no candidate of the plan meets the SLO."""
    sized = plan.stream is not None
    possible = (failure == "") if sized or not plan.slo.latencies else ~np.isin(failure, (WEIGHTS, MEMORY))
    if not possible.any():
        raise InvalidInput(f"no candidate meets the SLO; the closest: {plan.reason[0]}")


def _fewest_at_floor(plan: Plan, rate: float) -> Array:
    """Index of the row with the fewest accelerators at the floor, for each accelerator and precision."""
    places = np.flatnonzero(plan.feasible_at_floor)
    gpus = (whole_deployments(plan.busy_at_floor_s * rate) * plan.gpus)[places]
    order = places[np.lexsort((plan.gpus[places], gpus))]
    _, first = np.unique(_keys(plan)[order], return_index=True)
    return np.asarray(order[first])


def _keys(plan: Plan) -> Array:
    return np.char.add(np.char.add(plan.accelerator, "/"), plan.precision)
