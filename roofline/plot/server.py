"""Plots of a simulated server: its passes over time, and waiting and running requests."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from ..errors import InvalidInput
from ..serving.journal import Journal, journal
from ..serving.outcome import Simulation
from ..serving.under_load import Served
from ..units import brief_time
from .frame import axes_or_new, head, label_axes, legend_below, name_rows
from .style import Look, Style, style_of

Array = npt.NDArray[np.float64]

KINDS = ("decode steps", "prefill", "both in one step")
"""What a pass computes."""

MOST_LANES = 4
"""Largest number of schedulers that are drawn; further replicas behave the same on average."""

MOST_STEPS = 400
"""Largest number of steps with outlines; with more, the outlines would merge."""


def timeline(
    simulation: Simulation | Served, *, start_s: float | None = None, span_s: float = 1.0, ax: Axes | None = None
) -> Axes:
    """Plot a simulated second of a server, pass by pass: decode steps, prefill, and what waits.

    A row for each scheduler shows its passes: decode steps, prefill, or steps with both. The row below it shows stalls,
    which are passes in which generating sequences get no token. The lower rows are the generating sequences and the
    waiting requests, each scaled to its maximum.

    Parameters
    ----------
    simulation : Simulation or Served
        The result of `roofline.simulate`, or of `roofline.serve` with one simulation.
    start_s : float, optional
        Seconds from the start of the run; the middle of the run if None.
    span_s : float
        Number of seconds to show.
    ax : Axes, optional
        Where to draw; a new figure 6 inches wide if None.

    Returns
    -------
    Axes
        The axes, in seconds of the run, with rows for passes, stalls, sequences and requests of each scheduler.

    Raises
    ------
    InvalidInput
        There is no simulation, or nothing happens in that time.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment("llama-3.1-8b", "h100-sxm", engine="vllm")
    >>> run = rl.simulate(serve, rl.Workload(1500, 300), requests_per_s=8.0, requests=100)
    >>> ax = rl.plot.timeline(run, start_s=5.0, span_s=0.5)
    >>> ax.get_xlabel(), round(float(ax.get_xlim()[1]), 1)
    ('time since the start, s', 5.5)
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    run = _one_run(simulation, "timeline")
    start = max(run.span_s / 2 - span_s / 2, 0.0) if start_s is None else start_s
    noted = journal(run, start_s=start, span_s=span_s)
    if not len(noted.start_s):
        raise InvalidInput(f"nothing happens from {start:g} s on for {span_s:g} s: the run lasts {run.span_s:.4g} s")
    lanes = np.unique(noted.lane)[:MOST_LANES]
    ax = axes_or_new(ax, height=1.45 + 0.95 * len(lanes))
    style = style_of(ax)
    ax.set(xlim=(start, start + span_s), ylim=(4 * len(lanes) - 0.35, -0.65))
    label_axes(ax, "time since the start, s", "", grid="x")
    names: list[str] = []
    for place, lane in enumerate(lanes):
        names += _draw_lane(ax, noted.of_lane(lane), 4 * place, several=len(lanes) > 1)
    name_rows(ax, names)
    present = [kind for kind in KINDS if (_kind(noted) == KINDS.index(kind)).any()]
    legend_below(ax, [_patch(style, kind) for kind in present] + _stall_patch(style, noted))
    head(ax, _title(noted, span_s), f"{_where(run)}; {run.demand}, {run.time.removesuffix('_s')}")
    return ax


