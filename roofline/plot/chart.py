"""The roofline plot (Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.text import Text

from ..errors import InvalidInput
from ..hardware import Accelerator
from ..phases.bounds import Bound
from ..phases.passes import Phase
from ..specs.library import get_accelerator
from ..units import humanize
from .labels import LEADER, Label, place_labels
from .roofs import draw_roofs, roofs_of, set_scales
from .style import QUIET, axes_or_new, head, series_styles
from .tracks import Array, Result, Spot, captions, coordinates, format_words, share_without_flops, spots, swept

_TOUCH = 11.0
"""Points, 1/72 inch, within which the operators of a phase share a label."""

_DENSE = 32
"""A sweep of more points than this shows its first and last alone."""


def roofline(accelerator: Accelerator | str | Path, *results: Result, ax: Axes | None = None) -> Axes:
    """Attained FLOP/s over arithmetic intensity, both logarithmic, under the roofs of ``accelerator``.

    A phase is a ring at its FLOPs over its `roofline_s`, those of one accelerator, on average, if several share the
    work; the discs are its operators, their area the share of the time.  Operators that lie on one spot share a label.
    A bare `Bound` is one disc.  A sweep (array results) is a line through its points, the first and the last one
    labelled, and the only ones marked if there are many; its operators are not drawn.  Operators that move bytes and
    compute nothing (norm, residual, collectives) have intensity 0, which a logarithmic axis has not: the plot says how
    much time they take.

    There is one ceiling for each rate that the results use; without results, one for every rate of the chip.  Labels
    are placed for the present size of the axes.  Operators are labelled while there are at most two results, of
    different names; a label for which no place is free is left out.

    Parameters
    ----------
    accelerator : Accelerator, str or path
        Whose roofs are drawn, or its name.
    results : Result
        Phases and bounds on ``accelerator``.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Returns
    -------
    The axes, in FLOP/byte and TFLOP/s.

    Raises
    ------
    InvalidInput
        Not a phase or bound, one that was computed for other rates, or an accelerator whose rates are arrays.

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
    ax = axes_or_new(ax)
    roofs = roofs_of(accelerator, results)
    inside = [*results, *(item for phase in _single_passes(results) for item in phase.operators)]
    set_scales(ax, roofs, [coordinates(result) for result in inside])
    head(ax, accelerator.title, _subtitle(accelerator, results))
    texts = [*draw_roofs(ax, roofs), *_draw_note(ax, results)]
    labels = [*_draw_results(ax, results), *_draw_operators(ax, results)]
    place_labels(ax, labels, marks=_marks(ax), texts=texts)
    return ax


def _check(accelerator: Accelerator, result: Result) -> None:
    if not isinstance(result, Phase | Bound):
        raise InvalidInput(f"a roofline plot shows phases and bounds: {type(result).__name__} is neither")
    other = result.deployment.accelerator if isinstance(result, Phase) else result.accelerator
    wanted, given = ((item.memory_bytes_per_s, *item.dense_flops_per_s.values()) for item in (accelerator, other))
    if any(np.ndim(rate) for rate in (*wanted, *given)):
        raise InvalidInput(f"a roofline plot shows one accelerator: the rates of {other.name!r} are arrays")
    if wanted != given:
        raise InvalidInput(f"{result.name} was computed for {other.title!r} at other rates than those of the roof")


def _subtitle(accelerator: Accelerator, results: Sequence[Result]) -> str:
    parts = [f"{humanize('bytes_per_s', accelerator.memory_bytes_per_s)}, dense peaks"]
    deployments = {id(result.deployment): result.deployment for result in results if isinstance(result, Phase)}
    if len(deployments) == 1:
        (serve,) = deployments.values()
        shared = (
            "" if serve.parallel.single else f" on {humanize('accelerators', serve.parallel.accelerators)}, one shown"
        )
        parts += [f"{serve.model.title or serve.model.name}{shared}", format_words(serve.precision)]
    return "  |  ".join(parts)


def _single_passes(results: Iterable[Result]) -> list[Phase]:
    return [result for result in results if isinstance(result, Phase) and not swept(result)]


def _draw_note(ax: Axes, results: Sequence[Result]) -> list[Text]:
    """What the marks mean and what has none, in the corner that no point reaches."""
    shares: dict[str, float] = {}
    for phase in _single_passes(results):
        shares[phase.name] = max(share_without_flops(phase), shares.get(phase.name, 0.0))
    if not shares:
        return []
    bare = " and ".join(f"{_percent(share)} of {name}" for name, share in shares.items())
    note = f"ring: whole pass; disc: operator, area its share of the time\nnot drawn: operators without FLOPs, {bare}"
    at: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "right", "va": "bottom"}
    return [ax.annotate(note, (1, 0), (-2, 4), fontsize=6, color=QUIET, **at)]


