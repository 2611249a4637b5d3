"""Colors and axes that the plots share.  Colors are Okabe and Ito's, distinct in every common color blindness."""

from __future__ import annotations

from collections.abc import Iterable

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

INK = "#222222"
QUIET = "#666666"
FAINT = "#e4e4e4"

SERIES = {"prefill": ("#d55e00", "s"), "decode": ("#0072b2", "o")}
"""Color and marker of a phase by its name."""

OTHERS = (("#009e73", "^"), ("#cc79a7", "D"), ("#e69f00", "v"))
"""Colors and markers of anything else, in order of appearance."""

LIMITS = {"memory": "#56b4e9", "compute": "#e69f00", "network": "#cc79a7"}
"""Color of what an operator is limited by."""


def series_styles(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Color and marker of each name."""
    others = dict.fromkeys(name for name in names if name not in SERIES)
    return SERIES | {name: OTHERS[place % len(OTHERS)] for place, name in enumerate(others)}


def axes_or_new(ax: Axes | None, height: float = 4.0) -> Axes:
    """``ax``, or the axes of a new figure 6 inches wide."""
    return plt.subplots(figsize=(6.0, height), layout="constrained")[1] if ax is None else ax


def head(ax: Axes, title: str, subtitle: str) -> None:
    """Title and a quieter line under it, flush left."""
    ax.set_title(title, loc="left", fontsize=10, fontweight="bold", color=INK, pad=17)
    ax.annotate(subtitle, (0, 1), (0, 5), "axes fraction", "offset points", fontsize=7, color=QUIET)


def plain_numbers(value: float, _: float | None = None) -> str:
    """A tick's number without powers of ten: ``1,000``, ``0.01``."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def few_numbers(value: float, place: float | None = None) -> str:
    """The number of a tick between powers of ten if it begins with 2 or 5, else nothing."""
    return plain_numbers(value, place) if f"{value:e}"[0] in "25" else ""
