"""Plots of results.  Every function draws on the axes it is given, or on a new figure, and returns the axes.

The only importer of matplotlib.  Results carry the numbers: nothing is modelled here.
"""

from .breakdown import time_breakdown
from .chart import roofline

__all__ = ["roofline", "time_breakdown"]
