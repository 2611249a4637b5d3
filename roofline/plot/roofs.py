"""The frame of the roofline plot: axes, the memory roof, and a ceiling for each compute rate."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from ..hardware import Accelerator
from ..units import humanize
from .frame import label_axes, renderer_of
from .style import style_of
from .ticks import log_axis
from .tracks import TERA, Array, Result

_WAYS = (("right", "bottom", -5, 0), ("left", "bottom", 3, 3), ("left", "top", 3, -5), ("right", "bottom", -5, 9))
"""Positions of a label at its point: alignment and offset in points, best first."""

FRAME = 0.9
"""Pixels that the frame of a stamp adds on each side, per point of its text, at any usual resolution."""

_ALONG = (0.5, 0.35, 0.65, 0.2, 0.8)
"""Positions of the label of the memory roof, as shares of its length, best first."""


@dataclass(frozen=True)
class Roof:
    """The roof for one rate of compute: ``min(intensity * slope, height)`` in TFLOP/s over FLOP/byte.

    Attributes
    ----------
    formats : str
        The formats that are computed at this rate.
    height : float
        The peak in TFLOP/s.
    slope : float
        The memory bandwidth in TB/s.
    """

    formats: str
    height: float
    slope: float

    @property
    def ridge(self) -> float:
        """Intensity in FLOP/byte above which compute is the limit."""
        return self.height / self.slope


def roofs_of(accelerator: Accelerator, results: Sequence[Result]) -> list[Roof]:
    """A roof for each rate that the results use, lowest first; for every rate of the chip if there are none."""
    used = [item.math for result in results for item in result.operators if np.any(item.flops)]
    formats: dict[float, list[str]] = {}
    for name in dict.fromkeys(used or accelerator.dense_flops_per_s):
        formats.setdefault(float(accelerator.dense_flops_per_s[name]) / TERA, []).append(name)
    slope = float(accelerator.memory_bytes_per_s) / TERA
    return [Roof(", ".join(names), height, slope) for height, names in sorted(formats.items())]


def set_scales(ax: Axes, roofs: Sequence[Roof], points: Sequence[Array]) -> None:
    """Logarithmic axes wide enough for every ridge, for 1 FLOP/byte and for every point."""
    x, y = np.concatenate([np.empty((0, 2)), *(part.reshape(-1, 2) for part in points)]).T
    x, y = x[np.isfinite(x)], y[np.isfinite(y)]
    left = min([1.0, roofs[0].ridge / 8, *x]) / 2.5
    right = max([roofs[-1].ridge, *x]) * 4
    bottom = min([left * roofs[0].slope, *y]) / 1.5
    ax.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, roofs[-1].height * 5))
    label_axes(ax, "arithmetic intensity, FLOP/byte", "attained, TFLOP/s")
    log_axis(ax.xaxis)
    log_axis(ax.yaxis)


def draw_roofs(ax: Axes, roofs: Sequence[Roof], texts: Sequence[Text], marks: Array) -> list[Text]:
    """The memory roof up to the last ridge, a ceiling from each ridge on, a dot on each ridge, and their labels.

    The labels cover neither ``texts`` nor ``marks`` (``[n, 3]``: data coordinates and a radius in points) if there is
    room elsewhere. If there is too little, the label of a ceiling leaves out the ridge point, and then the rate.
    """
    renderer = renderer_of(ax)
    taken = [*(_box(text, renderer) for text in texts), *_boxes(ax, marks)]
    left, right = ax.get_xlim()
    slope, last = roofs[0].slope, roofs[-1].ridge
    ink = style_of(ax).ink
    line: dict[str, Any] = {"color": ink, "linewidth": 1.4, "zorder": 2}
    ax.plot([left, last], [left * slope, last * slope], label="memory", **line)
    written: list[Text] = []
    for roof in reversed(roofs):
        ax.plot([roof.ridge, right], [roof.height, roof.height], label=roof.formats, **line)
        ax.plot(roof.ridge, roof.height, "o", color=ink, markersize=3.5, label=f"ridge {roof.formats}", zorder=2)
        rate = f"{roof.formats}  {_digits(roof.height)} TFLOP/s"
        words = (f"{rate}, ridge {humanize('ridge', roof.ridge)}", rate, roof.formats)
        written.append(_beside(ax, words, [(roof.ridge, roof.height)], taken))
        taken.append(written[-1].get_window_extent(renderer))
    bandwidth = f"memory  {humanize('bytes_per_s', slope * TERA)}"
    places = [left * (roofs[0].ridge / left) ** share for share in _ALONG]
    return [*written, _beside(ax, (bandwidth,), [(place, place * slope) for place in places], taken)]


def _box(text: Text, renderer: Any) -> Bbox:
    """Box around a text and its frame, if it has one, in pixels."""
    patch = text.get_bbox_patch()
    return text.get_window_extent(renderer).padded(0 if patch is None else FRAME * float(text.get_fontsize()))


def _boxes(ax: Axes, marks: Array) -> list[Bbox]:
    """Boxes around marks, in pixels."""
    centers = np.asarray(ax.transData.transform(marks[:, :2]))
    radii = marks[:, 2:] * ax.figure.dpi / 72
    return [Bbox(corners) for corners in np.stack([centers - radii, centers + radii], axis=1)]


def _digits(value: float) -> str:
    """Four digits, without an exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _beside(ax: Axes, choices: Sequence[str], points: Sequence[tuple[float, float]], taken: Sequence[Bbox]) -> Text:
    """A label at one of the points of the roof that stays inside the axes and overlaps no ``taken`` box.

    Earlier ``choices`` and ``points`` are preferred. If none is free, the first is written at the first point.
    """
    style, renderer = style_of(ax), renderer_of(ax)
    how: dict[str, Any] = {"fontsize": style.text_size, "color": style.ink, "zorder": 5, "parse_math": False}
    text = ax.annotate("", points[0], (0, 0), textcoords="offset points", **how)
    usual = (choices[0], points[0], _WAYS[0])
    for words, point, (ha, va, x, y) in (*itertools.product(choices, points, _WAYS), usual):
        text.xy = point
        text.set(text=words, ha=ha, va=va, position=(x, y))
        if _is_free(ax.bbox, text.get_window_extent(renderer), taken):
            break
    return text


def _is_free(inside: Bbox, box: Bbox, taken: Sequence[Bbox]) -> bool:
    """Whether a box lies inside the axes and on none of the taken ones."""
    fits: bool = inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
    return fits and not any(box.overlaps(other) for other in taken)
