"""Forms: how the time of a kernel follows from its shape, with a few parameters that timings fit.

Every form starts from the two times of the roofline, divides each by the share of the peak that kernels reach, joins
them smoothly, and adds what a roofline leaves out: waves that are not full, loops that cannot be split, fixed times.

    join(a, b, ...) = (a^p + b^p + ...)^(1/p)

is between the sum (p = 1: nothing overlaps) and the maximum (p large: everything does).

A form returns two parts.  The *fixed* part is what a launch by itself costs whatever the shape; a captured CUDA graph
leaves only a share of it.  The *running* part grows with the work.

Everything is a float or an array and broadcasts; nothing here branches on a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import ceil, exp, expm1, larger, log1p, smaller

Parameters = Mapping[str, float]


class Kernel(NamedTuple):
    """One run of an operator, as its form sees it.

    Attributes
    ----------
    compute_s : float or array
        FLOPs at the peak of the chip.
    memory_s : float or array
        Bytes that cross the memory interface, at its bandwidth.
    cached_s : float or array
        Bytes found in the last-level cache by a timing loop, at the bandwidth of the memory.
    processors : float
        Multiprocessors of the chip (SMs, CUs, Xe cores).
    inputs : mapping of str to float or array
        The operator's shape.
    clocked_s : float or array
        All its bytes at one a clock and multiprocessor; 0 where the clock is not known.
    """

    compute_s: Any
    memory_s: Any
    cached_s: Any
    processors: Any
    inputs: Mapping[str, Any]
    clocked_s: Any = 0.0


class Parts(NamedTuple):
    """Time of a kernel in two parts: what a launch costs by itself, and what the work takes."""

    fixed_s: Any
    running_s: Any


class Terms(NamedTuple):
    """What a form adds up: ``fixed_s + around_s + join(overlap, *joined)``.

    Attributes
    ----------
    fixed_s : float or array
        What a launch costs by itself.
    around_s : float or array
        What runs before and after the rest.
    overlap : float
        Exponent of the join.
    joined : mapping of str to float or array
        Times that overlap each other, by name.
    """

    fixed_s: Any
    around_s: Any
    overlap: Any
    joined: Mapping[str, Any]


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

    def value(self, z: Any) -> Any:
        """The parameter at ``z`` spreads from the typical value."""
        if not self.share:
            return self.least + (self.typical - self.least) * np.exp(self.spread * z)
        odds = self.typical / (1 - self.typical) * np.exp(self.spread * z)
        return odds / (1 + odds)

    def z(self, value: float) -> float:
        """Inverse of `value`."""
        # The bounds keep values at the ends of the range, whose logarithm is infinite, inside it.
        if not self.share:
            above = max(value - self.least, 1e-30)
            return float(np.log(above / (self.typical - self.least)) / self.spread)
        value = min(max(value, 1e-12), 1 - 1e-12)
        odds = value / (1 - value) / (self.typical / (1 - self.typical))
        return float(np.log(odds) / self.spread)


@dataclass(frozen=True)
class Form:
    """A formula for the time of one kernel and what its parameters typically are.

    Attributes
    ----------
    terms : callable
        Parameters and a `Kernel` to `Terms`.
    priors : mapping of str to Prior
        Parameters that a fit moves.
    choices : tuple of mappings
        Sets of whole-number parameters (sizes of tiles) of which a fit takes the best.
    """

    terms: Callable[[Parameters, Kernel], Terms]
    priors: Mapping[str, Prior]
    choices: tuple[Mapping[str, float], ...] = ({},)

    def parts(self, p: Parameters, run: Kernel) -> Parts:
        """Fixed and running part."""
        terms = self.terms(p, run)
        return Parts(terms.fixed_s, terms.around_s + join(terms.overlap, *terms.joined.values()))

    def time_s(self, p: Parameters, run: Kernel) -> Any:
        """Fixed and running part together."""
        parts = self.parts(p, run)
        return parts.fixed_s + parts.running_s

    @property
    def names(self) -> frozenset[str]:
        """Every parameter, fitted or chosen."""
        return frozenset((*self.priors, *self.choices[0]))


def join(p: float, *times: Any) -> Any:
    """``(a^p + b^p + ...)^(1/p)``: between their sum and their maximum.

    It is computed as ``m ((a/m)^p + (b/m)^p + ...)^(1/p)`` with the longest time ``m``, which no time overflows.
    """
    longest: Any = TINY_S
    for time in times:
        longest = larger(longest, time)
    total = 0.0
    for time in times:
        total = total + (time / longest) ** p
    return longest * total ** (1 / p)


TINY_S = 1e-30
"""Shorter than any time that is not zero: quotients and logarithms of times that are 0 stay finite with it."""


def bytes_s(p: Parameters, run: Kernel, more_s: Any = 0.0) -> Any:
    """Time to move the operands: memory at its share of the bandwidth, the cache ``cache`` times as fast as that.

    A loop over operands that are larger than the cache finds little of them there: with the least-recently-used rule
    a cyclic walk finds nothing.  Hits fall linearly from all that fits to nothing at operands of twice the cache.
    """
    moved_s = run.memory_s + run.cached_s
    # 1e-30 s stands for no time where nothing is cached: the quotient must not be 0 / 0.
    resident_s = run.cached_s * smaller(larger(2.0 - moved_s / larger(run.cached_s, 1e-30), 0.0), 1.0)
    return (moved_s - resident_s + resident_s / p["cache"] + more_s) / p["memory"]


def unpacking(p: Parameters, run: Kernel) -> dict[str, Any]:
    """Time to unpack weights on the general units, ``bytes_per_clock`` a multiprocessor; nothing if that is no limit.

    Kernels that expand quantized weights by arithmetic (llama.cpp's for a single row) are bound by it on chips with
    much bandwidth for few multiprocessors, like the A100.
    """
    return {"unpacking_s": run.clocked_s / p["bytes_per_clock"]} if "bytes_per_clock" in p else {}


MEMORY = {"memory": Prior(0.82, 0.6, share=True), "cache": Prior(2.5, 0.7, least=1.0)}

SHORT_S = 1e-4
"""Products shorter than this are over before the chip lowers its clock."""


def droop(p: Parameters, compute_s: Any) -> Any:
    """How much slower long products compute: the clock falls as the chip heats up, ``1 + droop log(1 + t / 100 us)``.

    Measured on every chip that has more matrix units than power to feed them: large products reach a smaller share of
    the peak than those of a few hundred microseconds.
    """
    return 1 + p["droop"] * log1p(compute_s / SHORT_S)


DROOP = {"droop": Prior(0.03, 1.5)}


FEW_ROWS, MANY_ROWS = 64, 128
"""Rows up to which a product waits for its weights anyway, and from which on FLOPs decide."""


def expanding(most: Any, rows: Any) -> Any:
    """How much longer a kernel that expands its weights computes: nothing for few rows, ``most`` times for many."""
    return 1 + (most - 1) * many_rows(rows)


def many_rows(rows: Any) -> Any:
    """How far a product is from waiting for its weights (0) to being decided by FLOPs (1)."""
    return smaller(larger((rows - FEW_ROWS) / (MANY_ROWS - FEW_ROWS), 0.0), 1.0)


def full_waves(split: Any, waves: Any) -> Any:
    """Waves of blocks over the multiprocessors, the last one perhaps not full; a share ``split`` evens that out."""
    return split * waves + (1 - split) * ceil(waves)


def gemm_terms(p: Parameters, run: Kernel) -> Terms:
    """Dense product ``[m, k] @ [k, n]``.

    The output is cut in tiles of ``tile_m x tile_n`` (lower ones for fewer rows, in steps of ``tile_least``: 0 pads
    nothing, on chips without matrix units).  All multiprocessors compute a wave of tiles at a time, the last perhaps
    not full; a share ``split`` of kernels evens that out.  A wave starts and writes its results in ``wave_s``.

    A tile walks along ``k`` at ``step_s`` a value, however little there is to do; kernels cut the walk in pieces that
    run side by side (split-k), so that it saturates: ``k step_s / (1 + k / split_k)``.

    Results are written in 16 bits, which a roofline in the format of the operands leaves out.  Engines that quantize
    activations on the way read and write each of the ``m k`` values (``quant_s``) and reduce each row (``row_s``).
    Engines that expand narrow weights to 16 bits in memory before products of many rows write ``expanded_bytes`` more
    for each weight.
    """
    shape = run.inputs
    m, n, k = shape["m"], shape["n"], shape["k"]
    least = p["tile_least"]
    rows, columns = larger(m, 1.0), larger(n, 1.0)  # a product without any has one empty tile
    tile_m, tile_n = smaller(p["tile_m"], ceil(rows / least) * least), p["tile_n"]
    tiles = ceil(m / tile_m) * ceil(n / tile_n)
    waves = full_waves(p["split"], tiles / run.processors)
    padded = waves * run.processors * tile_m * tile_n / (rows * columns)
    compute_s = run.compute_s * padded / p["compute"] * droop(p, run.compute_s)
    if "expands" in p:
        compute_s = compute_s * expanding(p["expands"], m)
    walk_s = k * p["step_s"] / (1 + k / p["split_k"])
    value_bytes = shape["activation_bits"] / 8
    moved = larger(m * (k + n) * value_bytes + k * n * (shape["weight_bits"] / 8), 1.0)
    results_s = (run.memory_s + run.cached_s) * m * n * larger(2 - value_bytes, 0.0) / moved
    quantized_s = m * k * p["quant_s"] + m * p["row_s"]
    if "expanded_bytes" in p:
        written = many_rows(m) * n * k * p["expanded_bytes"] * (shape["weight_bits"] < 16)
        quantized_s = quantized_s + (run.memory_s + run.cached_s) * written / moved / p["memory"]
    moving_s = bytes_s(p, run, results_s)
    joined = {"computing_s": compute_s, "moving_s": moving_s, "walk_s": walk_s, **unpacking(p, run)}
    return Terms(p["kernel_s"], waves * p["wave_s"] + quantized_s, p["overlap"], joined)


TILES = ((64, 64), (64, 128), (128, 128), (128, 256), (256, 128))
LEAST_TILE = 16
"""Rows of the smallest tile of a matrix unit (mma.sync of NVIDIA: 16 x 8 x 16)."""

GEMM = Form(
    gemm_terms,
    {
        "kernel_s": Prior(4e-6, 1.0),
        "wave_s": Prior(1e-7, 1.5),
        "row_s": Prior(2e-11, 3.0),
        "quant_s": Prior(1e-14, 2.0),
        "step_s": Prior(3e-10, 2.0),
        "split_k": Prior(2e4, 1.5),
        "compute": Prior(0.75, 1.0, share=True),
        **DROOP,
        **MEMORY,
        "overlap": Prior(2.5, 0.7, least=1.0),
        "split": Prior(0.5, 1.5, share=True),
    },
    tuple({"tile_m": m, "tile_n": n, "tile_least": LEAST_TILE} for m, n in TILES),
)


def experts_terms(p: Parameters, run: Kernel) -> Terms:
    """Grouped products of the experts on this GPU, and the sorting of tokens around them.

    The routed rows are spread over the experts that they touch; each pads its rows to a tile, on average half of
    one (a lower tile for few rows).  Under skewed routing fewer experts are touched (``exp(-skew * skew_experts)``
    of them) and the GPU that decides has ``ways ** (skew * skew_load)`` times the average rows.

    Around the products every choice of every token of the group is sorted (``scan_s``), here or not; rows of this GPU
    are gathered, activated and summed up again, at ``row_s`` a row, ``value_s`` a value of the model's width and
    ``inner_s`` a value of the expert's; an expert costs ``expert_s`` of scheduling.  Kernels for a handful of tokens
    skip part of the way: ``late_s`` is reached by half at ``late_rows`` rows.  Experts of two matrices (no gate) run
    ``plain`` times as long for their work.  A matrix bears a third of what is around.
    """
    shape = run.inputs
    skew, rows, experts = shape["skew"], shape["routed_rows"], shape["local_experts"]
    share = shape["matrices"] / 3
    evenly = touched(experts, rows)
    load = rows * shape["ways"] ** (p["skew_load"] * skew)
    distinct = touched(experts * exp(-skew * p["skew_experts"]), load)
    tile = smaller(p["tile"], load / distinct + LEAST_TILE)
    compute_s = run.compute_s * (load + distinct * tile / 2) / rows / p["compute"] * droop(p, run.compute_s / share)
    memory_s = bytes_s(p, run) * distinct / evenly
    walk_s = share * shape["k"] * p["step_s"]
    plain = p["plain"] ** (shape["matrices"] == 2)
    inner = shape["n"] / shape["matrices"]
    row_s = p["row_s"] + shape["k"] * p["value_s"] + inner * p["inner_s"]
    around_s = experts * p["expert_s"] + load * row_s + shape["m"] * shape["top_k"] * p["scan_s"]
    late_s = p["late_s"] * rows / (rows + p["late_rows"])
    joined = {"computing_s": compute_s, "moving_s": memory_s, "walk_s": walk_s, **unpacking(p, run)}
    slower = {name: plain * time_s for name, time_s in joined.items()}
    return Terms(share * p["kernel_s"], share * (late_s + around_s), p["overlap"], slower)


def touched(experts: Any, rows: Any) -> Any:
    """Experts that some of ``rows`` go to, each to any of them: ``E (1 - exp(-rows / E))``."""
    return experts * -expm1(-rows / experts)


EXPERTS = Form(
    experts_terms,
    {
        "kernel_s": Prior(3e-5, 1.0),
        "late_s": Prior(1e-5, 0.5),
        "late_rows": Prior(64.0, 0.5),
        "row_s": Prior(2e-10, 2.0),
        "value_s": Prior(1e-12, 2.0),
        "inner_s": Prior(1e-12, 2.0),
        "scan_s": Prior(1e-10, 2.0),
        "expert_s": Prior(2e-8, 2.0),
        "step_s": Prior(1e-9, 2.0),
        "tile": Prior(32.0, 1.0),
        "plain": Prior(1.0, 0.5),
        "compute": Prior(0.5, 1.5, share=True),
        **DROOP,
        **MEMORY,
        "overlap": Prior(1.5, 0.7, least=1.0),
        "skew_experts": Prior(0.2, 1.5),
        "skew_load": Prior(0.1, 1.5),
    },
)


def collective_terms(p: Parameters, run: Kernel) -> Terms:
    """A collective: ``latency_s`` and the bytes on the wire at a share of the link, joined (Hockney's alpha and beta).

    An exponent of 1/2 is a message cut in the best number of pieces and pipelined: ``(sqrt(a) + sqrt(b))^2``.
    ``run.memory_s`` is the time on the wire at the rate of the link.  The latency is that of the links and of meeting
    the others, not of a launch: none of it is fixed.
    """
    joined = {"latency_s": p["latency_s"] + 0 * run.memory_s, "wire_s": run.memory_s / p["link"]}
    return Terms(0.0, 0.0, p["overlap"], joined)


COLLECTIVE = Form(
    collective_terms,
    {
        "latency_s": Prior(1e-5, 1.0),
        "link": Prior(0.7, 1.5, share=True),
        "overlap": Prior(1.0, 0.5),
    },
)


def stream_terms(p: Parameters, run: Kernel) -> Terms:
    """Anything else: a fixed time, and compute and memory at their shares."""
    joined = {"computing_s": run.compute_s / p["compute"], "moving_s": bytes_s(p, run)}
    return Terms(p["kernel_s"], 0.0, p["overlap"], joined)


STREAM = Form(
    stream_terms,
    {
        "kernel_s": Prior(4e-6, 1.0),
        "compute": Prior(0.5, 1.0, share=True),
        **MEMORY,
        "overlap": Prior(2.5, 0.7, least=1.0),
    },
)
