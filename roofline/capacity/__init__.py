"""Capacity: which accelerators, how many and in which layout serve a load within its SLO, and at what cost."""

from .disaggregation import disaggregate
from .fleets import Fleet, fleet
from .layouts import layouts
from .planning import plan
from .plans import Plan
from .pool_plans import PoolPlan

__all__ = ["Fleet", "Plan", "PoolPlan", "disaggregate", "fleet", "layouts", "plan"]
