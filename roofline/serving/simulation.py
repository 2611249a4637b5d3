"""Simulation of a server under load, every step of its scheduler (`roofline.serving.scheduler`).

A replica has a scheduler of its own, and so has each microbatch of a pipeline; requests go to them in turn.  In a
closed loop a client sends its next request when the last one has ended, so that ``concurrency`` are in the system at
any time; in an open loop requests arrive at a given rate, however busy the server is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InvalidInput
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..specs.engines import Engine
from .arrivals import Demand, arrival_times, demand, draw_requests
from .cache_pool import CachePool, cache_pool
from .clock import Clock
from .outcome import Simulation
from .record import Requests
from .scheduler import Scheduler
from .step_times import StepTimes, step_times
from .trace import Trace
from .traffic import Traffic

Progress = Callable[[int, int], None]
"""Told how many of how many requests have ended."""


def simulate(
    deployment: Deployment,
    load: Workload | Traffic | Trace,
    *,
    concurrency: int | None = None,
    requests_per_s: float | None = None,
    burstiness: float = 1.0,
    requests: int | None = None,
    seed: int = 0,
    hit_rate: float = 0.0,
    time: str = "estimate_s",
    progress: Progress | None = None,
) -> Simulation:
    """Simulate every scheduler step of a deployment under load.

    Parameters
    ----------
    deployment : Deployment
        What runs where; its engine says how requests are scheduled.
    load : Workload, Traffic or Trace
        Lengths of the requests. Requests of a workload are all alike and run in lockstep; requests of a traffic are
        drawn from its buckets; a trace is replayed as recorded if neither a concurrency nor a rate is given.
    concurrency : int
        Requests in the system at any time (closed loop).
    requests_per_s : float
        Mean rate of arrivals (open loop). Above the capacity of the deployment, waiting times grow with the length of
        the run, and a note says so.
    burstiness : float
        Squared coefficient of variation of the gaps between arrivals: 1 is Poisson.
    requests : int
        Number of requests; by default 10 for each client of a closed loop, 5,000 in an open loop.
    seed : int
        The same seed repeats a run exactly.
    hit_rate : float
        Share of every prompt that is found in the prefix cache.
    time : str
        Which of the three times a step takes.
    progress : callable
        Told how many of how many requests have ended.

    Returns
    -------
    Simulation
        Means, quantiles and a record of every request.

    Raises
    ------
    InvalidInput
        Both ``concurrency`` and ``requests_per_s``, or neither without a trace; numbers out of range; or a request
        longer than the cache (the message says which length fits).

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"), engine="vllm")
    >>> found = rl.simulate(serve, rl.Workload(1500, 300), requests_per_s=5.0, requests=500)
    >>> found.quantile("ttft_s", 0.95) > found.ttft_s > 0
    True
    """
    if isinstance(load, Trace) and concurrency is None and requests_per_s is None:
        return run(deployment, load, _recorded(load, seed, hit_rate), step_times(deployment, time=time), progress)
    how = demand(concurrency, requests_per_s, burstiness=burstiness, requests=requests, seed=seed, hit_rate=hit_rate)
    return run(deployment, load, how, step_times(deployment, time=time), progress)


def _recorded(load: Trace, seed: int, hit_rate: float) -> Demand:
    """Arrivals as a trace has them."""
    return Demand(None, load.requests_per_s, load.burstiness, len(load), seed, hit_rate, recorded=True)


def run(
    deployment: Deployment,
    load: Workload | Traffic | Trace,
    how: Demand,
    times: StepTimes,
    progress: Progress | None = None,
    *,
    scheduler: Callable[[Clock, Engine, CachePool, Requests], Scheduler] = Scheduler,
) -> Simulation:
    """A simulation with given times of steps, and schedulers of another kind if one is given."""
    rng = np.random.default_rng(how.seed)
    requests = draw_requests(load, how.requests, rng, hit_rate=how.hit_rate)
    handle(requests, times)
    pool = cache_pool(deployment, times.engine)
    longest = max(map(sum, zip(requests.prompt, requests.cached, requests.output, strict=True)))
    pool.require(longest, deployment)
    schedulers = [scheduler(Clock(times), times.engine, pool, requests) for _ in range(times.lanes)]
    if how.recorded and isinstance(load, Trace):
        requests.arrival = load.arrival_s.tolist()
        _open_loop(schedulers, requests, progress)
    elif how.concurrency is None:
        assert how.requests_per_s is not None
        requests.arrival = arrival_times(how.requests_per_s, how.requests, how.burstiness, rng).tolist()
        _open_loop(schedulers, requests, progress)
    else:
        _closed_loop(schedulers, requests, how.concurrency, progress)
    if min(requests.finish) < 0:
        raise InvalidInput("the simulation stopped: some requests can never start")
    return Simulation(deployment, load, how, times, requests, tuple(each.tally for each in schedulers))


def handle(requests: Requests, times: StepTimes) -> None:
    """Set how long each request is on the way to its scheduler."""
    tokens = np.asarray(requests.prompt, dtype=float) + np.asarray(requests.cached, dtype=float)
    requests.handling = np.asarray(times.handling_s(tokens)).tolist()


def _open_loop(schedulers: list[Scheduler], requests: Requests, progress: Progress | None) -> None:
    """Every scheduler with its share of the arrivals, in turn."""
    count = len(requests.arrival)
    for place, scheduler in enumerate(schedulers):
        for request in range(place, count, len(schedulers)):
            scheduler.receive(requests.arrival[request], request)
        _to_the_end(scheduler, progress, count)


def _closed_loop(schedulers: list[Scheduler], requests: Requests, concurrency: int, progress: Progress | None) -> None:
    """Every scheduler with its share of the clients, who send their next request when the last one has ended."""
    count, lanes = len(requests.arrival), len(schedulers)
    sent = iter(range(count))
    for place, scheduler in enumerate(schedulers):
        clients = (concurrency - place + lanes - 1) // lanes
        mine = iter([next(sent) for _ in range(_part(count, concurrency, place, lanes))])
        for _ in range(clients):
            if (request := next(mine, None)) is not None:
                scheduler.receive(0.0, request)

        def send(_: int, now: float, scheduler: Scheduler = scheduler, mine: Any = mine) -> None:
            following = next(mine, None)
            if following is not None:
                requests.arrival[following] = now
                scheduler.receive(now, following)

        scheduler.on_finish = send
        _to_the_end(scheduler, progress, count)


def _part(count: int, concurrency: int, place: int, lanes: int) -> int:
    """Requests of one scheduler: in proportion to its clients, all of them together ``count``."""
    clients = [(concurrency - at + lanes - 1) // lanes for at in range(lanes)]
    before, own = sum(clients[:place]), clients[place]
    return count * (before + own) // concurrency - count * before // concurrency


EVENTS_PER_REPORT = 2_048
"""Events between two reports of progress."""


def _to_the_end(scheduler: Scheduler, progress: Progress | None, count: int) -> None:
    while scheduler.advance():
        if progress is not None and scheduler.tally.events % EVENTS_PER_REPORT == 0:
            progress(sum(time >= 0 for time in scheduler.requests.finish), count)
    if progress is not None:
        progress(sum(time >= 0 for time in scheduler.requests.finish), count)
