"""The roofline plot (Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.lines import Line2D
from matplotlib.text import Annotation

from ..errors import InvalidInput
from ..hardware import Accelerator
from ..measured import Headroom
from ..phases.bounds import Bound
from ..phases.passes import Phase
from ..specs.library import get_accelerator
from ..units import humanize
from .fit_stamp import ROOM_FOR_REASON, stamp_misfits
from .frame import HEIGHT, LEGEND_ROW, axes_or_new, head, lay_out, legend_below, wrapped
from .labels import Label, left_out, place_labels
from .roofs import draw_roofs, roofs_of, set_scales
from .runs import draw_runs, run_points
from .style import Look, style_of
from .tracks import (
    Array,
    Result,
    Spot,
    captions,
    coordinates,
    format_words,
    legend_words,
    looks_of,
    share_without_flops,
    short_names,
    spots,
    swept,
)

_TOUCH = 11.0
"""Points, 1/72 inch, within which the operators of a phase share a label."""

_CAPTIONED = 4
"""With more results than this, there is a legend instead of captions."""

LEAST_NAMED = 0.01
"""Groups of operators with a smaller share of the time have no label."""

_DENSE = 32
"""A sweep of more points than this has markers at its first and last point only."""


def roofline(accelerator: Accelerator | str | Path, *results: Result | Headroom, ax: Axes | None = None) -> Axes:
    """Plot attained FLOP/s over arithmetic intensity, both logarithmic, under the roofs of an accelerator.

    A phase is a large open marker at its FLOPs divided by ``roofline_s``, per accelerator. The filled markers of the
    same shape are its operators; their area is the share of the time. Operators that are close together share a label,
    and those below 1 % of the time have none. A single `Bound` is one filled marker. A sweep (array results) is a line
    whose first and last points are labeled; its operators are not drawn. Operators that move bytes but compute nothing
    (norm, residual, collectives) have intensity 0, which a logarithmic axis cannot show; a note states their share of
    the time. A measured run (`roofline.headroom`) is a star at its FLOPs divided by the measured time.

    There is one ceiling for each rate that the results use; without results, one for every rate of the chip. Labels are
    placed for the current size of the axes. Operators are labeled if there are at most two results with different
    names; more than four results get a legend. Labels without room are omitted and counted. Passes that do not fit in
    memory are stamped.

    Parameters
    ----------
    accelerator : Accelerator, str or Path
        The accelerator whose roofs are drawn, or its name.
    *results : Phase, Bound or Headroom
        Passes, bounds and measured runs on ``accelerator``.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Returns
    -------
    Axes
        The axes, in FLOP/byte and TFLOP/s.

    Raises
    ------
    InvalidInput
        A result is neither a phase, a bound nor a measured run, or was computed for other rates, or the rates of the
        accelerator are arrays.

    Examples
    --------
    >>> import roofline as rl
    >>> gpu = rl.get_accelerator("h100-sxm")
    >>> ax = rl.plot.roofline(gpu, rl.bound(rl.matmul(1, 8192, 8192), gpu))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('arithmetic intensity, FLOP/byte', 'attained, TFLOP/s')
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    accelerator = get_accelerator(accelerator)
    for result in results:
        _check(accelerator, result)
    runs = [result for result in results if isinstance(result, Headroom)]
    computed = [result for result in results if not isinstance(result, Headroom)]
    many = len(computed) > _CAPTIONED
    ax = axes_or_new(ax, height=HEIGHT + (LEGEND_ROW * len(computed) / 2 if many else 0.0))
    roofs = roofs_of(accelerator, computed)
    inside = [*computed, *(item for phase in _single_passes(computed) for item in phase.operators)]
    set_scales(ax, roofs, [*map(coordinates, inside), *map(run_points, runs)])
    looks = looks_of(computed, style_of(ax))
    shared = _legend_of_many(ax, computed, looks)
    head(ax, accelerator.title, "  |  ".join(filter(None, [_subtitle(accelerator, results), shared])))
    lay_out(ax)
    note = _draw_note(ax, computed)
    stamps = stamp_misfits(ax, [each for each in computed if isinstance(each, Phase)], above=note)
    labels = [*draw_runs(ax, runs), *_draw_results(ax, computed, looks), *_draw_operators(ax, computed, looks)]
    texts = [*note, *stamps]
    texts += draw_roofs(ax, roofs, texts, _marks(ax))
    written = place_labels(ax, labels, marks=_marks(ax), texts=texts)
    _finish_note(note, left_out(labels, written))
    return ax


