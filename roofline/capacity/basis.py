"""Basis of an estimate: timings of the accelerator itself, timings of another, or typical values."""

from __future__ import annotations

import numpy as np

from ..efficiency.lookup import SAME_FAMILY
from ..serving.steady_state import Steady

CALIBRATED, BORROWED, TYPICAL = "calibrated", "borrowed", "typical"
"""Kernel timings on this accelerator; of its family, another format or engine; shares of peak only."""

NOTICED = 0.1
"""Share of time above which kernels without timings decide the basis."""


def basis_of(steady: Steady) -> str:
    """Basis of the prompt and decode step of a steady state, weighted by the time of their kernels.

    ``typical`` if kernels without any timings take a tenth of the time or more; ``borrowed`` if they do together with
    kernels timed on another accelerator, format or engine; otherwise ``calibrated``.
    """
    total, borrowed, typical = 0.0, 0.0, 0.0
    for passed in (steady.passes.prompt, steady.passes.step):
        items = passed.phase.operators
        times = [float(np.sum(item.estimate_s)) for item in items]
        whole = sum(times)
        total += 1.0
        for item, time_s in zip(items, times, strict=True):
            share = time_s / whole
            word = word_for(item.estimate.basis)
            borrowed += share * (word == BORROWED)
            typical += share * (word == TYPICAL)
    if typical > NOTICED * total:
        return TYPICAL
    return BORROWED if borrowed + typical > NOTICED * total else CALIBRATED


def word_for(basis: str) -> str:
    """The basis that an estimate's sentence describes (`roofline.efficiency.lookup`).

    Collectives over another number of the same accelerators count as timings of this accelerator.

    Examples
    --------
    >>> word_for("gemm.bf16: 842 timings on h100-sxm (vllm), median error 4%")
    'calibrated'
    """
    if "not calibrated" in basis:
        return BORROWED if SAME_FAMILY in basis else TYPICAL
    if "stand-in for collective." in basis:
        return CALIBRATED
    if "stand-in for" in basis or "no timings of" in basis:
        return BORROWED
    return CALIBRATED
