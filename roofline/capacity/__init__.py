"""Capacity: which accelerators, how many, laid out how, for a load and its service levels, and what that costs."""

from .fleets import Fleet, fleet
from .layouts import layouts
from .planning import Plan, plan
from .steady import Steady, steady_state

__all__ = ["Fleet", "Plan", "Steady", "fleet", "layouts", "plan", "steady_state"]
