"""Plots of results.  Every function draws on the axes it is given, or on a new figure, and returns the axes.

The only importer of matplotlib.  Results carry the numbers: nothing is modelled here.
"""

from .breakdown import time_breakdown
from .capacity import memory_stack, pareto, tornado
from .chart import roofline
from .curves import curves, kv, throughput
from .hardware import by_year, rooflines
from .heat import heatmap
from .map import phase_map

__all__ = [
    "by_year",
    "curves",
    "heatmap",
    "kv",
    "memory_stack",
    "pareto",
    "phase_map",
    "roofline",
    "rooflines",
    "throughput",
    "time_breakdown",
    "tornado",
]
