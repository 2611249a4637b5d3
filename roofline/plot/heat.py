"""Time of a decode step over batch and context, with the limits of memory and of a service-level objective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from ..errors import InvalidInput
from ..footprint.memory_use import memory
from ..phases.deployment import Deployment
from ..phases.passes import TIMES, decode
from ..phases.workload import Workload
from .fit_stamp import DOES_NOT_FIT
from .frame import axes_or_new, head, label_axes, legend_below, widen
from .style import style_of
from .ticks import log_axis, plain_number
from .tracks import deployment_words

BATCHES = tuple(2.0**power for power in range(11))
CONTEXTS = tuple(2.0**power for power in range(7, 18))


def heatmap(
    serve: Deployment,
    *,
    batch: Sequence[float] = BATCHES,
    context_tokens: Sequence[float] = CONTEXTS,
    tpot_s: float | None = None,
    time: str = "estimate_s",
    ax: Axes | None = None,
) -> Axes:
    """Plot the time of a decode step over batch and context; what does not fit stays blank.

    Parameters
    ----------
    serve : Deployment
        What runs where.
    batch : sequence of float
        Sequences in the step, increasing.
    context_tokens : sequence of float
        Tokens of each sequence in the cache, increasing.
    tpot_s : float, optional
        Target for the time per output token in seconds, drawn as a line.
    time : {"floor_s", "roofline_s", "estimate_s"}
        The time that is drawn and named in the title.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Returns
    -------
    Axes
        Sequences over tokens, both logarithmic; the color bar in milliseconds.

    Raises
    ------
    InvalidInput
        Fewer than two batches or contexts, ones that do not increase, another time, ``tpot_s`` not above 0, or nothing
        that fits.

    Examples
    --------
    >>> import roofline as rl
    >>> ax = rl.plot.heatmap(rl.Deployment("llama-3.1-8b", "h100-sxm"), tpot_s=0.02)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('batch, sequences', 'context, tokens')
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    axis = {"batch": np.asarray(batch, float), "context_tokens": np.asarray(context_tokens, float)}
    for name, values in axis.items():
        if values.ndim != 1 or len(values) < 2 or (np.diff(values) <= 0).any():
            raise InvalidInput(f"{name} must be at least two increasing numbers: {values.tolist()}")
    if time not in TIMES:
        raise InvalidInput(f"time must be one of {', '.join(TIMES)}: {time!r}")
    if tpot_s is not None and not tpot_s > 0:
        raise InvalidInput(f"tpot_s must be above 0 seconds: {tpot_s!r}")
    sequences, lengths = np.meshgrid(axis["batch"], axis["context_tokens"])
    step = decode(serve, Workload(batch=sequences), context_tokens=lengths)
    seconds = np.asarray(getattr(step, time))
    fits = np.asarray(memory(serve, Workload(prompt_tokens=lengths, output_tokens=1, batch=sequences)).fits)
    if not fits.any():
        raise InvalidInput(f"no batch and context of the heatmap fit on {serve.accelerator.name}")
    ax = axes_or_new(ax)
    style = style_of(ax)
    ax.set(xscale="log", yscale="log")
    shown = np.where(fits, 1e3 * seconds, np.nan)
    edges = [_edges(values) for values in axis.values()]
    drawn = ax.pcolormesh(*edges, shown, norm=LogNorm(), cmap="viridis", shading="flat")
    blank: dict[str, Any] = {"color": style.paper, "marker": "s", "markeredgecolor": style.quiet, "linestyle": ""}
    lines = [Line2D([], [], label=DOES_NOT_FIT, **blank)]
    if tpot_s is not None:
        inside = seconds.min() < tpot_s < seconds.max()
        if inside:
            # A dark line in a light one is seen on every color of the map.
            ax.contour(sequences, lengths, seconds, levels=[tpot_s], colors="#ffffff", linewidths=3.2)
            ax.contour(sequences, lengths, seconds, levels=[tpot_s], colors=TARGET, linewidths=1.8)
        words = f"{1e3 * tpot_s:g} ms per output token" + ("" if inside else ", off the map")
        lines.append(Line2D([], [], color=TARGET, label=words))
    _label(ax, lines, drawn)
    head(ax, f"Decode step, {time.removesuffix('_s')}", deployment_words(serve))
    return ax


TARGET = "#d55e00"
"""The line of the target, over the map's colors on any background."""


def _edges(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Edges of the cells around ``values``, halfway between neighbors on a logarithmic axis.

    The outer edges are at most a factor of the square root of 2 away, so that no cell reaches far below one sequence.
    """
    inner = np.sqrt(values[1:] * values[:-1])
    first, last = min(inner[0] / values[0], np.sqrt(2)), min(values[-1] / inner[-1], np.sqrt(2))
    return np.concatenate([[values[0] / first], inner, [values[-1] * last]])


def _label(ax: Axes, lines: Sequence[Line2D], drawn: QuadMesh) -> None:
    style = style_of(ax)
    label_axes(ax, "batch, sequences", "context, tokens", grid="")
    log_axis(ax.xaxis)
    log_axis(ax.yaxis)
    bar = ax.figure.colorbar(drawn, cax=ax.inset_axes((1.03, 0, 0.035, 1)))
    widen(ax, right=0.85)
    bar.set_label("ms", fontsize=style.label_size, color=style.ink)
    few = drawn.norm.vmax < 40 * drawn.norm.vmin  # type: ignore[operator]
    bar.ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: plain_number(value)))
    bar.ax.yaxis.set_minor_locator(NullLocator())
    bar.ax.tick_params(labelsize=style.text_size, color=style.quiet, labelcolor=style.ink, length=2.5)
    bar.outline.set_visible(False)
    legend_below(ax, lines)
