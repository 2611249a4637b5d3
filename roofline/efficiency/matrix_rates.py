"""Kernels borrowed from a chip whose multiprocessors have faster matrix units.

GeForce cards multiply 16-bit values at half the rate if they accumulate in FP32 (NVIDIA RTX Blackwell GPU Architecture,
table 3: 209.5 TFLOP/s and 419 with FP16 accumulate), and H20 and L20 have a fraction of the matrix units of their
siblings.  The rest of a multiprocessor is the same: loads, exponentials, the expansion of weights, the sorting of
tokens.  Slower matrix units hide more of this work, so that kernels reach a larger share of the peak.

A kernel on the lending chip takes its FLOPs at the peak, joined with the rest of its work.  With a share ``e`` of the
peak and a sharp join (`SHARPNESS`),

    (1 / e)^4 = 1 + rest^4,

where the rest is in units of the FLOPs' time.  On a chip with ``r`` times slower matrix units for each multiprocessor
the FLOPs take ``r`` times as long and the rest as long as before, so that the share becomes

    (1 / e')^4 = 1 + ((1 / e)^4 - 1) / r^4

This holds for experts and for attention over prompts.  Attention of decode steps waits for memory, so that its timings
hardly say what its matrix units reach; dense products follow public measurements or the power of the board
(`roofline.efficiency.large_products`).
"""

from __future__ import annotations

from collections.abc import Mapping

from ..hardware import Accelerator
from .large_products import MOST_OF_PEAK, math_of

SHARPNESS = 4.0
"""Exponent of the join of the matrix units with the rest of a kernel, which overlap almost completely."""

SLOWER = 1.5
"""Ratio from which matrix units count as slower; clocks alone, which slow all of a chip, differ by less."""

BOUND_BY_UNITS = ("experts", "attention_prefill", "mla_prefill")
"""Kinds of kernels that this module corrects."""

Rates = tuple[tuple[str, float], ...]
"""Pairs of a format and the FLOPs per second of one multiprocessor."""


def rates_of(accelerator: Accelerator) -> Rates:
    """Return the peaks of one multiprocessor; empty if they are arrays or the multiprocessors are not known."""
    units = accelerator.compute_units
    if not isinstance(units, float | int) or not units:
        return ()
    peaks = accelerator.dense_flops_per_s
    return tuple((name, float(peak) / units) for name, peak in peaks.items() if isinstance(peak, float | int))


def share_on_slower_units(share: float, ratio: float) -> float:
    """Return the share of peak of a kernel on matrix units that are ``ratio`` times slower than the lender's.

    Parameters
    ----------
    share : float
        Share of the lender's peak, above 0 and at most 1.
    ratio : float
        Rate of the lender's matrix units divided by that of the borrower's, per multiprocessor.

    Returns
    -------
    float
        Share of the borrower's peak.

    Examples
    --------
    >>> round(share_on_slower_units(0.5, 2.0), 2), share_on_slower_units(0.5, 1.0)
    (0.85, 0.5)
    """
    rest = ((1.0 / share) ** SHARPNESS - 1.0) / ratio**SHARPNESS
    found: float = (1.0 + rest) ** (-1.0 / SHARPNESS)
    return min(found, MOST_OF_PEAK)


def slower_units(kind: str, lender: Rates, borrower: Rates) -> float:
    """Return how many times slower the borrower's matrix units are for a kind of kernel; 1 if they are not slower."""
    math = math_of(kind)
    theirs, own = dict(lender), dict(borrower)
    name = math if math in theirs else "bf16"
    if not theirs.get(name) or not own.get(name):
        return 1.0
    ratio = theirs[name] / own[name]
    return ratio if ratio >= SLOWER else 1.0


def borrowed_share(parameters: Mapping[str, float], kind: str, lender: Rates, borrower: Rates) -> dict[str, float]:
    """Return the parameter ``compute`` of a borrowed kernel on slower matrix units; empty if nothing changes."""
    ratio = slower_units(kind, lender, borrower)
    if kind.partition(".")[0] not in BOUND_BY_UNITS or ratio == 1.0:
        return {}
    return {"compute": share_on_slower_units(parameters["compute"], ratio)}
