"""Forms: how the time of a kernel follows from its shape, with a few parameters that timings fit.

Every form starts from the two times of the roofline, divides each by the share of the peak that kernels reach, joins
them smoothly, and adds what a roofline leaves out: waves that are not full, loops that can't be split, fixed times.

    join(a, b, ...) = (a^p + b^p + ...)^(1/p)

is between the sum (p = 1: nothing overlaps) and the maximum (p large: everything does).

Everything is a float or an array and broadcasts; nothing here branches on a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log2
from typing import Any, NamedTuple

import numpy as np

Parameters = Mapping[str, float]


class Kernel(NamedTuple):
    """One run of an operator, as its form sees it.

    Attributes
    ----------
    compute_s, memory_s : FLOPs at the peak; bytes that cross the memory interface at the bandwidth
    cached_s : bytes found in the last-level cache, at the bandwidth of the memory
    processors : multiprocessors of the chip (SMs, CUs, Xe cores)
    inputs : the operator's shape
    """

    compute_s: Any
    memory_s: Any
    cached_s: Any
    processors: Any
    inputs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Prior:
    """What is known of a parameter before it is fitted: a typical value and how far from it others lie.

    ``spread`` is in natural logarithms: of the odds for a share, which stays between 0 and 1, else of what the value
    has above ``least``.
    """

    typical: float
    spread: float
    share: bool = False
    least: float = 0.0

    def value(self, z: float) -> float:
        """The parameter at ``z`` spreads from the typical value."""
        if not self.share:
            return float(self.least + (self.typical - self.least) * np.exp(self.spread * z))
        odds = self.typical / (1 - self.typical) * np.exp(self.spread * z)
        return float(odds / (1 + odds))

    def z(self, value: float) -> float:
        """Inverse of `value`."""
        if not self.share:
            above = max(value - self.least, 1e-30)
            return float(np.log(above / (self.typical - self.least)) / self.spread)
        value = min(max(value, 1e-12), 1 - 1e-12)
        odds = value / (1 - value) / (self.typical / (1 - self.typical))
        return float(np.log(odds) / self.spread)


@dataclass(frozen=True)
class Form:
    """A formula for the time of one kernel and what its parameters typically are."""

    time_s: Callable[[Parameters, Kernel], Any]
    priors: Mapping[str, Prior]


def larger(a: Any, b: Any) -> Any:
    """The larger of two; floats are spared the price of an array."""
    return np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else max(a, b)


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two, likewise."""
    return np.minimum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else min(a, b)


