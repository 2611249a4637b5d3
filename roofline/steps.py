"""Steps of a derivation, and the branch of it that leads to one number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import plain, same
from .errors import unknown
from .units import humanize, quantity_of
from .values import Value


@dataclass(frozen=True, eq=False)
class Step(Value):
    """One line of a derivation: ``name = formula = value``, with its inputs.

    Attributes
    ----------
    name : str
        What is computed; the end of the name is its unit.
    formula : str
        A Python expression over the names of ``inputs`` (and ``min``, ``max``, which broadcast), so that anyone can
        evaluate it; a test evaluates every one.
    inputs : mapping of str to number or array
        Values of the variables.
    value : number or array
        The result.
    source : str
        Where the formula or the figure comes from.
    """

    name: str
    formula: str
    inputs: Mapping[str, Any]
    value: Any
    source: str

    def __str__(self) -> str:
        used = ", ".join(f"{name}={_short(value)}" for name, value in self.inputs.items())
        numbers = f"   [{used}]" if used else ""
        value = humanize(self.name.rpartition(".")[2], self.value)
        return f"{self.name} = {self.formula} = {value}{numbers}   ({self.source})"

    def to_dict(self) -> dict[str, Any]:
        """Return the step as plain JSON types.

        Returns
        -------
        dict
            Its fields by name.
        """
        return {
            "name": self.name,
            "formula": self.formula,
            "inputs": {name: plain(value) for name, value in self.inputs.items()},
            "value": plain(self.value),
            "source": self.source,
        }

    def under(self, prefix: str) -> Step:
        """The same step of one of several results: its name begins with ``prefix``."""
        return Step(f"{prefix}.{self.name}", self.formula, self.inputs, self.value, self.source)


def identifier(name: str) -> str:
    """The name of an operator as a formula can have it: kernels of several operators join their names by ``+``.

    Examples
    --------
    >>> identifier("q_proj+k_proj")
    'q_proj_and_k_proj'
    """
    return re.sub(r"\W", "_", name.replace("+", "_and_"))


def branch_of(steps: Sequence[Step], name: str) -> tuple[Step, ...]:
    """Return the steps that lead to ``name``, first things first.

    Parameters
    ----------
    steps : sequence of Step
        A derivation.
    name : str
        Name of a step, with or without what it is about: ``q_proj.memory_s``, ``floor_s``.  Of several the last.

    Raises
    ------
    UnknownName
        No step has that name.

    Examples
    --------
    >>> import roofline as rl
    >>> step = rl.decode(rl.Deployment("gpt-2", "l4"), rl.Workload())
    >>> [each.name for each in step.explain("q_proj.memory_s")]
    ['q_proj.weight_bytes', 'q_proj.activation_bytes', 'q_proj.moved_bytes', 'q_proj.memory_s']
    """
    places = [at for at, step in enumerate(steps) if step.name == name or step.name.endswith(f".{name}")]
    if not places:
        raise unknown("step", name, {step.name for step in steps} | {step.name.rpartition(".")[2] for step in steps})
    wanted, open_places = {places[-1]}, [places[-1]]
    while open_places:
        at = open_places.pop()
        for used, value in steps[at].inputs.items():
            origin = _origin(steps, at, used, value)
            if origin is not None and origin not in wanted:
                wanted.add(origin)
                open_places.append(origin)
    return tuple(steps[at] for at in sorted(wanted))


def _origin(steps: Sequence[Step], at: int, name: str, value: Any) -> int | None:
    """Place of the step before ``at`` that an input comes from; None if the input is given.

    It is the step with that very value whose name fits best; a value alone says nothing if it is 0 or 1.
    """
    telling = not np.all(np.isin(value, (0.0, 1.0)))
    best, found = 0, None
    for place in range(at - 1, -1, -1):
        if _same_number(steps[place].value, value):
            fit = _fit(steps[place].name, name, steps[at].name, telling=telling)
            if fit > best:
                best, found = fit, place
    return found


def _same_number(one: Any, other: Any) -> bool:
    """Whether two values are the same, a number and an array without axes included."""
    return same(one[()] if isinstance(one, np.ndarray) else one, other[()] if isinstance(other, np.ndarray) else other)


def _fit(step: str, name: str, of: str, *, telling: bool) -> int:
    """How well the name of a step fits that of an input of the step ``of``; 0 if it does not."""
    about, _, quantity = step.rpartition(".")
    subject, _, computed = of.rpartition(".")
    if step in (f"{subject}.{name}", name):
        return 4
    if re.fullmatch(rf"{identifier(about.rpartition('.')[2])}(_\d+)?", name):
        return 3 if quantity_of(quantity) == quantity_of(computed) else 0  # a part of a sum over operators
    words, wanted = set(re.split(r"[._]", step)), set(name.split("_"))
    if about == subject and (wanted <= words or set(quantity.split("_")) <= wanted):
        return 3
    if telling and wanted <= words:
        return 2
    return 1 if telling and about == subject else 0


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.ndim:
        return f"{_short(value.flat[0])}…{_short(value.flat[-1])}" if value.size else "–"
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e7:
        return str(int(value))
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)
