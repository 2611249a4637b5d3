"""Bounds for the work of a measurement: one pass, a whole generation, or the share of a run per request.

Batch and context of a serving run follow from its own numbers.  By Little's law, the number of sequences that decode at
the same time is

    batch = requests_per_s * (output - 1) * step_s

and a sequence has ``prompt + (output - 2) / 2`` tokens in the cache at its mean step.  Both are means over time.  The
floor of a step does not decrease with either, and a mean over tokens gives more weight to full steps and long contexts,
so the floor at these means is not above the mean of the floors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..operators.operator import Segment
from ..operators.roofline import name_limits
from ..phases.deployment import Deployment
from ..phases.passes import Phase, run_pass
from ..phases.totals import total


@dataclass(frozen=True)
class WorkBounds:
    """Bounds for some work of a deployment.

    Attributes
    ----------
    floor_s, roofline_s, estimate_s, estimate_low_s, estimate_high_s : float
        The three times, and the ends of the estimate's interval.
    flops, moved_bytes : float
        Total over all accelerators.
    peak_flops_per_s, peak_bytes_per_s : float
        Total over all accelerators; the former is the mean over the formats of the work.
    limit : str
        ``memory``, ``compute`` or ``network``.
    """

    floor_s: float
    roofline_s: float
    estimate_s: float
    estimate_low_s: float
    estimate_high_s: float
    flops: float
    moved_bytes: float
    peak_flops_per_s: float
    peak_bytes_per_s: float
    limit: str


def decode_step(serve: Deployment, batch: float, context_tokens: float) -> Phase:
    """A decode step at a mean batch and context, which may be fractional.

    Replicas and stages hold whole sequences, rounded up on the most loaded one, so a mean batch is rounded down to a
    number that divides evenly.  Otherwise its floor could be above those of the batches that it is the mean of.
    """
    shares = float(serve.parallel.data * serve.parallel.pipeline)
    even = max(batch // shares, 1.0) * shares if shares > 1 else batch
    return run_pass(serve, "decode", Segment(min(even, batch), 1.0, context_tokens))


def prefill_of(serve: Deployment, batch: float, prompt_tokens: float, cached_tokens: float) -> Phase:
    """The prefill of a batch of prompts, which may be fractional."""
    return run_pass(serve, "prefill", Segment(batch, prompt_tokens, cached_tokens))


def bounds_of_phase(phase: Phase) -> WorkBounds:
    """The bounds of one pass."""
    return _bounds({"pass": (phase, 1.0)}, floor_s=float(phase.floor_s))


def bounds_of_generation(first: Phase, step: Phase, steps: float) -> WorkBounds:
    """A batch from its prompts to its last tokens; the steps follow the prefill, so floors add up."""
    floor_s = float(first.floor_s) + steps * float(step.floor_s)
    return _bounds({"first": (first, 1.0), "step": (step, steps)}, floor_s=floor_s)


def bounds_of_request(first: Phase, step: Phase, steps: float, batch: float) -> WorkBounds:
    """The share of one request: its prompt, and its part of the steps that ``batch`` sequences share.

    ``first`` is a prompt on each replica.  A pipeline takes the next prompt when the last has left its first stage.  At
    the floor, prompts and steps overlap where they use different resources, and a prompt shares the weights that a step
    or another prompt streams anyway, so it does not read them again.
    """
    parallel = first.deployment.parallel
    prompt, rest = 1.0 / float(parallel.data), steps / batch
    busy: dict[str, float] = {}
    for phase, share in ((first, prompt), (step, rest)):
        for name, seconds in phase.resources_s.items():
            busy[name] = busy.get(name, 0.0) + share * float(seconds)
    busy["memory"] = max(busy["memory"] - prompt * float(first.weights_s), 0.0)
    shares = {"first": (first, prompt), "step": (step, rest)}
    return _bounds(shares, floor_s=max(busy.values()), stages=float(parallel.pipeline))


def _bounds(shares: Mapping[str, tuple[Phase, float]], floor_s: float, stages: float = 1.0) -> WorkBounds:
    """Sums over phases with their counts; the ``stages`` of a pipeline work on several prompts at the same time."""

    def summed(name: str) -> float:
        parts = {key: share * float(getattr(phase, name)) for key, (phase, share) in shares.items()}
        if name.endswith("_s") and "first" in parts:
            parts["first"] /= stages
        return sum(parts.values())

    serve = next(iter(shares.values()))[0].deployment
    limited: dict[str, Any] = {}
    compute_s = flops = 0.0
    for phase, share in shares.values():
        for name, seconds in phase.limited_s.items():
            limited[name] = limited.get(name, 0.0) + share * float(seconds)
        local = [item for item in phase.operators if item.operator.message is None]
        compute_s += share * float(total(item.compute_s for item in local))
        flops += share * float(total(item.flops for item in local))
    accelerators = float(serve.parallel.accelerators)
    peak = flops / compute_s if compute_s else float(max(serve.accelerator.dense_flops_per_s.values()))
    return WorkBounds(
        floor_s=floor_s,
        roofline_s=summed("roofline_s"),
        estimate_s=summed("estimate_s"),
        estimate_low_s=max(summed("estimate_low_s"), floor_s),
        estimate_high_s=summed("estimate_high_s"),
        flops=summed("flops"),
        moved_bytes=summed("moved_bytes"),
        peak_flops_per_s=peak * accelerators,
        peak_bytes_per_s=float(np.asarray(serve.accelerator.memory_bytes_per_s)) * accelerators,
        limit=str(name_limits(limited)),
    )
