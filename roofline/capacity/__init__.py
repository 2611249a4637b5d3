"""Capacity: which accelerators, how many, laid out how, for a load and its service levels, and what that costs."""

from ..serving.steady_state import Steady, steady_state
from .fleets import Fleet, fleet
from .layouts import layouts
from .planning import Plan, plan

__all__ = ["Fleet", "Plan", "Steady", "fleet", "layouts", "plan", "steady_state"]
