"""Solve for what fits in memory: bits per weight, parameters, memory, batch or context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from ..arrays import bisect
from ..footprint.memory_use import memory
from ..formats import get_format
from ..phases.deployment import Deployment
from ..phases.workload import Workload
from ..report import Step
from .solutions import Solution, by_formula

_NARROW, _WIDE = "int4", "fp8"
_NARROW_BITS, _WIDE_BITS = 4.0, 8.0
"""Two formats without scales; their difference gives the bytes per additional bit of every weight."""


def weight_bits(serve: Deployment, load: Workload) -> Solution:
    """Bits per weight of the linear layers at which memory is full, with everything else unchanged.

    The memory that an engine leaves for weights and cache may depend linearly on the weights (TensorRT-LLM takes a
    share of what is free after loading).  The free memory is therefore computed for two formats and interpolated to
    zero.
    """
    narrow, wide = (memory(_in_format(serve, name), load) for name in (_NARROW, _WIDE))
    room_narrow, room_wide = (
        float(found.per_accelerator["available_bytes"] - found.per_accelerator["needed_bytes"])
        for found in (narrow, wide)
    )
    inputs = {
        "narrow_bits": _NARROW_BITS,
        "wide_bits": _WIDE_BITS,
        "room_in_narrow_bytes": room_narrow,
        "room_in_wide_bytes": room_wide,
    }
    slope = (room_narrow - room_wide) / (_WIDE_BITS - _NARROW_BITS)
    step = Step(
        "weight_bits",
        "narrow_bits + room_in_narrow_bytes * (wide_bits - narrow_bits) / (room_in_narrow_bytes - room_in_wide_bytes)",
        inputs,
        _NARROW_BITS + room_narrow / slope,
        "memory left free with weights of two widths, interpolated to zero",
    )
    available = float(memory(serve, load).per_accelerator["available_bytes"])
    return _fitting("weight_bits", step, available, "the KV cache and the layers kept in 16 bits do not fit alone")


def _in_format(serve: Deployment, weights: str) -> Deployment:
    return serve.replace(precision=replace(serve.precision, weights=weights, exceptions={}))


def most_parameters(serve: Deployment, load: Workload) -> Solution:
    """Parameters of a similar model, all in the weight format, that fit together with the cache of the load."""
    narrow, wide = (memory(_in_format(serve, name), load) for name in (_NARROW, _WIDE))
    lighter, heavier = (float(found.weights_bytes_on_one) for found in (narrow, wide))
    room_lighter, room_heavier = (
        float(found.per_accelerator["available_bytes"] - found.per_accelerator["paged_kv_bytes"])
        for found in (narrow, wide)
    )
    # Memory for weights as a linear function of the weights; constant unless the engine takes a share of
    # what is free after loading.
    growth = (room_heavier - room_lighter) / (heavier - lighter)
    room = (room_lighter - growth * lighter) / (1.0 - growth)
    bits = get_format(serve.precision.weights).bits
    step = Step(
        "parameters",
        "room_for_weights_bytes * 8 / weight_bits",
        {"room_for_weights_bytes": room, "weight_bits": bits},
        room * 8 / bits,
        "memory that the KV cache leaves, divided by the bits of a weight",
    )
    available = float(memory(serve, load).per_accelerator["available_bytes"])
    return _fitting("parameters", step, available, "the KV cache does not fit alone")


def memory_bytes(serve: Deployment, load: Workload) -> Solution:
    """Memory per accelerator at which the deployment fits.

    The generic engine uses a fixed fraction of memory. Named engines also reserve memory in other ways, so their answer
    is found by bisection.
    """
    need = memory(serve, load)
    needed = float(need.per_accelerator["needed_bytes"])
    if need.engine_pool is not None:
        return _bisected_memory(serve, load, needed)
    step = Step(
        "memory_bytes",
        "needed_bytes / memory_fraction",
        {"needed_bytes": needed, "memory_fraction": serve.engine_fraction},
        needed / serve.engine_fraction,
        "weights and pages, divided by the engine's fraction",
    )
    return _fitting("memory_bytes", step, float(step.value), "")


LEAST_BYTES, MOST_BYTES = 1e8, 1e15
"""Largest memory per accelerator in the search, far beyond any device."""


def _bisected_memory(serve: Deployment, load: Workload, needed: float) -> Solution:
    def too_small(value: float) -> bool:
        larger = serve.replace(accelerator=serve.accelerator.replace(memory_bytes=float(value)))
        return not bool(memory(larger, load).fits)

    _, enough = bisect(too_small, LEAST_BYTES, MOST_BYTES)
    why = "the smallest memory_bytes with which it fits"
    return Solution("memory_bytes", float(enough), "fits", needed, needed, True, "bisection", why)


def _fitting(find: str, step: Step, available: float, why_not: str) -> Solution:
    possible = step.value > 0
    value = float(step.value) if possible else np.nan
    why = "" if possible else f"never: {why_not}"
    reached = available if possible else np.nan
    return by_formula(find, "fits", available, value=value, reached=reached, why=why, steps=(step,))


def _most(serve: Deployment, load: Workload, find: str, name: str, method: str) -> Solution:
    """The largest batch or context according to `Memory`."""
    need = memory(serve, load)
    most, available = float(getattr(need, name)), float(need.per_accelerator["available_bytes"])
    steps = tuple(step for step in need.explain() if step.name == f"memory.{name}")
    if most == 0:
        why = "never: the weights leave no room"
        return Solution(find, np.nan, "fits", available, np.nan, False, method, why, steps)
    if np.isinf(most):
        changed = load
    elif find == "batch":
        changed = replace(load, batch=most)
    else:
        changed = replace(load, prompt_tokens=1, cached_tokens=max(most - load.output_tokens - 1, 0))
    reached = float(memory(serve, changed).per_accelerator["needed_bytes"])
    why = "always: the cache does not grow" if np.isinf(most) else ""
    return Solution(find, most, "fits", available, reached, True, method, why, steps)


def largest_batch(serve: Deployment, load: Workload) -> Solution:
    """The largest batch that fits."""
    return _most(serve, load, "batch", "max_batch", "closed form")


def longest_context(serve: Deployment, load: Workload) -> Solution:
    """The longest context of each sequence that fits."""
    return _most(serve, load, "context_tokens", "max_context", "bisection")


FITS: Mapping[str, Callable[[Deployment, Workload], Solution]] = {
    "weight_bits": weight_bits,
    "parameters": most_parameters,
    "memory_bytes": memory_bytes,
    "batch": largest_batch,
    "context_tokens": longest_context,
}
"""Inputs that can be solved for so that a deployment fits in memory."""
