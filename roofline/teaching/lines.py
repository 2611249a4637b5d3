"""`Napkin`: lines of arithmetic with rounded numbers, each with its exact value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Number
from ..report import Report, Step
from ..report.steps import value_of
from ..units import humanize
from ..values import Value

DIGITS = 2
"""Digits of numbers in mental arithmetic."""

SHEET_DIGITS = 3
"""Digits of values from a data sheet."""


@dataclass(frozen=True, eq=False)
class NapkinLine(Value):
    """One line of a napkin.

    Attributes
    ----------
    words : str
        The arithmetic in words.
    name : str
        What is computed, with its unit.
    formula : str
        The arithmetic as a Python expression over ``inputs``.
    inputs : dict
        The rounded inputs.
    value : float
        The rounded result.
    exact : float
        The exact result.
    """

    words: str
    name: str
    formula: str
    inputs: dict[str, float]
    value: float
    exact: float

    @property
    def deviation(self) -> float:
        """Relative deviation of the rounded value from the exact one; 0 if both are 0."""
        if self.exact == 0:
            return 0.0 if self.value == 0 else math.inf
        return self.value / self.exact - 1

    def __str__(self) -> str:
        rounded, exact = humanize(self.name, self.value), humanize(self.name, self.exact)
        return f"{self.words} = {rounded}   (exact {exact}, {_signed(self.deviation)})"


def _signed(share: float) -> str:
    """``+3%``, and ``0%`` without a sign."""
    words = f"{share:+.0%}"
    return words if words not in ("+0%", "-0%") else "0%"


@dataclass(frozen=True, eq=False, repr=False)
class Napkin(Report):
    """A derivation in about five lines of mental arithmetic.

    Attributes
    ----------
    title : str
        What is computed.
    lines : tuple of Line
        The lines, in order.
    """

    title: str
    lines: tuple[NapkinLine, ...]

    columns = ("name", "words", "value", "exact", "deviation")

    @property
    def name(self) -> Any:
        """Name of the result of each line, with its unit, as an array."""
        return np.array([line.name for line in self.lines])

    @property
    def words(self) -> Any:
        """The arithmetic of each line, as an array."""
        return np.array([line.words for line in self.lines])

    @property
    def value(self) -> Any:
        """The rounded values, as an array."""
        return np.array([line.value for line in self.lines])

    @property
    def exact(self) -> Any:
        """The exact values, as an array."""
        return np.array([line.exact for line in self.lines])

    @property
    def deviation(self) -> Any:
        """Relative deviation of each line, as an array."""
        return np.array([line.deviation for line in self.lines])

    def _derivation(self) -> tuple[Step, ...]:
        """Each line as a step over its rounded numbers."""
        return tuple(
            Step(
                line.name, line.formula, line.inputs, line.value, f"rounded; exactly {humanize(line.name, line.exact)}"
            )
            for line in self.lines
        )

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {line}" for line in self.lines)])

    def __repr__(self) -> str:
        return str(self)


def rounded(value: float, digits: int = DIGITS) -> float:
    """Round ``value`` to a number of significant digits.

    Examples
    --------
    >>> rounded(69.5e9), rounded(3.352e12, 3), rounded(0)
    (70000000000.0, 3350000000000.0, 0.0)
    """
    value = float(value)
    if value == 0 or not math.isfinite(value):
        return value
    return float(f"{value:.{digits - 1}e}")


_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))


def said(value: float) -> str:
    """Return a rounded number in words: ``70 G``, ``2,000``, ``0.5``.

    Examples
    --------
    >>> said(70e9), said(2000), said(0.5625)
    ('70 G', '2,000', '0.5625')
    """
    for scale, prefix in _PREFIXES:
        if abs(value) >= scale:
            return f"{value / scale:g} {prefix}"
    if value >= 1 and value == int(value):
        return f"{value:,.0f}"
    return f"{value:g}"


def line(words: str, name: str, formula: str, exact: Number, **inputs: float) -> NapkinLine:
    """A line with a formula and rounded inputs."""
    return NapkinLine(words, name, formula, inputs, rounded(value_of(formula, inputs)), float(np.asarray(exact)))


def given(words: str, name: str, exact: Number) -> NapkinLine:
    """A line that only rounds a number."""
    value = rounded(float(np.asarray(exact)))
    return line(words, name, "one", exact, one=value)


def divided(words: str, name: str, exact: Number, one: Number, other: Number) -> NapkinLine:
    """A line that divides two rounded numbers; ``{one}`` and ``{other}`` in its words stand for them."""
    first, second = (rounded(float(np.asarray(value))) for value in (one, other))
    return line(words.format(one=said(first), other=said(second)), name, "one / other", exact, one=first, other=second)


def multiplied(words: str, name: str, exact: Number, one: Number, other: Number) -> NapkinLine:
    """A line that multiplies two rounded numbers; ``{one}`` and ``{other}`` in its words stand for them."""
    first, second = (rounded(float(np.asarray(value))) for value in (one, other))
    return line(words.format(one=said(first), other=said(second)), name, "one * other", exact, one=first, other=second)
