"""Latency and throughput of a server under load: `serve`.

A closed loop of ``concurrency`` clients has a closed form that broadcasts over any number of them
(`roofline.serving.lane`).  No closed form is accurate for open arrivals near saturation or for bursts, so an open loop
is simulated by default; the result names the method.  If the closed form is used for an open loop, an arrival finds the
mean number of requests in the system (Poisson arrivals see time averages, Wolff 1982):

    T = T_closed(1 + N),  N = rate * T
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import FrozenMapping, bisect, scalar
from ..errors import InvalidInput, Number, number
from ..phases.deployment import Deployment
from ..phases.workload import Workload, together
from ..report import Report, Step
from ..report.dimensions import UNNAMED, Dimensions
from .arrivals import check_hit_rate, checked_concurrency, checked_rate, demand
from .cache_pool import CachePool, cache_pool
from .lane import Lane
from .lane_figures import OUT_OF_STEP, PREEMPTION, closed_notes, figures_of, unless_stable
from .lengths import Lengths
from .load_sentences import load_words, served_sentence
from .methods import METHODS, SIMULATION, method_named, method_words
from .outcome import Simulation, interval, runs_notes
from .simulation import run
from .slo import SLO, as_slo
from .sources import check_whole
from .step_times import StepTimes, step_times
from .trace import Trace, without_times
from .traffic import Traffic

Array = npt.NDArray[np.float64]

MANY = 1e6
"""Number of clients that saturates any server."""


@dataclass(frozen=True, eq=False, repr=False)
class Served(Report):
    """Latency and throughput under load; values are means over requests unless stated otherwise.

    Attributes
    ----------
    deployment : Deployment
        Deployment that serves the requests.
    load : Workload or Traffic
        Lengths of the requests.
    time : str
        Which of the three times the steps take.
    method : str
        ``closed-form`` or ``simulation``.
    figures : mapping
        Values by column name.
    simulations : tuple of Simulation
        Simulations that the values come from, if any.
    origin : tuple
        Arguments and step times, from which `low` and `high` are computed.
    """

    deployment: Deployment
    load: Workload | Traffic
    time: str
    method: str
    figures: Mapping[str, Any]
    simulations: tuple[Simulation, ...] = ()
    origin: tuple[_Ask, StepTimes] | None = field(default=None, repr=False, compare=False)
    assumptions: tuple[str, ...] = ()
    dimensions: Dimensions = UNNAMED

    columns = (
        "asked_concurrency",
        "asked_requests_per_s",
        "ttft_s",
        "tpot_s",
        "total_s",
        "gap_s",
        "queue_s",
        "tokens_per_s",
        "requests_per_s",
        "running_batch",
        "prefill_share",
        "utilization",
        "capacity_requests_per_s",
        "stable",
        "limit",
        "method",
        "time",
    )

    @property
    def heading(self) -> str:
        """Title: deployment and load."""
        return f"Served: {self.deployment}, {load_words(self.asked_concurrency, self.asked_requests_per_s)}"

    @property
    def inputs(self) -> dict[str, Any]:
        """Deployment and request lengths, by name."""
        lengths = self.load.counts if isinstance(self.load, Workload) else {}
        found = self.deployment.inputs | {name: value for name, value in lengths.items() if name != "batch"}
        if self.origin is not None and self.origin[0].open_loop:
            found["burstiness"] = self.origin[0].how["burstiness"]
        return found

    def __getattr__(self, name: str) -> Any:
        figures = self.__dict__.get("figures", {})
        if name in figures:
            return figures[name]
        raise AttributeError(f"a {type(self).__name__} has no {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.figures})

    @cached_property
    def low(self) -> Served:
        """The result with every step at the lower end of the estimate's interval."""
        return self._end(0)

    @cached_property
    def high(self) -> Served:
        """The result with every step at the upper end of the estimate's interval."""
        return self._end(1)

    def _end(self, end: int) -> Served:
        """Return the result recomputed at one end of the interval."""
        assert self.origin is not None
        ask, times = self.origin
        scale = interval(times, self.running_batch, self.load)[end]
        return ask.answer(replace(times, scale=scale))

    def quantile(self, name: str, share: Number) -> Number:
        """Return the value that a ``share`` of the requests does not exceed; an array for several rates.

        Raises
        ------
        InvalidInput
            The result is from a closed form, which gives means only.
        """
        if not self.simulations:
            raise InvalidInput("a closed form has no quantiles; use method='simulation'")
        found = np.array([np.asarray(each.quantile(name, share)) for each in self.simulations])
        return scalar(found.reshape(np.shape(self.stable) + np.shape(share)))

    def share_within(self, slo: SLO) -> Number:
        """Return the share of requests that meet every target of an SLO individually; an array for several loads.

        The rate of requests times this share is the goodput. Where the queue grows without bound, no request meets a
        target for TTFT or for the end-to-end time in the long run.

        Parameters
        ----------
        slo : SLO
            Targets per request; see `Simulation.share_within`.

        Returns
        -------
        float or array
            From 0 to 1.

        Raises
        ------
        InvalidInput
            The result is from a closed form, which gives means only.
        """
        slo = as_slo(slo)
        if not self.simulations:
            raise InvalidInput("a closed form has no individual requests; use method='simulation'")
        endless = slo.ttft_s is not None or slo.total_s is not None
        met = np.array([each.share_within(slo) for each in self.simulations]).reshape(np.shape(self.stable))
        return scalar(np.where(np.logical_and(endless, ~np.asarray(self.stable)), 0.0, met))

    def summary(self) -> str:
        """Return a sentence on latency, throughput and what limits them."""
        return served_sentence(self)

    def _derivation(self) -> tuple[Step, ...]:
        """Return how the values are derived from each other or, for a simulation, from its requests."""
        if len(self.simulations) == 1:  # its own utilization is that of the scheduler, busy while any request runs
            run = [step for step in self.simulations[0].explain() if step.name != "utilization"]
            return (*run, self._load_step("load as a share of the capacity"))
        known = {"requests_per_s": self.requests_per_s, "output_tokens": Lengths.of(self.load, 0.0).output}
        total = {"ttft_s": self.ttft_s, "steps": Lengths.of(self.load, 0.0).steps, "tpot_s": self.tpot_s}
        source = f"{method_words(self.method)}, `roofline.serving.closed_forms`"
        return (
            Step("total_s", "ttft_s + steps * tpot_s", total, self.total_s, source),
            Step("tokens_per_s", "output_tokens * requests_per_s", known, self.tokens_per_s, source),
            self._load_step(source),
        )

    def _load_step(self, source: str) -> Step:
        """Arrivals of an open loop, or requests of a closed loop, as a share of the capacity."""
        rate = "requests_per_s" if self.asked_requests_per_s is None else "asked_requests_per_s"
        inputs = {rate: getattr(self, rate), "capacity_requests_per_s": self.capacity_requests_per_s}
        return Step("utilization", f"{rate} / capacity_requests_per_s", inputs, self.utilization, source)


