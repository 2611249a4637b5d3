"""Large products: the share of its peak that an accelerator reaches whose kernels nobody has timed.

Public tables give the best large matrix products of many boards (``efficiency_specs/public_products.yaml``).  They show
what decides: how much power a board has for its peak.  A rate ``F`` of the tensor cores draws ``F / f`` operations a
clock at ``f V^2`` watts; with a voltage that rises with the clock the power is in proportion to ``f^3``.  A board that
could compute ``x`` FLOPs at its peak for each joule of its TDP, and can sustain ``s``, therefore runs at a share of

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
    """What public figures of large products say of a kernel: the share of the peak that it reaches at most.

    Large products ran until the clock was steady, so that nothing droops beyond it.  Chips whose peak is small for
    their power (GeForce cards, L20, H20) reach all of it, large ones about three quarters.

    Parameters
    ----------
    name : str
        An accelerator of the library.
    kind : str
        ``gemm`` or ``experts`` with a format.

    Returns
    -------
    dict
        ``compute`` and ``droop``; empty where there is no figure.
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
    """The share of the peak that the power of a board allows, for products borrowed from another board.

    The law of this module twice, and the larger of both: from the board that lends its kernels, and from what boards
    with public figures sustain.  The second corrects lenders that are slowed down more than is usual (L40S).

    Parameters
    ----------
    lent : mapping of str to float
        Parameters of the lender's product.
    x_flops_per_joule : float
        Of the borrowing board (`flops_per_joule`); 0 if it is not known.
    family : mapping
        An entry of ``families.yaml`` with ``like`` and ``sustained_flops_per_joule``.

    Returns
    -------
    dict
        ``compute``, and ``droop`` if the lender's no longer applies; empty where the power is not known.
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
    """FLOPs of the 16-bit peak for each joule of the TDP; 0 where one of them is not known.

    Narrower formats double the peak and halve the energy of a FLOP, so that the 16-bit figure stands for all.
    """
    peaks = accelerator.dense_flops_per_s
    peak = peaks.get("bf16", peaks.get("fp16", 0.0))
    return float(peak / accelerator.tdp_watts) if accelerator.tdp_watts else 0.0


def math_of(kind: str) -> str:
    """The math of a product's kind."""
    label = kind.partition(".")[2]
    if label.endswith("a16"):
        return "bf16"
    if label == "w4int8":
        return "int8"
    return "fp8" if label in ("fp8_block", "w4a8", "mx4a8") else label