def _draw_results(ax: Axes, results: Sequence[Result]) -> list[Label]:
    """A ring for each pass, a disc for each bound, a line for each sweep; their labels."""
    styles, labels = series_styles(result.name for result in results), []
    for result, texts in zip(results, captions(results), strict=True):
        color, marker = styles[result.name]
        points = coordinates(result)
        for row in points:
            if swept(result):
                marked = None if len(row) <= _DENSE else [0, -1]
                style: dict[str, Any] = {"marker": marker, "markersize": 3, "markevery": marked, "linewidth": 1.2}
                ax.plot(row[:, 0], row[:, 1], color=color, label=result.name, zorder=4, **style)
            else:
                area, face = (170, "none") if isinstance(result, Phase) else (40, color)
                style = {"marker": marker, "facecolors": face, "edgecolors": color, "linewidths": 1.6}
                ax.scatter(row[:, 0], row[:, 1], s=area, label=result.name, zorder=4, **style)
        words = np.reshape(texts, points.shape[:2])
        labels += [_result_label(*end, color) for row in zip(words, points, strict=True) for end in _ends(*row)]
    return labels


def _ends(texts: Sequence[str], row: Array) -> list[tuple[str, Array]]:
    """First and last point of a row with their captions; those of them that have a place on the axes."""
    ends = [(texts[place], row[place]) for place in sorted({0, len(row) - 1})]
    return [(text, point) for text, point in ends if np.isfinite(point).all()]


def _result_label(text: str, point: Array, color: str) -> Label:
    return Label(text, float(point[0]), float(point[1]), color, size=7.5, weight="bold")


def _draw_operators(ax: Axes, results: Sequence[Result]) -> list[Label]:
    """A disc for each operator of a single pass; labels for those that lie together, the longest first."""
    passes = _single_passes(results)
    styles, groups = series_styles(result.name for result in results), []
    for phase in passes:
        color, marker = styles[phase.name]
        found = spots(phase)
        style: dict[str, Any] = {"color": color, "marker": marker, "alpha": 0.55, "linewidths": 0}
        area = [14 + 110 * spot.share for spot in found]
        x, y = [spot.x for spot in found], [spot.y for spot in found]
        ax.scatter(x, y, s=area, label=f"{phase.name} operators", zorder=3, **style)
        groups += [(sum(spot.share for spot in group), group, color) for group in _together(ax, found)]
    if len(results) > 2 or len({phase.name for phase in passes}) < len(passes):
        return []
    groups.sort(key=lambda item: -item[0])
    return [_label(group, share, color) for share, group, color in groups]


def _together(ax: Axes, found: Iterable[Spot]) -> list[list[Spot]]:
    """Operators that lie together, those with the longest time first, among groups and in each."""
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
    """Names and share of the time of a group; the less time, the less far from it the label may go."""
    names = list(dict.fromkeys(spot.name for spot in group))
    shown = names if len(names) <= 8 else [*names[:7], f"{len(names) - 7} more"]
    text = f"{', '.join(shown)}  {_percent(share)}"
    wrapped = textwrap.fill(text, max(22, len(text) // 2 + 4))
    return Label(wrapped, group[0].x, group[0].y, color, reach=_reach(share))


def _reach(share: float) -> float:
    """How far from its point the label of a group with this share of the time may go, in points."""
    if share < 0.01:
        return LEADER
    return 45.0 if share < 0.1 else 100.0


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "<1%"


def _marks(ax: Axes) -> Array:
    """``[n, 3]`` what labels must not cover, markers and samples of lines: data coordinates, a radius in points."""
    discs = [item for item in ax.collections if isinstance(item, PathCollection)]
    marks = [(np.asarray(item.get_offsets(), float), np.sqrt(item.get_sizes()) / 2 + 1) for item in discs]
    marks += [(_samples(np.asarray(line.get_xydata(), float)), np.array([2.0])) for line in ax.lines]
    found = np.concatenate([np.column_stack([xy, np.broadcast_to(radii, len(xy))]) for xy, radii in marks])
    return np.asarray(found[np.isfinite(found).all(axis=1)])


def _samples(line: Array) -> Array:
    """At least 200 points along a line on logarithmic axes."""
    steps = np.linspace(0, len(line) - 1, max(200, 4 * len(line)))
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = [np.interp(steps, np.arange(len(line)), column) for column in np.log(line).T]
    return np.asarray(np.exp(np.column_stack(columns)))
