"""Capacity: which accelerators, how many, laid out how, for a load and its SLO, and what that costs."""

from .disaggregation import disaggregate
from .fleets import Fleet, fleet
from .layouts import layouts
from .planning import plan
from .plans import Plan
from .pool_plans import PoolPlan

__all__ = ["Fleet", "Plan", "PoolPlan", "disaggregate", "fleet", "layouts", "plan"]
