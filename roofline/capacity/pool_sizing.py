"""Sizing of two pools: which prefill and decode workers, and how many, serve a request rate within an SLO.

A group has ``x`` prefill workers and ``y`` decode workers.  With a rate, enough groups share it, and the group with the
cheapest fleet is simulated (`roofline.serving.pools`).  A pool that misses its target gets another worker, and loses
one if the SLO is still met without it.  Without a rate, the cheapest group per request is used, with decode workers at
their full batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidInput
from ..operators.parallel import Parallel
from ..phases.deployment import Deployment
from ..serving.arrivals import Demand, demand
from ..serving.methods import CLOSED_FORM, SIMULATION
from ..serving.pools import Pools, run_pools
from ..serving.scenario import Scenario
from ..serving.slo import SLO
from ..serving.trace import Trace
from ..values import Value
from .pool_queues import DecodePool, PromptPool, decode_pool, prompt_pool
from .queues import Array, Stream, can_be_simulated, of_statistic, times_of

MOST_WORKERS = 12
"""Numbers of workers per pool of a group; larger fleets have several groups."""

AS_CHEAP = 0.02
"""Without a rate, the smallest group whose cost exceeds the cheapest by at most this share is used."""

REQUESTS = 5_000
"""Number of requests in the simulation of a group."""

LAYOUTS_TRIED, MOST_STEP = 3, 4
"""Number of layouts of prefill workers to simulate, and largest number of workers added at once."""

ROUNDING = 1e-12
"""Tolerance for rounding when the number of groups is rounded up."""

TTFT_SHARES = (0.05, 0.1, 0.2, 0.3, 0.5)
"""Shares of an end-to-end target that are tried as TTFT target; the rest is for TPOT."""


class PoolSize(NamedTuple):
    """A group: rows of both pools, workers of each, requests per second, and number of groups.

    Without a rate, a group runs at the rate of its slower pool, and ``replicas`` is NaN.
    """

    prompt_row: int
    decode_row: int
    prefill_workers: int
    decode_workers: int
    requests_per_s: float
    replicas: float


class Figures(NamedTuple):
    """Metrics of a group's requests by the SLO's statistic, and the load of its workers."""

    ttft_s: float
    tpot_s: float
    gap_s: float
    total_s: float
    handover_s: float
    decode_queue_s: float
    prefill_load: float
    decode_load: float
    queue: str


@dataclass(frozen=True, eq=False)
class PoolQuestion(Value):
    """The requirements for pools.

    Attributes
    ----------
    case : Scenario
        Scenario with two pools, layouts ``[L, 1]`` and batches ``[B]``.
    slo : SLO
        Targets.
    stream : Stream, optional
        Arriving requests.
    most_load : float
        Maximum load of a worker as a share of its throughput.
    time : str
        Which of the three times is used for steps.
    """

    case: Scenario
    slo: SLO
    stream: Stream | None
    most_load: float
    time: str

    @cached_property
    def prompts(self) -> PromptPool:
        """The prefill workers."""
        return prompt_pool(self.case, self.stream, self.time)

    @cached_property
    def decodes(self) -> DecodePool:
        """The decode workers."""
        return decode_pool(self.case, self.stream, self.time)

    @property
    def arriving(self) -> float | None:
        """Rate of arrivals, 1/s; None without a rate."""
        return None if self.stream is None else self.stream.requests_per_s

    def worker(self, layout: int) -> Deployment:
        """A worker with the given layout."""
        degrees = (int(np.ravel(each)[layout if np.size(each) > 1 else 0]) for each in self._degrees)
        return self.case.serve.replace(parallel=Parallel(*degrees))

    @property
    def _degrees(self) -> tuple[Any, ...]:
        return self.case.serve.parallel.degrees[:4]


def sized(ask: PoolQuestion) -> list[PoolSize]:
    """Groups that meet the SLO by the closed form, one per layout of prefill workers, cheapest first.

    Layouts often differ in how well whole workers balance.  Without a rate, groups that cost at most `AS_CHEAP` more
    than the cheapest come first, smallest first.
    """
    found: dict[int, PoolSize] = {}
    for slo in _split(ask.slo, ask.decodes.tokens_after_first):
        for size in _cheapest(ask, slo):
            known = found.get(size.prompt_row)
            if _meets(ask, closed_figures(ask, size)) and (known is None or cost_of(ask, size) < cost_of(ask, known)):
                found[size.prompt_row] = size
    least = min((cost_of(ask, size) for size in found.values()), default=0.0)

    def order(size: PoolSize) -> tuple[float, float]:
        cost, gpus = cost_of(ask, size), gpus_of(ask, size)
        as_cheap = ask.arriving is None and cost <= least * (1.0 + AS_CHEAP)
        return (least, gpus) if as_cheap else (cost, gpus)

    return sorted(found.values(), key=order)


def _split(slo: SLO, tokens_after_first: float) -> Iterator[SLO]:
    """Targets for TTFT and TPOT only; an end-to-end target is divided between them."""
    if slo.total_s is None:
        yield slo
        return
    for share in TTFT_SHARES:
        ttft_s, tpot_s = share * slo.total_s, (1.0 - share) * slo.total_s / tokens_after_first
        yield replace(
            slo,
            ttft_s=ttft_s if slo.ttft_s is None else min(ttft_s, slo.ttft_s),
            tpot_s=tpot_s if slo.tpot_s is None else min(tpot_s, slo.tpot_s),
        )


class _Options(NamedTuple):
    """Efficient pools of one kind: sorted by size, each carries more than all smaller ones."""

    row: Array
    workers: Array
    gpus: Array
    carried: Array


def _options(gpus: Array, carried: Array, workers: Array) -> _Options:
    """Pools with row ``[R]`` and workers ``[X]`` that carry more than every pool with fewer accelerators."""
    sizes = gpus[:, None] * workers
    order = np.lexsort((-carried.ravel(), sizes.ravel()))
    most = np.maximum.accumulate(carried.ravel()[order])
    better = np.concatenate([most[:1] > 0, most[1:] > most[:-1]])
    row, column = np.divmod(order[better], len(workers))
    return _Options(row, workers[column], sizes[row, column], carried[row, column])


def _cheapest(ask: PoolQuestion, slo: SLO) -> Iterator[PoolSize]:
    """The cheapest group for every layout of prefill workers."""
    workers = np.arange(1, MOST_WORKERS + 1)
    prompts = ask.prompts.carried(workers, slo, ask.most_load)
    steps = ask.decodes.carried(slo, ask.most_load)
    second = _options(ask.decodes.rows.gpus, steps[:, None] * workers, workers)
    if not len(second.row):
        return
    for layout in np.flatnonzero(prompts.max(axis=1) > 0):
        first = prompts[layout][:, None]
        rate = np.minimum(first, second.carried)
        if slo.tokens_per_s is not None:
            rate = np.where(rate * (ask.decodes.tokens_after_first + 1.0) >= slo.tokens_per_s, rate, 0.0)
        gpus = ask.prompts.gpus[layout] * workers[:, None] + second.gpus
        with np.errstate(divide="ignore"):
            replicas = np.nan * rate if ask.arriving is None else np.ceil(ask.arriving / rate * (1 - ROUNDING))
            cost = gpus / rate if ask.arriving is None else gpus * replicas
        if not np.isfinite(cost).any():
            continue
        near = cost <= np.min(cost) * (1.0 + (AS_CHEAP if ask.arriving is None else 0.0))
        one, two = np.unravel_index(np.argmin(np.where(near, gpus, np.inf)), cost.shape)
        share = rate[one, two] if ask.arriving is None else ask.arriving / replicas[one, two]
        yield PoolSize(
            int(layout),
            int(second.row[two]),
            int(workers[one]),
            int(second.workers[two]),
            float(share),
            float(replicas[one, two]),
        )


def gpus_of(ask: PoolQuestion, size: PoolSize) -> float:
    """Accelerators of a group."""
    prefill = size.prefill_workers * ask.prompts.gpus[size.prompt_row]
    return float(prefill + size.decode_workers * ask.decodes.rows.gpus[size.decode_row])


def capacity_of(ask: PoolQuestion, size: PoolSize) -> float:
    """Maximum rate of a group, 1/s."""
    prompts = ask.prompts.lanes[size.prompt_row] * ask.prompts.capacity[size.prompt_row] * size.prefill_workers
    return float(min(prompts, size.decode_workers / ask.decodes.rows.busy_s[size.decode_row]))


def cost_of(ask: PoolQuestion, size: PoolSize) -> float:
    """Accelerators of all groups, or accelerator-seconds per request without a rate."""
    gpus = gpus_of(ask, size)
    if ask.arriving is None:
        return gpus / size.requests_per_s
    return gpus * size.replicas


def closed_figures(ask: PoolQuestion, size: PoolSize) -> Figures:
    """Metrics of a group's requests, in closed form."""
    rate = size.requests_per_s
    at, row = size.prompt_row, size.decode_row
    workers = np.array([size.prefill_workers])
    lanes = size.prefill_workers * ask.prompts.lanes[at]
    ttft_s = float(ask.prompts.ttft_s(np.full((len(ask.prompts.lanes), 1), rate), workers, ask.slo)[at, 0])
    each = np.full(len(ask.decodes.rows.busy_s), rate / size.decode_workers)
    waits_s, tpots_s = ask.decodes.seen_s(each, ask.slo)
    wait_s, tpot_s = float(waits_s[row]), float(tpots_s[row])
    ttft_s += wait_s
    return Figures(
        ttft_s,
        tpot_s,
        float(ask.decodes.rows.gap_s[row]),
        ttft_s + ask.decodes.tokens_after_first * tpot_s,
        float(ask.prompts.handover_s[at]),
        wait_s,
        float(rate / (lanes * ask.prompts.capacity[at])),
        float(rate / size.decode_workers * ask.decodes.rows.busy_s[row]),
        "" if ask.stream is None else CLOSED_FORM,
    )


