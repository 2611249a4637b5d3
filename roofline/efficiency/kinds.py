"""Kinds: which set of parameters an operator takes, by what kind of kernel it is and in which formats."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ..operators import Operator

NEAREST = {
    "fp8_block": "fp8",
    "w4a8": "fp8",
    "int8": "fp8",
    "fp4": "fp8",
    "int4": "int8",
    "fp8": "bf16",
    "w4a16": "w8a16",
    "w8a16": "bf16",
    "kv8": "bf16",
    "tf32": "bf16",
    "fp32": "tf32",
}
"""Format -> the one whose kernels are most like its own, for accelerators without timings of it."""


def kind_of(operator: Operator) -> str:
    """Kind of kernel and formats, as parameters are filed: ``gemm.fp8``, ``attention_decode.bf16``."""
    shape, kind = operator.inputs, operator.kind
    if kind in ("matmul", "experts") and "m" in shape:
        label = product_format(shape["weight_bits"], operator.work.math)
        return f"{'gemm' if kind == 'matmul' else 'experts'}.{label}"
    if kind == "attention" and "pairs" in shape:
        head = "mla" if is_latent(shape) else "attention"
        phase = "decode" if np.all(np.equal(shape["new_tokens"], 1)) else "prefill"
        return f"{head}_{phase}.{attention_format(shape['kv_bits'], operator.work.math)}"
    return "stream"


def is_latent(shape: Mapping[str, Any]) -> bool:
    """Whether a cache entry is a latent, which is no whole number of keys and values."""
    heads = np.divide(shape["kv_values"], np.add(shape["key_dim"], shape["value_dim"]))
    return bool(np.any(heads % 1))


def collective_kind(name: str, accelerators: float) -> str:
    """Collectives are filed by the number that takes part: ``collective.all_reduce.8``."""
    return f"collective.{name}.{accelerators:.0f}"


@lru_cache(maxsize=256)
def product_format(weight_bits: float, math: str) -> str:
    """Formats of a product in one word: the math, or weights and activations where they differ (``w4a16``)."""
    if math in ("bf16", "fp16"):
        return "bf16" if weight_bits >= 12 else "w8a16" if weight_bits >= 6 else "w4a16"
    if math == "fp8":
        return "w4a8" if weight_bits < 6 else "fp8_block" if weight_bits > 8 else "fp8"
    return math


@lru_cache(maxsize=64)
def attention_format(kv_bits: float, math: str) -> str:
    """``fp8`` for math in 8 bits, ``kv8`` for a cache of 8 bits under 16-bit math, else ``bf16``."""
    if math == "fp8":
        return "fp8"
    return "kv8" if kv_bits < 12 else "bf16"
