"""Floors of fleets: the least deployment time per request under any scheduler.

A fleet of equal deployments that serves ``rate`` requests per second needs at least ``ceil(rate * busy)`` of them,
where ``busy`` is the least deployment time of one request.  Each resource works on all prompts and steps,

    busy(B) = max over resources r of (prompt_r + steps * step_r(B) / B),

with every resource at the floor of its passes, and weights read once per step even if the step includes prompts
(`Steady.least_busy_s`).  It falls with the number ``B`` of sequences in a step, which has two limits:

Memory
    Running sequences hold their prompts and on average half of their outputs.  All device memory is assumed available
    for weights and caches, without partly filled pages.

SLO
    A step of ``B`` sequences takes at least ``step(B)``.  A share ``q`` of the requests meets the targets, so the mean
    of their steps is at most ``t``; the others may run in steps as large as memory allows.  Steps take
    ``max(a + k B, c B)`` at the floor, so the time per token ``step / B`` is convex in the step time.  By Jensen's
    inequality, steps of different sizes take at least as long as equal steps with the same mean.  Therefore

        busy >= q busy(B_t) + (1 - q) busy(B_memory)

    where ``B_t`` is the largest batch whose steps meet the targets.  If two targets each hold for a share ``q`` of the
    requests, at least ``1 - 2 (1 - q)`` meet both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..serving.metrics import METRICS
from ..serving.scenario import Scenario
from ..serving.slo import SLO
from ..serving.steady_state import Steady, steady_state

Array = npt.NDArray[Any]

GRID: npt.NDArray[np.float64] = np.unique(np.round(2.0 ** np.arange(0, 18.01, 1 / 4)))
"""Numbers of sequences at which the floor is evaluated; the largest exceeds any memory."""


def least_busy_s(case: Scenario, slo: SLO) -> Array:
    """Least deployment time per request, for the layouts ``[L, 1]`` of a scenario.

    Parameters
    ----------
    case : Scenario
        Scenario with layouts ``[L, 1]`` and the lengths of the requests.
    slo : SLO
        SLO targets; latency targets limit the batch.

    Returns
    -------
    array
        Seconds, ``[L]``; infinite where the weights do not fit or the targets cannot be met.
    """
    most = np.ravel(most_sequences(case))[:, None]
    batch = np.minimum(GRID[None, :], np.maximum(most, 1.0))
    floor = steady_state(case.replace(load=replace(case.load, batch=batch)), time="floor_s")
    shape = np.broadcast_shapes(batch.shape, np.shape(floor.least_busy_s))
    busy = np.broadcast_to(floor.least_busy_s, shape)
    free = busy[:, -1]
    meets = np.broadcast_to(_meets(floor, slo), shape)
    # A batch between the last one that meets the targets and the next one may meet them as well.
    possible = meets | np.concatenate([np.zeros_like(meets[:, :1]), meets[:, :-1]], axis=1)
    bound = np.min(np.where(possible, busy, np.inf), axis=1)
    share = _share_that_meets(slo)
    within = share * bound + (1.0 - share) * free if share < 1.0 else bound
    reachable = np.ravel(np.broadcast_to(most, (shape[0], 1))) >= 1.0
    found: Array = np.where(reachable & np.any(meets, axis=1), within, np.inf)
    return found


def most_sequences(case: Scenario) -> Array:
    """Most sequences that any engine could run at once, with all device memory and half of each output on average."""
    need = case.memory
    load = need.load
    held = load.context_tokens + (np.asarray(load.output_tokens, dtype=float) - 1.0) / 2.0
    each = need.allocated_bytes(np.maximum(held - need.page_tokens, 1.0))
    free = case.serve.accelerator.memory_bytes - need.weights_bytes_on_one
    data = case.serve.parallel.data
    held_at_once = data * np.floor(np.divide(free, np.maximum(each, 1.0)))
    found: Array = np.where(np.asarray(free) <= 0, 0.0, np.maximum(held_at_once, np.asarray(need.max_batch)))
    return found


def _meets(floor: Steady, slo: SLO) -> Any:
    """Where a request meets every latency target if its own prompt and steps run without interruption."""
    prompt_s = floor.passes.least_prompt_s if floor.case.chunk_tokens is None else floor.prompt_s
    fastest = {
        "ttft_s": prompt_s,
        "tpot_s": floor.step_s / np.maximum(floor.tokens_per_step, 1.0),
        "total_s": prompt_s + floor.passes.steps * floor.step_s,
        "gap_s": floor.step_s,
    }
    met: Any = np.ones(np.shape(floor.step_s), bool)
    several = np.asarray(floor.passes.tokens_after_first) > 0
    for name, target in slo.latencies:  # larger batches make throughput targets easier
        counts = several if name in ("tpot_s", "gap_s") else True
        met = met & ~((METRICS[name].strain(fastest[name], target) > 1.0) & counts)
    return met


def _share_that_meets(slo: SLO) -> float:
    """Lower bound of the share of requests that meet all latency targets at once."""
    return max(1.0 - len(slo.latencies) * (1.0 - slo.share), 0.0)
