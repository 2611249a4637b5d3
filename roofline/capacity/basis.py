"""What an estimate rests on, in a word: timings of the chip itself, of another one, or what is typical of any."""

from __future__ import annotations

import numpy as np

from ..serving.steady_state import Steady

CALIBRATED, BORROWED, TYPICAL = "calibrated", "borrowed", "typical"
"""Timings of kernels on this accelerator; of another of its family, format or engine; shares of peak alone."""

NOTICED = 0.1
"""Share of the time from which kernels that were not timed decide the word."""


def basis_of(steady: Steady) -> str:
    """What the prompt and the decode step of a steady state rest on, by the time that their kernels take.

    ``typical`` if kernels without any timings take a tenth of it or more, ``borrowed`` if those with timings of another
    accelerator, format or engine do together with them, else ``calibrated``.
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
    """The word for the sentence in which an estimate says what it rests on (`roofline.efficiency.lookup`).

    Messages over another number of the same accelerators are timings of this accelerator.

    Examples
    --------
    >>> word_for("gemm.bf16: 842 timings on h100-sxm (vllm), median error 4%")
    'calibrated'
    """
    if "not calibrated" in basis:
        return BORROWED if "which is of its family" in basis else TYPICAL
    if "stand-in for collective." in basis:
        return CALIBRATED
    return BORROWED if "stand-in for" in basis or "no timings of" in basis else CALIBRATED
