"""Queues: the request rate that a candidate sustains within its SLO, in closed form and by simulation.

Requests arrive at random, at a rate that the deployments of a fleet share.  A candidate runs at most ``batch`` of them
at once; the others wait.  The closed form ranks thousands of candidates.  A simulation of every scheduler step
(`roofline.serving.simulation`) then decides between the best few.

The closed form takes the throughput ``X(n)`` and the times of a request with ``n`` of them in the system from the
steady state.  At a rate ``r`` there are ``N`` with ``X(N) = r`` (flow balance).  Their number has a standard deviation
of about ``sqrt(N (c_a^2 + 1) / 2)``, as in an infinite-server queue, where ``c_a^2`` is the squared coefficient of
variation of the gaps between arrivals.  A share ``q`` of the requests therefore finds at most ``N + z_q sqrt(...)``
others.  There are two further queues, for slots and for the prefill pass.  The wait in each is approximately
exponential, with the mean of Allen and Cunneen's formula

    (c_a^2 + c_s^2) / 2 / (mu - r),

where ``mu`` is the service rate and ``c_s^2`` the squared coefficient of variation of the work per request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import bisect
from ..errors import InvalidInput
from ..model.rewriting import steps_apart
from ..phases.workload import Workload
from ..serving.arrivals import Demand, demand
from ..serving.cache_pool import cache_pool
from ..serving.lane import Lane
from ..serving.lengths import Lengths
from ..serving.outcome import Simulation, interval
from ..serving.scenario import Scenario
from ..serving.simulation import run
from ..serving.slo import HIGH_END, SLO
from ..serving.step_times import StepTimes, step_times
from ..serving.trace import Trace, without_times
from ..serving.traffic import Traffic
from ..values import Value
from .candidates import Candidates

Array = npt.NDArray[Any]

USUAL_LOAD = 0.7
"""Load of a deployment without an SLO, which leaves the rest as headroom for bursts."""

MOST_LOAD = 0.95
"""Load beyond which no SLO is assumed to hold, because waits then grow with the length of the run."""

LEAST_REQUESTS, MOST_REQUESTS, ROUNDS = 2_000, 8_000, 12
"""Requests per simulation: this many per request in the system, within these bounds."""


@dataclass(frozen=True, eq=False)
class Stream(Value):
    """Requests that a fleet must serve.

    Attributes
    ----------
    requests_per_s : float
        Mean rate of arrivals.
    lengths : Workload, Traffic or Trace
        Lengths of the requests; a trace also has the gaps between arrivals.
    burstiness : float
        Squared coefficient of variation of the gaps.
    seed : int
        Random seed of simulations.
    """

    requests_per_s: float
    lengths: Workload | Traffic | Trace
    burstiness: float = 1.0
    seed: int = 0

    @property
    def gaps_cv2(self) -> float:
        """Squared coefficient of variation of the gaps between arrivals."""
        if isinstance(self.lengths, Trace):
            return self.lengths.burstiness
        return self.burstiness

    @property
    def work_cv2(self) -> float:
        """Squared coefficient of variation of output lengths, which determine most of a request's time."""
        if isinstance(self.lengths, Workload):
            return 0.0
        mix = self.lengths.traffic if isinstance(self.lengths, Trace) else self.lengths
        mean = mix.mean_output_tokens
        return float(np.sum(mix.share * (mix.output_tokens - mean) ** 2)) / mean**2


def of_statistic(values: Simulation, name: str, slo: SLO) -> float:
    """The statistic that an SLO compares with its target: the mean or a quantile over requests."""
    found = getattr(values, name) if slo.statistic == "mean" else values.quantile(name, slo.share)
    return float(np.nan_to_num(found))


@dataclass(frozen=True, eq=False)
class DecodeRows(Value):
    """Decode workers, one row per layout and batch; columns as in `Candidates`, with times without prompts."""

    accelerator: Array
    precision: Array
    layout: Array
    place: Array
    gpus: Array
    batch: Array
    busy_s: Array
    ttft_s: Array
    tpot_s: Array
    gap_s: Array
    prefill_share: Array
    low: Array
    high: Array
    fits: Array