def serve(
    deployment: Deployment,
    load: Workload | Traffic | Trace,
    *,
    concurrency: Number | None = None,
    requests_per_s: Number | None = None,
    burstiness: Number = 1.0,
    method: str | None = None,
    hit_rate: float = 0.0,
    requests: int | None = None,
    seed: int = 0,
    time: str = "estimate_s",
) -> Served:
    """Compute the latency and throughput of a deployment under load.

    A request alone (``concurrency=1``) takes the passes over its prompt, in chunks if it exceeds the engine's budget of
    tokens, and its decode steps, as `roofline.generate` has them for a whole prompt. The estimate adds what a server
    takes before the first token: the handling of the request (``request_s``, ``request_token_s``) and the steps that
    are scheduled ahead (``first_token_steps``).

    The closed form describes the steady state. At the start of a closed loop all clients send at once, and their
    prompts wait for each other: only the means of a simulation of some ``requests`` include this first wave.

    Parameters
    ----------
    deployment : Deployment
        Deployment that serves the requests; its engine sets how they are scheduled.
    load : Workload, Traffic or Trace
        Lengths of the requests; a closed form uses the means and spreads of a traffic's lengths. Arrival times of a
        trace are used by `simulate` only.
    concurrency : int or array
        Requests in the system at any time (closed loop).
    requests_per_s : float or array
        Mean rate of arrivals (open loop). Above capacity the result is not stable, waiting times are infinite, and the
        throughput is the capacity.
    burstiness : float or array
        Squared coefficient of variation of the gaps between arrivals: 1 is Poisson. An array has the shape of
        ``requests_per_s``, or goes with a single rate.
    method : str
        ``closed-form`` or ``simulation``; if None, the former for a closed loop and the latter for an open loop.
    hit_rate : float
        Share of every prompt that is found in the prefix cache.
    requests, seed : int
        Number of requests of a simulation, and its random seed.
    time : str
        Which of the three times a step takes.

    Returns
    -------
    Served
        Request times, throughput, what limits it, and the method used.

    Raises
    ------
    InvalidInput
        Both or neither of ``concurrency`` and ``requests_per_s`` are given, or a request is longer than the cache.
    UnknownName
        ``method`` is neither of the two.

    Examples
    --------
    >>> import roofline as rl
    >>> server = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"), engine="vllm")
    >>> found = rl.serve(server, rl.Workload(1500, 300), concurrency=[1, 8, 64])
    >>> bool((found.tokens_per_s[1:] > found.tokens_per_s[:-1]).all()), found.method
    (True, 'closed-form')
    >>> rl.serve(server, rl.Workload(1500, 300), requests_per_s=1e4).stable
    False
    """
    if (concurrency is None) == (requests_per_s is None):
        raise InvalidInput("give either concurrency (closed loop) or requests_per_s (open loop)")
    simulated = requests_per_s is not None if method is None else method_named(method) == SIMULATION
    load = without_times(load)
    loads, given, dimensions = together(
        [load] if isinstance(load, Workload) else [], concurrency=concurrency, requests_per_s=requests_per_s
    )
    load, concurrency, requests_per_s = loads[0] if loads else load, given["concurrency"], given["requests_per_s"]
    check_hit_rate(hit_rate)
    times = step_times(deployment, time=time).of_load(load)
    check_whole(deployment.model, hit_rate)
    pool = cache_pool(deployment, times.engine)
    lengths = Lengths.of(load, hit_rate)
    pool.require(_longest(load), deployment)
    asked: dict[str, Any] = {"asked_concurrency": concurrency, "asked_requests_per_s": requests_per_s}
    bursts = np.asarray(number("burstiness", burstiness), dtype=float)
    how: dict[str, Any] = {"requests": requests, "seed": seed, "hit_rate": hit_rate}
    if concurrency is not None:
        asked["asked_concurrency"] = checked_concurrency(concurrency)
    else:
        rates = checked_rate(requests_per_s)
        asked["asked_requests_per_s"], bursts = _together(rates, bursts)
        if not simulated and np.any(bursts != 1.0):
            raise InvalidInput("the closed form supports only Poisson arrivals; burstiness needs method='simulation'")
    how["burstiness"] = bursts
    ask = _Ask(deployment, load, lengths, pool, asked, how, simulated, dimensions)
    return ask.answer(times)


