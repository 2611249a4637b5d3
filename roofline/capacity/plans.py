"""Plans: ranked candidates, as a table and as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..model import Model
from ..operators.parallel import Parallel
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..report import Rows, Step
from ..serving.methods import SIMULATION
from ..serving.metrics import METRICS
from ..serving.scenario import Scenario
from ..serving.slo import SLO
from ..serving.steady_state import Steady, steady_state
from ..serving.trace import Trace
from ..serving.traffic import Traffic
from ..specs.electricity import BOARDS_ALONE, JOULES_OF_A_KWH, Power
from ..techniques.technique import Technique, scenario_with
from ..units import humanize
from .basis import CALIBRATED
from .candidates import LATENCIES, MEMORY, WEIGHTS, Array, Candidates, cost_of_one
from .plan_sentences import plan_sentence, why_it_does_not_fit
from .plan_steps import plan_steps
from .queues import Stream


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Rows):
    """Ranked candidates: those that meet the SLO by cost or energy, then the rejected ones.

    Cost is per request, in USD if a price is given and in accelerator-seconds otherwise. Candidates without a price, or
    without a known power, come after those with one.

    Attributes
    ----------
    model, load, slo : Model, Workload, SLO
        The model, the requests, and the targets.
    time : str
        Which of the three times is used for TTFT, TPOT and throughput.
    table : Candidates
        The candidates.
    cases : mapping of (str, str) to Deployment
        (Accelerator, precision) -> deployment with an array of layouts.
    techniques : tuple of Technique
        Techniques used by all candidates.
    power : Power
        Host, losses and electricity, as far as given.
    rank : str
        Ranking of candidates that meet the SLO: ``cost`` or ``energy``.
    allow_uncalibrated : bool
        Whether accelerators without timings of their own are ranked together with those that have some.
    lengths : Traffic or Trace, optional
        Requests whose mean lengths are in ``load``.
    stream : Stream, optional
        Arriving requests, if a rate was given.
    most_load : float
        Maximum load of a deployment as a share of its throughput.
    assumptions : tuple of str
        Assumptions behind the values.

    Columns
    -------
    engine, basis
        Engine whose kernels and settings the estimates describe (``any``: the median of all), and their
        basis: ``calibrated`` (timings of this accelerator), ``borrowed`` (timings of another accelerator of its family,
        another format or engine) or ``typical`` (published shares of peak).
    gpus, layout, batch
        Accelerators of one deployment, its layout, and requests in the system.
    ttft_s, tpot_s
        Times of a request in steady state with ``batch`` requests in the system. If a rate was given, the SLO's
        statistic over requests including queueing, with at most ``batch`` running at once.
    ttft_low_s, ttft_high_s, tpot_low_s, tpot_high_s
        Ends of their 80 % intervals; equal to the times themselves for a floor or roofline.
    tokens_per_s_per_user, tokens_per_s_per_gpu
        1 / TPOT; output tokens of all requests per accelerator.
    usd_per_request
        Price of a request: its time on all accelerators of the deployment.
    usd_per_million_input_tokens, usd_per_million_cached_tokens, usd_per_million_output_tokens
        Price split by where the time goes: computing prompt tokens (which includes the first output token), attention
        to cached tokens, and decode steps for tokens after the first. Not available at the floor, where everything
        overlaps.
    watts
        Mean power of one deployment at its full batch, including host and losses of ``power``.
    joules_per_million_input_tokens, joules_per_output_token
        Energy of a request, split in the same way; cached tokens count with the prompt.
    joules_per_request, tokens_per_joule
        Total energy of a request; output tokens divided by total energy, including prompts.
    gco2_per_request, electricity_usd_per_request
        Emissions and electricity of a request, if ``power`` has the carbon intensity and price per kWh. Electricity is
        not part of the price of a request.
    headroom
        Unused share of the tightest target.
    limit
        What limits the decode step.
    bound_by
        What the next larger batch would violate: a target or memory.
    replicas, utilization
        Number of deployments for the rate, and the load of each as a share of its throughput; unknown without a rate.
    queue
        How the queue was computed: ``closed-form`` or ``simulation``; empty without a rate.
    tie
        Whether this candidate may be as good as the first one (see `tie`).
    reason
        Why a candidate is rejected; empty if it is not.
    """

    model: Model
    load: Workload
    slo: SLO
    time: str
    table: Candidates
    cases: Mapping[tuple[str, str], Deployment]
    techniques: tuple[Technique, ...] = ()
    power: Power = BOARDS_ALONE
    rank: str = "cost"
    allow_uncalibrated: bool = False
    lengths: Traffic | Trace | None = None
    stream: Stream | None = None
    most_load: float = 1.0
    assumptions: tuple[str, ...] = ()

    columns = (
        "accelerator",
        "precision",
        "engine",
        "basis",
        "gpus",
        "layout",
        "batch",
        *LATENCIES,
        "tokens_per_s_per_user",
        "tokens_per_s_per_gpu",
        "requests_per_s",
        "usd_per_million_input_tokens",
        "usd_per_million_cached_tokens",
        "usd_per_million_output_tokens",
        "usd_per_request",
        "watts",
        "joules_per_million_input_tokens",
        "joules_per_output_token",
        "joules_per_request",
        "tokens_per_joule",
        "gco2_per_request",
        "electricity_usd_per_request",
        "headroom",
        "limit",
        "bound_by",
        "replicas",
        "utilization",
        "queue",
        "tie",
        "feasible",
        "reason",
    )
    printed = {  # noqa: RUF012
        "accelerator": "accelerator",
        "precision": "precision",
        "gpus": "GPUs",
        "layout": "layout",
        "batch": "batch",
        "ttft_s": "TTFT",
        "tpot_s": "TPOT",
        "tokens_per_s_per_gpu": "tok/s/GPU",
        "usd_per_request": "USD/request",
        "headroom": "headroom",
        "limit": "limit",
        "bound_by": "bound by",
        "reason": "reason",
    }

    def __getattr__(self, name: str) -> Array:
        if name in Candidates.__dataclass_fields__:
            column: Array = getattr(self.table, name)
            return column
        raise AttributeError(f"a plan has no {name!r}")

    @property
    def feasible(self) -> Array:
        """Whether a candidate fits and meets every target."""
        return np.equal(self.table.failure, "")

    @property
    def feasible_at_floor(self) -> Array:
        """Whether a candidate could meet every target at the floor; False means that no software can."""
        return np.isfinite(self.table.busy_at_floor_s)

    @property
    def calibrated(self) -> Array:
        """Whether the estimates are based on timings of the accelerator itself."""
        return np.equal(self.table.basis, CALIBRATED)

    @property
    def tie(self) -> Array:
        """Whether a candidate that meets the SLO may be as good as the first one.

        This is so if the cost of one lies within the interval of the other.  Candidates with the first one's
        accelerator and precision do not count as ties, because they mostly share its errors.
        """
        if not len(self) or not self.feasible[0]:
            return np.zeros(len(self), bool)
        table, cost = self.table, self.cost
        low, high = cost * table.busy_low_s / table.busy_s, cost * table.busy_high_s / table.busy_s
        within = ((cost <= high[0]) & (cost >= low[0])) | ((low <= cost[0]) & (high >= cost[0]))
        other = (table.accelerator != table.accelerator[0]) | (table.precision != table.precision[0])
        return np.asarray(within & other & self.feasible)

    @property
    def requests_per_s(self) -> Array:
        """Requests per second of one deployment."""
        return 1 / self.table.busy_s

    @property
    def utilization(self) -> Array:
        """Load of a deployment at the rate, as a share of its throughput; NaN without a rate."""
        if self.stream is None:
            return np.full(len(self), np.nan)
        return np.asarray(self.stream.requests_per_s / self.table.replicas * self.table.busy_s)

    @property
    def fleet_cost(self) -> Array:
        """Price of all deployments per hour, or their accelerators without a price; NaN without a rate."""
        return np.asarray(self.table.replicas * cost_of_one(self.table))

    @property
    def tokens_per_s_per_user(self) -> Array:
        """Tokens per second of each sequence."""
        return 1 / np.where(self.table.tpot_s > 0, self.table.tpot_s, np.nan)

    @property
    def tokens_per_s_per_gpu(self) -> Array:
        """Output tokens per second and accelerator."""
        return np.asarray(self.load.output_tokens / self.table.busy_s / self.table.gpus)

    @property
    def usd_per_request(self) -> Array:
        """Price of a request: its time on all accelerators of the deployment."""
        return self._usd_per_s * self.table.busy_s

    @cached_property
    def computed(self) -> Workload:
        """The computed part of a request: prompts without tokens that techniques find in the cache or compress."""
        any_of_them = next(iter(self.cases.values()))  # a plan without rows still has its cases
        return scenario_with(any_of_them, replace(self.load, batch=1), self.techniques).running

    @property
    def _cached_share(self) -> Array:
        """Share of prompt time that is due to cached tokens."""
        return np.nan_to_num(self.table.cached_share)

    @property
    def usd_per_million_input_tokens(self) -> Array:
        """Price per million computed prompt tokens."""
        prompts_usd = self.table.prefill_share * (1 - self._cached_share) * self.usd_per_request
        return np.asarray(1e6 * prompts_usd / self.computed.prompt_tokens)

    @property
    def usd_per_million_cached_tokens(self) -> Array:
        """Price per million cached prompt tokens; NaN if there are none."""
        found_usd = self.table.prefill_share * self.table.cached_share * self.usd_per_request
        return np.asarray(1e6 * found_usd / np.maximum(self.computed.cached_tokens, 1.0))

    @property
    def usd_per_million_output_tokens(self) -> Array:
        """Price per million tokens of decode steps, that is all but the first token of each request."""
        steps_usd = (1 - self.table.prefill_share) * self.usd_per_request
        return np.asarray(1e6 * steps_usd / self._tokens_after_first)

    @property
    def _tokens_after_first(self) -> float:
        """Tokens per request from decode steps; NaN if there are none."""
        tokens = float(self.load.output_tokens) - 1.0
        return tokens if tokens > 0 else np.nan

    @property
    def _usd_per_s(self) -> Array:
        return self.table.usd_per_hour * self.table.gpus / 3600

    @property
    def watts(self) -> Array:
        """Mean power of one deployment at its full batch, including host and losses."""
        return np.asarray(self.table.gpus * self.power.at_the_meter(self.table.watts / self.table.gpus))

    @property
    def joules_per_request(self) -> Array:
        """Energy per request: the power of the deployment times its time per request."""
        return np.asarray(self.watts * self.table.busy_s)

    @property
    def joules_per_million_input_tokens(self) -> Array:
        """Energy per million prompt tokens, including cached ones."""
        tokens = self.computed.context_tokens
        return np.asarray(1e6 * self.table.prompt_energy_share * self.joules_per_request / tokens)

    @property
    def joules_per_output_token(self) -> Array:
        """Energy per token of decode steps, that is all but the first token of each request."""
        steps_j = (1 - self.table.prompt_energy_share) * self.joules_per_request
        return np.asarray(steps_j / self._tokens_after_first)

    @property
    def tokens_per_joule(self) -> Array:
        """Output tokens divided by total energy, including prompts."""
        return np.asarray(self.load.output_tokens / self.joules_per_request)

    @property
    def gco2_per_request(self) -> Array:
        """Grams of CO2 per request; NaN if ``power`` has no carbon intensity."""
        return self._of_kwh(self.power.gco2_per_kwh)

    @property
    def electricity_usd_per_request(self) -> Array:
        """Price of electricity per request; NaN if ``power`` has no price per kWh."""
        return self._of_kwh(self.power.usd_per_kwh)

    def _of_kwh(self, each: float | None) -> Array:
        return np.asarray(self.joules_per_request / JOULES_OF_A_KWH * np.array(each, dtype=float))  # None becomes NaN

    @property
    def bound_by(self) -> Array:
        """What prevents a larger batch."""
        kinds, places = np.unique(self.table.next_failure, return_inverse=True)
        words = np.array([METRICS[kind].short if kind in METRICS else kind for kind in kinds])
        return np.asarray(words[places])

    @cached_property
    def reason(self) -> Array:
        """Why a candidate is rejected, in one sentence; empty if it is not."""
        table, targets = self.table, dict(self.slo.targets())
        values = {name: self._metric(name) for name in targets}
        reasons = np.full(len(table.failure), "", dtype=object)
        for row in np.flatnonzero(table.failure != ""):
            kind = str(table.failure[row])
            if kind in (WEIGHTS, MEMORY):
                sizes = (table.weights_bytes[row], table.available_bytes[row], table.max_batch[row])
                reasons[row] = why_it_does_not_fit(*sizes)
            else:
                value, target = humanize(kind, values[kind][row]), humanize(kind, targets[kind])
                reasons[row] = f"{METRICS[kind].short} {value}, target {target}"
        return reasons

    def _metric(self, name: str) -> Array:
        """A metric of the SLO, for every row."""
        table = self.table
        if name == "tokens_per_s":
            return np.asarray(self.load.output_tokens / table.busy_s)
        return np.asarray(getattr(table, name))

    @property
    def cost(self) -> Array:
        """Ranking criterion: joules or USD per request, or accelerator-seconds without a price.

        With a rate, it is the price of the fleet, or its number of accelerators.
        """
        if self.rank == "energy":
            return self.joules_per_request
        if self.stream is not None:
            return self.fleet_cost
        priced = np.isfinite(self.table.usd_per_hour)
        return np.where(priced, self.usd_per_request, self.table.gpus * self.table.busy_s)

    def take(self, rows: Any) -> Plan:
        """The plan with selected rows only, by a mask or by indices in order."""
        places = np.asarray(rows)
        return replace(self, table=self.table.take(np.flatnonzero(places) if places.dtype == bool else places))

    def ranked(self) -> Plan:
        """The plan in order: those that meet the SLO by cost, those that miss a target by how much, then the rest.

        Among those that meet it, candidates with a price come before those without, calibrated ones before others
        (unless allowed among them), and candidates confirmed by simulation before those that were not simulated.
        Candidates of equal cost are ranked by headroom; at a rate, by end-to-end latency, since a small limit on the
        batch leaves headroom in TPOT at the price of a long queue.
        """
        table, feasible = self.table, self.feasible
        headroom = np.nan_to_num(table.headroom)
        worse = np.select([feasible, table.failure == MEMORY, table.failure == WEIGHTS], [0, 2, 3], 1)
        known = table.watts if self.rank == "energy" else table.usd_per_hour
        unpriced = ~np.isfinite(known) & np.isfinite(known).any()
        cost = np.where(feasible, self.cost, -headroom)
        guessed = ~self.calibrated & (not self.allow_uncalibrated)
        keys = np.char.add(np.char.add(table.accelerator, "/"), table.precision)
        simulated = feasible & (table.queue == SIMULATION)
        behind = np.isin(keys, keys[simulated]) & ~simulated
        equals = -headroom if self.stream is None else np.where(feasible, table.total_s, -headroom)
        order = (equals, table.gpus, cost, behind & feasible, guessed & feasible, unpriced & feasible, worse)
        return self.take(np.lexsort(order))

    @property
    def best(self) -> Plan:
        """A plan with the first row if it meets the SLO, otherwise without rows."""
        return self.take(np.flatnonzero(self.feasible)[:1])

    @property
    def by_accelerator(self) -> Plan:
        """The best row of every accelerator and precision."""
        keys = np.char.add(np.char.add(self.table.accelerator, "/"), self.table.precision)
        _, first = np.unique(keys, return_index=True)
        return self.take(np.sort(first))

    @property
    def frontier(self) -> Plan:
        """Pareto frontier of the candidates that fit, in tokens/s per user and tokens/s per accelerator.

        Rows are sorted by falling tokens/s per user. The SLO does not matter.
        """
        fits = np.flatnonzero((self.table.failure != WEIGHTS) & (self.table.failure != MEMORY))
        order = fits[np.lexsort((-self.tokens_per_s_per_gpu[fits], -self.tokens_per_s_per_user[fits]))]
        gained = np.maximum.accumulate(np.concatenate([[0.0], self.tokens_per_s_per_gpu[order]]))
        return self.take(order[gained[1:] > gained[:-1]])

    def summary(self) -> str:
        """One sentence on the cheapest deployment that meets the SLO, or why none does."""
        return plan_sentence(self)

    def _derivation(self) -> tuple[Step, ...]:
        """Derivation of the first row's steady state, then of the columns of all rows."""
        first = self.steady_state().explain() if len(self) else ()
        return (*first, *plan_steps(self))

    def deployment(self, row: int = 0) -> Deployment:
        """The deployment of a row, for use with `prefill`, `decode` and `memory`."""
        table = self.table
        degrees = (int(column[row]) for column in (table.tensor, table.pipeline, table.expert, table.data))
        case = self.cases[str(table.accelerator[row]), str(table.precision[row])]
        return case.replace(parallel=Parallel(*degrees))

    def workload(self, row: int = 0) -> Workload:
        """The workload of a row, with its batch."""
        return replace(self.load, batch=int(self.table.batch[row]))

    @property
    def longest_tokens(self) -> int:
        """Prompt and output tokens of the longest request, which a server has to accept."""
        longest = None if self.lengths is None else self.lengths.longest_tokens
        return int(longest or self.load.sequence_tokens)

    def scenario(self, row: int = 0) -> Scenario:
        """The scenario of a row: its deployment, its workload and the techniques of the plan."""
        return scenario_with(self.deployment(row), self.workload(row), self.techniques)

    def steady_state(self, row: int = 0) -> Steady:
        """Steady state of requests for a row."""
        return steady_state(self.scenario(row), time=self.time)
