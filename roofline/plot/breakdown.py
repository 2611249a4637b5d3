"""Where the time of a pass goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from ..errors import InvalidInput
from ..phases.passes import Phase
from .arguments import check_kind
from .fit_stamp import DOES_NOT_FIT, memory_of
from .frame import (
    axes_or_new,
    figure_inches,
    head,
    label_axes,
    lay_out,
    legend_below,
    name_rows,
    renderer_of,
    text_inches,
    widen,
)
from .style import Style, ink_on_fill, style_of
from .tracks import captions, in_lines, legend_words, operator_name, shares_of_time, short_names, swept


def time_breakdown(*phases: Phase, ax: Axes | None = None) -> Axes:
    """Plot shares of ``roofline_s`` by operator, one bar per phase; color and hatch say what limits an operator.

    Operators with the same name are one segment. The order is the same in every bar, longest over all phases first.
    Segments that are too narrow have no label.

    Parameters
    ----------
    *phases : Phase
        Single passes, from top to bottom.
    ax : Axes, optional
        Where to draw; a new figure 6 inches wide if None.

    Returns
    -------
    Axes
        The axes, with one row per phase.

    Raises
    ------
    InvalidInput
        No phase, or a sweep (array results).

    Examples
    --------
    >>> import roofline as rl
    >>> serve, load = rl.Deployment("llama-3.1-8b", "h100-sxm"), rl.Workload(batch=16)
    >>> ax = rl.plot.time_breakdown(rl.prefill(serve, load), rl.decode(serve, load))
    >>> [text.get_text().splitlines()[0] for text in ax.get_yticklabels()]
    ['prefill, batch 16', 'decode, batch 16']
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    if not phases:
        raise InvalidInput("time_breakdown needs at least one phase")
    check_kind("time_breakdown", "rl.prefill, rl.decode or rl.mixed", Phase, *phases)
    for phase in phases:
        if swept(phase):
            raise InvalidInput(
                f"time_breakdown shows single passes, but {phase.name} is a sweep; draw one of its points"
            )
    ax = axes_or_new(ax, height=1.5 + 0.6 * len(phases))
    style = style_of(ax)
    ax.set(xlim=(0, 1), ylim=(len(phases) - 0.4, -0.6))
    label_axes(ax, "share of the roofline time", "", grid="")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.spines[:].set_visible(False)
    names, shared = _row_names(ax, phases)
    name_rows(ax, names)
    head(ax, "Where the time goes", shared or _models_and_chips(phases))
    pieces = [_pieces(phase) for phase in phases]
    keys = dict.fromkeys(key for piece in pieces for key in piece)
    order = sorted(keys, key=lambda key: -sum(piece.get(key, 0.0) for piece in pieces))
    limits = [limit for limit in style.limits if any(limit == found for _, found in keys)]
    legend_below(ax, [_sample(style, limit) for limit in limits])
    widen(ax, right=0.25)
    lay_out(ax)
    for row, piece in enumerate(pieces):
        _draw_bar(ax, row, {key: piece[key] for key in order if key in piece})
    return ax


LINE = 0.125
"""Inches of a line of a row's name."""

NAME_SHARE = 0.4
"""Of the width of the figure, at most, for names of rows with all that tells them apart."""


def _models_and_chips(phases: Sequence[Phase]) -> str:
    served = [phase.deployment for phase in phases]
    models = dict.fromkeys(serve.model.title or serve.model.name for serve in served)
    chips = dict.fromkeys(serve.accelerator.title or serve.accelerator.name for serve in served)
    return f"{', '.join(models)} on {', '.join(chips)}"


def _row_names(ax: Axes, phases: Sequence[Phase]) -> tuple[list[str], str]:
    """A name for each row, and what all have in common if the rows lack room for it."""
    misfits = ["" if np.all(memory_of(phase).fits) else DOES_NOT_FIT for phase in phases]
    pairs = zip(captions(phases), misfits, strict=True)
    names = ["\n".join(filter(None, [texts[0], misfit])) for texts, misfit in pairs]
    most_lines = max(name.count("\n") + 1 for name in names)
    height = ax.bbox.height / ax.figure.dpi
    if LINE * most_lines * len(names) <= height:
        return names, ""
    shared, words = legend_words(phases)
    long = [in_lines(filter(None, (*own.split(", "), misfit)), 44) for own, misfit in zip(words, misfits, strict=True)]
    most_lines = max(name.count("\n") + 1 for name in long)
    widest = max(text_inches(ax, name, style_of(ax).text_size)[0] for name in long)
    if LINE * most_lines * len(long) <= height and widest <= NAME_SHARE * figure_inches(ax)[0]:
        return long, shared
    marked = [f"{name}{'*' if misfit else ''}" for name, misfit in zip(short_names(phases), misfits, strict=True)]
    return marked, "; ".join(filter(None, [shared, f"* {DOES_NOT_FIT}" if any(misfits) else ""]))


def _sample(style: Style, limit: str) -> Patch:
    color, hatch = style.limits[limit]
    return Patch(facecolor=color, edgecolor=style.paper, hatch=hatch, linewidth=0, label=f"{limit}-bound")


def _pieces(phase: Phase) -> dict[tuple[str, str], float]:
    """``(operator, what limits it)`` -> share of the phase's time."""
    shares: dict[tuple[str, str], float] = {}
    for item, share in zip(phase.operators, shares_of_time(phase), strict=True):
        key = (operator_name(item), str(item.limit))
        shares[key] = shares.get(key, 0.0) + share
    return shares


def _draw_bar(ax: Axes, row: int, pieces: Mapping[tuple[str, str], float]) -> None:
    style, renderer, left = style_of(ax), renderer_of(ax), 0.0
    for (name, limit), share in pieces.items():
        color, hatch = style.limits[limit]
        how: dict[str, Any] = {"color": color, "edgecolor": style.paper, "linewidth": 0.8, "hatch": hatch}
        ax.barh(row, share, left=left, height=0.7, label=name, **how)
        written: dict[str, Any] = {"fontsize": style.text_size, "color": ink_on_fill(style, color), "parse_math": False}
        if hatch:
            written["bbox"] = {"boxstyle": "square,pad=0.1", "facecolor": color, "edgecolor": "none"}
        between = "\n" if 0.7 * ax.bbox.height / np.ptp(ax.get_ylim()) > 2 * LINE * ax.figure.dpi else " "
        text = ax.text(left + share / 2, row, f"{name}{between}{share:.0%}", ha="center", va="center", **written)
        if text.get_window_extent(renderer).width > share * ax.bbox.width - 4:
            text.remove()
        left += share
