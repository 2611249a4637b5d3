"""Plots of memory use, plans, and sensitivities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ..analysis.sensitivities import Sensitivity
from ..capacity import Plan
from ..errors import InvalidInput
from ..footprint.memory_use import Memory
from .arguments import check_kind
from .fit_stamp import DOES_NOT_FIT
from .frame import axes_or_new, head, label_axes, lay_out, legend_below, name_columns, name_rows, text_inches
from .style import style_of
from .ticks import log_axis, log_limits
from .tracks import deployment_facets, deployment_words, shortest, tell_apart

TICK_INCHES = 0.5
"""Inches of an axis for each of its percentages."""


def memory_stack(*needs: Memory, names: Sequence[str] = (), ax: Axes | None = None) -> Axes:
    """Plot the memory use of the most loaded accelerator, one bar per deployment, with a line for its memory size.

    Parameters
    ----------
    *needs : Memory
        Single cases, from left to right.
    names : sequence of str, optional
        Names of the bars; by default, the model, accelerator, layout and formats that differ.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Returns
    -------
    Axes
        The axes, in GB, with one bar per case.

    Raises
    ------
    InvalidInput
        No case, a sweep (array results), or not as many names as cases.

    Examples
    --------
    >>> import roofline as rl
    >>> serve, load = rl.Deployment("llama-3.1-70b", "h200-sxm"), rl.Workload(batch=8)
    >>> halved = rl.quantize(serve, weights="fp8")
    >>> ax = rl.plot.memory_stack(rl.memory(serve, load), rl.memory(halved, load))
    >>> [text.get_text() for text in ax.get_xticklabels()]
    ['bf16', 'fp8 weights']
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    if not needs:
        raise InvalidInput("memory_stack needs at least one result of rl.memory")
    check_kind("memory_stack", "rl.memory", Memory, *needs)
    if any(np.ndim(need.needed_bytes) for need in needs):
        raise InvalidInput("memory_stack shows single cases; draw the points of a sweep one by one")
    if names and len(names) != len(needs):
        raise InvalidInput(f"memory_stack needs a name for each of {len(needs)} cases: {len(names)} given")
    ax = axes_or_new(ax)
    style = style_of(ax)
    ax.set_xlim(-0.6, len(needs) - 0.4)
    label_axes(ax, "", "memory per accelerator, GB", grid="y")
    shared, telling = tell_apart([_facets(need) for need in needs])
    single = [f"{need.deployment.accelerator.name}\n{need.deployment.parallel}" for need in needs[:1]]
    tall = name_columns(
        ax, list(names) or (single if len(needs) == 1 else ["\n".join(words) for words in telling]), shortest(telling)
    )
    bottoms = np.zeros(len(needs))
    for part, (color, hatch) in style.parts.items():
        heights = np.array([_part(need, part) for need in needs]) / 1e9
        if heights.any():
            how: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": style.paper, "linewidth": 0.6}
            ax.bar(range(len(needs)), heights, bottom=bottoms, width=0.6, label=part, **how)
            bottoms += heights
    _draw_devices(ax, needs, bottoms)
    handles, labels = ax.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda place: list(style.parts).index(labels[place]))
    device = Line2D([], [], color=style.ink, linewidth=1.6, label="capacity")
    legend_below(ax, [*(handles[place] for place in order), device], gap=tall)
    head(ax, "What fits", shared)
    return ax


def _facets(need: Memory) -> dict[str, str]:
    """Properties that may distinguish a bar from the others."""
    load = need.load
    held = f"batch {float(load.batch):,.0f}", f"{float(load.sequence_tokens):,.0f} tokens"
    return deployment_facets(need.deployment) | {"batch": held[0], "tokens": held[1]}


def _draw_devices(ax: Axes, needs: Sequence[Memory], tops: np.ndarray[Any, Any]) -> None:
    """A line at the memory of each device with its size, and a warning if the case does not fit."""
    style = style_of(ax)
    devices = [float(need.deployment.accelerator.memory_bytes) / 1e9 for need in needs]
    ax.set_ylim(0, 1.2 * max(*tops, *devices))
    column = ax.bbox.width / ax.figure.dpi / np.ptp(ax.get_xlim())
    wide, narrow = (text_inches(ax, words, style.text_size, "bold")[0] for words in (DOES_NOT_FIT, "does not"))
    misfit = f"{DOES_NOT_FIT}\nin "
    if column < wide:
        misfit = "over\n" if column < narrow else "does not\nfit in\n"
    text: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "parse_math": False, "linespacing": 1.1}
    for place, (need, device, top) in enumerate(zip(needs, devices, tops, strict=True)):
        ax.hlines(device, place - 0.38, place + 0.38, color=style.ink, linewidth=1.6)
        over = (place, max(device, top))
        words, color = f"{device:.0f} GB" if device >= 10 else f"{device:.2g} GB", style.ink
        if not need.fits:
            words, color = f"{misfit}{words}", style.warning
        weight = "normal" if need.fits else "bold"
        ax.annotate(words, over, (0, 3), color=color, fontsize=style.text_size, fontweight=weight, **text)


def _part(need: Memory, part: str) -> float:
    if part == "weights":
        return sum(float(value) for name, value in need.parts.items() if name.endswith("weights"))
    return float(need.parts.get(part, 0.0))


