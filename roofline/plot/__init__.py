"""Plots of results.  Every function draws on the axes it is given, or on a new figure, and returns the axes.

The only importer of matplotlib.  Results carry the numbers: nothing is modelled here.
"""

from .breakdown import time_breakdown
from .capacity import memory_stack, pareto, tornado
from .chart import roofline
from .hardware import by_year, rooflines
from .map import phase_map

__all__ = ["by_year", "memory_stack", "pareto", "phase_map", "roofline", "rooflines", "time_breakdown", "tornado"]
