"""Plots of what fits, what a plan offers, and what an upgrade would buy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes

from ..analysis.sensitivities import Sensitivity
from ..capacity import Plan
from ..errors import InvalidInput
from ..footprint.memory_use import Memory
from .style import FAINT, INK, OTHERS, QUIET, SERIES, axes_or_new, head

PARTS = {
    "weights": "#0072b2",
    "KV cache": "#009e73",
    "state": "#56b4e9",
    "pages": "#b8e0d2",
    "workspace": "#e69f00",
    "non-torch": "#d55e00",
    "graphs": "#cc79a7",
    "reservation": "#cccccc",
}
"""Colors of what memory holds, from the bottom up."""


def memory_stack(*needs: Memory, names: Sequence[str] = (), ax: Axes | None = None) -> Axes:
    """Memory of the most loaded accelerator, one bar a deployment, from weights to what is free.

    Parameters
    ----------
    needs : Memory
        Single cases, drawn from the left.
    names : sequence of str
        What the bars are called; accelerator and layout if none are given.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Raises
    ------
    InvalidInput
        No case, a sweep (array results), or not as many names as cases.
    """
    if not needs:
        raise InvalidInput("memory_stack needs a result of memory: none was given")
    if any(np.ndim(need.needed_bytes) for need in needs):
        raise InvalidInput("memory_stack shows single cases: draw the points of a sweep one by one")
    if names and len(names) != len(needs):
        raise InvalidInput(f"memory_stack needs a name for each of {len(needs)} cases: {len(names)} given")
    ax = axes_or_new(ax)
    labels = list(names) or [f"{n.deployment.accelerator.name}\n{n.deployment.parallel}" for n in needs]
    bottoms = np.zeros(len(needs))
    for part, color in PARTS.items():
        heights = np.array([_part(need, part) for need in needs]) / 1e9
        if heights.any():
            ax.bar(range(len(needs)), heights, bottom=bottoms, width=0.6, color=color, label=part, edgecolor="white")
            bottoms += heights
    for place, need in enumerate(needs):
        device = float(need.deployment.accelerator.memory_bytes) / 1e9
        ax.hlines(device, place - 0.38, place + 0.38, color=INK, linewidth=1.4)
        ax.annotate(f"{device:.0f} GB", (place, device), (0, 3), textcoords="offset points", ha="center", fontsize=7)
    ax.set_xticks(range(len(needs)), labels, fontsize=7)
    ax.set_ylabel("memory of one accelerator, GB")
    ax.set_ylim(0, 1.1 * max(*bottoms, *(float(n.deployment.accelerator.memory_bytes) / 1e9 for n in needs)))
    ax.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1), reverse=True)
    ax.spines[["top", "right"]].set_visible(False)
    head(
        ax, "What fits", f"{needs[0].deployment.model.title or needs[0].deployment.model.name}; the line is the device"
    )
    return ax


def _part(need: Memory, part: str) -> float:
    if part == "weights":
        return sum(float(value) for name, value in need.parts.items() if name.endswith("weights"))
    return float(need.parts.get(part, 0.0))


def pareto(plan: Plan, *, ax: Axes | None = None) -> Axes:
    """Tokens/s of an accelerator over tokens/s of a user: every candidate that fits, and each accelerator's frontier.

    Left of the dashed line the time per output token is longer than its target.  A star marks the best of each
    accelerator that holds all service levels.

    Parameters
    ----------
    plan : Plan
        With at least one candidate that fits.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Raises
    ------
    InvalidInput
        Nothing in the plan fits.
    """
    if not len(plan.frontier):
        raise InvalidInput(f"pareto needs a candidate that fits: {plan.reason[0]}")
    ax = axes_or_new(ax)
    styles = cycle((SERIES["decode"], SERIES["prefill"], *OTHERS, (INK, "P"), (QUIET, "X")))
    for name, (color, marker) in zip(dict.fromkeys(plan.accelerator), styles, strict=False):
        mine = plan.take(plan.accelerator == name)
        front, best = mine.frontier, mine.best
        if not len(front):
            continue
        ax.plot(front.tokens_per_s_per_user, front.tokens_per_s_per_gpu, color=color, linewidth=1.6, label=name)
        held = mine.take(mine.feasible)
        ax.scatter(held.tokens_per_s_per_user, held.tokens_per_s_per_gpu, s=5, color=color, marker=marker, alpha=0.25)
        ax.plot(best.tokens_per_s_per_user, best.tokens_per_s_per_gpu, "*", color=color, markersize=13, mec="white")
    if plan.slo.tpot_s is not None:
        ax.axvline(1 / plan.slo.tpot_s, color=QUIET, linestyle="--", linewidth=0.8)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("tokens/s a user")
    ax.set_ylabel("tokens/s a GPU")
    ax.grid(color=FAINT, linewidth=0.6)
    ax.legend(frameon=False, fontsize=7)
    ax.spines[["top", "right"]].set_visible(False)
    head(ax, "Speed against throughput", f"{plan.model.title or plan.model.name}; stars meet the SLO at least cost")
    return ax


def tornado(found: Sensitivity, *, factor: float = 2.0, ax: Axes | None = None) -> Axes:
    """Change of the time if each input is ``factor`` times as large, or as small; the input that matters most on top.

    Every bar is computed anew (`Sensitivity.ratio`), not extrapolated.

    Parameters
    ----------
    found : Sensitivity
        Of a single pass.
    factor : float
        Above 1.
    ax : Axes, optional
        Where to draw; a new figure 6 inches wide if None.

    Raises
    ------
    InvalidInput
        A sweep, or a factor that is not above 1.
    """
    if any(np.ndim(value) for value in found.elasticity.values()):
        raise InvalidInput("tornado shows a single pass: draw one point of the sweep")
    if not factor > 1:
        raise InvalidInput(f"factor must be above 1: {factor!r}")
    names = [name for name in found.elasticity if name != "latency"]
    ratios = {name: [float(found.ratio(name, by)) - 1 for by in (factor, 1 / factor)] for name in names}
    order = sorted(names, key=lambda name: max(map(abs, ratios[name])))
    ax = axes_or_new(ax, height=1.2 + 0.32 * len(order))
    for side, (color, word) in enumerate((("#0072b2", "times"), ("#d55e00", "over"))):
        ax.barh(order, [ratios[name][side] for name in order], height=0.6, color=color, label=f"{word} {factor:g}")
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set_xlabel(f"change of {found.time.removesuffix('_s')} time")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:+.0%}")
    ax.legend(frameon=False, fontsize=7, loc="lower right")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(labelsize=7, length=0)
    serve = found.deployment
    model, gpu = serve.model, serve.accelerator
    head(ax, f"What {found.figure} depends on", f"{model.title or model.name} on {gpu.title}, {serve.parallel}")
    return ax