@dataclass(frozen=True, eq=False)
class _Ask:
    """The checked arguments of `serve`."""

    deployment: Deployment
    load: Workload | Traffic
    lengths: Lengths
    pool: CachePool
    asked: dict[str, Any]
    how: dict[str, Any]
    simulated: bool
    dimensions: Dimensions = UNNAMED

    @property
    def open_loop(self) -> bool:
        return self.asked["asked_requests_per_s"] is not None

    def answer(self, times: StepTimes) -> Served:
        """Return the result for given step times."""
        figures, runs = self._simulated(times) if self.simulated else (self._closed(times), ())
        figures |= self.asked
        return Served(
            self.deployment,
            self.load,
            times.time,
            METHODS[self.simulated],
            FrozenMapping({name: _plain(figures[name]) for name in Served.columns if name not in ("method", "time")}),
            runs,
            (self, times),
            self._notes(times, figures, runs),
            self.dimensions,
        )

    def _lane(self, times: StepTimes, clients: Number, rate: Number | None = None) -> Lane:
        return Lane(times, self.pool, self.lengths, clients, varies=self.open_loop, rate=rate)

    def _closed(self, times: StepTimes) -> dict[str, Any]:
        """Return the values of the closed form."""
        lanes = times.lanes
        full = self._lane(times, MANY)
        capacity = lanes * full.requests_per_s
        if not self.open_loop:
            clients = np.asarray(self.asked["asked_concurrency"], dtype=float)
            lane = self._lane(times, self._in_lanes(times, clients) / lanes)
            seen_s = lane.request.total_s + lane.queue_s + lane.handling_s
            return figures_of(lane, capacity, clients / seen_s, residual_s=0.0)
        rate = np.asarray(self.asked["asked_requests_per_s"], dtype=float)
        stable = rate < capacity
        met = np.minimum(rate, FULLEST * capacity) / lanes
        own = 1.0 / times.sharing  # the request itself, on one of the schedulers that step together

        def too_few(others: Number) -> Any:
            lane = self._lane(times, own + np.asarray(others), met)
            return others < met * (lane.request.total_s + lane.queue_s)

        others, _ = bisect(too_few, np.zeros(np.shape(met + 0 * full.fits)), MANY)
        lane = self._lane(times, own + np.asarray(others), met)
        found = figures_of(lane, capacity, np.where(stable, rate, capacity), residual_s=lane.residual_s)
        running = np.minimum(lanes * np.asarray(others), found["running_batch"])
        return unless_stable(found | {"running_batch": np.where(stable, running, found["running_batch"])}, stable)

    def _in_lanes(self, times: StepTimes, clients: Array) -> Any:
        """Return how many requests are at a scheduler; the others are being sent, tokenized or returned.

        By Little's law ``throughput * handling`` requests are in transit.
        """
        found: Any = clients
        for _ in range(HANDLING_ROUNDS):
            lane = self._lane(times, found / times.lanes)
            passes_s, handled_s = lane.request.total_s, lane.handling_s
            waits = lane.clients > lane.running
            on_the_way = times.lanes * lane.requests_per_s * handled_s
            found = np.where(waits, clients - on_the_way, clients * passes_s / (passes_s + handled_s))
            found = np.maximum(found, np.minimum(clients, 1.0))
        return found

    def _simulated(self, times: StepTimes) -> tuple[dict[str, Any], tuple[Simulation, ...]]:
        """Return simulated values for each concurrency or rate."""
        name = "requests_per_s" if self.open_loop else "concurrency"
        asked = np.asarray(self.asked[f"asked_{name}"], dtype=float)
        capacity = np.broadcast_to(times.lanes * self._lane(times, MANY).requests_per_s, asked.shape)[()]
        bursts = np.broadcast_to(self.how["burstiness"], asked.shape)
        scales = np.broadcast_to(times.scale, asked.shape)
        runs = tuple(
            self._run(value, burst, replace(times, scale=float(scale)))
            for value, burst, scale in zip(asked.flat, bursts.flat, scales.flat, strict=True)
        )
        names = [column for column in Simulation.columns if column != "time"]
        found: dict[str, Any] = {}
        for column in names:
            figures = np.array([getattr(each, column) for each in runs])
            found[column] = figures.reshape(asked.shape)[()]
        found["capacity_requests_per_s"] = capacity
        found["utilization"] = found["requests_per_s"] / capacity
        if not self.open_loop:
            return found | {"stable": np.ones(asked.shape, bool)[()]}, runs
        stable = asked < capacity
        found["utilization"] = asked / capacity
        return unless_stable(found, stable), runs

    def _run(self, value: float, burstiness: float, times: StepTimes) -> Simulation:
        """Return the simulation of one concurrency or rate."""
        pair = (None, value) if self.open_loop else (value, None)
        return run(self.deployment, self.load, demand(*pair, **self.how | {"burstiness": burstiness}), times)

    def _notes(self, times: StepTimes, figures: dict[str, Any], runs: tuple[Simulation, ...]) -> tuple[str, ...]:
        lines = [*(runs_notes(runs) if runs else closed_notes(times, self.load, open_loop=self.open_loop))]
        if not runs and times.engine.admission == "grow" and np.any(figures["limit"] == "memory"):
            lines.append(PREEMPTION)
        several = not self.open_loop and np.any(np.asarray(self.asked["asked_concurrency"]) > 1)
        if not runs and several and isinstance(self.load, Workload):
            lines.append(OUT_OF_STEP)
        if not np.all(figures["stable"]):
            capacity = float(np.max(figures["capacity_requests_per_s"]))
            lines.insert(0, f"unstable: the capacity is {capacity:.3g} requests/s")
        return tuple(lines)


