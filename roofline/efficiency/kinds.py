"""Kinds: which set of parameters an operator uses, by kind of kernel and format."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..arrays import distinct, everywhere
from ..formats import get_format
from ..operators.operator import Operator

NEAREST = {
    "fp8_block": "fp8",
    "mx4a8": "w4a8",
    "w4a8": "fp8",
    "w4int8": "int8",
    "int8": "fp8",
    "fp4": "fp8",
    "int4": "int8",
    "fp8": "bf16",
    "mx4a16": "w4a16",
    "nf4a16": "w4a16",
    "w4a16": "w8a16",
    "w8a16": "bf16",
    "kv8": "bf16",
    "tf32": "bf16",
    "fp32": "tf32",
}
"""Format -> the format with the most similar kernels, used if an accelerator has no timings of the first."""

WIDER = {
    "fp4": "fp8",
    "mx4a8": "fp8",
    "w4a8": "fp8",
    "w4int8": "int8",
    "fp8_block": "bf16",
    "fp8": "bf16",
    "int8": "bf16",
    "int4": "int8",
    "mx4a16": "bf16",
    "w4a16": "bf16",
    "w8a16": "bf16",
    "kv8": "bf16",
}
"""Format -> the next wider format, which a server could run instead."""

WRITTEN_WIDE = "gemm.nf4a16"
"""Products whose weights a kernel of its own writes in 16 bits first, unless there is a single row (bitsandbytes)."""

SPARSE_UNPACKED = 410 / 660
"""Rate of sparse attention on an 8-bit latent cache relative to the dense 16-bit kernel on Hopper, when compute-bound.

FlashMLA reaches 410 TFLOP/s and 660 TFLOP/s on an H800 (github.com/deepseek-ai/FlashMLA, README): it expands the
entries of the chosen tokens to 16 bits before it multiplies.  Dense kernels on 8-bit caches cannot read lists of
tokens."""


def kind_of(operator: Operator, math: str | None = None) -> str:
    """Kind of kernel and formats, under which parameters are stored: ``gemm.fp8``, ``attention_decode.bf16``.

    Parameters
    ----------
    operator : Operator
        The operator.
    math : str, optional
        Format in which the chip computes, if it has no units for the operator's own.

    Returns
    -------
    str
        The kind; ``stream`` for operators without a shape.
    """
    shape, kind = operator.inputs, operator.kind
    math = math or operator.work.math
    if "written_wide" in shape:
        return WRITTEN_WIDE
    if kind in ("matmul", "experts"):
        return product_kind(kind, shape["weight_bits"], math)
    if kind == "attention":
        return attention_kind(operator.latent, everywhere(shape["decodes"]), shape["kv_bits"], math)
    return "stream"


def variants(inputs: Any, kind: str) -> list[tuple[str, Any]]:
    """Special cases for which engines have separate kernels, each with a bool or a mask of where it applies.

    Attention kernels differ by the width of a head (``d192``), latent attention by whether only selected tokens are
    read (``sparse``), experts by whether they are divided over GPUs (``ep``, ``whole``) and whether they have a gate
    (``plain``: two matrices).
    """
    head = kind.partition(".")[0]
    if head == "mla_decode":
        return [("sparse", inputs["past_read"] < inputs["past_tokens"])]
    if head in ("attention_decode", "attention_prefill"):
        width = inputs["key_dim"]
        return [(f"d{value:.0f}", width == value) for value in distinct(width)]
    if head == "experts":
        ways, matrices = inputs["ways"], inputs["matrices"]
        return [("plain", matrices == 2), ("ep", ways > 1), ("whole", ways == 1)]
    return []


def collective_kind(name: str, accelerators: float) -> str:
    """Kind of a collective, which includes the number of participants: ``collective.all_reduce.8``."""
    return f"collective.{name}.{accelerators:.0f}"


@lru_cache(maxsize=256)
def product_kind(kind: str, weight_bits: float, math: str) -> str:
    """Formats of a product as one label: the math, or weights and activations if they differ (``w4a16``)."""
    label = math
    if math in ("bf16", "fp16"):
        label = _beside_16_bits(weight_bits)
    elif math == "fp8":
        label = _beside_8_bits(weight_bits)
    elif math == "int8" and weight_bits < 6:
        label = "w4int8"
    return f"{'gemm' if kind == 'matmul' else 'experts'}.{label}"


def _beside_16_bits(weight_bits: float) -> str:
    """Label of weights that are multiplied with 16-bit activations."""
    if weight_bits < 6:
        return f"{_narrow(weight_bits)}a16"
    return "w8a16" if weight_bits < 12 else "bf16"


def _beside_8_bits(weight_bits: float) -> str:
    """Label of weights that are multiplied with fp8 activations; more than 8 bits means block scales."""
    if weight_bits < 6:
        return f"{_narrow(weight_bits)}a8"
    return "fp8" if weight_bits <= 8 else "fp8_block"


def _narrow(weight_bits: float) -> str:
    """``mx4`` for 4-bit floats in blocks of 32, which have separate kernels, else ``w4``."""
    return "mx4" if weight_bits == get_format("mxfp4").bits else "w4"


@lru_cache(maxsize=64)
def attention_kind(latent: bool, decoding: bool, kv_bits: float, math: str) -> str:
    """``fp8`` for 8-bit math, ``kv8`` for an 8-bit cache with 16-bit math, else ``bf16``."""
    label = "fp8"
    if math != "fp8":
        label = "kv8" if kv_bits < 12 else "bf16"
    return f"{'mla' if latent else 'attention'}_{'decode' if decoding else 'prefill'}.{label}"