@dataclass(frozen=True, eq=False)
class ClosedQueue(Value):
    """Queues of all candidates in closed form.

    Attributes
    ----------
    table : Candidates or DecodeRows
        Candidates in steady state.
    stream : Stream
        Arriving requests.
    slo : SLO
        SLO targets and the statistic that is computed.
    output_tokens : float
        Mean output tokens per request.
    """

    table: Candidates | DecodeRows
    stream: Stream
    slo: SLO
    output_tokens: float

    @cached_property
    def groups(self) -> tuple[Array, ...]:
        """Rows with the same layout, by rising batch."""
        table = self.table
        keys = np.stack([table.accelerator, table.precision, table.layout, table.gpus.astype(str)])
        _, inverse = np.unique(keys, axis=1, return_inverse=True)
        order = np.lexsort((table.batch, np.ravel(inverse)))
        places = np.flatnonzero(np.diff(np.ravel(inverse)[order])) + 1
        return tuple(np.split(order, places))

    def figures(self, rate: Array) -> dict[str, Array]:
        """TTFT, TPOT, end-to-end time and longest gap of every candidate at its rate, by the SLO's statistic."""
        found = {name: np.full(len(rate), np.nan) for name in ("ttft_s", "tpot_s", "gap_s")}
        for rows in self.groups:
            for name, values in self._of_layout(rows, rate[rows]).items():
                found[name][rows] = values
        later = max(self.output_tokens - 1.0, 0.0)
        return found | {"total_s": found["ttft_s"] + later * found["tpot_s"]}

    def _of_layout(self, rows: Array, rate: Array) -> dict[str, Array]:
        table, stream = self.table, self.stream
        batch, busy_s = table.batch[rows], table.busy_s[rows]
        throughput = np.maximum.accumulate(1.0 / busy_s)
        number = np.interp(rate, np.concatenate([[0.0], throughput]), np.concatenate([[0.0], batch]))
        spread = np.sqrt(np.maximum(number * (stream.gaps_cv2 + 1.0) / 2.0, 1e-9))
        met = np.clip(number + self._deviations * spread, batch[0], batch)
        varies = (stream.gaps_cv2 + stream.work_cv2) / 2.0
        # Beyond 50 standard deviations as good as no request finds all slots taken, and the exponential would overflow;
        # the floors of 1e-9 keep a queue without requests, or at its capacity, finite.
        deviations = np.minimum((batch - number) / spread, 50.0)
        full = 1.0 / (1.0 + np.exp(NORMAL_AS_LOGISTIC * deviations))
        slots_s = self._wait_s(full, varies / np.maximum(1.0 / busy_s - rate, 1e-9 / busy_s))
        prompt_s = table.ttft_s[rows][0]
        computing = np.clip(rate * busy_s * np.nan_to_num(table.prefill_share[rows]), 0.0, 0.99)
        prompts_s = self._wait_s(computing, stream.gaps_cv2 / 2.0 * prompt_s / (1.0 - computing))
        found = {name: np.interp(met, batch, getattr(table, name)[rows]) for name in ("ttft_s", "tpot_s", "gap_s")}
        return found | {"ttft_s": found["ttft_s"] + slots_s + prompts_s}

    @property
    def _deviations(self) -> float:
        """Number of standard deviations of the statistic above the mean."""
        if self.slo.statistic == "mean":
            return 0.0
        return NormalDist().inv_cdf(self.slo.share)

    def _wait_s(self, waiting: Array, mean_s: Array) -> Array:
        """Statistic of a wait that is exponential for a share of the requests and 0 for the others."""
        if self.slo.statistic == "mean":
            return np.asarray(waiting * mean_s)
        # Where nobody waits the logarithm is of 0; any share below 1 - slo.share gives a wait of 0.
        return np.asarray(np.maximum(np.log(np.maximum(waiting, 1e-12) / (1.0 - self.slo.share)), 0.0) * mean_s)

    def strain(self, figures: dict[str, Array]) -> Array:
        """Used share of the tightest latency target; 0 without one."""
        parts = [figures[name] / target for name, target in self.slo.latencies]
        return np.max(parts, axis=0) if parts else np.zeros(len(self.table.busy_s))

    def carried(self, most_load: float) -> Array:
        """Largest rate of each candidate, up to a maximum load, at which it meets the SLO; 0 if there is none."""
        capacity = 1.0 / self.table.busy_s

        def meets(load: Any) -> Array:
            return self.strain(self.figures(np.asarray(load) * capacity)) <= 1.0

        least, most = np.full(len(capacity), LOWEST_LOAD), np.full(len(capacity), most_load)
        idle, full = meets(least), meets(most)
        found, _ = bisect(meets, least, most, halvings=HALVINGS)
        return np.asarray(np.where(idle, np.where(full, most_load, found) * capacity, 0.0))


