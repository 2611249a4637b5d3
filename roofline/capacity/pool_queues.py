"""Queues of two pools in closed form: TTFT and TPOT at a request rate.

TTFT is the wait for and time of the prompt, the transfer of its cache, and the wait for a decode worker, which sends
the first token.  TPOT is that of the decode workers.

Prefill workers are ``c`` servers with one queue of prompts.  A request waits with the probability of Sakasegawa (1977).
If it waits, the time is approximately exponential with the mean of Allen and Cunneen:

    P(wait) = rho^(sqrt(2 (c + 1)) - 1),    mean = (c_a^2 + c_s^2) / 2 / (c mu - r).

Waiting prompts share a pass up to the token budget of a step.  With ``k`` of them the rate of a server is
``k / pass(k)``; ``mu`` is that of the largest pass.  A prompt that arrives during a shared pass waits for its end.
Ranks that share experts have joint passes (`roofline.capacity.joint_prompts`), for whose end every prompt waits.

Decode workers have the queue of `roofline.capacity.queues` without prompts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import bisect
from ..phases.workload import Workload
from ..serving.scenario import Scenario
from ..serving.slo import SLO
from ..serving.steady_state import Steady, steady_state
from ..serving.trace import Trace
from ..values import Value
from .joint_prompts import JointPasses, joint_passes
from .queues import HALVINGS, LOWEST_LOAD, Array, ClosedQueue, DecodeRows, Stream

WAIT_SHARE = 0.05
"""Share of the TTFT target for waiting for a decode worker; the rest is for prompts and transfers."""

FULLEST_PASS = 64
"""Maximum number of prompts per pass; more would not be faster per prompt."""


def prompt_cv2(stream: Stream | None) -> float:
    """Squared coefficient of variation of prompt lengths, to which their time is roughly proportional."""
    if stream is None or isinstance(stream.lengths, Workload):
        return 0.0
    mix = stream.lengths.traffic if isinstance(stream.lengths, Trace) else stream.lengths
    mean = mix.mean_prompt_tokens
    return float(np.sum(mix.share * (mix.prompt_tokens - mean) ** 2)) / mean**2


def _most(target: float | None) -> float:
    """A target as the largest allowed value; infinite if there is none."""
    return np.inf if target is None else target


@dataclass(frozen=True, eq=False)
class PromptPool(Value):
    """Prefill workers, for every layout ``[L]`` of a deployment.

    Attributes
    ----------
    gpus, lanes : array
        Accelerators of a worker, and passes that it runs in parallel.
    fits : array
        Whether the weights and one prompt fit.
    counts, pass_s : array
        Prompts per pass ``[K]``, and time of a pass ``[L, K]``.
    low, high : array
        Ends of the estimate's interval, as factors of the time of a pass.
    handover_s : array
        Time to transfer the cache of a prompt to the other pool.
    gaps_cv2, work_cv2 : float
        Squared coefficients of variation of the gaps between arrivals and of the time of a prompt.
    handling_s : float
        Time from sending a request until its scheduler sees it.
    joint : tuple of JointPasses
        Passes of ranks that wait for each other, per layout; None, or nothing at all, where each rank is alone.
    """

    gpus: Array
    lanes: Array
    fits: Array
    counts: Array
    pass_s: Array
    low: Array
    high: Array
    handover_s: Array
    gaps_cv2: float
    work_cv2: float
    handling_s: float = 0.0
    joint: tuple[JointPasses | None, ...] = ()

    @cached_property
    def capacity(self) -> Array:
        """Maximum rate of prompts of one lane of a worker, 1/s."""
        found = np.max(self.counts / self.pass_s, axis=1)
        for row, passes in self._joint:
            found[row] = passes.capacity
        return np.asarray(found)

    @cached_property
    def least_s(self) -> Array:
        """Time of a pass over one prompt while the worker has no other."""
        found = self.pass_s[:, 0].copy()
        for row, passes in self._joint:
            found[row] = passes.least_s
        return found

    @cached_property
    def _joint(self) -> tuple[tuple[int, JointPasses], ...]:
        return tuple((row, passes) for row, passes in enumerate(self.joint) if passes is not None)

    def ttft_s(self, rate: Array, workers: Array, slo: SLO) -> Array:
        """Time ``[L, X]`` until the cache is transferred, at a rate of all workers, by the SLO's statistic."""
        servers = self.lanes[:, None] * workers
        each = rate / servers
        own, rest_s = self._passes(each, slo)
        alone = self.handling_s + own + self.handover_s[:, None]
        load = np.minimum(each / self.capacity[:, None], 1.0 - LOWEST_LOAD)
        waiting = load ** (np.sqrt(2.0 * (servers + 1.0)) - 1.0)
        spread = (self.gaps_cv2 + self.work_cv2) / 2.0
        mean_s = spread / (servers * self.capacity[:, None] * (1.0 - load))
        if slo.statistic == "mean":
            return np.asarray(alone + waiting * mean_s + rest_s)
        # Where nobody waits the logarithm is of 0; any share below 1 - slo.share gives a wait of 0.
        later_s = np.maximum(np.log(np.maximum(waiting, 1e-12) / (1.0 - slo.share)), 0.0) * mean_s
        return np.asarray(alone + later_s + rest_s)

    def _passes(self, rate: Array, slo: SLO) -> tuple[Array, Array]:
        """Time of a pass at a rate per lane, and the wait for the one before it, by the SLO's statistic."""
        throughput = np.maximum.accumulate(self.counts / self.pass_s, axis=1)
        own = np.array([np.interp(*row) for row in zip(rate, throughput, self.pass_s, strict=True)])
        prompts = np.array([np.interp(at, line, self.counts) for at, line in zip(rate, throughput, strict=True)])
        rest_s = (1.0 - 1.0 / prompts) * own * (0.5 if slo.statistic == "mean" else slo.share)
        for row, passes in self._joint:
            own[row], rest_s[row] = passes.times_s(rate[row] * passes.ranks, slo)
        return own, rest_s

    def carried(self, workers: Array, slo: SLO, most_load: float) -> Array:
        """Largest rate ``[L, X]`` of ``X`` workers at which TTFT meets its target; 0 if there is none."""
        capacity = (self.lanes * self.capacity)[:, None] * workers
        target = _most(slo.ttft_s) * (1.0 - WAIT_SHARE)

        def meets(load: Any) -> Array:
            return self.ttft_s(np.asarray(load) * capacity, workers, slo) <= target

        least, most = np.full(capacity.shape, LOWEST_LOAD), np.full(capacity.shape, most_load)
        idle, full = meets(least), meets(most)
        found, _ = bisect(meets, least, most, halvings=HALVINGS)
        rate = np.where(idle, np.where(full, most_load, found) * capacity, 0.0)
        return np.asarray(np.where(self.fits[:, None], rate, 0.0))