FULLEST = 0.999
"""Share of the capacity up to which the closed form serves an open loop; at the capacity the queue is infinite."""

HANDLING_ROUNDS = 3
"""Iterations for the number of clients whose request is at a scheduler; they converge because handling is short."""


def _together(rates: Number, bursts: Number) -> tuple[Any, Array]:
    """Broadcast rates and burstiness to the same shape."""
    try:
        shape = np.broadcast_shapes(np.shape(rates), np.shape(bursts))
    except ValueError:
        sizes = f"{np.shape(rates)} and {np.shape(bursts)}"
        raise InvalidInput(f"the shapes of requests_per_s and burstiness do not broadcast: {sizes}") from None
    return _plain(np.broadcast_to(rates, shape)), np.broadcast_to(bursts, shape)


def _longest(load: Workload | Traffic) -> float:
    """Return the number of tokens of the longest request."""
    if isinstance(load, Traffic):
        return float(np.max(load.prompt_tokens + load.output_tokens)) + load.cached_tokens
    return float(np.max(load.sequence_tokens, initial=0.0))


def _plain(value: Any) -> Any:
    """Convert 0-dimensional arrays to plain values."""
    if isinstance(value, np.ndarray | np.generic) and np.ndim(value) == 0:
        return value.item()
    return value
