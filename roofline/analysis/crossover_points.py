"""Crossovers: the batches and contexts at which the limit of a deployment changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import bisect, scalar
from ..errors import Number
from ..phases.deployment import Deployment, check_deployment
from ..phases.passes import Phase, decode
from ..phases.workload import Workload, check_load
from ..report import Report, Step


@dataclass(frozen=True, eq=False, repr=False)
class Crossovers(Report):
    """Batches and contexts at which the limit of decode changes.

    Attributes
    ----------
    ridge_batch : float
        Batch at which the projections together reach the ridge point; infinite if they never do.
    expert_ridge_batch : float, optional
        The same for the routed experts under uniform routing; None without experts.
    kv_context_tokens : int or array
        Context at which the KV cache of the batch is as large as the weights; infinite if the cache stops growing
        earlier.
    kv_tokens : int or array
        Batch x context at that point.
    """

    ridge_batch: float
    expert_ridge_batch: float | None
    kv_context_tokens: Number
    kv_tokens: Number
    batch: Number
    steps: tuple[Step, ...]

    columns = ("ridge_batch", "expert_ridge_batch", "batch", "kv_context_tokens", "kv_tokens")

    def summary(self) -> str:
        r"""Batch from which decode is compute-bound, and context at which the cache is as large as the weights.

        Examples
        --------
        >>> import roofline as rl
        >>> said = rl.crossovers(rl.Deployment("llama-3.1-70b", "h100-sxm")).summary()
        >>> print(*said.split("; "), sep="\n")
        The weights are compute-bound from a batch of 313
        at batch 1, the KV cache is as large as the weights at a context of 424,213 tokens.
        """
        batch = np.ceil(self.ridge_batch)
        weights = f"from a batch of {batch:,.0f}" if np.isfinite(batch) else "at no batch"
        answer = f"The weights are compute-bound {weights}"
        if np.ndim(self.kv_context_tokens) or not np.isfinite(self.kv_context_tokens):
            return f"{answer}."
        where = f"at a context of {float(self.kv_context_tokens):,.0f} tokens"
        return f"{answer}; at batch {float(self.batch):,.0f}, the KV cache is as large as the weights {where}."

    def _derivation(self) -> tuple[Step, ...]:
        """Derivation of the batches and contexts."""
        return self.steps


def crossovers(serve: Deployment, load: Workload | None = None) -> Crossovers:
    """Find where compute begins to limit decode, and where the KV cache outgrows the weights.

    Projections: each token takes ``F`` FLOPs and ``A`` bytes of activations, each step ``W`` bytes of weights.  The
    intensity ``m F / (W + m A)`` reaches the ridge point ``R`` at ``m = R W / (F - R A)``, and never if ``F <= R A``.

    Cache: a step streams ``W`` bytes of weights and reads ``batch * cache(context)`` bytes; the context at which
    both are equal is found by bisection, because windows limit the growth of the cache.

    Parameters
    ----------
    load : Workload, optional
        Gives the batch for ``kv_context_tokens``; one sequence if None.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> found = rl.crossovers(serve)
    >>> round(found.ridge_batch), round(found.kv_tokens)
    (313, 424213)
    """
    check_deployment(serve)
    load = Workload() if load is None else load
    check_load(load)
    batch = load.batch
    step = decode(serve, Workload(batch=batch), context_tokens=0)
    one = decode(serve, Workload(batch=1), context_tokens=0)
    ridge = _ridge_step(one, "matmul", "ridge_batch")
    experts = _ridge_step(one, "experts", "expert_ridge_batch")
    context = _context_of(serve, step.weight_bytes / batch)
    steps = (ridge, experts) if experts else (ridge,)
    return Crossovers(
        ridge_batch=ridge.value if ridge else float("inf"),
        expert_ridge_batch=experts.value if experts else None,
        kv_context_tokens=context,
        kv_tokens=context * batch,
        batch=batch,
        steps=tuple(item for item in steps if item),
    )


def _ridge_step(one: Phase, kind: str, name: str) -> Step | None:
    """Batch at which all operators of ``kind`` together reach the ridge point, from their work for one token."""
    chosen = [item for item in one.operators if item.operator.kind == kind and item.name not in ("lm_head", "router")]
    if not chosen:
        return None
    gpu = one.deployment.accelerator
    spread = {item.operator.inputs["experts"] / item.operator.inputs["top_k"] for item in chosen if kind == "experts"}
    inputs = {
        "flops": sum(item.flops for item in chosen),
        "weight_bytes": sum(item.operator.count * item.operator.work.weight_bytes for item in chosen),
        "activation_bytes": sum(item.operator.count * item.operator.work.activation_bytes for item in chosen),
        "ridge_flops_per_byte": gpu.ridge_flops_per_byte(chosen[0].operator.work.math),
        "spread": max(spread, default=1.0),
    }
    spare = inputs["flops"] - inputs["ridge_flops_per_byte"] * inputs["activation_bytes"]
    reached = spare > 0
    formula = "spread * ridge_flops_per_byte * weight_bytes / (flops - ridge_flops_per_byte * activation_bytes)"
    value = inputs["spread"] * inputs["ridge_flops_per_byte"] * inputs["weight_bytes"] / spare if reached else np.inf
    return Step(name, formula if reached else "inf", inputs if reached else {}, value, "intensity = ridge point")


def _context_of(serve: Deployment, cache_bytes: Number) -> Number:
    """Tokens at which the cache of one sequence reaches ``cache_bytes``; infinite if it never does."""
    kv = serve.precision.kv

    def enough(tokens: Number) -> Any:
        return serve.model.cache_bytes(tokens, kv) >= cache_bytes

    shape = np.shape(cache_bytes)
    _, first = bisect(enough, np.zeros(shape), np.full(shape, LONGEST), whole=True)
    return scalar(np.where(enough(LONGEST), np.where(enough(0), 0.0, first), np.inf))


LONGEST = 2.0**50
"""Larger than any context; integers up to here are exact as floats."""
