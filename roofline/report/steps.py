"""Steps of a derivation, and the branch that leads to one value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any

import numpy as np

from ..arrays import plain, same
from ..errors import unknown
from ..units import humanize, quantity_of
from ..values import Value
from .tables import html_table


@dataclass(frozen=True, eq=False, repr=False)
class Step(Value):
    """One line of a derivation: ``name = formula = value``, with its inputs.

    Attributes
    ----------
    name : str
        Name of the value; it ends in the unit.
    formula : str
        Python expression over the names in ``inputs`` (and ``min``, ``max``, which broadcast). Tests evaluate every
        formula.
    inputs : mapping of str to number or array
        Values of the variables.
    value : number or array
        The result.
    source : str
        Source of the formula or the value.
    """

    name: str
    formula: str
    inputs: Mapping[str, Any]
    value: Any
    source: str

    def __str__(self) -> str:
        used = self.inputs_in_words
        numbers = f"   [{used}]" if used else ""
        return f"{self.name} = {self.formula} = {self.shown}{numbers}   ({self.source})"

    @property
    def shown(self) -> str:
        """The value, formatted for people."""
        return humanize(self.name.rpartition(".")[2], self.value)

    @property
    def inputs_in_words(self) -> str:
        """The inputs, as in ``a=6, b=2``."""
        return ", ".join(f"{name}={_short(value)}" for name, value in self.inputs.items())

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the step as plain JSON types.

        Returns
        -------
        dict
            Fields by name.
        """
        return {
            "name": self.name,
            "formula": self.formula,
            "inputs": {name: plain(value) for name, value in self.inputs.items()},
            "value": plain(self.value),
            "source": self.source,
        }

    def under(self, prefix: str) -> Step:
        """The same step with ``prefix`` before its name, for derivations of several results."""
        return Step(f"{prefix}.{self.name}", self.formula, self.inputs, self.value, self.source)


class Derivation(tuple[Step, ...]):
    """Steps in order, which print one per line; of a long derivation, the last ones.

    Examples
    --------
    >>> Derivation((Step("rate", "a / b", {"a": 6, "b": 2}, 3, "by hand"),))
    rate = a / b = 3   [a=6, b=2]   (by hand)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join([*self._left_out(), *map(str, self[-SHOWN:])])

    def _repr_html_(self) -> str:
        head = ("name", "formula", "value", "inputs", "source")
        lines = [(step.name, step.formula, step.shown, step.inputs_in_words, step.source) for step in self[-SHOWN:]]
        return html_table(lines, head=head, notes=self._left_out())

    def _left_out(self) -> list[str]:
        hidden = len(self) - SHOWN
        if hidden > 0:
            return [f"... {hidden:,} earlier steps; explain(name) has those of one value"]
        return []


SHOWN = 30
"""Number of steps that are printed."""


def value_of(formula: str, inputs: Mapping[str, float]) -> float:
    """Compute a formula of this package, so that the value of a step cannot differ from its formula.

    Parameters
    ----------
    formula : str
        Python expression over the names of ``inputs``, written in the package; never text of a user.
    inputs : mapping of str to float
        Values by name.

    Returns
    -------
    float
        The value.

    Examples
    --------
    >>> value_of("max(one, other) / rate", {"one": 6.0, "other": 8.0, "rate": 2.0})
    4.0
    """
    value: float = eval(_compiled(formula), {"__builtins__": {}, "max": max}, dict(inputs))
    return value


@cache
def _compiled(formula: str) -> CodeType:
    return compile(formula, "<formula>", "eval")


def identifier(name: str) -> str:
    """An operator's name as a Python identifier; kernels of several operators have ``+`` in their names.

    Examples
    --------
    >>> identifier("q_proj+k_proj")
    'q_proj_and_k_proj'
    """
    return re.sub(r"\W", "_", name.replace("+", "_and_"))


def branch_of(steps: Sequence[Step], name: str) -> tuple[Step, ...]:
    """Return the steps that lead to ``name``, in order.

    Parameters
    ----------
    steps : sequence of Step
        Steps of a derivation.
    name : str
        Name of a step, with or without its prefix: ``q_proj.memory_s``, ``floor_s``.  The last match is used.

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
    """Index of the step before ``at`` that produced an input; None if the input was given.

    Among the steps with exactly this value, the one with the best matching name is used.  Values of 0 and 1 need a
    matching name.
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
    """Whether two values are the same; a number equals an array without axes."""
    return same(one[()] if isinstance(one, np.ndarray) else one, other[()] if isinstance(other, np.ndarray) else other)


def _fit(step: str, name: str, of: str, *, telling: bool) -> int:
    """How well the name of a step matches that of an input of the step ``of``; 0 if it does not."""
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
    if telling and about == subject:
        return 1
    return 0


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.ndim:
        if value.size:
            return f"{_short(value.flat[0])}…{_short(value.flat[-1])}"
        return "–"
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e7:  # longer ones are shorter as 1.2e+07
        return str(int(value))
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)
