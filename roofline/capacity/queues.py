"""Queues: the rate of requests that a candidate carries within its SLO, in closed form and by simulation.

Requests arrive at random, at a rate that the deployments of a fleet share.  A candidate runs at most ``batch`` of them
at once; the others wait.  The closed form tells thousands of candidates apart, the simulation of every scheduler step
(`roofline.serving.simulation`) decides about the few that may win.

The closed form takes the throughput ``X(n)`` and the times of a request with ``n`` of them in the system from the
steady state.  At a rate ``r`` there are ``N`` with ``X(N) = r`` (flow balance), and their number varies by about
``sqrt(N (c_a^2 + 1) / 2)``, as that of a server without limits does, ``c_a^2`` being the squared coefficient of
variation of the gaps between arrivals.  A share ``q`` of the requests finds at most ``N + z_q sqrt(...)`` others.  Two
queues come on top, one before the slots and one before the pass over prompts; a request that has to wait does so for a
time that is about exponential, with the mean of Allen and Cunneen's formula

    (c_a^2 + c_s^2) / 2 / (mu - r),

where ``mu`` is the rate that the queue is served at and ``c_s^2`` the spread of the work of a request.
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
from ..serving.lane import Lane, Lengths
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
"""Load of a deployment without an SLO: its throughput in steady state leaves that much room for bursts."""

MOST_LOAD = 0.95
"""Load beyond which no SLO is taken to hold: waits then grow with the length of the run that is looked at."""

LEAST_REQUESTS, MOST_REQUESTS, ROUNDS = 2_000, 8_000, 12
"""Requests of a simulation: so many for each in the system, and within these bounds."""


@dataclass(frozen=True, eq=False)
class Stream(Value):
    """Requests that a fleet has to serve.

    Attributes
    ----------
    requests_per_s : float
        Mean rate of arrivals.
    lengths : Workload, Traffic or Trace
        Lengths of the requests; a trace has the gaps between arrivals as well.
    burstiness : float
        Squared coefficient of variation of the gaps.
    seed : int
        Of the chance of simulations.
    """

    requests_per_s: float
    lengths: Workload | Traffic | Trace
    burstiness: float = 1.0
    seed: int = 0

    @property
    def gaps_cv2(self) -> float:
        """Squared coefficient of variation of the gaps between arrivals."""
        return self.lengths.burstiness if isinstance(self.lengths, Trace) else self.burstiness

    @property
    def work_cv2(self) -> float:
        """That of the output of a request, which most of its time goes by."""
        if isinstance(self.lengths, Workload):
            return 0.0
        mix = self.lengths.traffic if isinstance(self.lengths, Trace) else self.lengths
        mean = mix.mean_output_tokens
        return float(np.sum(mix.share * (mix.output_tokens - mean) ** 2)) / mean**2


def of_statistic(values: Simulation, name: str, slo: SLO) -> float:
    """What an SLO compares with its target: the mean of a figure, or what a share of the requests stays within."""
    found = getattr(values, name) if slo.statistic == "mean" else values.quantile(name, slo.share)
    return float(np.nan_to_num(found))


@dataclass(frozen=True, eq=False)
class DecodeRows(Value):
    """Decode workers, one row a layout and batch; columns as in `Candidates`, the times without prompts."""

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
    """The closed form of the queue of every candidate.

    Attributes
    ----------
    table : Candidates or DecodeRows
        Candidates in steady state.
    stream : Stream
        What arrives.
    slo : SLO
        Targets; its statistic is that of all figures.
    output_tokens : float
        Mean output of a request.
    """

    table: Candidates | DecodeRows
    stream: Stream
    slo: SLO
    output_tokens: float

    @cached_property
    def groups(self) -> tuple[Array, ...]:
        """Rows of the same layout, by rising batch."""
        table = self.table
        keys = np.stack([table.accelerator, table.precision, table.layout, table.gpus.astype(str)])
        _, inverse = np.unique(keys, axis=1, return_inverse=True)
        order = np.lexsort((table.batch, np.ravel(inverse)))
        places = np.flatnonzero(np.diff(np.ravel(inverse)[order])) + 1
        return tuple(np.split(order, places))

    def figures(self, rate: Array) -> dict[str, Array]:
        """TTFT, TPOT, end-to-end time and longest gap of every candidate at a rate each, by the SLO's statistic."""
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
        """Standard deviations that the statistic lies above the mean."""
        return 0.0 if self.slo.statistic == "mean" else NormalDist().inv_cdf(self.slo.share)

    def _wait_s(self, waiting: Array, mean_s: Array) -> Array:
        """The statistic of a wait that is 0 but for a share of the requests, for whom it is exponential."""
        if self.slo.statistic == "mean":
            return np.asarray(waiting * mean_s)
        return np.asarray(np.maximum(np.log(np.maximum(waiting, 1e-12) / (1.0 - self.slo.share)), 0.0) * mean_s)

    def strain(self, figures: dict[str, Array]) -> Array:
        """How much of the tightest target of a time is used up; 0 without any."""
        parts = [figures[name] / target for name, target in self.slo.latencies]
        return np.max(parts, axis=0) if parts else np.zeros(len(self.table.busy_s))

    def carried(self, most_load: float) -> Array:
        """The largest rate of each candidate up to a load at which it meets the SLO; 0 if there is none."""
        capacity = 1.0 / self.table.busy_s

        def meets(load: Any) -> Array:
            return self.strain(self.figures(np.asarray(load) * capacity)) <= 1.0

        least, most = np.full(len(capacity), 1e-6), np.full(len(capacity), most_load)
        idle, full = meets(least), meets(most)
        found, _ = bisect(meets, least, most, halvings=HALVINGS)
        return np.asarray(np.where(idle, np.where(full, most_load, found) * capacity, 0.0))


HALVINGS = 12
"""Of the load at which an SLO is met, which is then known to 0.0002."""

NORMAL_AS_LOGISTIC = 1.702
"""The logistic function of 1.702 x is within 0.01 of the normal distribution (Camilli 1994)."""


def can_be_simulated(case: Scenario) -> bool:
    """Whether a simulation has everything that a scenario says of how requests are served."""
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
    """Times of steps of a scenario whose batch is the most that run at once, at an end of the interval if asked."""
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
    """What the scheduler that is simulated finishes at most, by its closed form; 0 where no request fits."""
    times = times_of(case, time)
    lengths = Lengths.of(without_times(stream.lengths), float(case.hit_rate))
    pool = cache_pool(case.serve, times.engine)
    if pool.pool_bytes <= 0:
        return 0.0
    return float(np.max(times.lanes * np.asarray(Lane(times, pool, lengths, MANY).requests_per_s)))


MANY = 1e6
"""Clients that saturate any server."""


def simulated(case: Scenario, stream: Stream, *, rate: float, time: str) -> Simulation | None:
    """A deployment with its share of the arrivals; None where a request is longer than its cache.

    Parameters
    ----------
    case : Scenario
        What runs where; its batch is the most that run at once.
    stream : Stream
        What arrives at the whole fleet.
    rate : float
        The share of one deployment, requests per second.
    time : str
        Which of the three times the steps take, or an end of the estimate's interval.
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
