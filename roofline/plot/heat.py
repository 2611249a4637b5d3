"""Time of a decode step over batch and context, with the limits of memory and of a service-level objective."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D

from ..errors import InvalidInput
from ..footprint.memory_use import memory
from ..phases.deployment import Deployment
from ..phases.passes import TIMES, decode
from ..phases.workload import Workload
from .style import INK, axes_or_new, few_numbers, head, plain_numbers

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
    """Time of a decode step over batch and context; what does not fit stays white.

    Parameters
    ----------
    serve : Deployment
        What runs where.
    batch : sequence of float
        Sequences in the step, increasing.
    context_tokens : sequence of float
        Tokens of each sequence in the cache, increasing.
    tpot_s : float, optional
        Largest time per output token in seconds that users accept, drawn as a line.
    time : {"floor_s", "roofline_s", "estimate_s"}
        Which of the three times is drawn; the title names it.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

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
        raise InvalidInput(f"heatmap needs a batch and a context that fit: none does on {serve.accelerator.name}")
    ax = axes_or_new(ax)
    shown = np.where(fits, 1e3 * seconds, np.nan)
    drawn = ax.pcolormesh(sequences, lengths, shown, norm=LogNorm(), cmap="viridis", shading="nearest")
    ax.set(xscale="log", yscale="log")
    lines = [Line2D([], [], color="white", marker="s", markeredgecolor=INK, linestyle="", label="does not fit")]
    if tpot_s is not None:
        inside = seconds.min() < tpot_s < seconds.max()
        if inside:
            ax.contour(sequences, lengths, seconds, levels=[tpot_s], colors="#d55e00", linewidths=1.8)
        words = f"{1e3 * tpot_s:g} ms per output token" + ("" if inside else ": outside the picture")
        lines.append(Line2D([], [], color="#d55e00", label=words))
    _label(ax, lines, drawn)
    model = serve.model.title or serve.model.name
    head(ax, f"Decode step, {time.removesuffix('_s')}", f"{model} on {serve.accelerator.title}, {serve.parallel}")
    return ax


def _label(ax: Axes, lines: Sequence[Line2D], drawn: QuadMesh) -> None:
    for axis, words in ((ax.xaxis, "batch, sequences"), (ax.yaxis, "context, tokens")):
        axis.set_label_text(words, fontsize=8)
        axis.set_major_formatter(plain_numbers)
    ax.tick_params(labelsize=7, which="both")
    bar = ax.figure.colorbar(drawn, ax=ax, pad=0.02)
    bar.set_label("ms", fontsize=8)
    bar.ax.yaxis.set_major_formatter(plain_numbers)
    bar.ax.yaxis.set_minor_formatter(few_numbers)
    bar.ax.tick_params(labelsize=7)
    ax.legend(handles=lines, loc="upper right", bbox_to_anchor=(1, -0.12), ncols=2, frameon=False, fontsize=7)
