"""Estimates: data-sheet times divided by the shares of peak that are reached in practice, plus a time for each kernel.

Peaks stay peaks; what a chip reaches of them is kept here, as a value with its source.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import Number
from .hardware import Accelerator
from .operators import Operator


@dataclass(frozen=True)
class Efficiency:
    """Shares of the data-sheet peaks that kernels of a family of chips reach.

    Attributes
    ----------
    compute, memory : share of the dense peak in large products, and of the bandwidth in streaming reads
    kernel_s : fixed time of a kernel
    spread : half width of the interval as a share of the estimate
    basis : what the values rest on
    """

    compute: float
    memory: float
    kernel_s: float
    spread: float
    basis: str


_SURVEY = "not calibrated: shares of peak published for this family of chips, October 2026"
FAMILIES: dict[str, Efficiency] = {
    "NVIDIA": Efficiency(0.78, 0.88, 2e-6, 0.25, f"{_SURVEY} (GEMM 71-87 %, memory reads 87-96 %)"),
    "AMD": Efficiency(0.52, 0.77, 3e-6, 0.35, f"{_SURVEY} (GEMM 49-62 %, memory reads 73-81 %)"),
    "Intel": Efficiency(0.75, 0.80, 3e-6, 0.40, f"{_SURVEY} (GEMM 74-97 %)"),
}
UNKNOWN = Efficiency(0.70, 0.80, 3e-6, 0.50, "not calibrated: no published shares of peak for this family of chips")


@dataclass(frozen=True, eq=False, slots=True)
class Estimate:
    """Expected time with its interval and what it rests on."""

    time_s: Number
    low_s: Number
    high_s: Number
    basis: str


def estimate(operator: Operator, accelerator: Accelerator, *, compute_s: Number, memory_s: Number) -> Estimate:
    """Expected time of all runs of ``operator``.

    ``max(compute_s / compute share, memory_s / memory share) + count * kernel_s``; elementwise operators are fused into
    their neighbors by every engine, so they add no kernel of their own.
    """
    share = FAMILIES.get(accelerator.vendor, UNKNOWN)
    kernels = 0.0 if operator.kind == "elementwise" else operator.count * share.kernel_s
    busy = np.maximum(compute_s / share.compute, memory_s / share.memory)
    time_s = busy + kernels
    return Estimate(time_s, np.maximum(time_s * (1 - share.spread), 0.0), time_s * (1 + share.spread), share.basis)