def ceil(x: Any) -> Any:
    """The next whole number, for floats and arrays alike."""
    return np.ceil(x) if isinstance(x, np.ndarray) else -(-x // 1)


def join(p: float, *times: Any) -> Any:
    """``(a^p + b^p + ...)^(1/p)``: between their sum and their maximum."""
    total = 0.0
    for time in times:
        total = total + time**p
    return total ** (1 / p)


def bytes_s(p: Parameters, run: Kernel) -> Any:
    """Time to move the operands: memory at its share of the bandwidth, the cache ``cache`` times as fast as that."""
    return (run.memory_s + run.cached_s / p["cache"]) / p["memory"]


MEMORY = {"memory": Prior(0.82, 0.6, share=True), "cache": Prior(2.5, 0.7, least=1.0)}


def gemm_s(p: Parameters, run: Kernel) -> Any:
    """Dense product ``[m, k] @ [k, n]``.

    The output is cut in tiles of ``tile_m x tile_n`` (lower ones for fewer rows), and all multiprocessors compute a
    wave of tiles at a time, the last perhaps not full; a share ``split`` of kernels evens that out by splitting ``k``.
    A tile walks along ``k``, which takes ``step_s`` a value however little there is to do.  Engines that quantize
    activations on the way spend ``row_s`` on each of the ``m`` rows.
    """
    m, n, k = run.inputs["m"], run.inputs["n"], run.inputs["k"]
    tile_m, tile_n = smaller(p["tile_m"], ceil(m / LEAST_TILE) * LEAST_TILE), p["tile_n"]
    tiles = ceil(m / tile_m) * ceil(n / tile_n)
    waves = tiles / run.processors
    waves = p["split"] * waves + (1 - p["split"]) * ceil(waves)
    padded = waves * run.processors * tile_m * tile_n / (m * n)
    compute_s = run.compute_s * padded / p["compute"]
    return p["kernel_s"] + m * p["row_s"] + join(p["overlap"], compute_s, bytes_s(p, run), k * p["step_s"])


LEAST_TILE = 16
"""Rows of the smallest tile of a matrix unit."""

GEMM = Form(
    gemm_s,
    {
        "kernel_s": Prior(4e-6, 1.0),
        "row_s": Prior(2e-11, 3.0),
        "step_s": Prior(3e-10, 2.0),
        "compute": Prior(0.75, 1.0, share=True),
        **MEMORY,
        "overlap": Prior(2.5, 0.7, least=1.0),
        "split": Prior(0.5, 1.5, share=True),
    },
)
TILES = ((64, 64), (64, 128), (128, 128), (128, 256), (256, 128))
"""Tiles that a fit of `GEMM` chooses from."""


def width_factor(p: Parameters, key_dim: Any) -> Any:
    """How much longer kernels take for heads of another width than 128: a parabola in its logarithm."""
    if "width" not in p:
        return 1.0
    octaves = log2(key_dim / 128) if isinstance(key_dim, int) else np.log2(key_dim / 128)
    return p["width"] ** octaves * p["width_2"] ** (octaves * octaves)


WIDTH = {"width": Prior(1.0, 0.5), "width_2": Prior(1.0, 0.3)}


def decode_s(p: Parameters, run: Kernel) -> Any:
    """Attention of one new token a sequence on its cache (flash-decoding: the cache is split among blocks).

    Query heads of a group share the keys, in tiles of 16 rows that may not be full.  A window saves reading only as far
    as the kernel skips what lies before it: it reads ``window_leak`` of that.  A block walks along its part of the
    cache, at most ``chunk`` tokens of it alone, at ``token_s`` a token.  Each KV head of each sequence costs
    ``block_s``, or ``single_s`` where query heads do not share them, and each query head ``head_s``, or
    ``window_head_s`` more with a window.
    """
    shape = run.inputs
    sequences, heads, past, seen = shape["sequences"], shape["query_heads"], shape["past_tokens"], shape["past_read"]
    kv_heads = shape["kv_heads"]
    group = heads / kv_heads
    read = seen + p.get("window_leak", 0.0) * (past - seen)
    more = (read + 1) / (seen + 1) * width_factor(p, shape["key_dim"])
    compute_s = run.compute_s * more * ceil(group / 16) * 16 / group / p["compute"]
    walk_s = p["token_s"] * read / (1 + read / p["chunk"])
    shared = group > 1
    blocks = sequences * kv_heads * (shared * p["block_s"] + (1 - shared) * p.get("single_s", 0.0))
    each = sequences * heads * (p["head_s"] + (seen < past) * p.get("window_head_s", 0.0))
    return p["kernel_s"] + blocks + each + join(p["overlap"], compute_s, bytes_s(p, run) * more, walk_s)


DECODE = Form(
    decode_s,
    {
        "kernel_s": Prior(8e-6, 1.0),
        "block_s": Prior(3e-9, 1.5),
        "single_s": Prior(1e-9, 1.5),
        "head_s": Prior(3e-10, 1.5),
        "window_head_s": Prior(3e-10, 2.0),
        "token_s": Prior(2e-9, 1.5),
        "chunk": Prior(500.0, 1.5),
        "window_leak": Prior(0.03, 2.0, share=True),
        "compute": Prior(0.3, 1.5, share=True),
        **MEMORY,
        "overlap": Prior(2.5, 0.7, least=1.0),
        **WIDTH,
    },
)


QUERY_TILE = 128


def prefill_s(p: Parameters, run: Kernel) -> Any:
    """Causal attention of many new tokens a sequence (FlashAttention: tiles of 128 queries walk along the keys).

    On the diagonal half a tile is computed in vain.  Beside the products each pair of a head costs ``softmax`` of a
    product of width 512, whatever the width.  A tile walks along its keys at ``token_s`` each; starting it costs
    ``block_s``.
    """
    shape = run.inputs
    new, past = shape["new_tokens"], shape["past_tokens"]
    widths = shape["key_dim"] + shape["value_dim"]
    causal = new * past + new * (new + 1) / 2
    pairs = shape["pairs"] + p.get("window_leak", 0.0) * (causal - shape["pairs"]) + new * (QUERY_TILE / 2)
    factor = width_factor(p, shape["key_dim"])
    each = (1 / p["compute"] + p["softmax"] * 256 / widths) * factor
    compute_s = run.compute_s * pairs / larger(shape["pairs"], 1.0) * each
    walk_s = p["token_s"] * (shape["pairs"] / new) * 2 * factor
    blocks = shape["sequences"] * shape["query_heads"] * ceil(new / QUERY_TILE)
    return p["kernel_s"] + blocks * p["block_s"] + join(p["overlap"], compute_s, bytes_s(p, run), walk_s)


PREFILL = Form(
    prefill_s,
    {
        "kernel_s": Prior(9e-6, 1.0),
        "block_s": Prior(5e-9, 2.0),
        "token_s": Prior(5e-9, 1.5),
        "compute": Prior(0.6, 1.5, share=True),
        "softmax": Prior(0.1, 2.0),
        "window_leak": Prior(0.05, 2.0, share=True),
        **MEMORY,
        "overlap": Prior(2.0, 0.7, least=1.0),
        **WIDTH,
    },
)


def experts_s(p: Parameters, run: Kernel) -> Any:
    """Grouped products of the experts on this GPU, and the sorting of tokens around them.

    The ``m * top_k`` rows are spread over the experts that they touch; each pads its rows to a tile, half of it in vain
    on average (a lower tile for few rows).  Under skewed routing fewer experts are touched (``exp(-skew *
    skew_experts)`` of them) and the GPU that decides has ``ways ** (skew * skew_load)`` times the average
    rows.  ``token_s`` is what sorting costs a row, ``expert_s`` what scheduling costs an expert; of these a matrix
    bears a third.
    """
    shape = run.inputs
    skew, parallel, rows, experts = shape["skew"], shape["ways"], shape["routed_rows"], shape["local_experts"]
    evenly = touched(experts, rows)
    load = rows * parallel ** (p["skew_load"] * skew)
    distinct = touched(experts * np.exp(-skew * p["skew_experts"]), load)
    tile = smaller(p["tile"], load / distinct + LEAST_TILE)
    padded = (load + distinct * tile / 2) / rows
    compute_s = run.compute_s * padded / p["compute"]
    memory_s = bytes_s(p, run) * distinct / evenly
    share = shape["matrices"] / 3
    around_s = p["kernel_s"] + load * p["token_s"] + experts * p["expert_s"]
    return share * around_s + join(p["overlap"], compute_s, memory_s, share * shape["k"] * p["step_s"])


def touched(experts: Any, rows: Any) -> Any:
    """Experts that some of ``rows`` go to, each to any of them: ``E (1 - exp(-rows / E))``."""
    return experts * -np.expm1(-rows / experts)


EXPERTS = Form(
    experts_s,
    {
        "kernel_s": Prior(3e-5, 1.0),
        "token_s": Prior(2e-10, 2.0),
        "expert_s": Prior(2e-8, 2.0),
        "step_s": Prior(1e-9, 2.0),
        "tile": Prior(32.0, 1.0),
        "compute": Prior(0.5, 1.5, share=True),
        **MEMORY,
        "overlap": Prior(1.5, 0.7, least=1.0),
        "skew_experts": Prior(0.2, 1.5),
        "skew_load": Prior(0.1, 1.5),
    },
)


def collective_s(p: Parameters, run: Kernel) -> Any:
    """A collective: ``latency_s`` and the bytes on the wire at a share of the link, joined (Hockney's alpha and beta).

    An exponent of 1/2 is a message cut in the best number of pieces and pipelined: ``(sqrt(a) + sqrt(b))^2``.
    ``run.memory_s`` is the time on the wire at the rate of the link.
    """
    return join(p["overlap"], p["latency_s"] + 0 * run.memory_s, run.memory_s / p["link"])


COLLECTIVE = Form(
    collective_s,
    {
        "latency_s": Prior(1e-5, 1.0),
        "link": Prior(0.7, 1.5, share=True),
        "overlap": Prior(1.0, 0.5),
    },
)


def stream_s(p: Parameters, run: Kernel) -> Any:
    """Anything else: a fixed time, and compute and memory at their shares."""
    return p["kernel_s"] + join(p["overlap"], run.compute_s / p["compute"], bytes_s(p, run))


STREAM = Form(
    stream_s,
    {
        "kernel_s": Prior(4e-6, 1.0),
        "compute": Prior(0.5, 1.0, share=True),
        **MEMORY,
        "overlap": Prior(2.5, 0.7, least=1.0),
    },
)


def _latent(form: Form) -> Form:
    """A form for MLA: one width of heads, one latent that all share, no windows."""
    unused = (*WIDTH, "window_leak", "window_head_s", "single_s")
    return Form(form.time_s, {name: prior for name, prior in form.priors.items() if name not in unused})


FORMS: dict[str, Form] = {
    "gemm": GEMM,
    "attention_decode": DECODE,
    "attention_prefill": PREFILL,
    "mla_decode": _latent(DECODE),
    "mla_prefill": _latent(PREFILL),
    "experts": EXPERTS,
    "collective": COLLECTIVE,
    "stream": STREAM,
}
"""Kind of kernel -> its form."""
