"""Accelerators side by side: capacity, bandwidth, and where each format stops being memory-bound.

The ridge point of a format is its dense peak over the memory bandwidth: an operator with fewer FLOPs per byte is
memory-bound, one with more is compute-bound (S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual
performance model", CACM 52(4), 2009).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import number, unknown
from ..formats import MATH_FORMATS
from ..hardware import Accelerator
from ..report import Rows, Step, plain
from ..specs.library import load_accelerators

FORMATS = ("bf16", "fp16", "fp8", "fp4", "int8", "int4")
"""Formats in the table, in column order."""

_RIDGE = "_ridge_flops_per_byte"


@dataclass(frozen=True, eq=False, repr=False)
class RidgeTable(Rows):
    """Ridge points, one row per accelerator; NaN if the chip has no units for the format.

    Attributes
    ----------
    accelerators : tuple of Accelerator
        The rows, in order.
    """

    accelerators: tuple[Accelerator, ...]

    columns = (
        "name",
        "vendor",
        "year",
        "memory_bytes",
        "memory_bytes_per_s",
        *(f"{math}{_RIDGE}" for math in FORMATS),
    )

    printed = {  # noqa: RUF012
        "name": "name",
        "vendor": "vendor",
        "year": "year",
        "memory_bytes": "memory",
        "memory_bytes_per_s": "bandwidth",
        **{f"{math}{_RIDGE}": f"{math} ridge" for math in FORMATS},
    }
    shown = None

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        if name not in self.columns:
            raise AttributeError(f"RidgeTable has no column {name!r}")
        if name.endswith(_RIDGE):
            math = name.removesuffix(_RIDGE)
            return np.array([_ridge(chip, math) for chip in self.accelerators], dtype=np.float64)
        return np.array([getattr(chip, name) for chip in self.accelerators])

    def summary(self) -> str:
        """Range of the ridge points of the first format that any of the accelerators has."""
        for math in FORMATS:
            ridges = getattr(self, f"{math}{_RIDGE}")
            if np.isfinite(ridges).any():
                low, high = np.nanmin(ridges), np.nanmax(ridges)
                range_of = f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"
                return f"{len(self):,} accelerators, {math} ridge points of {range_of} FLOP/byte."
        return f"{len(self):,} accelerators."

    def _derivation(self) -> tuple[Step, ...]:
        """Derivation of every ridge point."""
        steps = []
        for chip in self.accelerators:
            for math in FORMATS:
                if math in chip.dense_flops_per_s:
                    rates = {"dense_flops_per_s": chip.dense_flops_per_s[math]}
                    rates |= {"memory_bytes_per_s": chip.memory_bytes_per_s}
                    name, source = f"{chip.name}.{math}{_RIDGE}", chip.source_of(f"dense_flops_per_s.{math}")
                    formula = "dense_flops_per_s / memory_bytes_per_s"
                    steps.append(Step(name, formula, rates, _ridge(chip, math), source))
        return tuple(steps)

    def cell(self, name: str, value: Any) -> str:
        """Format a cell: ridge points as whole FLOPs per byte, years without a separator."""
        if name.endswith(_RIDGE):
            return "–" if np.isnan(value) else f"{value:.0f}"
        return str(value or "–") if name == "year" else super().cell(name, value)


def ridge_table(
    *,
    vendor: str | None = None,
    minimum_memory_bytes: float = 0.0,
    has_format: str | None = None,
    sort_by: str = "name",
    descending: bool = False,
) -> RidgeTable:
    """List matching accelerators with their ridge point in every format that they have units for.

    Parameters
    ----------
    vendor : str, optional
        Only accelerators of this vendor; case does not matter.
    minimum_memory_bytes : float
        Only accelerators with at least this much memory.
    has_format : str, optional
        Only those with units for this math format.
    sort_by : str
        Column of `RidgeTable` to sort by; rows without a value come last.
    descending : bool
        Whether the largest value comes first.

    Raises
    ------
    UnknownName
        The vendor, format or column is unknown.
    InvalidInput
        ``minimum_memory_bytes`` is negative or not a number.

    Examples
    --------
    >>> import roofline as rl
    >>> table = rl.ridge_table(vendor="Google", sort_by="bf16_ridge_flops_per_byte")
    >>> table.name[:2].tolist()
    ['tpu-v5p', 'tpu-v4']
    """
    chips = load_accelerators()
    vendors = {chip.vendor.lower(): chip.vendor for chip in chips}
    if vendor is not None and vendor.lower() not in vendors:
        raise unknown("vendor", vendor, vendors.values())
    if has_format is not None and has_format not in MATH_FORMATS:
        raise unknown("math format", has_format, MATH_FORMATS)
    if sort_by not in RidgeTable.columns:
        raise unknown("column", sort_by, RidgeTable.columns)
    least = number("minimum_memory_bytes", minimum_memory_bytes)
    passing = tuple(
        chip
        for chip in chips
        if (vendor is None or chip.vendor.lower() == vendor.lower())
        and chip.memory_bytes >= least
        and (has_format is None or has_format in chip.dense_flops_per_s)
    )
    return RidgeTable(_sorted(passing, sort_by, descending))


def _ridge(chip: Accelerator, math: str) -> Any:
    """Ridge point of a format; NaN if the chip has no units for it."""
    if math in chip.dense_flops_per_s:
        return chip.ridge_flops_per_byte(math)
    return np.nan


def _sorted(chips: tuple[Accelerator, ...], column: str, descending: bool) -> tuple[Accelerator, ...]:
    values = plain(getattr(RidgeTable(chips), column))
    known = [row for row, value in enumerate(values) if value is not None]
    order = sorted(known, key=lambda row: values[row], reverse=descending)
    return tuple(chips[row] for row in order + sorted(set(range(len(chips))) - set(known)))
