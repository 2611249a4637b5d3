"""Curves over one input of a sweep: the three times of a pass, throughput against speed, cache over context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from ..errors import InvalidInput
from ..model.decoder import Model
from ..phases.passes import TIMES, Phase
from ..specs.library import get_model
from ..units import humanize
from .style import FAINT, INK, OTHERS, QUIET, SERIES, axes_or_new, few_numbers, head, plain_numbers

Array = npt.NDArray[np.float64]

INPUTS = {
    "batch": ("sequences", "batch, sequences"),
    "new_tokens": ("new_tokens", "new tokens of a sequence"),
    "context_tokens": ("past_tokens", "context, tokens in the cache"),
}
"""What a sweep may run over: the field of a segment that holds it, and the label of its axis."""

TIME_STYLES = {
    "floor_s": ("floor", QUIET, ":"),
    "roofline_s": ("roofline", "#0072b2", "--"),
    "estimate_s": ("estimate, with its interval", "#d55e00", "-"),
}
"""Name, color and dashes of each of the three times."""

LINES = (SERIES["decode"], SERIES["prefill"], *OTHERS, (INK, "P"), (QUIET, "X"))
"""Color and marker of each line, in order."""


def curves(phase: Phase, *, measured: Mapping[float, float] | None = None, ax: Axes | None = None) -> Axes:
    """Floor, roofline and estimate of a pass over the one input that the sweep varies, with measured points on top.

    Parameters
    ----------
    phase : Phase
        A sweep over one input: batch, context or new tokens.
    measured : mapping of float to float, optional
        Measured seconds by value of the swept input, for instance by batch.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Returns
    -------
    Axes
        The swept input on a logarithmic axis, milliseconds on another.

    Raises
    ------
    InvalidInput
        A single pass, or a sweep over several inputs.

    Examples
    --------
    >>> import numpy as np, roofline as rl
    >>> serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
    >>> step = rl.decode(serve, rl.Workload(batch=np.arange(1, 129)), context_tokens=2048)
    >>> ax = rl.plot.curves(step, measured={1: 6.9e-3, 64: 9.8e-3})
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('batch, sequences', 'time of a pass, ms')
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    label, inputs = _swept_input(phase)
    ax = axes_or_new(ax)
    for time in TIMES:
        name, color, dashes = TIME_STYLES[time]
        ax.plot(inputs, 1e3 * np.asarray(getattr(phase, time)), dashes, color=color, linewidth=1.6, label=name)
    low, high = (1e3 * np.asarray(bound) for bound in (phase.estimate_low_s, phase.estimate_high_s))
    ax.fill_between(inputs, low, high, color=TIME_STYLES["estimate_s"][1], alpha=0.15, linewidth=0)
    if measured:
        ax.plot(list(measured), [1e3 * time for time in measured.values()], "o", color=INK, ms=4, label="measured")
    _finish(ax, label, "time of a pass, ms")
    serve = phase.deployment
    model = serve.model.title or serve.model.name
    head(ax, f"Time of {phase.name}", f"{model} on {serve.accelerator.title}, {serve.parallel}")
    return ax


def throughput(*phases: Phase, names: Sequence[str] = (), time: str = "estimate_s", ax: Axes | None = None) -> Axes:
    """Tokens/s of each GPU against tokens/s of each user as the batch grows, a line for each deployment.

    Larger batches share the weights' traffic among more users, so a line runs from the lower right (one user, fast)
    to the upper left.  The gray line is the frontier: what no drawn point beats in both.

    Parameters
    ----------
    phases : Phase
        Decode steps, each a sweep over the batch.
    names : sequence of str, optional
        One for each phase; accelerator, layout and formats if none are given.
    time : {"floor_s", "roofline_s", "estimate_s"}
        The time that the speeds rest on, which the subtitle names.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Raises
    ------
    InvalidInput
        No phase, one that is not a decode step swept over the batch, not as many names as phases, another time.
    """
    if not phases:
        raise InvalidInput("throughput needs a decode step swept over the batch: none was given")
    if names and len(names) != len(phases):
        raise InvalidInput(f"throughput needs a name for each of {len(phases)} phases: {len(names)} given")
    if time not in TIMES:
        raise InvalidInput(f"time must be one of {', '.join(TIMES)}: {time!r}")
    points = [_speeds(phase, time) for phase in phases]
    ax = axes_or_new(ax)
    front = _frontier(np.concatenate(points))
    ax.plot(front[:, 0], front[:, 1], color="#bbbbbb", linewidth=5, alpha=0.6, label="frontier", zorder=1)
    labels = list(names) or [_deployment_words(phase) for phase in phases]
    for line, name, (color, marker) in zip(points, labels, cycle(LINES), strict=False):
        ax.plot(line[:, 0], line[:, 1], color=color, linewidth=1.4, label=name, marker=marker, ms=4, markevery=[0, -1])
    _finish(ax, "tokens/s per user", "tokens/s per GPU")
    models = dict.fromkeys(phase.deployment.model.title or phase.deployment.model.name for phase in phases)
    head(ax, "Throughput against speed", f"{' and '.join(models)}, decode, {time.removesuffix('_s')}")
    return ax


