"""Effects of changes: a waterfall from before to after, and techniques side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from ..analysis.comparison import Comparison
from ..errors import InvalidInput, unknown
from ..footprint.memory_use import Memory
from ..phases.passes import Phase
from ..techniques import Effect, TechniqueTable
from ..techniques.stages import stages
from ..techniques.table import NOTICEABLE
from ..units import brief_speed
from .arguments import check_kind
from .fit_stamp import DOES_NOT_FIT, memory_of
from .frame import (
    SLACK,
    axes_or_new,
    further_inches,
    head,
    is_laid_out,
    is_own,
    label_axes,
    lay_out,
    legend_below,
    name_rows,
    text_inches,
    widen,
)
from .style import Look, Style, style_of
from .ticks import log_axis, log_limits
from .tracks import deployment_facets, deployment_words, operator_name, swept, tell_apart

SHOWN = 8
"""Number of changes in a waterfall with their own bar; the rest share one."""

SMALLEST = 0.001
"""Changes below this share of the larger total are pooled with the rest."""

PASS_TIMES = ("estimate_s", "roofline_s")
"""Times that are sums over operators (a floor is not)."""

REQUEST_TIMES = ("tpot_s", "ttft_s", "total_s")


@dataclass(frozen=True)
class Waterfall:
    """A waterfall: two totals, and the changes that lead from one to the other, in order."""

    title: str
    subtitle: str
    unit: str
    before: float
    after: float
    parts: Mapping[str, float]
    misfit: str = ""


def waterfall(what_if: Comparison | Effect, *, column: str | None = None, ax: Axes | None = None) -> Axes:
    """Plot the parts of a change between two totals as a waterfall, with one bar per part.

    Two passes (`roofline.compare`) are split by operator, the largest change first; scheduling, host and overlap are a
    part of their own. Two results of `roofline.memory` are split by parts of memory. Techniques (`roofline.apply`) are
    added one after the other, in the given order.

    Parameters
    ----------
    what_if : Comparison or Effect
        A comparison or effect of single cases.
    column : str, optional
        For passes, ``estimate_s`` (the default) or ``roofline_s``; for techniques, ``tpot_s`` (the default), ``ttft_s``
        or ``total_s`` of a request.
    ax : Axes, optional
        Where to draw; a new figure 6 inches wide if None.

    Returns
    -------
    Axes
        The axes, in milliseconds or GB, with one row per total and part.

    Raises
    ------
    InvalidInput
        The comparison is of other results, or a sweep.
    UnknownName
        There is no such column.

    Examples
    --------
    >>> import roofline as rl
    >>> serve, load = rl.Deployment("llama-3.1-70b", "h200-sxm"), rl.Workload(batch=8)
    >>> faster = rl.quantize(serve, weights="fp8")
    >>> ax = rl.plot.waterfall(rl.compare(rl.decode(serve, load), rl.decode(faster, load)), column="roofline_s")
    >>> [text.get_text() for text in ax.get_yticklabels()][:2]
    ['before', 'gate']
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    change = _change_of(what_if, column)
    parts = _largest(change)
    ax = axes_or_new(ax, height=1.5 + 0.26 * (len(parts) + 2))
    style = style_of(ax)
    names = ["before", *parts, "after"]
    ax.set_ylim(len(names) - 0.4, -0.6)
    label_axes(ax, change.unit, "", grid="x")
    name_rows(ax, names)
    reached = change.before
    edges = [reached]
    _draw_total(ax, 0, reached, change.unit)
    for row, delta in enumerate(parts.values(), start=1):
        color, hatch = (style.better, "") if delta <= 0 else (style.worse, "////")
        how: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": style.paper, "linewidth": 0.6}
        ax.barh(row, delta, left=reached, height=0.62, **how)
        ax.vlines(reached, row - 1 + 0.31, row - 0.31, color=style.quiet, linewidth=0.7)
        _write_beside(ax, row, max(reached, reached + delta), _three_digits(delta, sign="+"))
        reached += delta
        edges.append(reached)
    ax.vlines(change.after, len(parts) + 0.31, len(parts) + 1 - 0.31, color=style.quiet, linewidth=0.7)
    _draw_total(ax, len(names) - 1, change.after, change.unit)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.set_xlim(*_limits(ax, [*edges, change.after], [text.get_text() for text in ax.texts]))
    head(ax, change.title, f"{change.subtitle}{change.misfit}")
    return ax