def prompt_pool(case: Scenario, stream: Stream | None, time: str) -> PromptPool:
    """Prefill workers of a scenario with layouts ``[L, 1]``."""
    serve, computed = case.serve, case.running
    lanes = np.ravel(np.asarray(serve.parallel.data * serve.parallel.pipeline, dtype=float))
    most = float(np.clip(np.floor(np.min(case.token_budget / computed.prompt_tokens)), 1.0, FULLEST_PASS))
    counts = np.unique(np.round(np.geomspace(1.0, most, 1 + int(2 * np.log2(most)))))
    batch = lanes[:, None] * counts
    alone = case.replace(load=replace(case.load, output_tokens=1, batch=batch), handover_bytes_per_s=None)
    steady = steady_state(alone, time=time)
    shape = batch.shape
    pass_s, low, high = (np.broadcast_to(each.ttft_s, shape) for each in (steady, steady.low, steady.high))
    crossing = steady_state(case, time=time).passes.handover_s
    work_cv2 = prompt_cv2(stream)
    estimate_s = np.broadcast_to(steady.at("estimate_s").ttft_s, shape)
    waits = time.startswith("estimate")
    return PromptPool(
        gpus=np.ravel(serve.parallel.accelerators),
        lanes=lanes,
        fits=np.broadcast_to(steady.max_batch, shape)[:, 0] >= 1,
        counts=counts,
        pass_s=pass_s,
        low=low[:, 0] / pass_s[:, 0],
        high=high[:, 0] / pass_s[:, 0],
        handover_s=np.broadcast_to(crossing, (len(lanes), 1))[:, 0],
        gaps_cv2=1.0 if stream is None else stream.gaps_cv2,
        work_cv2=work_cv2,
        handling_s=0.0 if stream is None or not waits else _handling_s(case),
        joint=joint_passes(case, counts, pass_s, estimate_s, work_cv2**0.5) if waits else (),
    )