def queue(simulation: Simulation | Served, *, ax: Axes | None = None) -> Axes:
    """Plot the requests in the system over the time of a simulation: waiting, in prefill, and generating.

    Parameters
    ----------
    simulation : Simulation or Served
        The result of `roofline.simulate`, or of `roofline.serve` with one simulation.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Returns
    -------
    Axes
        Seconds of the run and requests, stacked; the mean time in the queue is in the title.

    Raises
    ------
    InvalidInput
        There is no simulation.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment("llama-3.1-8b", "h100-sxm", engine="vllm")
    >>> ax = rl.plot.queue(rl.simulate(serve, rl.Workload(1500, 300), requests_per_s=8.0, requests=100))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('time since the start, s', 'requests in the system')
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    run = _one_run(simulation, "queue")
    times, counts = in_system(run)
    ax = axes_or_new(ax)
    style = style_of(ax)
    bottom = np.zeros(len(times))
    for (name, (color, hatch)), count in zip(_states(style).items(), counts, strict=True):
        how: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": style.paper, "linewidth": 0, "label": name}
        ax.fill_between(times, bottom, bottom + count, step="post", **how)
        bottom = bottom + count
    most = run.times.engine.max_sequences
    ax.set(xlim=(0, float(times[-1])), ylim=(0, 1.12 * max(float(bottom.max()), 1.0)))
    label_axes(ax, "time since the start, s", "requests in the system", grid="y")
    slots = None if most is None else float(most) * len(run.tallies)
    if slots is not None and slots < ax.get_ylim()[1]:
        ax.axhline(slots, color=style.ink, linestyle="--", linewidth=0.9, label=f"limit of the engine, {slots:,.0f}")
    legend_below(ax)
    waits = f"mean wait {brief_time(run.queue_s)}, p95 {brief_time(run.quantile('queue_s', 0.95))}"
    head(ax, f"Queue: {waits}", f"{_where(run)}; {run.demand}, {run.time.removesuffix('_s')}")
    return ax


def in_system(run: Simulation) -> tuple[Array, Array]:
    """When something changes, ``[n]``, and how many then generate, are at their prompt, or wait, ``[3, n]``."""
    record = run.requests
    moments = [np.asarray(values, float) for values in (record.arrival, record.admitted, record.first, record.finish)]
    times = np.unique(np.concatenate(moments))
    reached = np.array([np.searchsorted(np.sort(moment), times, side="right") for moment in moments])
    return times, (reached[:-1] - reached[1:])[::-1].astype(float)


def _one_run(found: Simulation | Served, name: str) -> Simulation:
    if isinstance(found, Served) and len(found.simulations) == 1:
        return found.simulations[0]
    if isinstance(found, Simulation):
        return found
    raise InvalidInput(f"{name} takes a single simulation, as returned by rl.simulate")


def _where(run: Simulation) -> str:
    serve = run.deployment
    layout = "" if serve.parallel.single else f", {serve.parallel}"
    engine = "default engine" if serve.engine is None else run.times.engine
    return f"{serve.model.title or serve.model.name} on {serve.accelerator.name}{layout}, {engine}"


def _states(style: Style) -> dict[str, Look]:
    """Color and hatch of what a request does, from the bottom up."""
    return {
        "generating": style.limits["memory"],
        "in prefill": style.limits["compute"],
        "waiting": style.limits["network"],
    }


def _looks(style: Style) -> dict[str, Look]:
    """Color and hatch of each kind of pass."""
    return {
        "decode steps": (style.limits["memory"][0], ""),
        "prefill": (style.limits["compute"][0], "////"),
        "both in one step": (style.parts["KV cache"][0], "\\\\\\\\"),
    }


def _patch(style: Style, kind: str) -> Patch:
    color, hatch = _looks(style)[kind]
    return Patch(facecolor=color, edgecolor=style.paper, hatch=hatch, linewidth=0, label=kind)


def _stall_patch(style: Style, noted: Journal) -> list[Patch]:
    if noted.stalls.any():
        return [Patch(facecolor=style.warning, label="stall: no output tokens")]
    return []


def _kind(noted: Journal) -> npt.NDArray[np.int_]:
    """Place in `KINDS` of each pass."""
    with_prompts = noted.prompt_tokens > 0
    return np.where(with_prompts, np.where(noted.emits, 2, 1), 0)


def _draw_lane(ax: Axes, noted: Journal, row: int, *, several: bool) -> list[str]:
    """Four rows of a scheduler, from the top: passes, stalls, what generates, what waits; their names."""
    style, kinds = style_of(ax), _kind(noted)
    outlined = noted.steps.sum() + len(noted.start_s) <= MOST_STEPS
    for place, kind in enumerate(KINDS):
        color, hatch = _looks(style)[kind]
        spans = [span for each in np.flatnonzero(kinds == place) for span in _single_steps(noted, each, outlined)]
        shapes = [_rectangle(left, right, row - 0.36, row + 0.36) for left, right in spans]
        how: dict[str, Any] = {"facecolor": color, "edgecolor": style.paper, "hatch": hatch}
        ax.add_collection(PolyCollection(shapes, linewidths=0.4 if outlined else 0.0, label=kind, **how))
    stalls = [
        _rectangle(noted.start_s[each], noted.end_s[each], row + 0.7, row + 1.3)
        for each in np.flatnonzero(noted.stalls)
    ]
    ax.add_collection(PolyCollection(stalls, facecolor=style.warning, linewidths=0, label="stall"))
    longest = float(np.max((noted.end_s - noted.start_s)[noted.stalls], initial=0.0))
    name = f"scheduler {int(noted.lane[0]) + 1}" if several else "passes"
    stalled = f"stalls, up to {brief_time(longest)}" if longest else "no stalls"
    return [
        name,
        stalled,
        _draw_height(ax, noted, noted.running, row + 2, "generating"),
        _draw_height(ax, noted, noted.waiting, row + 3, "waiting"),
    ]


def _single_steps(noted: Journal, each: np.intp, outlined: bool) -> list[tuple[float, float]]:
    """Start and end of the steps of a pass, which are nearly alike."""
    count = max(int(noted.steps[each]), 1) if outlined else 1
    edges = np.linspace(noted.start_s[each], noted.end_s[each], count + 1)
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def _rectangle(left: float, right: float, top: float, bottom: float) -> list[tuple[float, float]]:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _draw_height(ax: Axes, noted: Journal, values: Array, row: int, words: str) -> str:
    """A row whose height follows ``values``, as high as their most; its name."""
    style, most = style_of(ax), float(values.max())
    color, _ = _states(style)[words]
    shapes = [
        _rectangle(left, right, row + 0.36 - 0.72 * value / most, row + 0.36)
        for left, right, value in zip(noted.start_s, noted.end_s, values, strict=True)
        if value
    ]
    how: dict[str, Any] = {"facecolor": color, "edgecolor": color, "linewidths": 0.3}
    ax.add_collection(PolyCollection(shapes, label=words, **how))
    return f"{words}, up to {most:,.0f}" if most else f"{words}: none"


def _title(noted: Journal, span_s: float) -> str:
    """What the stretch of time went to."""
    took = noted.end_s - noted.start_s
    share = float(took[noted.prompt_tokens > 0].sum() / took.sum())
    length = "A second" if span_s == 1 else f"{brief_time(span_s)}"
    return f"{length} of a server: {share:.0%} of its busy time includes prefill"