def _check(accelerator: Accelerator, result: object) -> None:
    if not isinstance(result, Phase | Bound | Headroom):
        kind = type(result).__name__
        raise InvalidInput(f"roofline takes phases, bounds and measured runs, not {kind}")
    other = result.accelerator if isinstance(result, Bound) else result.deployment.accelerator
    wanted, given = ((item.memory_bytes_per_s, *item.dense_flops_per_s.values()) for item in (accelerator, other))
    if any(np.ndim(rate) for rate in (*wanted, *given)):
        raise InvalidInput(f"roofline shows a single accelerator, but the rates of {other.name!r} are arrays")
    if wanted != given:
        name = result.measurement.source if isinstance(result, Headroom) else result.name
        raise InvalidInput(f"{name} was computed for {other.title!r} with rates that differ from those of the roof")


def _subtitle(accelerator: Accelerator, results: Sequence[Result | Headroom]) -> str:
    parts = [f"{humanize('bytes_per_s', accelerator.memory_bytes_per_s)}, dense peaks"]
    served = [result.deployment for result in results if not isinstance(result, Bound)]
    if served and all(serve == served[0] for serve in served):
        serve, count = served[0], served[0].parallel.accelerators
        shared = f" on {count:,} accelerators, one shown" if np.ndim(count) == 0 and count != 1 else ""
        parts += [f"{serve.model.title or serve.model.name}{shared}", format_words(serve.precision)]
    if any(not isinstance(result, Headroom) for result in results):
        parts.append("roofline times")
    return "  |  ".join(parts)


def _single_passes(results: Iterable[Result]) -> list[Phase]:
    return [result for result in results if isinstance(result, Phase) and not swept(result)]


NOTE_SHARE = 0.9
"""Of the width of the axes, at most, for the note on the markers."""

_HOLDS_A_LINE = "0 labels left out for lack of room"
"""Placeholder for the line that is known only once all labels are placed."""


def _draw_note(ax: Axes, results: Sequence[Result]) -> list[Annotation]:
    """A note on the meaning of the markers, in the lower right corner, if the axes are high enough, and a line for the
    number of omitted labels.
    """
    shares: dict[str, float] = {}
    for phase in _single_passes(results):
        shares[phase.name] = max(share_without_flops(phase), shares.get(phase.name, 0.0))
    lines = []
    if shares:
        bare = ", ".join(f"{_percent(share)} of {name}" for name, share in shares.items())
        lines.append("open: whole pass; filled: operators, area = share of time")
        lines.append(f"no FLOPs, not shown: {bare}")
    if not results:
        return []
    if ax.bbox.height / ax.figure.dpi < ROOM_FOR_REASON:
        lines = []
    style = style_of(ax)
    at: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "right", "va": "bottom"}
    size = style.note_size
    room = NOTE_SHARE * ax.bbox.width / ax.figure.dpi
    words = "\n".join([*(wrapped(ax, line, size, room) for line in lines), _HOLDS_A_LINE])
    return [ax.annotate(words, (1, 0), (-2, 4), fontsize=size, color=style.quiet, linespacing=1.25, **at)]


def _finish_note(note: Sequence[Annotation], missing: str) -> None:
    """Replace the placeholder by the number of omitted labels, if any."""
    for text in note:
        *lines, _ = text.get_text().split("\n")
        text.set_text("\n".join([*lines, *filter(None, [missing])]))


def _draw_results(ax: Axes, results: Sequence[Result], looks: Sequence[Look]) -> list[Label]:
    """An open marker for each pass, a filled one for each bound, a line for each sweep; their labels."""
    labels: list[Label] = []
    size = style_of(ax).text_size + 0.5
    for result, texts, (color, marker) in zip(results, captions(results), looks, strict=True):
        points = coordinates(result)
        for row in points:
            if swept(result):
                marked = None if len(row) <= _DENSE else [0, -1]
                how: dict[str, Any] = {"marker": marker, "markersize": 3, "markevery": marked, "linewidth": 1.2}
                ax.plot(row[:, 0], row[:, 1], color=color, label=result.name, zorder=4, **how)
            else:
                area, face = (170, "none") if isinstance(result, Phase) else (40, color)
                how = {"marker": marker, "facecolors": face, "edgecolors": color, "linewidths": 1.6}
                ax.scatter(row[:, 0], row[:, 1], s=area, label=result.name, zorder=4, **how)
        if len(results) > _CAPTIONED:
            continue
        words = np.reshape(texts, points.shape[:2])
        for row_words, row in zip(words, points, strict=True):
            labels += [_result_label(*end, color, size) for end in _ends(row_words, row)]
    return labels


