"""Comparisons of accelerators: their rooflines on one plot, and a property by year."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from ..analysis.ridges import RidgeTable
from ..errors import InvalidInput, unknown
from ..hardware import Accelerator
from ..specs.library import get_accelerator
from ..units import humanize, quantity_of
from .arguments import check_kind
from .frame import axes_or_new, head, label_axes, lay_out, legend_inside, text_inches, widen
from .labels import Label, place_labels
from .style import Look, Style, style_of
from .ticks import log_axis

TERA = 1e12

_MOST = 8
"""Largest number of rooflines in a plot."""

_NAMED = 60
"""Largest number of labeled points."""

_VENDORS = ("NVIDIA", "AMD", "Google", "Apple", "AWS", "Intel", "Huawei")
"""Vendors with their own color; the others share the last one."""


def rooflines(*accelerators: Accelerator | str | Path, math: str = "bf16", ax: Axes | None = None) -> Axes:
    """Plot the roofs of several accelerators for one format, each with its ridge point and its name.

    If an accelerator has no units for the format, the next wider one is used, and its label says so.

    Parameters
    ----------
    *accelerators : Accelerator, str or Path
        One to eight accelerators or their names.
    math : str
        Format of the math.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Returns
    -------
    Axes
        In FLOP/byte and TFLOP/s.

    Raises
    ------
    InvalidInput
        There are no or more than eight accelerators, or the rates of one are arrays.
    UnknownName
        There is no such format, or an accelerator can't compute in it.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import roofline as rl
    >>> ax = rl.plot.rooflines("h100-sxm", "mi300x")
    >>> len(ax.lines)
    4
    >>> plt.close(ax.figure)
    """
    if not 1 <= len(accelerators) <= _MOST:
        raise InvalidInput(f"rooflines takes 1 to {_MOST} accelerators, not {len(accelerators)}")
    chips = [get_accelerator(accelerator) for accelerator in accelerators]
    ridges = np.array([_corner(chip, math) for chip in chips])
    ax = axes_or_new(ax)
    style = style_of(ax)
    left, right = min(1.0, float(ridges[:, 0].min()) / 8), float(ridges[:, 0].max()) * 12
    slopes = ridges[:, 1] / ridges[:, 0]
    ax.set(xscale="log", yscale="log", xlim=(left, right), ylim=(slopes.min() * left / 1.5, ridges[:, 1].max() * 2.5))
    label_axes(ax, "arithmetic intensity, FLOP/byte", "attainable, TFLOP/s")
    log_axis(ax.xaxis)
    log_axis(ax.yaxis)
    head(ax, f"Rooflines in {math}", "dense peak and memory bandwidth by data sheet; marker: ridge point, FLOP/byte")
    for place_of, (chip, (x, y)) in enumerate(zip(chips, ridges, strict=True)):
        color, marker = style.line(place_of)
        ax.plot([left, x, right], [left * y / x, y, y], color=color, linewidth=1.6, label=chip.name, zorder=3)
        ax.plot(x, y, marker, color=color, markersize=5, label=f"ridge {chip.name}", zorder=4)
    _name_at_the_end(ax, [_words(chip, math, x) for chip, (x, _) in zip(chips, ridges, strict=True)], ridges[:, 1])
    return ax


def by_year(table: RidgeTable, column: str = "memory_bytes_per_s", *, ax: Axes | None = None) -> Axes:
    """Plot a column of a ridge table over the year of each accelerator, colored by vendor.

    Points of the same year are side by side, ordered by vendor. As many points as possible are labeled, the extremes
    first; the subtitle says how many are not.

    Parameters
    ----------
    table : RidgeTable
        The accelerators.
    column : str
        ``memory_bytes``, ``memory_bytes_per_s`` or the ridge point of a format.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Returns
    -------
    Axes
        The column over the years.

    Raises
    ------
    UnknownName
        There is no such column of numbers.
    InvalidInput
        No accelerator of the table has a year and that value.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import roofline as rl
    >>> ax = rl.plot.by_year(rl.ridge_table(vendor="Google"), "bf16_ridge_flops_per_byte")
    >>> ax.get_ylabel()
    'ridge point in bf16, FLOP/byte'
    >>> plt.close(ax.figure)
    """
    check_kind("by_year", "rl.ridge_table", RidgeTable, table)
    figures = [name for name in table.columns if quantity_of(name)]
    if column not in figures:
        raise unknown("column", column, figures)
    years, values = table.year.astype(float), getattr(table, column).astype(float)
    known = np.isfinite(years) & np.isfinite(values)
    if not known.any():
        raise InvalidInput(f"no accelerator of the table has a year and {column}")
    ax = axes_or_new(ax)
    names, vendors = table.name[known], _grouped(table.vendor[known])
    x, y = years[known] + _aside(years[known], vendors), values[known]
    ax.set(
        yscale="log",
        xlim=(x.min() - 0.6, x.max() + 0.6),
        ylim=(y.min() / 1.6, 1.6 * y.max() * (y.max() / y.min()) ** 0.16),
    )
    style = style_of(ax)
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    label_axes(ax, "", _quantity(column))
    log_axis(ax.yaxis, (lambda value: humanize(column, value)) if column.startswith("memory") else None)
    widen(ax, left=0.9)
    _draw_vendors(ax, x, y, vendors)
    order = np.argsort(-np.abs(np.log(y / np.median(y))))[:_NAMED]
    colors = [_look(style, vendors[row])[0] for row in order]
    labels = [
        Label(str(names[row]), x[row], y[row], color, size=style.note_size, reach=22.0)
        for row, color in zip(order, colors, strict=True)
    ]
    lay_out(ax)
    written = place_labels(ax, labels, marks=np.column_stack([x, y, np.full(len(x), 3.0)]), texts=_legend_texts(ax))
    unnamed = len(x) - len(written)
    named = f"; no room for the names of {unnamed}" if unnamed else ""
    head(ax, f"{_title(column)} by year", f"{len(x)} accelerators by data sheet, side by side within a year{named}")
    return ax


def _legend_texts(ax: Axes) -> list[Text]:
    """What names must not cover."""
    found = ax.get_legend()
    return [] if found is None else found.get_texts()


def _corner(chip: Accelerator, math: str) -> tuple[float, float]:
    """Ridge point in FLOP/byte and peak in TFLOP/s."""
    peak, bandwidth = chip.peak_flops_per_s(math), chip.memory_bytes_per_s
    if np.ndim(peak) or np.ndim(bandwidth):
        raise InvalidInput(f"rooflines shows single accelerators, but the rates of {chip.name!r} are arrays")
    return float(peak / bandwidth), float(peak / TERA)


def _words(chip: Accelerator, math: str, ridge: float) -> str:
    used = chip.math_on_chip(math)
    return f"{chip.name}{'' if used == math else f' ({used})'}  {ridge:,.0f}"


def _name_at_the_end(ax: Axes, words: Sequence[str], heights: npt.NDArray[np.float64]) -> None:
    """A label right of the axes for each line, at its height or as near as the others let it."""
    style = style_of(ax)
    size = style.text_size + 0.5
    widen(ax, right=0.3 + max(text_inches(ax, each, size, "bold")[0] for each in words))
    lay_out(ax)
    bottom, top = np.log(ax.get_ylim())
    line = 1.35 * size * ax.figure.dpi / 72 / ax.bbox.height * (top - bottom)
    order = np.argsort(heights)
    ends = np.exp(_below(top - line / 2, _spread(np.log(heights[order]), line), line))
    for row, end in zip(order, ends, strict=True):
        color, _ = style.line(row)
        at: dict[str, Any] = {
            "xycoords": ax.get_yaxis_transform(),
            "textcoords": ax.get_yaxis_transform(),
            "va": "center",
            "parse_math": False,
        }
        link = {"arrowstyle": "-", "color": color, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 0, "relpos": (0.0, 0.5)}
        how: dict[str, Any] = {"color": color, "fontsize": size, "fontweight": "bold", "annotation_clip": False}
        ax.annotate(words[row], (1.0, heights[row]), (1.03, end), arrowprops=link, **at, **how)


def _spread(places: npt.NDArray[np.float64], gap: float) -> npt.NDArray[np.float64]:
    """Rising ``places`` moved as little as it takes to be ``gap`` apart: groups that collide share their middle."""
    groups: list[list[float]] = []
    for place_of in places:
        groups.append([place_of])
        while len(groups) > 1 and _first(groups[-1], gap) < _last(groups[-2], gap) + gap:
            groups[-2:] = [groups[-2] + groups[-1]]
    return np.concatenate([_first(group, gap) + gap * np.arange(len(group)) for group in groups])


def _below(top: float, places: npt.NDArray[np.float64], gap: float) -> npt.NDArray[np.float64]:
    """Rising ``places``, moved down as far as it takes to stay below ``top``."""
    highest = top - gap * np.arange(len(places))[::-1]
    return np.asarray(np.minimum(places, highest))


def _first(group: Sequence[float], gap: float) -> float:
    return float(np.mean(group)) - gap * (len(group) - 1) / 2


def _last(group: Sequence[float], gap: float) -> float:
    return float(np.mean(group)) + gap * (len(group) - 1) / 2


def _grouped(vendors: npt.NDArray[Any]) -> list[str]:
    return [vendor if vendor in _VENDORS else "other" for vendor in vendors]


def _look(style: Style, vendor: str) -> Look:
    """Color and marker of a vendor."""
    return style.line(_VENDORS.index(vendor) if vendor in _VENDORS else len(_VENDORS))


def _aside(years: npt.NDArray[np.float64], vendors: Sequence[str]) -> npt.NDArray[np.float64]:
    """How far each point stands from the middle of its year, so that those of a year stand side by side."""
    place_of = np.array([[*_VENDORS, "other"].index(vendor) for vendor in vendors])
    aside = np.zeros(len(years))
    for year in np.unique(years):
        rows = np.flatnonzero(years == year)
        rows = rows[np.argsort(place_of[rows], kind="stable")]
        aside[rows] = np.linspace(-0.36, 0.36, len(rows)) if len(rows) > 1 else 0.0
    return aside


def _draw_vendors(ax: Axes, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], vendors: Sequence[str]) -> None:
    present = [vendor for vendor in (*_VENDORS, "other") if vendor in vendors]
    style = style_of(ax)
    for vendor in present:
        rows = [row for row, other in enumerate(vendors) if other == vendor]
        color, marker = _look(style, vendor)
        ax.scatter(x[rows], y[rows], s=22, color=color, marker=marker, linewidths=0, label=vendor, zorder=3)
    if len(present) > 1:
        legend_inside(ax, ncols=4, loc="upper left", handletextpad=0.1, columnspacing=0.9)


def _title(column: str) -> str:
    known = {"memory_bytes": "Memory", "memory_bytes_per_s": "Memory bandwidth"}
    return known.get(column) or f"Ridge point in {column.partition('_')[0]}"


def _quantity(column: str) -> str:
    return f"{_title(column)[0].lower()}{_title(column)[1:]}" + ("" if column.startswith("memory") else ", FLOP/byte")
