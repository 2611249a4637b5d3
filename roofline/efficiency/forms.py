"""Forms: formulas for the time of a kernel from its shape, with a few parameters fitted to timings.

Every form starts from the two times of the roofline, divides each by the share of the peak that kernels reach, and
joins them smoothly.  It adds what a roofline leaves out: partial waves, loops that cannot be split, fixed times.

    join(a, b, ...) = (a^p + b^p + ...)^(1/p)

is between the sum (p = 1: nothing overlaps) and the maximum (p large: everything does).

A form returns two parts.  The *fixed* part is the cost of a launch, whatever the shape; a captured CUDA graph leaves
only a share of it.  The *running* part grows with the work.

Everything is a float or an array and broadcasts; nothing here branches on a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import ceil, exp, expm1, larger, log1p, smaller
from ..operators.roofline import busiest_s

Parameters = Mapping[str, float]


class Kernel(NamedTuple):
    """One run of an operator: the input of a form.

    Attributes
    ----------
    compute_s : float or array
        Time of its FLOPs at the peak of the chip.
    memory_s : float or array
        Time of the bytes that cross the memory interface, at its bandwidth.
    cached_s : float or array
        Time of the bytes that a timing loop finds in the last-level cache, at the memory bandwidth.
    processors : float
        Multiprocessors of the chip (SMs, CUs, Xe cores).
    inputs : mapping of str to float or array
        Shape of the operator.
    clocked_s : float or array
        Time of all its bytes at one per clock and multiprocessor; 0 if the clock is not known.
    """

    compute_s: Any
    memory_s: Any
    cached_s: Any
    processors: Any
    inputs: Mapping[str, Any]
    clocked_s: Any = 0.0

    @property
    def peaks_s(self) -> Any:
        """Roofline of the kernel: the time at the peaks of the chip."""
        return busiest_s(self.compute_s, self.memory_s)


class Parts(NamedTuple):
    """Time of a kernel in two parts: the fixed cost of a launch, and the time of the work."""

    fixed_s: Any
    running_s: Any


class Terms(NamedTuple):
    """Terms of a form, whose sum is ``fixed_s + around_s + join(overlap, *joined)``.

    Attributes
    ----------
    fixed_s : float or array
        Fixed cost of a launch.
    around_s : float or array
        Time before and after the joined parts.
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
    """Prior of a parameter: its typical value and the spread around it.

    ``spread`` is in natural logarithms: of the odds for a share between 0 and 1, else of the value minus ``least``.
    """

    typical: float
    spread: float
    share: bool = False
    least: float = 0.0

    def value(self, z: Any) -> Any:
        """Return the parameter at ``z`` spreads from the typical value."""
        if not self.share:
            return self.least + (self.typical - self.least) * np.exp(self.spread * z)
        odds = self.typical / (1 - self.typical) * np.exp(self.spread * z)
        return odds / (1 + odds)

    def z(self, value: float) -> float:
        """Return the inverse of `value`."""
        # The bounds keep values off the ends of the range, where the logarithm is infinite.
        if not self.share:
            above = max(value - self.least, 1e-30)
            return float(np.log(above / (self.typical - self.least)) / self.spread)
        value = min(max(value, 1e-12), 1 - 1e-12)
        odds = value / (1 - value) / (self.typical / (1 - self.typical))
        return float(np.log(odds) / self.spread)


@dataclass(frozen=True)
class Form:
    """A formula for the time of one kernel, with the priors of its parameters.

    Attributes
    ----------
    terms : callable
        Function of parameters and a `Kernel` that returns `Terms`.
    priors : mapping of str to Prior
        Parameters that a fit moves.
    choices : tuple of mappings
        Sets of integer parameters (sizes of tiles), of which a fit selects the best.
    """

    terms: Callable[[Parameters, Kernel], Terms]
    priors: Mapping[str, Prior]
    choices: tuple[Mapping[str, float], ...] = ({},)

    def parts(self, p: Parameters, run: Kernel) -> Parts:
        """Return fixed and running part."""
        terms = self.terms(p, run)
        return Parts(terms.fixed_s, terms.around_s + join(terms.overlap, *terms.joined.values()))

    def time_s(self, p: Parameters, run: Kernel) -> Any:
        """Return the sum of fixed and running part."""
        parts = self.parts(p, run)
        return parts.fixed_s + parts.running_s

    @property
    def names(self) -> frozenset[str]:
        """Names of all parameters, fitted or chosen."""
        return frozenset((*self.priors, *self.choices[0]))


def join(p: float, *times: Any) -> Any:
    """Return ``(a^p + b^p + ...)^(1/p)``, which is between the sum and the maximum.

    It is computed as ``m ((a/m)^p + (b/m)^p + ...)^(1/p)`` with the longest time ``m``, to avoid overflow.
    """
    longest: Any = TINY_S
    for time in times:
        longest = larger(longest, time)
    total = 0.0
    for time in times:
        total = total + (time / longest) ** p
    return longest * total ** (1 / p)


TINY_S = 1e-30
"""Shorter than any nonzero time; keeps quotients and logarithms of zero times finite."""


def bytes_s(p: Parameters, run: Kernel, more_s: Any = 0.0) -> Any:
    """Return the time to move the operands: memory at its share of the bandwidth, the cache ``cache`` times as fast.

    A loop over operands larger than the cache finds few of them there; with least-recently-used replacement a cyclic
    walk finds none.  Hits fall linearly, from everything if the operands fit to nothing at twice the size of the cache.
    """
    moved_s = run.memory_s + run.cached_s
    # Where nothing is cached, the quotient must not be 0 / 0.
    resident_s = run.cached_s * smaller(larger(2.0 - moved_s / larger(run.cached_s, TINY_S), 0.0), 1.0)
    return (moved_s - resident_s + resident_s / p["cache"] + more_s) / p["memory"]


