"""Which phase takes most of the time, over prompt and output lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from ..advisor.verdict import DECODE_FROM, PREFILL_FROM, PhaseMap
from .arguments import check_kind
from .frame import axes_or_new, head, label_axes, legend_below
from .style import Style, style_of
from .ticks import log_axis

TEXT_SIZE = (6.0, 1.5)
"""Half the width and height of such words, in places of the map's grid."""


def phase_map(found: PhaseMap, *, ax: Axes | None = None) -> Axes:
    """Plot the verdict over prompt and output lengths, with the traffic as dots whose size grows with its share.

    Parameters
    ----------
    found : PhaseMap
        From an advice (``advice.phase_map``) or from `roofline.advisor.phase_map`.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Returns
    -------
    Axes
        The axes, in prompt and output tokens, both logarithmic.
    """
    check_kind("phase_map", "roofline.advisor.phase_map", PhaseMap, found)
    ax = axes_or_new(ax)
    style = style_of(ax)
    x, y, share = found.prompt_tokens, found.output_tokens, np.asarray(found.prefill_share).T
    edges, colors = [0.0, 1 - DECODE_FROM, PREFILL_FROM, 1.0], regions(style)
    ax.set(xscale="log", yscale="log", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    ax.contourf(x, y, share, levels=edges, colors=[color for color, _ in colors.values()], alpha=0.22)
    lines = ax.contour(x, y, share, levels=[0.1, *edges[1:3], 0.9], colors=style.quiet, linewidths=0.7)
    label_axes(ax, "prompt tokens", "output tokens", grid="")
    log_axis(ax.xaxis)
    log_axis(ax.yaxis)
    ax.clabel(lines, fmt=lambda level: f"{level:.0%}", fontsize=style.text_size)
    for verdict, (color, words) in colors.items():
        _name_region(ax, found, verdict, words, color)
    if found.traffic is not None:
        sizes = 20 + 180 * found.traffic.share / found.traffic.share.max()
        dots = (found.traffic.prompt_tokens, found.traffic.output_tokens)
        how: dict[str, Any] = {"color": style.ink, "edgecolor": style.paper, "linewidth": 0.8}
        ax.scatter(*dots, s=sizes, zorder=3, label="traffic", **how)
        legend_below(ax)
    head(ax, "Prefill or decode first?", f"{found.name}, batch {found.batch:,}; lines: share of the time in prefill")
    return ax


def regions(style: Style) -> dict[str, tuple[str, str]]:
    """Color and words of each verdict, from the smallest share of prefill to the largest."""
    return {
        "decode": (style.phases["decode"][0], "decode first"),
        "both": (style.quiet, "profile both"),
        "prefill": (style.phases["prefill"][0], "prefill first"),
    }


def _name_region(ax: Axes, found: PhaseMap, verdict: str, words: str, color: str) -> None:
    """Write the name of a region where it has most room, if it has enough."""
    places = np.argwhere(np.pad(np.asarray(found.verdict) == verdict, 1)) - 1
    others = np.argwhere(np.pad(np.asarray(found.verdict) != verdict, 1, constant_values=True)) - 1
    if not len(places):
        return
    apart = np.abs(places[:, None] - np.concatenate([others, _dots(found)])[None]) / TEXT_SIZE
    room = apart.max(axis=-1).min(axis=-1)
    if room.max() >= 1:
        prompt, output = places[np.argmax(room)]
        at = (found.prompt_tokens[prompt], found.output_tokens[output])
        style = style_of(ax)
        text = ax.text(*at, words, ha="center", va="center", fontsize=style.label_size, fontweight="bold", color=color)
        text.set_path_effects([withStroke(linewidth=2.5, foreground=style.paper)])


def _dots(found: PhaseMap) -> npt.NDArray[np.int_]:
    """Where the traffic's dots are, as places on the map's grid."""
    if found.traffic is None:
        return np.zeros((0, 2), dtype=int)
    prompts = np.searchsorted(found.prompt_tokens, found.traffic.prompt_tokens)
    outputs = np.searchsorted(found.output_tokens, found.traffic.output_tokens)
    return np.stack([prompts, outputs], axis=-1)