def _handling_s(case: Scenario) -> float:
    """Time until a request reaches its scheduler, as in simulations."""
    tokens = float(np.max(np.asarray(case.load.prompt_tokens + case.load.cached_tokens, dtype=float)))
    return float(case.serve.server.handling_s(tokens))


@dataclass(frozen=True, eq=False)
class DecodePool(Value):
    """Decode workers, one row per layout and batch.

    Attributes
    ----------
    rows : DecodeRows
        Layouts and batches.
    tokens_after_first : float
        Tokens per request from decode steps.
    stream : Stream, optional
        Arriving requests; None keeps every worker at its full batch.
    """

    rows: DecodeRows
    tokens_after_first: float
    stream: Stream | None

    def tpot_s(self, rate: Array, slo: SLO) -> Array:
        """Time per output token of every row at a rate per worker, by the SLO's statistic."""
        return self.seen_s(rate, slo)[1]

    def seen_s(self, rate: Array, slo: SLO) -> tuple[Array, Array]:
        """Wait for a worker and time per output token of every row at a rate per worker, by the SLO's statistic."""
        rows = self.rows
        if self.stream is None:
            return np.zeros(len(rows.tpot_s)), np.asarray(rows.tpot_s)
        figures = ClosedQueue(rows, self.stream, slo, self.tokens_after_first + 1.0).figures(rate)
        return np.asarray(figures["ttft_s"]), np.asarray(figures["tpot_s"])

    def carried(self, slo: SLO, most_load: float) -> Array:
        """Largest rate per worker of every row at which TPOT and the wait meet their targets; 0 if there is none."""
        capacity = 1.0 / self.rows.busy_s
        target, most_wait, most_gap = _most(slo.tpot_s), _most(slo.ttft_s) * WAIT_SHARE, _most(slo.gap_s)
        possible = self.rows.fits & (self.rows.gap_s <= most_gap)
        if self.stream is None:
            return np.asarray(np.where(possible & (self.tpot_s(capacity, slo) <= target), capacity, 0.0))

        def meets(load: Any) -> Array:
            wait_s, tpot_s = self.seen_s(np.asarray(load) * capacity, slo)
            return (tpot_s <= target) & (wait_s <= most_wait)

        least, most = np.full(len(capacity), LOWEST_LOAD), np.full(len(capacity), most_load)
        idle, full = meets(least), meets(most)
        found, _ = bisect(meets, least, most, halvings=HALVINGS)
        return np.asarray(np.where(possible & idle, np.where(full, most_load, found) * capacity, 0.0))


def decode_pool(case: Scenario, stream: Stream | None, time: str) -> DecodePool:
    """Decode workers of a scenario with layouts ``[L, 1]`` and batches ``[B]``."""
    steady = steady_state(case, time=time)
    shape = np.broadcast_shapes(np.shape(steady.step_s), np.shape(steady.max_batch), np.shape(case.load.batch))
    layouts = np.arange(shape[0])[:, None]
    columns: dict[str, Any] = {
        "accelerator": np.array(""),
        "precision": np.array(""),
        "layout": layouts.astype(str),
        "place": layouts,
        "gpus": case.serve.parallel.accelerators,
        "batch": np.asarray(case.load.batch, dtype=float),
        "busy_s": steady.passes.steps * steady.step_s / case.load.batch,
        "ttft_s": 0.0,
        "tpot_s": np.divide(steady.step_s, steady.tokens_per_step),
        "gap_s": steady.step_s,
        "prefill_share": 0.0,
        "low": _ratio(steady.low, steady),
        "high": _ratio(steady.high, steady),
        "fits": np.asarray(case.load.batch) <= np.asarray(steady.max_batch),
    }
    flat = {name: np.broadcast_to(value, shape).ravel() for name, value in columns.items()}
    return DecodePool(DecodeRows(**flat), float(np.max(steady.passes.tokens_after_first)), stream)


def _ratio(one: Steady, other: Steady) -> Any:
    return np.divide(one.step_s, other.step_s)