LOWEST_LOAD = 1e-6
"""Load at which a deployment or a pool is practically idle."""

HALVINGS = 12
"""Halvings in the search for the load at which an SLO is met, which gives it to within 0.0002."""

NORMAL_AS_LOGISTIC = 1.702
"""The logistic function of 1.702 x is within 0.01 of the normal distribution (Camilli 1994)."""


def can_be_simulated(case: Scenario) -> bool:
    """Whether simulations support everything in a scenario."""
    plain = Scenario(
        case.serve,
        case.load,
        hit_rate=case.hit_rate,
        shared_prefix=case.shared_prefix,
        step_tokens=case.step_tokens,
        chunk_tokens=case.chunk_tokens,
    )
    return bool(case == plain) and not steps_apart(case.model)


def times_of(case: Scenario, time: str) -> StepTimes:
    """Step times of a scenario, whose batch is the maximum that run at once, optionally at an end of the interval."""
    serve = case.serve
    lanes = int(np.max(serve.parallel.data * serve.parallel.pipeline))
    slots = float(np.ceil(np.max(case.load.batch) / lanes))
    changes: dict[str, Any] = {"max_sequences": slots}
    if case.chunk_tokens is not None:
        changes |= {"scheduler": "mixed", "chunked": True, "step_tokens": float(np.max(case.chunk_tokens)) + slots}
    elif case.step_tokens is not None:
        changes["step_tokens"] = float(np.max(case.step_tokens))
    base = "estimate_s" if time.startswith("estimate") else time
    times = step_times(serve, time=base, engine=serve.server.replace(**changes))
    if time == base:
        return times
    low, high = interval(times, float(np.max(case.load.batch)), case.load)
    return replace(times, scale=high if time == HIGH_END else low)


def capacity_requests_per_s(case: Scenario, stream: Stream, *, time: str) -> float:
    """Capacity of the simulated scheduler in closed form; 0 if no request fits."""
    times = times_of(case, time).of_load(stream.lengths)
    lengths = Lengths.of(without_times(stream.lengths), float(case.hit_rate))
    pool = cache_pool(case.serve, times.engine)
    if pool.pool_bytes <= 0:
        return 0.0
    return float(np.max(times.lanes * np.asarray(Lane(times, pool, lengths, MANY).requests_per_s)))


MANY = 1e6
"""Number of clients that saturates any server."""


def simulated(case: Scenario, stream: Stream, *, rate: float, time: str) -> Simulation | None:
    """Simulate a deployment with its share of the arrivals; None if a request exceeds its cache.

    Parameters
    ----------
    case : Scenario
        The scenario; its batch is the maximum that run at once.
    stream : Stream
        Requests that arrive at the whole fleet.
    rate : float
        Requests per second of one deployment.
    time : str
        Which of the three times is used for steps, or an end of the estimate's interval.
    """
    lengths = stream.lengths
    batch = float(np.max(case.load.batch))
    count = int(np.clip(ROUNDS * batch, LEAST_REQUESTS, MOST_REQUESTS))
    how = demand(
        None, rate, burstiness=stream.burstiness, requests=count, seed=stream.seed, hit_rate=float(case.hit_rate)
    )
    if isinstance(lengths, Trace):
        lengths = lengths.at_rate(rate)
        how = Demand(None, rate, lengths.burstiness, len(lengths), stream.seed, float(case.hit_rate), recorded=True)
    try:
        return run(case.serve, lengths, how, times_of(case, time))
    except InvalidInput:
        return None
