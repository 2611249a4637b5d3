"""Large products: the share of peak reached by accelerators without kernel timings.

Public tables give the fastest large matrix products of many boards (``efficiency_specs/public_products.yaml``).  The
share of peak they reach depends on the power available per FLOP.  Dynamic power is proportional to ``f V^2``, and the
voltage ``V`` rises with the clock ``f``, so power is proportional to ``f^3``.  Let ``x`` be the peak divided by the
TDP, in FLOPs per joule, and ``s`` the FLOPs per joule that the technology sustains.  The power limit then holds the
clock at

    f / f_peak = (s / x)^(1/3),  at most all of it

GeForce cards (x = 0.2 to 0.4 TFLOP/J in 16 bits) reach all of their rated peak, an RTX A4000 (0.55) or RTX 4000 Ada
(0.82) about 0.8, an H100 NVL (2.1) 0.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..files import read_yaml
from ..hardware import Accelerator
from .store import folder

MOST_OF_PEAK = 0.99
"""The largest share of a peak that a parameter may be: shares stay below 1."""

PUBLIC_FORMATS = {"bf16": ("bf16", "fp16"), "fp8": ("fp8",), "int8": ("int8",), "fp4": ("fp4",)}
"""Math of a product -> the formats whose public figures describe it, the best one first."""


@lru_cache(maxsize=1)
def _public_products() -> dict[str, dict[str, Any]]:
    return dict(read_yaml(folder() / "public_products.yaml")["products"])


def public_share(name: str, kind: str) -> dict[str, float]:
    """The largest share of peak that public measurements of large products support.

    Those products ran until the clock was steady, so they include the droop.  Chips with a small peak for their power
    (GeForce cards, L20, H20) reach all of it, large ones about three quarters.

    Parameters
    ----------
    name : str
        Name of an accelerator in the library.
    kind : str
        ``gemm`` or ``experts`` with a format.

    Returns
    -------
    dict
        Parameters ``compute`` and ``droop``; empty if nothing was published.
    """
    from ..specs.library import get_accelerator

    figures = _public_products().get(name, {})
    if not kind.startswith("gemm") or not figures:
        return {}
    peaks = get_accelerator(name).dense_flops_per_s
    wanted = (*PUBLIC_FORMATS.get(math_of(kind), ()), "bf16", "fp16")
    found = next((form for form in wanted if form in figures and form in peaks), None)
    if found is None:
        return {}
    return {"compute": min(figures[found] * 1e12 / float(peaks[found]), MOST_OF_PEAK), "droop": 0.0}


def power_share(lent: Mapping[str, float], x_flops_per_joule: float, family: Mapping[str, Any]) -> dict[str, float]:
    """The share of peak that a board's power allows, for products borrowed from another board.

    The law of this module is applied twice, and the larger share is used: relative to the lending board, and relative
    to what boards in public tables sustain.  The second corrects lenders that throttle more than usual (L40S).

    Parameters
    ----------
    lent : mapping of str to float
        Parameters of the lender's matrix product.
    x_flops_per_joule : float
        `flops_per_joule` of the borrowing board; 0 if unknown.
    family : mapping
        Entry of ``families.yaml`` with ``like`` and ``sustained_flops_per_joule``.

    Returns
    -------
    dict
        ``compute``, and ``droop`` if the lender's does not apply; empty if the power is unknown.
    """
    from ..specs.library import get_accelerator

    lender = flops_per_joule(get_accelerator(family["like"]))
    if not x_flops_per_joule or not lender:
        return {}
    relative = min(lent["compute"] * (lender / x_flops_per_joule) ** (1 / 3), MOST_OF_PEAK)
    sustained = min((float(family["sustained_flops_per_joule"]) / x_flops_per_joule) ** (1 / 3), MOST_OF_PEAK)
    if sustained < relative < MOST_OF_PEAK:
        return {"compute": relative}
    return {"compute": max(relative, sustained), "droop": 0.0}


def flops_per_joule(accelerator: Accelerator) -> float:
    """The 16-bit peak divided by the TDP, in FLOPs per joule; 0 if either is unknown or an array.

    Narrower formats double the peak and halve the energy per FLOP, so the 16-bit value represents all formats.
    """
    peaks = accelerator.dense_flops_per_s
    peak, tdp_watts = peaks.get("bf16", peaks.get("fp16", 0.0)), accelerator.tdp_watts
    if not (isinstance(peak, float) and isinstance(tdp_watts, float)):
        return 0.0
    return peak / tdp_watts


def math_of(kind: str) -> str:
    """The format in which a kind of product computes."""
    label = kind.partition(".")[2]
    if label.endswith("a16"):
        return "bf16"
    if label == "w4int8":
        return "int8"
    return "fp8" if label in ("fp8_block", "w4a8", "mx4a8") else label
