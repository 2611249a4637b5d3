"""Alternatives: parts of a pass that can be computed in several ways, of which the one with the least cost runs.

A block that can be computed in more than one way yields the operators of all of them, each with the name of the
``choice`` and of its ``option``.  What an option costs depends on the chip, so whoever knows the chip chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..arrays import anywhere, everywhere, has_array
from ..errors import Number
from .operator import Operator

Chosen = Mapping[tuple[str, str], Any]
"""Choice and option -> whether it runs, a bool or an array of them."""


def cheapest(operators: Sequence[Operator], cost: Callable[[int], Number]) -> Chosen:
    """For each choice the option whose operators cost least together, point by point; the first one wins a tie.

    Parameters
    ----------
    operators : sequence of Operator
        All of a pass.
    cost : callable
        Place of an operator -> what all its runs cost.

    Returns
    -------
    mapping
        Choice and option -> whether it runs.
    """
    totals: dict[str, dict[str, Number]] = {}
    for at, operator in enumerate(operators):
        if operator.choice:
            options = totals.setdefault(operator.choice, {})
            options[operator.option] = options.get(operator.option, 0.0) + cost(at)
    found: dict[tuple[str, str], Any] = {}
    for choice, options in totals.items():
        least = place_of_least(list(options.values()))
        for place, option in enumerate(options):
            found[choice, option] = least == place
    return found


def place_of_least(values: Sequence[Number]) -> Any:
    """Which of several values is the least, element by element for arrays; the first one wins a tie.

    Examples
    --------
    >>> place_of_least([3.0, 1.0, 1.0]), place_of_least([np.array([3.0, 1.0]), 2.0]).tolist()
    (1, [1, 0])
    """
    if has_array(values):
        return np.argmin(np.stack(np.broadcast_arrays(*values)), axis=0)
    return min(range(len(values)), key=values.__getitem__)


def picked(operator: Operator, chosen: Chosen) -> Operator | None:
    """The operator as far as its option runs: as it is, not at all, or at some points of a sweep only."""
    if not operator.choice:
        return operator
    runs = chosen[operator.choice, operator.option]
    if everywhere(runs):
        return operator
    return operator.times(runs * 1.0) if anywhere(runs) else None


def resolve(operators: Sequence[Operator], cost: Callable[[Operator], Number]) -> tuple[Operator, ...]:
    """The operators that run if the option of least cost is taken in every choice.

    Examples
    --------
    Without a chip the FLOPs may decide:

    >>> import roofline as rl
    >>> from roofline.operators import Pass, Segment
    >>> run = Pass((Segment(1.0, 4096.0, 0.0),), rl.Precision())
    >>> found = resolve(rl.get_model("deepseek-v3").operators(run), lambda item: item.count * item.work.flops)
    >>> {item.option for item in found if item.name == "attention"}
    {'expanded'}
    """
    chosen = cheapest(operators, lambda at: cost(operators[at]))
    found = (picked(operator, chosen) for operator in operators)
    return tuple(operator for operator in found if operator is not None)