def kv(
    *models: Model | str | Path,
    context_tokens: Iterable[float] | None = None,
    batch: int = 1,
    cache_format: str = "bf16",
    ax: Axes | None = None,
) -> Axes:
    """KV cache and state of ``batch`` sequences over the length of their context, a line for each model.

    Parameters
    ----------
    models : Model or str or Path
        Models or their names.
    context_tokens : iterable of float, optional
        Lengths in tokens; 128 to 1,048,576 in powers of two if None.
    batch : int
        Sequences that share the memory.
    cache_format : str
        Number format of keys and values.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Raises
    ------
    InvalidInput
        No model, a name that is not in the library, or a length below 1.
    """
    if not models:
        raise InvalidInput("kv needs a model: none was given")
    lengths = 2.0 ** np.arange(7, 21) if context_tokens is None else np.asarray(list(context_tokens), float)
    if not len(lengths) or (lengths < 1).any():
        raise InvalidInput(f"context_tokens must be lengths of at least 1 token: {lengths.tolist()}")
    ax = axes_or_new(ax)
    for given, (color, marker) in zip(models, cycle(LINES), strict=False):
        model = get_model(given)
        sizes = batch * np.broadcast_to(model.cache_bytes(lengths, cache_format), lengths.shape) / 1e9
        name = f"{model.title or model.name}, {humanize('cache_bytes', sizes[-1] * 1e9)}"
        ax.plot(lengths, sizes, color=color, marker=marker, markersize=3, linewidth=1.4, label=name)
    _finish(ax, "context, tokens", "cache and state, GB")
    sequences = "one sequence" if batch == 1 else f"{batch:,} sequences"
    head(ax, "Cache over context", f"{sequences}, {cache_format}; sizes named at {lengths[-1]:,.0f} tokens")
    return ax


def _swept_input(phase: Phase) -> tuple[str, Array]:
    """Label and values of the one input that ``phase`` runs over."""
    (segment, *others) = phase.segments
    fields = {label: getattr(segment, field) for field, label in INPUTS.values()}
    varied = {label: values for label, values in fields.items() if np.size(values) > 1}
    if others or len(varied) != 1:
        found = " and ".join(varied) or "none"
        raise InvalidInput(f"a curve runs over one input of a single group of sequences; this phase varies {found}")
    ((label, values),) = varied.items()
    if np.ndim(phase.roofline_s) != 1:
        raise InvalidInput(f"a curve needs a sweep of one dimension: this one has {np.ndim(phase.roofline_s)}")
    return label, np.asarray(values, float).ravel()


def _speeds(phase: Phase, time: str) -> Array:
    """``[n, 2]``: tokens/s per user and per accelerator, by batch."""
    label, batch = _swept_input(phase)
    if phase.name != "decode" or label != INPUTS["batch"][1]:
        raise InvalidInput(f"throughput shows decode steps swept over the batch: this is {phase.name} over {label}")
    seconds = np.asarray(getattr(phase, time))
    return np.column_stack([1 / seconds, batch / seconds / phase.deployment.parallel.accelerators])


def _frontier(points: Array) -> Array:
    """The points that no other beats in both columns, from the slowest user to the fastest."""
    order = points[np.argsort(-points[:, 0], kind="stable")]
    best = np.maximum.accumulate(order[:, 1])
    return order[order[:, 1] >= best][::-1]


def _deployment_words(phase: Phase) -> str:
    serve = phase.deployment
    layout = "" if serve.parallel.single else f", {serve.parallel}"
    return f"{serve.accelerator.title}{layout}, {serve.precision.weights}"


def _finish(ax: Axes, xlabel: str, ylabel: str) -> None:
    """Logarithmic axes with plain numbers, a faint grid, a legend."""
    ax.set(xscale="log", yscale="log")
    ax.set_xlabel(xlabel, fontsize=8)
    ax.set_ylabel(ylabel, fontsize=8)
    ax.tick_params(labelsize=7, which="both")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(plain_numbers)
        few_decades = np.ptp(np.log10(axis.get_view_interval())) < 1.5
        if few_decades:
            axis.set_minor_formatter(few_numbers)
        else:
            axis.set_minor_formatter(NullFormatter())
    ax.grid(color=FAINT, linewidth=0.6)
    ax.legend(frameon=False, fontsize=7)
    ax.spines[["top", "right"]].set_visible(False)
