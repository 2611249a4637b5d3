"""Run requests through schedulers until all have ended: in an open loop, in a closed loop, or as recorded.

A replica has a scheduler of its own, and so has each microbatch of a pipeline; requests go to them in turn.  In a
closed loop a client sends its next request when the last one has ended, so that ``concurrency`` are in the system at
any time; in an open loop requests arrive at a given rate, independent of the load on the server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InvalidInput
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..specs.engines import Engine
from .arrivals import Demand, arrival_times, draw_requests
from .cache_pool import CachePool, cache_pool
from .clock import Clock
from .pipeline import Pipeline
from .ranks import Ranks
from .request_records import Requests, Tally
from .scheduler import Scheduler
from .sources import check_whole
from .step_times import StepTimes
from .trace import Trace
from .traffic import Traffic

Group = Scheduler | Ranks | Pipeline
"""Schedulers that are simulated together."""

Progress = Callable[[int, int], None]
"""Progress callback; called with the number of finished requests and the total."""


def play(
    deployment: Deployment,
    load: Workload | Traffic | Trace,
    how: Demand,
    times: StepTimes,
    progress: Progress | None = None,
    *,
    scheduler: Callable[[Clock, Engine, CachePool, Requests], Scheduler] = Scheduler,
) -> tuple[Requests, tuple[Tally, ...]]:
    """Run all requests and return their records and the totals of each scheduler.

    Raises
    ------
    InvalidInput
        A request does not fit in the cache.
    """
    times = times.of_load(load)
    check_whole(deployment.model, how.hit_rate)
    rng = np.random.default_rng(how.seed)
    requests = draw_requests(load, how.requests, rng, hit_rate=how.hit_rate)
    handle(requests, times)
    pool = cache_pool(deployment, times.engine)
    longest = max(map(sum, zip(requests.prompt, requests.cached, requests.output, strict=True)))
    pool.require(longest, deployment)
    clock = Clock(times)
    schedulers = [scheduler(clock, times.engine, pool, requests) for _ in range(times.lanes)]
    groups = in_groups(schedulers, times)
    if how.recorded and isinstance(load, Trace):
        requests.arrival = load.arrival_s.tolist()
        _open_loop(schedulers, groups, requests, progress)
    elif how.concurrency is None:
        assert how.requests_per_s is not None
        requests.arrival = arrival_times(how.requests_per_s, how.requests, how.burstiness, rng).tolist()
        _open_loop(schedulers, groups, requests, progress)
    else:
        _closed_loop(schedulers, groups, requests, how.concurrency, progress)
    if min(requests.finish) < 0:
        raise InvalidInput("the simulation stopped: some requests can never start")
    return requests, tuple(each.tally for each in schedulers)


def handle(requests: Requests, times: StepTimes) -> None:
    """Set the time that each request takes to reach its scheduler."""
    tokens = np.asarray(requests.prompt, dtype=float) + np.asarray(requests.cached, dtype=float)
    requests.handling = np.asarray(times.handling_s(tokens)).tolist()


def in_groups(schedulers: list[Scheduler], times: StepTimes) -> list[Group]:
    """Return the schedulers individually, or in groups that wait for each other.

    Those that share experts step together, and the microbatches of a pipeline do not overtake each other.
    """
    size = times.coupled
    if size == 1:
        return list(schedulers)
    groups = (schedulers[at : at + size] for at in range(0, len(schedulers), size))
    if times.stages > 1:
        return [Pipeline(group) for group in groups]
    return [Ranks(group, times.engine) for group in groups]


def _open_loop(schedulers: list[Scheduler], groups: list[Group], requests: Requests, progress: Progress | None) -> None:
    """Run an open loop: arrivals go to the schedulers in turn."""
    count = len(requests.arrival)
    for place, scheduler in enumerate(schedulers):
        for request in range(place, count, len(schedulers)):
            scheduler.receive(requests.arrival[request], request)
    for group in groups:
        _to_the_end(group, requests, progress)


def _closed_loop(
    schedulers: list[Scheduler],
    groups: list[Group],
    requests: Requests,
    concurrency: int,
    progress: Progress | None,
) -> None:
    """Run a closed loop: each client sends its next request to its scheduler when the last one has ended."""
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
    for group in groups:
        _to_the_end(group, requests, progress)


def _part(count: int, concurrency: int, place: int, lanes: int) -> int:
    """Return the number of requests of one scheduler, in proportion to its clients; the total is ``count``."""
    clients = [(concurrency - at + lanes - 1) // lanes for at in range(lanes)]
    before, own = sum(clients[:place]), clients[place]
    return count * (before + own) // concurrency - count * before // concurrency


EVENTS_PER_REPORT = 2_048
"""Events between two reports of progress."""


def _to_the_end(group: Group, requests: Requests, progress: Progress | None) -> None:
    count = len(requests.arrival)
    while group.advance():
        if progress is not None and group.tally.events % EVENTS_PER_REPORT == 0:
            progress(sum(time >= 0 for time in requests.finish), count)
    if progress is not None:
        progress(sum(time >= 0 for time in requests.finish), count)