def _limits(ax: Axes, edges: Sequence[float], words: Sequence[str]) -> tuple[float, float]:
    """Axis limits from 0, with room for the numbers at the ends of bars."""
    lay_out(ax)
    widest = max(text_inches(ax, word, style_of(ax).text_size, "bold")[0] for word in words)
    share = (SLACK * widest + 0.08) * ax.figure.dpi / ax.bbox.width
    return 0.0, max(edges) / max(1 - share, 0.4)


def _draw_total(ax: Axes, row: int, value: float, unit: str) -> None:
    style = style_of(ax)
    ax.barh(row, value, height=0.62, color=style.neutral, edgecolor=style.paper, linewidth=0.6)
    _write_beside(ax, row, value, f"{_three_digits(value)} {unit.rpartition(', ')[2]}", weight="bold")


def _three_digits(value: float, sign: str = "") -> str:
    """At least three digits, without an exponent."""
    return f"{value:{sign},.0f}" if abs(value) >= 999.5 else f"{value:{sign}.3g}"


def _write_beside(ax: Axes, row: int, x: float, words: str, weight: str = "normal") -> None:
    style = style_of(ax)
    how: dict[str, Any] = {"fontsize": style.text_size, "color": style.ink, "fontweight": weight, "va": "center"}
    ax.annotate(words, (x, row), (3, 0), textcoords="offset points", parse_math=False, **how)


def _largest(change: Waterfall) -> dict[str, float]:
    """The parts with their own bar, and the rest in one."""
    least = SMALLEST * max(change.before, change.after)
    parts = {name: delta for name, delta in change.parts.items() if abs(delta) > least}
    if change.unit.endswith("ms") and isinstance(change.parts, _InOrder):
        return dict(change.parts)
    order = sorted(parts, key=lambda name: -abs(parts[name]))
    shown = {name: parts[name] for name in order[:SHOWN]}
    rest = change.after - change.before - sum(shown.values())
    return shown | ({"the rest": rest} if abs(rest) > least else {})


class _InOrder(dict[str, float]):
    """Parts whose order matters, all of which are shown."""


def _change_of(what_if: Comparison | Effect, column: str | None) -> Waterfall:
    if isinstance(what_if, Effect):
        return _of_techniques(what_if, column or REQUEST_TIMES[0])
    if not isinstance(what_if, Comparison):
        raise InvalidInput(f"waterfall takes the result of rl.compare or rl.apply, not {type(what_if).__name__}")
    before, after = what_if.before, what_if.after
    if isinstance(before, Phase) and isinstance(after, Phase):
        return _of_passes(before, after, column or PASS_TIMES[0])
    if isinstance(before, Memory) and isinstance(after, Memory):
        return _of_memory(before, after)
    raise InvalidInput(f"waterfall takes a comparison of passes or memory, not of {type(before).__name__}")


def _of_passes(before: Phase, after: Phase, column: str) -> Waterfall:
    """Operators of two passes, and the time outside of operators."""
    if column not in PASS_TIMES:
        raise unknown("time that is a sum over operators", column, PASS_TIMES)
    if swept(before) or swept(after):
        raise InvalidInput("waterfall shows single passes; draw one point of the sweep")
    sides = [_by_operator(phase, column) for phase in (before, after)]
    names = dict.fromkeys(name for side in sides for name in side)
    parts = {name: 1e3 * (sides[1].get(name, 0.0) - sides[0].get(name, 0.0)) for name in names}
    totals = [1e3 * float(getattr(phase, column)) for phase in (before, after)]
    parts["host and overlap"] = totals[1] - totals[0] - sum(parts.values())
    title = f"{before.name.capitalize()}: {brief_speed(totals[1] / totals[0])}"
    misfits = [word for word, phase in (("before", before), ("after", after)) if not np.all(memory_of(phase).fits)]
    misfit = f"; {' and '.join(misfits)}: {DOES_NOT_FIT}" if misfits else ""
    words = _from_to(before, after)
    return Waterfall(title, words, f"{column.removesuffix('_s')}, ms", totals[0], totals[1], parts, misfit)


def _from_to(before: Phase, after: Phase) -> str:
    """What both have in common, and what changes."""
    shared, (first, second) = tell_apart([_pass_facets(before), _pass_facets(after)])
    return f"{shared}: {', '.join(first)} -> {', '.join(second)}"


