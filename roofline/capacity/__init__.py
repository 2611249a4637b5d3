"""Capacity: which accelerators, how many, laid out how, for a load and its SLO, and what that costs."""

from .fleets import Fleet, fleet
from .layouts import layouts
from .planning import plan
from .plans import Plan

__all__ = ["Fleet", "Plan", "fleet", "layouts", "plan"]
