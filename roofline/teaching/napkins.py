"""`napkin`: any result in about five lines of mental arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..advisor import Advice
from ..analysis.comparison import Comparison
from ..analysis.crossover_points import Crossovers
from ..analysis.ridges import RidgeTable
from ..analysis.sensitivities import Sensitivity
from ..analysis.solutions import Solution
from ..arrays import FrozenMapping
from ..capacity import Fleet, Plan, PoolPlan
from ..errors import InvalidInput
from ..footprint.memory_use import Memory
from ..measured.shares import Headroom
from ..phases.bounds import Bound
from ..phases.generation import Generation
from ..phases.passes import Phase
from ..report import Report
from ..serving.outcome import Simulation
from ..serving.under_load import Served
from ..techniques.effect import Effect
from ..techniques.table import TechniqueTable
from .derivations import napkin_of_generation, napkin_of_memory, napkin_of_operator, napkin_of_phase
from .lines import Napkin
from .plan_lines import (
    of_advice,
    of_crossovers,
    of_headroom,
    of_plan,
    of_pools,
    of_ridges,
    of_sensitivity,
    of_solution,
    of_techniques,
)
from .request_lines import of_comparison, of_effect, of_served, of_simulation


def napkin(result: Report) -> Napkin:
    """Derive a result by mental arithmetic: about five lines, each with its exact value and the deviation.

    Parameters
    ----------
    result : Report
        A prefill, a decode step, a mixed step, an operator, memory use, a generation, requests under load, the effect
        of a technique, a comparison, a plan, a fleet, a solution, a sensitivity, a table or an advice; a single point,
        not a sweep.  Of tables, the first rows are derived.

    Returns
    -------
    Napkin
        The lines; printing it shows them.

    Raises
    ------
    InvalidInput
        The result is of another type, is a sweep, or has nothing to derive, such as a plan that no candidate meets.

    Examples
    --------
    >>> import roofline as rl
    >>> serve = rl.Deployment(rl.get_model("llama-3.1-70b"), rl.get_accelerator("h100-sxm"))
    >>> found = napkin(rl.decode(serve, rl.Workload(), context_tokens=2000))
    >>> print(found.lines[0])
    70 G weights x 2 B = 140 GB   (exact 139 GB, +1%)
    >>> found.lines[-1].value, round(found.lines[-1].exact, 4)
    (0.042, 0.0417)
    """
    maker = MAKERS.get(type(result))
    if maker is None:
        kinds = "a phase, a memory, a plan or an effect"
        raise InvalidInput(f"napkin takes a result such as {kinds}, not {type(result).__name__}")
    of, point = maker
    return of(_point(result, point(result)))


def _point(result: Any, value: Any) -> Any:
    if np.ndim(value):
        raise InvalidInput(
            f"napkin takes a single point; this {type(result).__name__} is a sweep of shape {np.shape(value)}"
        )
    return result


def _comparison(found: Comparison) -> Napkin:
    return of_comparison(napkin(found.before), napkin(found.after), found.ratio)


def _fleet(found: Fleet) -> Napkin:
    return of_plan(found.plan)


def _single(_: Any) -> float:
    """Of results that are never sweeps."""
    return 0.0


MAKERS: Mapping[type, tuple[Callable[[Any], Napkin], Callable[[Any], Any]]] = FrozenMapping(
    {
        Phase: (napkin_of_phase, lambda found: found.roofline_s),
        Bound: (napkin_of_operator, lambda found: found.roofline_s),
        Memory: (napkin_of_memory, lambda found: found.weights_bytes + found.kv_bytes_per_sequence),
        Generation: (napkin_of_generation, lambda found: found.total_s),
        Served: (of_served, lambda found: found.total_s),
        Simulation: (of_simulation, _single),
        Effect: (of_effect, lambda found: found.total_speedup),
        Comparison: (_comparison, _single),
        Plan: (of_plan, _single),
        Fleet: (_fleet, _single),
        PoolPlan: (of_pools, _single),
        Solution: (of_solution, _single),
        Sensitivity: (of_sensitivity, lambda found: found.value),
        RidgeTable: (of_ridges, _single),
        TechniqueTable: (of_techniques, _single),
        Advice: (of_advice, _single),
        Crossovers: (of_crossovers, _single),
        Headroom: (of_headroom, _single),
    }
)
"""Kind of result -> what derives it, and a number that has one value if the result is a single point."""
