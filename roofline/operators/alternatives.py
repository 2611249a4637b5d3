"""Alternatives: parts of a pass that can be computed in several ways; the cheapest one runs.

A block that can be computed in several ways yields the operators of all of them, each labeled with its ``choice`` and
``option``.  The cost of an option depends on the chip, so the caller that knows the chip chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..arrays import anywhere, everywhere, smaller, where
from ..errors import Number
from .operator import Operator

Chosen = Mapping[tuple[str, str], Any]
"""(choice, option) -> whether it runs: a bool or an array of bools."""


def cheapest(operators: Sequence[Operator], cost: Callable[[int], Number]) -> Chosen:
    """Return the cheapest option of each choice, element by element; the first one wins a tie.

    Parameters
    ----------
    operators : sequence of Operator
        All operators of a pass.
    cost : callable
        Function from the index of an operator to the total cost of its runs.

    Returns
    -------
    mapping
        (choice, option) -> whether it runs.
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
    """Return the index of the least value, element by element for arrays; the first one wins a tie.

    Examples
    --------
    >>> import numpy as np
    >>> place_of_least([3.0, 1.0, 1.0]), place_of_least([np.array([3.0, 1.0]), 2.0]).tolist()
    (1, [1, 0])
    """
    least, place = values[0], 0
    for at, value in enumerate(values[1:], 1):
        place = where(value < least, at, place)
        least = smaller(value, least)
    return place


def picked(operator: Operator, chosen: Chosen) -> Operator | None:
    """Return the operator where its option runs: unchanged, None, or at some points of a sweep only."""
    if not operator.choice:
        return operator
    runs = chosen[operator.choice, operator.option]
    if everywhere(runs):
        return operator
    return operator.times(runs * 1.0) if anywhere(runs) else None


def resolve(operators: Sequence[Operator], cost: Callable[[Operator], Number]) -> tuple[Operator, ...]:
    """Return the operators that run with the cheapest option in every choice.

    Examples
    --------
    FLOPs can serve as the cost if there is no chip:

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