def pareto(plan: Plan, *, ax: Axes | None = None) -> Axes:
    """Plot tokens/s per accelerator over tokens/s per user: all candidates that fit, and each accelerator's frontier.

    Candidates to the left of the dashed line miss the target for the time per output token. A star marks the best
    candidate of each accelerator that meets the SLO.

    Parameters
    ----------
    plan : Plan
        With at least one candidate that fits.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Returns
    -------
    Axes
        The axes, in tokens/s per user and per GPU, both logarithmic.

    Raises
    ------
    InvalidInput
        Nothing in the plan fits.

    Examples
    --------
    >>> import roofline as rl
    >>> plan = rl.plan("llama-3.1-8b", ["l4"], rl.Workload(1500, 300), accelerators=(1, 2))
    >>> ax = rl.plot.pareto(plan)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('tokens/s per user', 'tokens/s per GPU')
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    check_kind("pareto", "rl.plan", Plan, plan)
    if not len(plan.frontier):
        raise InvalidInput(f"no candidate of the plan fits: {plan.reason[0]}")
    ax = axes_or_new(ax)
    style = style_of(ax)
    ax.set(xscale="log", yscale="log")
    drawn = []
    for place, name in enumerate(dict.fromkeys(plan.accelerator)):
        mine = plan.take(plan.accelerator == name)
        front, best = mine.frontier, mine.best
        color, marker = style.line(place)
        if not len(front):
            continue
        marks: dict[str, Any] = {"marker": marker, "markersize": 4, "markevery": [0, -1]}
        ax.plot(
            front.tokens_per_s_per_user, front.tokens_per_s_per_gpu, color=color, label=name, linewidth=1.6, **marks
        )
        held = mine.take(mine.feasible)
        ax.scatter(held.tokens_per_s_per_user, held.tokens_per_s_per_gpu, s=5, color=color, marker=marker, alpha=0.35)
        ax.plot(best.tokens_per_s_per_user, best.tokens_per_s_per_gpu, "*", color=color, ms=13, mec=style.paper)
        drawn += [front, held]
    ax.set_xlim(log_limits(*(each.tokens_per_s_per_user for each in drawn)))
    ax.set_ylim(log_limits(*(each.tokens_per_s_per_gpu for each in drawn)))
    if plan.slo.tpot_s is not None:
        target = f"TPOT {1e3 * plan.slo.tpot_s:g} ms"
        ax.axvline(1 / plan.slo.tpot_s, color=style.quiet, linestyle="--", linewidth=0.8, label=target)
    label_axes(ax, "tokens/s per user", "tokens/s per GPU")
    log_axis(ax.xaxis)
    log_axis(ax.yaxis)
    legend_below(ax)
    head(ax, "Throughput against speed", f"{plan.model.title or plan.model.name}; stars: best that meets the SLO")
    return ax


def tornado(found: Sensitivity, *, factor: float = 2.0, ax: Axes | None = None) -> Axes:
    """Plot the change in time if each input is multiplied or divided by ``factor``, most important on top.

    Every bar is computed (`Sensitivity.ratio`), not extrapolated.

    Parameters
    ----------
    found : Sensitivity
        The sensitivity of a single pass.
    factor : float
        Above 1.
    ax : Axes, optional
        Where to draw; a new figure 6 inches wide if None.

    Returns
    -------
    Axes
        The axes, with the relative change in time and one row per input.

    Raises
    ------
    InvalidInput
        A sweep, or a factor that is not above 1.

    Examples
    --------
    >>> import roofline as rl
    >>> step = rl.decode(rl.Deployment("llama-3.1-8b", "h100-sxm"), rl.Workload())
    >>> ax = rl.plot.tornado(rl.sensitivity(step, time="roofline_s"))
    >>> ax.get_yticklabels()[-1].get_text()
    'bandwidth'
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    check_kind("tornado", "rl.sensitivity", Sensitivity, found)
    if any(np.ndim(value) for value in found.elasticity.values()):
        raise InvalidInput("tornado shows a single pass; draw one point of the sweep")
    if not factor > 1:
        raise InvalidInput(f"factor must be above 1: {factor!r}")
    names = [name for name in found.elasticity if name != "latency"]
    ratios = {name: [float(found.ratio(name, by)) - 1 for by in (factor, 1 / factor)] for name in names}
    order = sorted(names, key=lambda name: max(map(abs, ratios[name])))
    ax = axes_or_new(ax, height=1.5 + 0.26 * len(order))
    style = style_of(ax)
    label_axes(ax, f"change in the {found.time.removesuffix('_s')}", "", grid="x")
    sides = ((style.better, "", f"input x {factor:g}"), (style.worse, "////", f"input / {factor:g}"))
    for side, (color, hatch, words) in enumerate(sides):
        widths = [ratios[name][side] for name in order]
        ax.barh(range(len(order)), widths, height=0.6, color=color, hatch=hatch, edgecolor=style.paper, label=words)
    ax.axvline(0, color=style.ink, linewidth=0.8)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:+.0%}" if value else "0")
    name_rows(ax, [name.replace("kv_", "KV ").replace("_", " ") for name in order])
    lay_out(ax)
    ax.xaxis.set_major_locator(MaxNLocator(max(int(ax.bbox.width / ax.figure.dpi / TICK_INCHES), 2)))
    legend_below(ax)
    head(ax, f"What {found.figure} depends on", deployment_words(found.deployment))
    return ax
