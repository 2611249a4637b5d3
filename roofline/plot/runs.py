"""Measured runs on plots: stars on the roofline, points on curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..measured import Headroom, PhaseHeadroom
from ..units import brief_time
from .labels import Label
from .style import style_of
from .tracks import TERA, Array

PASSES = ("prefill", "decode")
"""Rows of a `Headroom` that are one pass; whole runs are drawn if there are none."""


def drawn_rows(run: Headroom) -> list[PhaseHeadroom]:
    """The rows of a measured run that are passes; all rows if none is."""
    return [row for row in run.phases if row.name in PASSES] or list(run.phases)


def run_points(run: Headroom) -> Array:
    """``[n, 1, 2]``: intensity in FLOP/byte and attained TFLOP/s of one accelerator, measured."""
    count = float(run.deployment.parallel.accelerators)
    points = [(row.intensity_flops_per_byte, row.attained_flops_per_s / count / TERA) for row in drawn_rows(run)]
    return np.reshape(np.asarray(points, float), (-1, 1, 2))


def draw_runs(ax: Axes, runs: Sequence[Headroom]) -> list[Label]:
    """Draw a star for each pass of each measured run; return their labels."""
    style, labels = style_of(ax), []
    looks = style.looks_of(row.name for run in runs for row in drawn_rows(run))
    for run in runs:
        for row, ((x, y),) in zip(drawn_rows(run), run_points(run), strict=True):
            color, _ = looks[row.name]
            how: dict[str, Any] = {"marker": "*", "s": 90, "color": color, "edgecolors": style.paper, "linewidths": 0.6}
            ax.scatter([x], [y], label=f"measured {row.name}", zorder=5, **how)
            labels.append(Label(_words(row), float(x), float(y), color, size=style.text_size, weight="bold"))
    return labels


def _words(row: PhaseHeadroom) -> str:
    """The measured time, and how it compares."""
    if row.beats_floor:
        return f"measured {row.name}\n{brief_time(row.measured_s)}, faster than the floor"
    return f"measured {row.name}\n{brief_time(row.measured_s)}, {row.share_of_roofline:.0%} of the roofline"
