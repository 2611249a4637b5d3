"""Deterministic placement of labels: close to their points, without covering anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.text import Text

from ..units import plural
from .frame import SLACK, renderer_of

Array = npt.NDArray[np.float64]

_ANGLES = np.radians(np.arange(-45, 315, 15))
_DISTANCES = np.array([7.0, 11.0, 16.0, 22.0, 30.0, 40.0, 52.0, 66.0, 82.0, 100.0])
"""Directions and distances that are tried, in points (1/72 inch)."""

LEADER = 17.0
"""A label farther than this from its point gets a line to it."""

_CROSSING = 40.0
"""Extra distance that a label accepts to keep its line off the roof and the markers."""


@dataclass(frozen=True)
class Label:
    """A text for the point ``x, y`` (data coordinates), at most ``reach`` from it."""

    text: str
    x: float
    y: float
    color: str
    size: float = 7.0
    weight: str = "normal"
    reach: float = 100.0


def place_labels(ax: Axes, labels: Sequence[Label], *, marks: Array, texts: Sequence[Text]) -> list[Text]:
    """Write ``labels``, most important first, where they cover neither each other nor anything drawn.

    Each goes to the nearest of 240 places around its point that is free at the present size of the axes.  A label
    without a free place is omitted; the caller states how many (`left_out`).  Only texts are measured; nothing is
    drawn.

    Parameters
    ----------
    ax : Axes
        Axes whose limits and position are final.
    labels : sequence of Label
        The labels.
    marks : array
        ``[n, 3]`` what must stay visible, markers and samples of lines: data coordinates and a radius in points.
    texts : sequence of Text
        Existing texts.

    Returns
    -------
    list of Text
        The labels that were placed.
    """
    renderer, scale = renderer_of(ax), ax.figure.dpi / 72
    drawn = _around(np.asarray(ax.transData.transform(marks[:, :2])), marks[:, 2:] * scale)
    words = np.array([_box(text, renderer) for text in texts]).reshape(-1, 4)
    inside = np.array(ax.bbox.extents)
    written: list[Text] = []
    for label in labels:
        text = _written(ax, label)
        anchor = np.asarray(ax.transData.transform((label.x, label.y)))
        reach = _DISTANCES[label.reach >= _DISTANCES]
        box = _box(text, renderer)
        offset = _free_offset(anchor, box, drawn, words, inside=inside, reach=reach, scale=scale)
        if offset is None:
            text.remove()
            continue
        text.set_position(tuple(offset / scale))
        box = box + np.tile(offset, 2)
        words = np.vstack([words, box])
        drawn = np.vstack([drawn, _lead(ax, label, box, anchor, scale)])
        written.append(text)
    return written


def left_out(labels: Sequence[Label], written: Sequence[Text]) -> str:
    """The number of omitted labels in words; empty if there are none."""
    count = len(labels) - len(written)
    return f"{plural(count, 'label')} left out for lack of room" if count else ""


def _written(ax: Axes, label: Label) -> Text:
    """The label on its point."""
    return ax.annotate(
        label.text,
        (label.x, label.y),
        xytext=(0, 0),
        textcoords="offset points",
        ha="center",
        va="center",
        color=label.color,
        fontsize=label.size,
        fontweight=label.weight,
        linespacing=1.05,
        parse_math=False,
        zorder=6,
    )


def _free_offset(
    anchor: Array, box: Array, drawn: Array, words: Array, *, inside: Array, reach: Array, scale: float
) -> Array | None:
    """The least costly offset of a label's center from its anchor, in pixels, at which nothing is in its way."""
    half = (box[2:] - box[:2]) / 2 * SLACK
    directions = np.column_stack([np.cos(_ANGLES), np.sin(_ANGLES)])
    offsets = (directions * (reach[:, None, None] * scale + half)).reshape(-1, 2)
    boxes = np.hstack([anchor + offsets - half, anchor + offsets + half])
    within = np.all(boxes[:, :2] > inside[:2] + 2 * scale, axis=1)
    within &= np.all(boxes[:, 2:] < inside[2:] - 2 * scale, axis=1)
    padded = boxes + np.array([-4, -1, 4, 1]) * scale
    free = within & ~_overlap(padded, np.vstack([drawn, words])).any(axis=1)
    elsewhere = drawn[~_overlap(_around(anchor[None], 4 * scale), drawn)[0]]
    best, least = None, np.inf
    for index in np.flatnonzero(free):  # the nearest first
        distance = reach[index // len(_ANGLES)]
        if distance >= least:
            break
        leader = _around(_leader(boxes[index], anchor), 0.5 * scale)
        if not _overlap(leader, words).any():
            cost = distance + _CROSSING * _overlap(leader, elsewhere).any()
            if cost < least:
                best, least = offsets[index], cost
    return best


def _lead(ax: Axes, label: Label, box: Array, anchor: Array, scale: float) -> Array:
    """Draw the line from a far label to its point; the boxes of its samples."""
    line = _leader(box, anchor)
    if np.hypot(*(line[-1] - anchor)) < LEADER * scale:
        return np.empty((0, 4))
    end = tuple((line[-1] - anchor) / scale)
    style = {"arrowstyle": "-", "color": label.color, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}
    ax.annotate("", (label.x, label.y), xytext=end, textcoords="offset points", arrowprops=style)
    return _around(line, scale)


def _leader(box: Array, anchor: Array) -> Array:
    """``[n, 2]`` samples of the line from the anchor to the nearest point of the label."""
    return np.linspace(anchor, np.clip(anchor, box[:2], box[2:]), 16)


def _around(points: Array, margin: float | Array) -> Array:
    return np.hstack([points - margin, points + margin])


def _overlap(boxes: Array, others: Array) -> Array:
    """``[n, m]``: whether box ``n`` and box ``m`` have a point in common; boxes are ``x0, y0, x1, y1``."""
    left, bottom, right, top = (side[:, None] for side in boxes.T)
    found = (left < others[:, 2]) & (others[:, 0] < right)
    found &= (bottom < others[:, 3]) & (others[:, 1] < top)
    return np.asarray(found)


def _box(text: Text, renderer: Any) -> Array:
    return np.asarray(text.get_window_extent(renderer).extents)
