"""Comparisons of deployments and models over one input: throughput against speed, cache over context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from ..errors import InvalidInput
from ..model.decoder import Model
from ..phases.passes import TIMES, Phase
from ..specs.library import get_model
from ..units import humanize
from .arguments import check_kind
from .curves import INPUTS, swept_input
from .fit_stamp import DOES_NOT_FIT, memory_of
from .frame import axes_or_new, head, label_axes, legend_below
from .style import style_of
from .ticks import log_axis, log_limits
from .tracks import deployment_facets, shortest, tell_apart

Array = npt.NDArray[np.float64]


def throughput(*phases: Phase, names: Sequence[str] = (), time: str = "estimate_s", ax: Axes | None = None) -> Axes:
    """Plot tokens/s per GPU against tokens/s per user as the batch grows, one line for each deployment.

    In larger batches, more users share the reading of the weights, so a line runs from the lower right (one user, fast)
    to the upper left. The wide gray line is the frontier: points that fit and that no other point beats in both. A line
    is dotted where the batch does not fit in memory.

    Parameters
    ----------
    *phases : Phase
        Decode steps, each swept over batch.
    names : sequence of str, optional
        One name per phase; by default, the properties in which the deployments differ.
    time : {"floor_s", "roofline_s", "estimate_s"}
        The time that the speeds are computed from, named in the subtitle.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Returns
    -------
    Axes
        Tokens/s of a user and of a GPU, both logarithmic.

    Raises
    ------
    InvalidInput
        There is no phase, a phase is not a decode step swept over batch, names do not match phases, or there is no such
        time.

    Examples
    --------
    >>> import numpy as np, roofline as rl
    >>> serve, load = rl.Deployment("llama-3.1-8b", "h100-sxm"), rl.Workload(batch=2.0 ** np.arange(8))
    >>> pair = [rl.decode(each, load) for each in (serve, rl.quantize(serve, weights="fp8"))]
    >>> ax = rl.plot.throughput(*pair)
    >>> [text.get_text() for text in ax.get_legend().get_texts()][1:]
    ['bf16', 'fp8 weights']
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    if not phases:
        raise InvalidInput("throughput needs at least one decode step swept over batch")
    check_kind("throughput", "rl.decode", Phase, *phases)
    if names and len(names) != len(phases):
        raise InvalidInput(f"throughput needs a name for each of {len(phases)} phases: {len(names)} given")
    if time not in TIMES:
        raise InvalidInput(f"time must be one of {', '.join(TIMES)}: {time!r}")
    points = [_speeds(phase, time) for phase in phases]
    held = [
        np.broadcast_to(np.asarray(memory_of(phase).fits), len(line))
        for phase, line in zip(phases, points, strict=True)
    ]
    ax = axes_or_new(ax)
    style = style_of(ax)
    front = _frontier(np.concatenate([line[fits] for line, fits in zip(points, held, strict=True)]))
    ax.plot(front[:, 0], front[:, 1], color=style.neutral, linewidth=6, alpha=0.35, label="frontier", zorder=1)
    shared, telling = tell_apart([deployment_facets(phase.deployment) for phase in phases])
    labels = list(names) or [", ".join(words) or "deployment" for words in telling]
    for place, (line, fits, name) in enumerate(zip(points, held, labels, strict=True)):
        color, marker = style.line(place)
        inside, beyond = np.where(fits[:, None], line, np.nan), line[max(int(fits.sum()) - 1, 0) :]
        ax.plot(*inside.T, color=color, linewidth=1.4, label=name, marker=marker, ms=4, markevery=_ends(fits))
        if not fits.all():
            ax.plot(*beyond.T, ":", color=color, linewidth=1.2, label="_beyond")
    if not np.all([fits.all() for fits in held]):
        ax.plot([], [], ":", color=style.quiet, linewidth=1.2, label=DOES_NOT_FIT)
    ax.set(xscale="log", yscale="log")
    every = np.concatenate(points)
    ax.set(xlim=log_limits(every[:, 0]), ylim=log_limits(every[:, 1]))
    label_axes(ax, "tokens/s per user", "tokens/s per GPU")
    log_axis(ax.xaxis)
    log_axis(ax.yaxis)
    brief = list(names) or shortest(telling)
    legend_below(ax, short=["frontier", *brief, *([] if np.all([fits.all() for fits in held]) else [DOES_NOT_FIT])])
    head(ax, "Throughput against speed", f"{shared}; decode, {time.removesuffix('_s')}")
    return ax