def _meets(ask: PoolQuestion, found: Figures) -> bool:
    # The pools are sized by bisection to the target itself, which rounding may overshoot.
    return all(getattr(found, name) <= target * (1 + 1e-9) for name, target in ask.slo.latencies)


def _one_pool(case: Scenario) -> Scenario:
    """The scenario without the hand-over, which simulations of pools include."""
    return case.replace(handover_bytes_per_s=None)


def can_be_confirmed(ask: PoolQuestion) -> bool:
    """Whether there is a rate, and simulations support everything in the scenario."""
    return ask.stream is not None and can_be_simulated(_one_pool(ask.case))


def confirmed(ask: PoolQuestion, sizes: Sequence[PoolSize]) -> tuple[PoolSize, Figures] | None:
    """The cheapest group that meets the SLO in a simulation; None if none of the first few does."""
    best: tuple[PoolSize, Figures] | None = None
    for size in sizes[:LAYOUTS_TRIED]:
        if best is not None and cost_of(ask, size) >= cost_of(ask, best[0]):
            break
        found = _smallest(ask, size)
        if found is not None and (best is None or cost_of(ask, found[0]) < cost_of(ask, best[0])):
            best = found
    return best


def _smallest(ask: PoolQuestion, size: PoolSize) -> tuple[PoolSize, Figures] | None:
    """The smallest group near ``size`` that meets the SLO in a simulation."""
    figures, step = simulated_figures(ask, size), 1
    first = size
    while figures is None or not _meets(ask, figures):
        if figures is None or step > MOST_STEP:
            return None
        size = _grown(ask, size, figures, step)
        figures, step = simulated_figures(ask, size), 2 * step
    for name in ("decode_workers", "prefill_workers"):
        at_first = size == first or getattr(size, name) > getattr(first, name) + 1
        fewer = size._replace(**{name: getattr(size, name) - 1})
        if not at_first or getattr(fewer, name) < 1 or capacity_of(ask, fewer) * ask.most_load < fewer.requests_per_s:
            continue
        smaller = simulated_figures(ask, fewer)
        if smaller is not None and _meets(ask, smaller):
            size, figures = fewer, smaller
    return size, figures


