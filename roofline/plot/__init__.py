"""Plots of results.  Every function draws on the axes it is given, or on a new figure, and returns the axes.

Plots take all numbers from results and contain no modeling. No other part of the package imports matplotlib.
"""

from .accelerators import by_year, rooflines
from .breakdown import time_breakdown
from .capacity import memory_stack, pareto, tornado
from .changes import techniques, waterfall
from .chart import roofline
from .cost_curve import cost
from .curves import curves
from .frame import new_axes
from .heat import heatmap
from .levels import hierarchy
from .map import phase_map
from .server import queue, timeline
from .speeds import kv, throughput
from .style import DARK, LIGHT, Style, style_of

__all__ = [
    "DARK",
    "LIGHT",
    "Style",
    "by_year",
    "cost",
    "curves",
    "heatmap",
    "hierarchy",
    "kv",
    "memory_stack",
    "new_axes",
    "pareto",
    "phase_map",
    "queue",
    "roofline",
    "rooflines",
    "style_of",
    "techniques",
    "throughput",
    "time_breakdown",
    "timeline",
    "tornado",
    "waterfall",
]