def _pass_facets(phase: Phase) -> dict[str, str]:
    """What tells a pass from another: what runs where, and for how many sequences."""
    sequences = float(np.sum([segment.sequences for segment in phase.segments]))
    return deployment_facets(phase.deployment) | {"batch": f"batch {sequences:,.0f}"}


def _by_operator(phase: Phase, column: str) -> dict[str, float]:
    """Seconds of each operator of a pass; operators of the same name are added up."""
    found: dict[str, float] = {}
    rounds = float(phase.schedule.rounds)
    for item in phase.operators:
        name = operator_name(item)
        found[name] = found.get(name, 0.0) + rounds * float(getattr(item, column))
    return found


def _gigabytes_used(found: Memory) -> dict[str, float]:
    return {name: float(value) / 1e9 for name, value in found.parts.items() if name != "free"}


def _of_memory(before: Memory, after: Memory) -> Waterfall:
    """Parts of the memory of the most loaded accelerator."""
    if np.ndim(before.needed_bytes) or np.ndim(after.needed_bytes):
        raise InvalidInput("waterfall shows single cases; draw one point of the sweep")
    sides = [_gigabytes_used(before), _gigabytes_used(after)]
    names = dict.fromkeys(name for side in sides for name in side)
    parts = {name: sides[1].get(name, 0.0) - sides[0].get(name, 0.0) for name in names}
    shared, (first, second) = tell_apart([deployment_facets(side.deployment) for side in (before, after)])
    words = f"{shared}: {', '.join(first)} -> {', '.join(second)}"
    misfits = [word for word, side in (("before", before), ("after", after)) if not side.fits]
    misfit = f"; {' and '.join(misfits)}: {DOES_NOT_FIT}" if misfits else ""
    totals = [sum(side.values(), 0.0) for side in sides]
    freed = totals[0] - totals[1]
    title = f"Memory: {_three_digits(abs(freed))} GB {'freed' if freed >= 0 else 'more'}"
    return Waterfall(title, words, "memory per accelerator, GB", totals[0], totals[1], parts, misfit)


def _of_techniques(effect: Effect, column: str) -> Waterfall:
    """The effect of each technique on top of those before it."""
    if column not in REQUEST_TIMES:
        raise unknown("time of a request", column, REQUEST_TIMES)
    found = [getattr(stage, column) for stage in stages(effect)]
    if any(np.ndim(value) for value in found):
        raise InvalidInput("waterfall shows single cases; draw one point of the sweep")
    values = [1e3 * float(value) for value in found]
    labels = [item.label for item in effect.techniques]
    parts = _InOrder(zip(labels, np.diff(values).tolist(), strict=True))
    name = column.removesuffix("_s").replace("total", "end-to-end latency")
    title = f"{name.upper() if len(name) == 4 else name.capitalize()}: {brief_speed(values[-1] / values[0])}"
    serve = effect.before.case.serve
    words = deployment_words(serve)
    return Waterfall(title, words, f"{effect.before.time.removesuffix('_s')}, ms", values[0], values[-1], parts)


GAINS = {
    "prefill": "prefill_speedup",
    "decode": "decode_speedup",
    "throughput": "throughput_gain",
}
"""Gains that are drawn, and their columns; with the prefix ``baseline_`` if the deployment already uses the
technique."""