def unpacking(p: Parameters, run: Kernel) -> dict[str, Any]:
    """Return the time to unpack weights at ``bytes_per_clock`` per multiprocessor; 0 if that is not a limit.

    Kernels that expand quantized weights by arithmetic (llama.cpp's for a single row) are bound by it on chips with
    high bandwidth and few multiprocessors, like the A100.
    """
    return {"unpacking_s": run.clocked_s / p["bytes_per_clock"]} if "bytes_per_clock" in p else {}


MEMORY = {"memory": Prior(0.82, 0.6, share=True), "cache": Prior(2.5, 0.7, least=1.0)}

SHORT_S = 1e-4
"""Products shorter than this end before the chip lowers its clock."""


def droop(p: Parameters, compute_s: Any) -> Any:
    """Return the slowdown of long products, ``1 + droop log(1 + t / 100 us)``, as the clock of a hot chip falls.

    Measured on every chip that has more matrix units than power to feed them: large products reach a smaller share of
    the peak than those of a few hundred microseconds.
    """
    return 1 + p["droop"] * log1p(compute_s / SHORT_S)


DROOP = {"droop": Prior(0.03, 1.5)}


FEW_ROWS, MANY_ROWS = 64, 128
"""Rows up to which a product waits for its weights, and rows from which it is bound by FLOPs."""


def expanding(most: Any, rows: Any) -> Any:
    """Return the factor by which expanding weights slows computation: 1 for few rows, ``most`` for many."""
    return 1 + (most - 1) * many_rows(rows)


def many_rows(rows: Any) -> Any:
    """Return the position of a product between waiting for its weights (0) and bound by FLOPs (1)."""
    return smaller(larger((rows - FEW_ROWS) / (MANY_ROWS - FEW_ROWS), 0.0), 1.0)


def full_waves(split: Any, waves: Any) -> Any:
    """Return the waves of blocks over the multiprocessors; a share ``split`` smooths the partial last wave."""
    return split * waves + (1 - split) * ceil(waves)


def gemm_terms(p: Parameters, run: Kernel) -> Terms:
    """Return the terms of a dense product ``[m, k] @ [k, n]``.

    The output is cut in tiles of ``tile_m x tile_n`` (lower ones for fewer rows, in steps of ``tile_least``: 0 pads
    nothing, on chips without matrix units).  All multiprocessors compute a wave of tiles at a time; the last may be
    partial, which a share ``split`` of kernels smooths.  A wave starts and writes its results in ``wave_s``.

    A tile walks along ``k`` at ``step_s`` per value, however little work there is.  Kernels divide a long walk into
    parallel pieces (split-k), so its time saturates: ``k step_s / (1 + k / split_k)``.

    Results are written in 16 bits, which a roofline in the operands' format does not count.  Engines that quantize
    activations on the way read and write each of the ``m k`` values (``quant_s``) and reduce each row (``row_s``).
    Engines that expand narrow weights to 16 bits in memory before products of many rows write an additional
    ``expanded_bytes`` per weight.  With ``expanding_rows`` they do so from that number of rows on, in a kernel of its
    own.
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
        expands = 1.0 * (m >= p["expanding_rows"]) if "expanding_rows" in p else many_rows(m)
        written = expands * n * k * p["expanded_bytes"] * (shape["weight_bits"] < 16)
        quantized_s = quantized_s + expands * p["kernel_s"] * ("expanding_rows" in p)
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
    """Return the terms of grouped products of the experts on this GPU, with the sorting of tokens.

    The routed rows are spread over the experts that they touch.  Each expert pads its rows to a tile, by half a tile on
    average (a lower tile for few rows).  Under skewed routing fewer experts are touched (``exp(-skew * skew_experts)``
    of them) and the most loaded GPU has ``ways ** (skew * skew_load)`` times the average rows, at most all of them.
    The busiest GPU reads at least one expert, as in the roofline.

    Around the products, every choice of every token of the group is sorted (``scan_s``), even if its expert is on
    another GPU.  Rows of this GPU are gathered, activated and summed, at ``row_s`` per row, ``value_s`` per value of
    the model's width and ``inner_s`` per value of the expert's.  Scheduling an expert costs ``expert_s``.  Kernels for
    few tokens skip some of this: half of ``late_s`` is reached at ``late_rows`` rows.  Experts of two matrices (no
    gate) run ``plain`` times as long for their work.  Each matrix carries a third of the surrounding costs.
    """
    shape = run.inputs
    skew, rows, experts = shape["skew"], shape["routed_rows"], shape["local_experts"]
    share = shape["matrices"] / 3
    least = larger(shape["least_experts"] / shape["ways"], 1.0)
    evenly = larger(touched(experts, rows), least)
    load = rows * shape["ways"] ** smaller(p["skew_load"] * skew, 1.0)
    distinct = larger(touched(experts * exp(-skew * p["skew_experts"]), load), least)
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
    """Return the expected number of experts touched by ``rows`` uniform choices: ``E (1 - exp(-rows / E))``."""
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
    """Return the terms of a collective: latency joined with bytes at a share of the link (Hockney's alpha and beta).

    An exponent of 1/2 describes a message cut into the best number of pipelined pieces: ``(sqrt(a) + sqrt(b))^2``.
    ``run.memory_s`` is the time on the wire at the rate of the link.  The latency comes from the links and from waiting
    for others, not from a launch, so none of it is fixed.
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
    """Return the terms of any other kernel: a fixed time, and compute and memory at their shares."""
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