def _legend_of_many(ax: Axes, results: Sequence[Result], looks: Sequence[Look]) -> str:
    """Draw a legend below the axes if there are too many results for captions; return what all have in common."""
    if len(results) <= _CAPTIONED:
        return ""
    shared, words = legend_words(results)
    marks = []
    for result, (color, marker), text in zip(results, looks, words, strict=True):
        how: dict[str, Any] = {"linestyle": "-" if swept(result) else "", "markeredgecolor": color, "label": text}
        face = "none" if isinstance(result, Phase) and not swept(result) else color
        marks.append(Line2D([], [], color=color, marker=marker, markerfacecolor=face, **how))
    legend_below(ax, marks, short=short_names(results))
    return shared


def _ends(texts: Sequence[str], row: Array) -> list[tuple[str, Array]]:
    """First and last point of a row with their captions, if they are on the axes."""
    ends = [(texts[place], row[place]) for place in sorted({0, len(row) - 1})]
    return [(text, point) for text, point in ends if np.isfinite(point).all()]


def _result_label(text: str, point: Array, color: str, size: float) -> Label:
    return Label(text, float(point[0]), float(point[1]), color, size=size, weight="bold")


def _draw_operators(ax: Axes, results: Sequence[Result], looks: Sequence[Look]) -> list[Label]:
    """Draw a marker for each operator of a single pass; return labels for groups of close operators, longest first."""
    passes = _single_passes(results)
    groups = []
    for phase, (color, marker) in zip(results, looks, strict=True):
        if not isinstance(phase, Phase) or swept(phase):
            continue
        found = spots(phase)
        how: dict[str, Any] = {"color": color, "marker": marker, "alpha": 0.55, "linewidths": 0}
        area = [14 + 110 * spot.share for spot in found]
        x, y = [spot.x for spot in found], [spot.y for spot in found]
        ax.scatter(x, y, s=area, label=f"{phase.name} operators", zorder=3, **how)
        groups += [(sum(spot.share for spot in group), group, color) for group in _together(ax, found)]
    if len(results) > 2 or len({phase.name for phase in passes}) < len(passes):
        return []
    groups = sorted((item for item in groups if item[0] >= LEAST_NAMED), key=lambda item: -item[0])
    return [_label(group, share, color) for share, group, color in groups]


def _together(ax: Axes, found: Iterable[Spot]) -> list[list[Spot]]:
    """Groups of operators that are close together, longest first, also within groups."""
    groups: list[list[Spot]] = []
    reach = _TOUCH * ax.figure.dpi / 72
    for spot in found:
        ends = ((ax.transData.transform([(spot.x, spot.y), (group[0].x, group[0].y)]), group) for group in groups)
        near = next((group for (one, two), group in ends if np.hypot(*(one - two)) < reach), None)
        if near is None:
            groups.append([spot])
        else:
            near.append(spot)
    return groups


def _label(group: Sequence[Spot], share: float, color: str) -> Label:
    """Names and share of the time of a group; the smaller its share, the closer its label has to be."""
    names = list(dict.fromkeys(spot.name for spot in group))
    shown = names if len(names) <= 8 else [*names[:7], f"{len(names) - 7} more"]
    text = f"{', '.join(shown)}  {_percent(share)}"
    wrapped = textwrap.fill(text, max(22, len(text) // 2 + 4))
    return Label(wrapped, group[0].x, group[0].y, color, reach=_reach(share))


def _reach(share: float) -> float:
    """Largest distance of the label from its point for a group with this share of the time, in points."""
    return 45.0 if share < 0.1 else 100.0


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "<1%"


def _marks(ax: Axes) -> Array:
    """``[n, 3]`` markers and samples of lines that labels must not cover: data coordinates and radius in points."""
    discs = [item for item in ax.collections if isinstance(item, PathCollection)]
    marks = [(np.asarray(item.get_offsets(), float), np.sqrt(item.get_sizes()) / 2 + 1) for item in discs]
    marks += [(_samples(np.asarray(line.get_xydata(), float)), np.array([2.0])) for line in ax.lines]
    if not marks:
        return np.empty((0, 3))
    found = np.concatenate([np.column_stack([xy, np.broadcast_to(radii, len(xy))]) for xy, radii in marks])
    return np.asarray(found[np.isfinite(found).all(axis=1)])


def _samples(line: Array) -> Array:
    """At least 200 points along a line on logarithmic axes."""
    steps = np.linspace(0, len(line) - 1, max(200, 4 * len(line)))
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = [np.interp(steps, np.arange(len(line)), column) for column in np.log(line).T]
    return np.asarray(np.exp(np.column_stack(columns)))
