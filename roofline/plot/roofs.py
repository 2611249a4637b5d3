"""The frame of the roofline plot: axes, the memory roof, and a ceiling for each rate of compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, NullFormatter

from ..hardware import Accelerator
from ..units import humanize
from .style import FAINT, INK
from .tracks import TERA, Array, Result

_LINE: dict[str, Any] = {"color": INK, "linewidth": 1.4, "zorder": 2}
_TEXT: dict[str, Any] = {
    "textcoords": "offset points",
    "ha": "right",
    "va": "bottom",
    "fontsize": 7,
    "color": INK,
    "zorder": 5,
}


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
        """Intensity in FLOP/byte from which on compute is the limit."""
        return self.height / self.slope


def roofs_of(accelerator: Accelerator, results: Sequence[Result]) -> list[Roof]:
    """A roof for each rate that the results compute at, the lowest first; for each of the chip's if none computes."""
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
    left = min([1.0, roofs[0].ridge, *x]) / 2.5
    right = max([roofs[-1].ridge, *x]) * 4
    bottom = min([left * roofs[0].slope, *y]) / 1.5
    ax.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, roofs[-1].height * 5))
    ax.set_xlabel("arithmetic intensity, FLOP/byte", fontsize=8)
    ax.set_ylabel("attained, TFLOP/s", fontsize=8)
    ax.tick_params(labelsize=7)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
        axis.set_minor_formatter(NullFormatter())
    ax.grid(color=FAINT, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def draw_roofs(ax: Axes, roofs: Sequence[Roof]) -> list[Text]:
    """The memory roof up to the last ridge, a ceiling from each ridge on, a dot on each ridge, and their labels."""
    left, right = ax.get_xlim()
    slope, last = roofs[0].slope, roofs[-1].ridge
    ax.plot([left, last], [left * slope, last * slope], label="memory", **_LINE)
    middle = float(np.sqrt(left * roofs[0].ridge))
    bandwidth = f"memory  {humanize('bytes_per_s', slope * TERA)}"
    texts: list[Text] = [ax.annotate(bandwidth, (middle, middle * slope), (-5, 2), **_TEXT)]
    for roof in roofs:
        ax.plot([roof.ridge, right], [roof.height, roof.height], label=roof.formats, **_LINE)
        ax.plot(roof.ridge, roof.height, "o", color=INK, markersize=3.5, label=f"ridge {roof.formats}", zorder=2)
        words = f"{roof.formats}  {roof.height:,.4g} TFLOP/s, ridge {roof.ridge:,.3g}"
        texts.append(ax.annotate(words, (roof.ridge, roof.height), (-5, 0), **_TEXT))
    return texts