def kv(
    *models: Model | str | Path,
    context_tokens: Iterable[float] | None = None,
    batch: int = 1,
    cache_format: str = "bf16",
    ax: Axes | None = None,
) -> Axes:
    """Plot the KV cache and state of ``batch`` sequences over the length of their context, one line for each model.

    Parameters
    ----------
    *models : Model or str or Path
        Models or their names.
    context_tokens : iterable of float, optional
        Lengths in tokens; 128 to 1,048,576 in powers of two if None.
    batch : int
        Number of sequences.
    cache_format : str
        Format of the KV cache.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Returns
    -------
    Axes
        Tokens and GB, both logarithmic.

    Raises
    ------
    InvalidInput
        No model, a name that is not in the library, or a length below 1.

    Examples
    --------
    >>> import roofline as rl
    >>> ax = rl.plot.kv("llama-3.1-8b", "deepseek-v3", context_tokens=[1000, 100_000])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['Llama 3.1 8B, 13.11 GB', 'DeepSeek-V3, 7.027 GB']
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    if not models:
        raise InvalidInput("kv needs at least one model")
    lengths = 2.0 ** np.arange(7, 21) if context_tokens is None else np.asarray(list(context_tokens), float)
    if not len(lengths) or (lengths < 1).any():
        raise InvalidInput(f"context_tokens must be at least 1: {lengths.tolist()}")
    ax = axes_or_new(ax)
    style, every = style_of(ax), []
    for place, given in enumerate(models):
        color, marker = style.line(place)
        model = get_model(given)
        sizes = batch * np.broadcast_to(model.cache_bytes(lengths, cache_format), lengths.shape) / 1e9
        name = f"{model.title or model.name}, {humanize('cache_bytes', sizes[-1] * 1e9)}"
        ax.plot(lengths, sizes, color=color, marker=marker, markersize=3.5, linewidth=1.4, label=name)
        every.append(sizes)
    ax.set(xscale="log", yscale="log", xlim=log_limits(lengths), ylim=log_limits(*every))
    label_axes(ax, "context, tokens", "KV cache and state, GB")
    log_axis(ax.xaxis)
    log_axis(ax.yaxis)
    legend_below(ax)
    sequences = "one sequence" if batch == 1 else f"{batch:,} sequences"
    head(
        ax,
        "KV cache over context length",
        f"{sequences}, {cache_format}; sizes in the legend at {lengths[-1]:,.0f} tokens",
    )
    return ax


def _speeds(phase: Phase, time: str) -> Array:
    """``[n, 2]``: tokens/s per user and per accelerator, by batch."""
    field, batch = swept_input(phase)
    if phase.name != "decode" or field != "sequences":
        raise InvalidInput(f"throughput takes decode steps swept over batch, not {phase.name} over {INPUTS[field]}")
    seconds = np.asarray(getattr(phase, time))
    order = np.argsort(batch)
    return np.column_stack([1 / seconds, batch / seconds / phase.deployment.parallel.accelerators])[order]


def _ends(fits: npt.NDArray[np.bool_]) -> list[int]:
    """First and last of the points that fit."""
    last = int(fits.sum()) - 1
    return [0, last] if last > 0 else []


def _frontier(points: Array) -> Array:
    """The points that no other beats in both columns, from the slowest user to the fastest."""
    order = points[np.argsort(-points[:, 0], kind="stable")]
    best = np.maximum.accumulate(order[:, 1])
    return order[order[:, 1] >= best][::-1]