def techniques(table: TechniqueTable, *, ax: Axes | None = None) -> Axes:
    """Plot how much each technique speeds up prefill, decode and throughput; values above 1 are better.

    If the axes are too low for all rows, only the techniques with the largest effects are shown, and the subtitle
    counts the others.

    Filled markers compare with the deployment as given. Open markers are techniques that it already uses, such as a KV
    cache, compared with the same deployment without them.

    Parameters
    ----------
    table : TechniqueTable
        The result of `roofline.technique_table`.
    ax : Axes, optional
        Where to draw; a new figure 6 inches wide if None.

    Returns
    -------
    Axes
        The axes, with gains on a logarithmic axis and one row per technique, largest gain on top.

    Raises
    ------
    InvalidInput
        No technique is applicable to the deployment.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
    >>> chosen = [rl.techniques.Quantization(weights="fp8"), rl.techniques.PagedAttention()]
    >>> ax = rl.plot.techniques(rl.technique_table(serve, rl.Workload(), techniques=chosen))
    >>> ax.get_yticklabels()[0].get_text()
    'weight quantization (fp8)'
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    check_kind("techniques", "rl.technique_table", TechniqueTable, table)
    rows = sorted(table.rows, key=_largest_gain)
    if not rows:
        raise InvalidInput("no technique of the table is applicable to the deployment")
    ax = axes_or_new(ax, height=1.55 + 0.2 * len(rows))
    style = style_of(ax)
    gains = [_gains(row) for row in rows]
    ax.set_xscale("log")
    ax.set_xlim(log_limits(*(list(each.values()) for each in gains), [0.9, 1.3]))
    label_axes(ax, "speedup, or gain in throughput", "", grid="x")
    log_axis(ax.xaxis, lambda value: f"{value:g}x")
    name_rows(ax, [row["technique"] for row in rows])
    widen(ax, right=0.25)
    looks = {"prefill": style.phases["prefill"], "decode": style.phases["decode"], "throughput": style.line(2)}
    legend_below(ax, _samples(style, looks, open_too=any(map(_had, rows))))
    lay_out(ax)
    shown = _rows_with_room(ax, gains, further_inches(ax, _TITLE, _techniques_subtitle(table, len(rows) - 1)))
    rows, gains = [rows[place] for place in shown], [gains[place] for place in shown]
    head(ax, _TITLE, _techniques_subtitle(table, len(table.rows) - len(rows)))
    ax.set_ylim(len(rows) - 0.4, -0.6)
    name_rows(ax, [row["technique"] for row in rows])
    ax.axvline(1, color=style.ink, linewidth=0.9, zorder=2)
    for place, (row, each) in enumerate(zip(rows, gains, strict=True)):
        ends = [1.0, *each.values()]
        ax.hlines(place, min(ends), max(ends), color=style.faint, linewidth=2.5, zorder=1)
        for name, value in each.items():
            color, marker = looks[name]
            face = style.paper if _had(row) else color
            ax.plot(value, place, marker, color=color, markerfacecolor=face, ms=5, label=f"_{name}", zorder=3)
    return ax


def _samples(style: Style, looks: Mapping[str, Look], *, open_too: bool) -> list[Line2D]:
    """Markers for the legend."""
    found = [
        Line2D([], [], color=color, marker=mark, linestyle="", label=name) for name, (color, mark) in looks.items()
    ]
    if open_too:
        has: dict[str, Any] = {"color": style.quiet, "markerfacecolor": style.paper, "marker": "o", "linestyle": ""}
        found.append(Line2D([], [], label="open: in use", **has))
    return found


ROW = 0.13
"""Smallest height of a row with a name, in inches."""

_TITLE = "Effect of each technique"


def _techniques_subtitle(table: TechniqueTable, left_out: int) -> str:
    """What the techniques change, and which of them are not shown."""
    serve = table.effects[0].before.case.serve
    words = deployment_words(serve)
    notes = [table.effects[0].before.time.removesuffix("_s")]
    notes += [f"{len(table.refused)} not applicable"] if table.refused else []
    notes += [f"{left_out} with the smallest effects not shown"] if left_out else []
    return f"{words}, {'; '.join(notes)}"


def _rows_with_room(ax: Axes, gains: Sequence[Mapping[str, float]], further: float) -> list[int]:
    """Indices of the rows that the axes have room for: those with the largest effects, in their order.

    ``further`` is the height in inches that the head is still going to take.
    """
    shrinks = is_own(ax) or is_laid_out(ax)
    room = max(int((ax.bbox.height / ax.figure.dpi - (further if shrinks else 0.0)) / ROW), 1)
    effects = [float(np.max(np.abs(np.log(list(each.values()))), initial=0.0)) for each in gains]
    largest = sorted(range(len(gains)), key=lambda place: -effects[place])[:room]
    return sorted(largest)


def _had(row: Mapping[str, Any]) -> bool:
    """Whether the deployment already uses the technique."""
    return bool(row["baseline"] != "as given")


def _gains(row: Mapping[str, Any]) -> dict[str, float]:
    """The finite gains of a row."""
    prefix = "baseline_" if _had(row) else ""
    found = {name: float(row[prefix + column]) for name, column in GAINS.items()}
    return {name: value for name, value in found.items() if np.isfinite(value) and value > 0}


def _largest_gain(row: Mapping[str, Any]) -> float:
    """Sort key: the largest gain first, losses last."""
    gains = _gains(row).values()
    if max(gains, default=1.0) > NOTICEABLE:
        return -max(gains, default=1.0)
    return 1.0 - min(gains, default=1.0)
