"""The hierarchical roofline: a slanted roof for each level of the memory hierarchy, and the product at each level."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from ..analysis.memory_hierarchy import MemoryHierarchy
from ..units import humanize
from .arguments import check_kind
from .frame import axes_or_new, head, label_axes, legend_inside
from .style import style_of
from .ticks import log_axis

TERA = 1e12

WORDS = {"l2": "L2", "shared": "shared memory"}
"""Levels whose names in results are shortened."""


def hierarchy(found: MemoryHierarchy, *, ax: Axes | None = None) -> Axes:
    """Plot attained FLOP/s over intensity, with the roof of each memory level and the product's intensity there.

    All open markers are at the same height, the highest rate that the product can reach. The level whose marker
    touches its slanted roof is the limit.

    Parameters
    ----------
    found : MemoryHierarchy
        The result of `roofline.memory_hierarchy`.
    ax : Axes, optional
        Where to draw; a new 6 x 4 inch figure if None.

    Returns
    -------
    Axes
        FLOP/byte and TFLOP/s, both logarithmic.

    Examples
    --------
    >>> import roofline as rl
    >>> ax = rl.plot.hierarchy(rl.memory_hierarchy(1, 4096, 4096, "a100-sxm-80gb"))
    >>> [text.get_text() for text in ax.get_legend().get_texts()][0]
    'memory, 2.039 TB/s'
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    check_kind("hierarchy", "rl.memory_hierarchy", MemoryHierarchy, found)
    ax = axes_or_new(ax)
    style = style_of(ax)
    peak, height = found.peak_flops_per_s / TERA, found.attained_flops_per_s / TERA
    intensities, ridges = found.intensity_flops_per_byte, found.ridge_flops_per_byte
    left, right = min(*intensities, *ridges) / 3, max(*intensities, *ridges) * 4
    ax.plot([min(ridges), right], [peak, peak], color=style.ink, linewidth=1.4, label="_peak")
    for place, (level, intensity, ridge) in enumerate(zip(found.levels, intensities, ridges, strict=True)):
        color, marker = style.line(place)
        words = f"{WORDS.get(level.name, level.name)}, {humanize('bytes_per_s', level.bytes_per_s)}"
        roof = [left * level.bytes_per_s / TERA, peak]
        ax.plot(
            [left, ridge], roof, color=color, linewidth=1.4, marker=marker, markevery=[1], markersize=4, label=words
        )
        inside: dict[str, Any] = {
            "markerfacecolor": style.paper,
            "markeredgewidth": 1.6,
            "linestyle": "",
            "zorder": 3 + place / 10,
        }
        ax.plot(intensity, height, color=color, marker=marker, ms=13 - 3 * place, label=f"_{level.name}", **inside)
    bottom = min(left * found.bytes_per_s.min() / TERA, height) / 2
    ax.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, 4 * peak))
    label_axes(ax, "FLOPs per byte moved at each level", "attained, TFLOP/s")
    log_axis(ax.xaxis)
    log_axis(ax.yaxis)
    legend_inside(ax, loc="lower right")
    limit = WORDS.get(found.limit, found.limit)
    reached = humanize("flops_per_s", found.attained_flops_per_s)
    of = humanize("flops_per_s", found.peak_flops_per_s)
    words = f"at most {reached} of {of}, limited by {limit}; open markers: intensity at each level"
    product = " x ".join(f"{size:,}" for size in found.shape)
    head(ax, f"{product} on {found.accelerator.title or found.accelerator.name}", words)
    return ax