def _grown(ask: PoolQuestion, size: PoolSize, figures: Figures, step: int) -> PoolSize:
    """Add workers to the pool that misses its target the most; waiting for a decode worker also adds to TTFT."""
    strains = {name: getattr(figures, name) / target for name, target in ask.slo.latencies}
    worst = max(strains, key=lambda name: strains[name])
    waits = 2.0 * figures.decode_queue_s > figures.ttft_s
    prompts = (worst == "ttft_s" and not waits) or (worst == "total_s" and figures.prefill_load > figures.decode_load)
    if prompts:
        return size._replace(prefill_workers=size.prefill_workers + step)
    return size._replace(decode_workers=size.decode_workers + step)


def simulated_figures(ask: PoolQuestion, size: PoolSize, time: str | None = None) -> Figures | None:
    """Metrics of a group's requests in a simulation; None if a request exceeds the cache."""
    assert ask.stream is not None
    found = simulate_group(ask, size, time or ask.time)
    if found is None:
        return None
    seen = {name: of_statistic(found, name, ask.slo) for name in ("ttft_s", "tpot_s", "gap_s", "total_s")}
    busy = (found.prefill_utilization, found.decode_utilization)
    crossing = {"handover_s": found.handover_s, "decode_queue_s": found.decode_queue_s}
    return Figures(**seen, **crossing, prefill_load=busy[0], decode_load=busy[1], queue=SIMULATION)


def simulate_group(ask: PoolQuestion, size: PoolSize, time: str) -> Pools | None:
    """Simulate a group with its share of the arrivals."""
    assert ask.stream is not None
    rate, stream = size.requests_per_s, ask.stream
    lengths, hit_rate = stream.lengths, float(np.max(ask.case.hit_rate))
    how = demand(None, rate, burstiness=stream.burstiness, requests=REQUESTS, seed=stream.seed, hit_rate=hit_rate)
    if isinstance(lengths, Trace):
        lengths = lengths.at_rate(rate)
        how = Demand(None, rate, lengths.burstiness, len(lengths), stream.seed, hit_rate, recorded=True)
    rows = ask.decodes.rows
    prefill, decode = ask.worker(size.prompt_row), ask.worker(int(rows.place[size.decode_row]))
    most = float(ask.prompts.counts[-1] * ask.prompts.lanes[size.prompt_row])
    times = tuple(
        times_of(_one_pool(ask.case).replace(serve=serve, load=replace(ask.case.load, batch=int(batch))), time)
        for serve, batch in ((prefill, most), (decode, rows.batch[size.decode_row]))
    )
    link = ask.case.handover_bytes_per_s
    try:
        return run_pools(
            lengths,
            how,
            (times[0], times[1]),
            (size.prefill_workers, size.decode_workers),
            link_bytes_per_s=None if link is None else float(np.max(link)),
        )
    except InvalidInput:
        return None
