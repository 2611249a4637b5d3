"""Widening: the same kernel in the next wider format, which a server could run instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..arrays import smaller
from ..hardware import Accelerator
from .forms import Kernel, expanding, touched
from .kinds import WIDER
from .unpacking import WIDER_MATH, unpacking_share

BITS = {"bf16": (16.0, 16.0), "fp8": (8.0, 8.0), "int8": (8.0, 8.0)}
"""Label of a wider format -> bits of its weights and activations."""


def wider_kind(kind: str) -> str:
    """The kind of kernel in the next wider format; empty if there is none."""
    head, _, label = kind.partition(".")
    return f"{head}.{WIDER[label]}" if label in WIDER and head != "collective" else ""


def widened(run: Kernel, kind: str, math: str, gpu: Accelerator) -> Kernel:
    """A kernel of ``kind`` in the format of `wider_kind`, with more bytes and a lower peak.

    Parameters
    ----------
    run : Kernel
        One run of the kernel in the narrower format.
    kind : str
        Kind of the kernel.
    math : str
        Format in which it computes.
    gpu : Accelerator
        The chip.

    Returns
    -------
    Kernel
        The same shape in the wider format.  A timing loop finds at most the capacity of the cache there.
    """
    wide = wider_kind(kind).partition(".")[2]
    weight_bits, activation_bits = BITS[wide]
    slower = gpu.peak_flops_per_s(math) / gpu.peak_flops_per_s(gpu.math_on_chip(wide))
    shape, label = dict(run.inputs), kind.partition(".")[2]
    if label in WIDER_MATH:
        slower = slower * expanding(1 / unpacking_share(gpu, label), shape["m"])
    if "kv_bits" in shape:
        growth, changes = _of_attention(shape), {"kv_bits": 16.0}
    else:
        growth = _of_products(shape, weight_bits, activation_bits)
        changes = {"weight_bits": weight_bits, "activation_bits": activation_bits}
    total_s = (run.memory_s + run.cached_s) * growth
    largest_s = (gpu.l2_bytes or 0.0) / gpu.memory_bytes_per_s
    cached_s = smaller(run.cached_s * growth, largest_s + 0.0 * run.cached_s)
    widths = {name: value + 0.0 * shape[name] for name, value in changes.items()}
    return Kernel(run.compute_s * slower, total_s - cached_s, cached_s, run.processors, shape | widths)


def _of_products(shape: Mapping[str, Any], weight_bits: float, activation_bits: float) -> Any:
    """Factor by which the bytes of a product grow."""
    weights, rows = shape["n"] * shape["k"], shape["m"]
    if "local_experts" in shape:
        rows = shape["routed_rows"]
        weights = weights * touched(shape["local_experts"], rows)
    before_weights, before_values = (
        weights * shape["weight_bits"],
        rows * (shape["k"] + shape["n"]) * shape["activation_bits"],
    )
    after = (
        before_weights * weight_bits / shape["weight_bits"] + before_values * activation_bits / shape["activation_bits"]
    )
    return after / (before_weights + before_values)


def _of_attention(shape: Mapping[str, Any]) -> Any:
    """Factor by which the bytes of attention grow with a 16-bit cache."""
    entries = shape["past_read"] + shape["new_read"] + shape["new_written"]
    cached = entries * shape["kv_values"] * shape["kv_bits"]
    values = (
        shape["new_tokens"] * shape["query_heads"] * (shape["key_dim"] + shape["value_dim"]) * shape["activation_bits"]
    )
    return (cached * 16.0 / shape["kv_bits"] + values) / (cached + values)
