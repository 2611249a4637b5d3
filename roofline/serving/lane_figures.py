"""Results of `serve` in closed form: the columns of a lane, and their assumptions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import Number
from ..phases.pass_sentences import context_notes
from ..phases.workload import Workload
from .lane import Lane
from .outcome import engine_note
from .step_times import StepTimes, encoding_notes
from .traffic import Traffic


def figures_of(lane: Lane, capacity: Number, rate: Number, *, residual_s: Number) -> dict[str, Any]:
    """Return the columns of a lane; all lanes together finish ``rate`` requests per second."""
    request, lengths = lane.request, lane.lengths
    tpot_s = np.where(lengths.steps > 0, (request.total_s - request.ttft_s) / np.maximum(lengths.steps, 1.0), 0.0)
    handled_s = lane.handling_s
    ttft_s = request.ttft_s + lane.queue_s + residual_s + handled_s
    total_s = request.total_s + lane.queue_s + residual_s + handled_s
    shape = np.broadcast_shapes(np.shape(total_s), np.shape(rate))
    return {
        "ttft_s": np.broadcast_to(ttft_s, shape),
        "tpot_s": np.broadcast_to(tpot_s, shape),
        "total_s": np.broadcast_to(total_s, shape),
        "gap_s": np.broadcast_to(_longest_gap_s(lane), shape),
        "queue_s": np.broadcast_to(lane.queue_s + residual_s, shape),
        "tokens_per_s": lengths.output * rate,
        "requests_per_s": rate,
        "running_batch": np.broadcast_to(rate * request.total_s, shape),  # Little's law for requests that hold a slot
        "prefill_share": np.broadcast_to(1.0 - lane.decode_share, shape),
        "utilization": rate / capacity,
        "capacity_requests_per_s": np.broadcast_to(capacity, shape),
        "stable": np.ones(shape, bool),
        "limit": np.broadcast_to(_limit(lane), shape),
    }


def _longest_gap_s(lane: Lane) -> Number:
    """Return the longest gap between two tokens, seconds: a step with the last chunk, or prompts and a step."""
    others = lane.together > 1
    if lane.times.engine.scheduler == "mixed":
        return np.where(others, lane.chunk_s, lane.step_s)
    if lane.times.engine.scheduler == "static":
        return lane.step_s
    pack = lane.packing
    prompts_s = lane.pass_s(np.minimum(pack.seen, pack.most)) * np.maximum(pack.seen / pack.most, 1.0)
    gap_s: Number = lane.step_s + np.where(others, prompts_s, 0.0)
    return gap_s


def _limit(lane: Lane) -> Any:
    """Return what limits the number of running requests, or their speed."""
    most = float(lane.times.engine.max_sequences or np.inf)
    waits = lane.clients > lane.running
    memory = waits & (lane.fits <= most)
    steps = np.where(lane.decode_share < 0.5, "prefill", "steps")
    return np.where(memory, "memory", np.where(waits, "slots", steps))


def unless_stable(found: dict[str, Any], stable: Any) -> dict[str, Any]:
    """Return waits that are infinite where requests arrive faster than they are served."""
    endless = {name: np.where(stable, found[name], np.inf) for name in ("ttft_s", "total_s", "queue_s")}
    return found | endless | {"stable": stable}


def closed_notes(times: StepTimes, load: Workload | Traffic, *, open_loop: bool) -> tuple[str, ...]:
    """Return the assumptions of the closed form, in sentences."""
    engine = times.engine
    lines = [
        "closed form of the steady state: means, without warm-up",
        engine_note(engine),
    ]
    if engine.basis:
        lines.append(f"host times {engine.basis}")
    longest = load.longest_tokens if isinstance(load, Traffic) else np.max(load.sequence_tokens, initial=0.0)
    lines += context_notes(times.serve.model, float(longest or 0.0))
    lines += encoding_notes(times.serve, load)
    if isinstance(load, Traffic):
        lines.append("lengths of the traffic enter by their means and spreads, independent of each other")
    if open_loop:
        lines.append(
            "Poisson arrivals are assumed to find the mean number of other requests; simulate loads near capacity"
        )
    return tuple(lines)


PREEMPTION = "memory is full: preempted requests recompute half of their output on average"
"""Note shown if memory limits the batch; see `roofline.serving.lane.Lane.computed_tokens`."""

OUT_OF_STEP = (
    "requests are assumed to start at different times; if all have exactly one length, they stay in step and wait for"
    " each other's prompts: simulate such a run"
)
"""Note on closed loops of equal requests: their mean TTFT may be several times that of requests that are spread."""
