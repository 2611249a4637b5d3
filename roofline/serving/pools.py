"""Disaggregated serving: prompts on one pool of workers, generation on another (DistServe, arXiv:2401.09670).

A request goes to the prefill worker with the least work, and then to the decode worker with the fewest sequences.  In
between, its cache is transferred over a link.  Clients get all tokens from the decode worker.  The first token comes
when that worker starts the request: after the prompt, the transfer, and the wait for a slot there (TensorRT-LLM's
PyExecutor, ``_handle_first_token_response``; SGLang's and vLLM's decode workers also stream the whole answer).  Every
worker is simulated step by step, and none advances past the time at which another may still send it a request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from math import inf
from typing import ClassVar

import numpy as np

from ..errors import InvalidInput, one_number
from ..phases.deployment import Deployment, check_deployment
from ..phases.encoder_rules import refuse_encoders
from ..phases.workload import Workload
from ..specs.electricity import BOARDS_ALONE, Power
from .arrivals import Demand, arrival_times, demand, draw_requests
from .cache_pool import cache_pool
from .clock import Clock
from .outcome import Simulation
from .pool_energy import ESTIMATE, Busy, PoolWatts, busy_decode, busy_prefill
from .request_loops import Group, handle, in_groups
from .request_records import Requests
from .scenario import Scenario
from .scheduler import Scheduler
from .step_times import StepTimes, step_times
from .trace import Trace, without_times
from .traffic import Traffic


@dataclass(frozen=True, eq=False, repr=False)
class Pools(Simulation):
    """Result of a simulation of a prefill and a decode pool; see `Simulation`.

    Attributes
    ----------
    prefill : Deployment
        One worker of the prefill pool; ``deployment`` is one of the decode pool.
    prefill_workers, decode_workers : int
        Number of workers in each pool.
    prefill_schedulers : int
        Number of ``tallies``, from the first, that belong to the prefill pool.
    handover_s : float
        Mean time to transfer the cache of a request to the decode pool, seconds.
    decode_queue_s : float
        Mean time from the transfer until a decode worker starts the request, seconds: the rest of its step, and the
        wait for a slot or for memory.
    """

    prefill: Deployment
    prefill_workers: int
    decode_workers: int
    prefill_schedulers: int
    handover_s: float
    decode_queue_s: float

    columns: ClassVar[tuple[str, ...]] = (
        "ttft_s",
        "tpot_s",
        "total_s",
        "gap_s",
        "queue_s",
        "handover_s",
        "decode_queue_s",
        "tokens_per_s",
        "requests_per_s",
        "running_batch",
        "prefill_utilization",
        "decode_utilization",
        "accelerators",
        "tokens_per_s_per_accelerator",
        "prefill_watts",
        "decode_watts",
        "watts",
        "joules_per_output_token",
        "limit",
        "time",
    )

    @property
    def heading(self) -> str:
        """Title: both pools and the load."""
        prefill, decode = f"{self.prefill_workers} x {self.prefill}", f"{self.decode_workers} x {self.deployment}"
        return f"Pools: prefill by {prefill}, decode by {decode}, {self.demand}"

    def _share_busy(self, first: int, last: int) -> float:
        return sum(tally.busy_s for tally in self.tallies[first:last]) / ((last - first) * self.span_s)

    @property
    def prefill_utilization(self) -> float:
        """Share of the run in which prefill workers are busy."""
        return self._share_busy(0, self.prefill_schedulers)

    @property
    def decode_utilization(self) -> float:
        """Share of the run in which decode workers are busy."""
        return self._share_busy(self.prefill_schedulers, len(self.tallies))

    @property
    def accelerators(self) -> int:
        """Number of accelerators in both pools."""
        prompts = self.prefill_workers * self.prefill.parallel.accelerators
        return int(prompts + self.decode_workers * self.deployment.parallel.accelerators)

    @property
    def tokens_per_s_per_accelerator(self) -> float:
        """Output tokens per second, divided by the accelerators of both pools."""
        return self.tokens_per_s / self.accelerators

    @cached_property
    def _busy(self) -> tuple[Busy, Busy]:
        """Power and duty of the workers of each pool (`roofline.serving.pool_energy`)."""
        record = self.requests
        new, cached, output = (float(np.mean(each)) for each in (record.prompt, record.cached, record.output))
        load = Workload(round(new), round(output), cached_tokens=round(cached))
        generating_s = float(np.sum(record.finish) - np.sum(record.first))
        running = generating_s / self.span_s / self.decode_workers
        return (
            busy_prefill(Scenario(self.prefill, load), self.prefill_workers, self.prefill_utilization),
            busy_decode(Scenario(self.deployment, load), self.decode_workers, self.decode_utilization, running),
        )

    def power(self, power: Power = BOARDS_ALONE) -> PoolWatts:
        """Mean power of both pools over busy and idle time.

        Parameters
        ----------
        power : Power
            Host, losses and idle power; without it that of the boards alone.

        Returns
        -------
        PoolWatts
            Watts of each pool; NaN at the floor, and if the power of an idle accelerator is unknown.

        Examples
        --------
        >>> import roofline as rl
        >>> worker = rl.Deployment("llama-3.1-8b", "h100-sxm", engine="vllm")
        >>> found = rl.serve_pools(rl.Workload(2000, 200), prefill=worker, decode=worker, concurrency=32)
        >>> boards, wall = found.power(), found.power(rl.Power(host_w=100))
        >>> round(wall.total - boards.total)
        200
        """
        if self.time != ESTIMATE:
            return PoolWatts(np.nan, np.nan)
        return PoolWatts(*(pool.watts(power) for pool in self._busy))

    @property
    def prefill_watts(self) -> float:
        """Mean power of the boards of all prefill workers, W."""
        return self.power().prefill

    @property
    def decode_watts(self) -> float:
        """Mean power of the boards of all decode workers, W."""
        return self.power().decode

    @property
    def watts(self) -> float:
        """Mean power of the boards of both pools, W."""
        return self.power().total

    @property
    def joules_per_output_token(self) -> float:
        """Energy of the boards of both pools divided by the output tokens, J."""
        return self.watts / self.tokens_per_s

    @property
    def limit(self) -> str:
        """The busier pool, or what keeps more requests from starting in the decode pool."""
        own = super().limit
        if own in ("memory", "slots"):
            return own
        return "prefill" if self.prefill_utilization > self.decode_utilization else "steps"

    def _scaled(self, end: int) -> Simulation:
        raise InvalidInput("separate pools have no interval; simulate with time='floor_s' for a bound")


def serve_pools(
    load: Workload | Traffic | Trace,
    *,
    prefill: Deployment,
    decode: Deployment,
    prefill_workers: int = 1,
    decode_workers: int = 1,
    concurrency: int | None = None,
    requests_per_s: float | None = None,
    burstiness: float = 1.0,
    requests: int | None = None,
    seed: int = 0,
    hit_rate: float = 0.0,
    link_bytes_per_s: float | None = None,
    by_layer: bool = False,
    time: str = "estimate_s",
) -> Pools:
    """Simulate separate pools of prefill and decode workers.

    Parameters
    ----------
    load : Workload, Traffic or Trace
        Lengths of the requests.
    prefill, decode : Deployment
        One worker of each pool.
    prefill_workers, decode_workers : int
        Number of workers in each pool.
    concurrency : int
        Requests in the system at any time (closed loop).
    requests_per_s : float
        Mean rate of arrivals (open loop).
    burstiness : float
        Squared coefficient of variation of the gaps between arrivals.
    requests, seed : int
        Number of requests, and the random seed.
    hit_rate : float
        Share of every prompt that prefill workers find in their prefix cache; the whole cache is still transferred.
    link_bytes_per_s : float
        Rate of one accelerator's link between the pools, one way; by default that of its network card. A transfer runs
        at the rate of the slower side, with all links of a replica together.
    by_layer : bool
        Whether the cache of each layer is sent as soon as it is computed. Then the transfer is hidden behind the
        prefill, except for the last layer and whatever takes longer than the prefill.
    time : str
        Which of the three times a step takes.

    Returns
    -------
    Pools
        Request times, and the utilization of each pool.

    Raises
    ------
    InvalidInput
        The pools run different models, the rate of the link between them is unknown, or a request is longer than the
        cache of a worker.

    Examples
    --------
    >>> import roofline as rl
    >>> worker = rl.Deployment(rl.get_model("llama-3.1-8b"), rl.get_accelerator("h100-sxm"), engine="vllm")
    >>> load = rl.Workload(2000, 200)
    >>> found = serve_pools(load, prefill=worker, decode=worker, decode_workers=2, concurrency=32)
    >>> found.accelerators, found.gap_s < found.ttft_s
    (3, True)
    """
    for name, count in (("prefill_workers", prefill_workers), ("decode_workers", decode_workers)):
        one_number(name, count, least=1, whole=True)
    without_times(load)  # raises if the load has no request lengths
    check_deployment(prefill, "prefill")
    check_deployment(decode, "decode")
    refuse_encoders(prefill.model, "the hand-over between separate pools")
    if prefill.model.name != decode.model.name:
        names = f"{prefill.model.name} and {decode.model.name}"
        raise InvalidInput(f"both pools must run the same model, since its cache is transferred between them: {names}")
    how = demand(concurrency, requests_per_s, burstiness=burstiness, requests=requests, seed=seed, hit_rate=hit_rate)
    times = (step_times(prefill, time=time), step_times(decode, time=time))
    counts = (prefill_workers, decode_workers)
    return run_pools(load, how, times, counts, link_bytes_per_s=link_bytes_per_s, by_layer=by_layer)


def run_pools(
    load: Workload | Traffic | Trace,
    how: Demand,
    times: tuple[StepTimes, StepTimes],
    workers: tuple[int, int],
    *,
    link_bytes_per_s: float | None = None,
    by_layer: bool = False,
) -> Pools:
    """Run a simulation with given step times and numbers of workers, for prefill and decode."""
    prefill, decode = (each.serve for each in times)
    times = (times[0].of_load(load), times[1])
    rng = np.random.default_rng(how.seed)
    record = draw_requests(load, how.requests, rng, hit_rate=how.hit_rate)
    if how.recorded and isinstance(load, Trace):
        record.arrival = load.arrival_s.tolist()
    handle(record, times[0])
    crossing = _handover(prefill, decode, link_bytes_per_s, times[0], by_layer=by_layer)
    first = _schedulers(times[0], record, workers[0], generates=False)
    second = _schedulers(times[1], record, workers[1], generates=True)
    groups = [*in_groups(first, times[0]), *in_groups(second, times[1])]
    conductor = _Conductor(record, first, second, groups, crossing)
    conductor.play(how, rng)
    if min(record.finish) < 0:
        raise InvalidInput("the simulation stopped: some requests can never start")
    return Pools(
        decode,
        load,
        how,
        times[1],
        record,
        tuple(each.tally for each in (*first, *second)),
        prefill,
        *workers,
        len(first),
        float(np.mean([crossing(request, record) for request in range(min(len(record.prompt), 1000))])),
        float(np.mean(np.asarray(record.first) - np.asarray(conductor.crossed))),
    )


Crossing = Callable[[int, Requests], float]
"""Function from request to the time to transfer its cache to the decode pool, seconds."""


def _handover(
    prefill: Deployment, decode: Deployment, rate: float | None, times: StepTimes, *, by_layer: bool
) -> Crossing:
    """Return the transfer time of caches, over the links of a prefill replica and those of a decode replica.

    The slower of the two sets the time, and the wider of the two cache formats the bytes.
    """
    bytes_per_s = min(_links_bytes_per_s(each, rate) for each in (prefill, decode))
    formats = (prefill.precision.kv, decode.precision.kv)
    layers = decode.model.layer_count

    def crossing(request: int, record: Requests) -> float:
        tokens = record.prompt[request] + record.cached[request]
        whole_s = max(float(decode.model.cache_bytes(tokens, kv)) for kv in formats) / bytes_per_s
        if not by_layer:
            return whole_s
        prompt_s = float(times.mixed_s(0.0, 1.0, record.prompt[request], record.cached[request]))
        return max(whole_s - prompt_s * (1 - 1 / layers), whole_s / layers)

    return crossing


def _links_bytes_per_s(worker: Deployment, rate: float | None) -> float:
    """Return the combined link rate of the accelerators of one replica, one way."""
    given = rate if rate is not None else worker.accelerator.nic_bytes_per_s
    if given is None:
        name = worker.accelerator.name
        raise InvalidInput(f"{name} has no nic_bytes_per_s: give link_bytes_per_s, the rate of its link")
    links = float(worker.parallel.accelerators / worker.parallel.data)
    return links * one_number("link_bytes_per_s", given, least=1.0)


def _schedulers(times: StepTimes, record: Requests, workers: int, *, generates: bool) -> list[Scheduler]:
    """Return the schedulers of all workers of a pool; in a decode pool the caches arrive already computed."""
    engine = times.engine if generates else replace(times.engine, scheduler="prefill_first")
    clock, pool = Clock(times), cache_pool(times.serve, engine)
    longest = max(map(sum, zip(record.prompt, record.cached, record.output, strict=True)))
    pool.require(longest, times.serve)
    return [
        Scheduler(clock, engine, pool, record, generates=generates, prefills=not generates)
        for _ in range(workers * times.lanes)
    ]


class _Conductor:
    """Pass requests from pool to pool and advance the worker that is furthest behind in time.

    ``groups`` are the schedulers of both pools, together where they share experts and step together.
    """

    def __init__(
        self,
        record: Requests,
        first: list[Scheduler],
        second: list[Scheduler],
        groups: list[Group],
        crossing: Crossing,
    ) -> None:
        self.record, self.first, self.second, self.crossing = record, first, second, crossing
        self.groups = groups
        self.posted: list[tuple[float, int, bool]] = []  # heap of (time, request, whether its prompt is computed)
        self.load: dict[int, float] = {id(each): 0.0 for each in (*first, *second)}
        self.place: dict[int, Scheduler] = {}
        self.crossed = [0.0] * len(record.prompt)  # when the cache of each request arrives in the decode pool
        # A pass is simulated as soon as it begins, so a request leaves its worker at a later simulated time.
        self.leaving: list[tuple[float, int]] = []  # heap of (time, request)

    def play(self, how: Demand, rng: np.random.Generator) -> None:
        """Run until every request has ended."""
        count = len(self.record.prompt)
        if how.concurrency is None:
            assert how.requests_per_s is not None
            if not how.recorded:
                self.record.arrival = arrival_times(how.requests_per_s, count, how.burstiness, rng).tolist()
            waiting = iter(range(0))
            self.posted = [(time, request, False) for request, time in enumerate(self.record.arrival)]
        else:
            sent = min(how.concurrency, count)
            waiting = iter(range(sent, count))
            self.posted = [(0.0, request, False) for request in range(sent)]

        def ended(request: int, now: float) -> None:
            heappush(self.leaving, (now, request))
            following = next(waiting, None)
            if following is not None:
                self.record.arrival[following] = now
                heappush(self.posted, (now, following, False))

        for each in self.first:
            each.on_finish = self._computed
        for each in self.second:
            each.on_finish = ended
        while self._go_on():
            pass

    def _computed(self, request: int, now: float) -> None:
        """Start the transfer of a computed prompt's cache; its first token is sent by the decode pool."""
        heappush(self.leaving, (now, request))
        self.crossed[request] = now + self.crossing(request, self.record)
        heappush(self.posted, (self.crossed[request], request, True))

    def _let_go(self, now: float) -> None:
        """Remove requests that have left their worker by now from its load."""
        while self.leaving and self.leaving[0][0] <= now:
            _, request = heappop(self.leaving)
            self.load[id(self.place.pop(request))] -= 1.0

    def _go_on(self) -> bool:
        """Handle one event: a request to deliver, or else the next event of the worker furthest behind."""
        workers = self.groups
        behind = min(workers, key=lambda each: each.next_time())
        begins = behind.next_time()
        if self.posted and self.posted[0][0] <= begins:
            self._deliver()
            return True
        if begins == inf:
            return False
        others = min((each.next_time() for each in workers if each is not behind), default=inf)
        behind.advance(min(others, self.posted[0][0] if self.posted else inf))
        return True

    def _deliver(self) -> None:
        time, request, computed = heappop(self.posted)
        self._let_go(time)
        pool = self.second if computed else self.first
        target = min(pool, key=lambda each: self.load[id(each)])
        self.load[id(target)] += 1.0
        self.place[request] = target
        target.receive(time, request)
