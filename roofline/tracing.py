"""Tracing: the arithmetic of a function of numbers, recorded once and compiled to straight-line Python.

A forward pass of a deployment is the same arithmetic for every batch and every length.  Written as operators, forms and
sums it is readable, but a single point takes some thousand small calls, which take twenty times as long as the
arithmetic.  So a function that is called often (`Repeated`) is called once with `Traced` numbers.  Each operation on
them computes its value and records one line:

    x2 = x0 * 16384.0
    x3 = x1 + 1
    x4 = x2 if x2 > x3 else x3

Operations between plain numbers take place while tracing, so that sizes, formats and parameters become constants.
Equal lines are recorded once, and lines on which no result depends are dropped.  A traced number that is used as a
condition records its truth: where it comes out differently, the compiled function returns None and the function is
traced again.  The lines are the operations of the function in their order, so results are equal to the last bit.

NumPy's scalars divide by zero and overflow to infinity, where plain numbers raise an error.  A point at which the lines
raise one is computed as written, so that it has the function's own result or error.

Traced numbers take the place of arrays: NumPy's functions record themselves, and whatever accepts a number or an array
accepts a traced number.  What needs an actual number or array raises a TypeError, and the function stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import numpy as np

from .errors import Number

Result = TypeVar("Result", bound=tuple[Any, ...])

LARGER, SMALLER = "{1} if {1} > {0} else {0}", "{1} if {1} < {0} else {0}"
WHERE = "{1} if {0} else {2}"

UFUNCS: dict[Any, str] = {
    np.add: "{0} + {1}",
    np.subtract: "{0} - {1}",
    np.multiply: "{0} * {1}",
    np.true_divide: "{0} / {1}",
    np.power: "{0} ** {1}",
    np.less: "{0} < {1}",
    np.less_equal: "{0} <= {1}",
    np.greater: "{0} > {1}",
    np.greater_equal: "{0} >= {1}",
    np.equal: "{0} == {1}",
    np.maximum: LARGER,
    np.minimum: SMALLER,
    np.ceil: "-(-{0} // 1)",
    np.log: "log({0})",
    np.log2: "log2({0})",
    np.log1p: "log1p({0})",
    np.exp: "exp({0})",
    np.expm1: "expm1({0})",
}
"""NumPy's function -> the same for plain numbers."""

NAMES = {name: getattr(math, name) for name in ("log", "log2", "log1p", "exp", "expm1", "inf", "nan")}
"""What recorded lines may refer to."""


class Line(NamedTuple):
    """One recorded line, the numbers that it needs, and the number that it defines; a condition defines none."""

    text: str
    needs: tuple[str, ...]
    name: str = ""


class Recording:
    """Lines recorded so far."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.known: dict[str, Traced] = {}

    def add(self, template: str, *operands: Any) -> Traced:
        """Record an operation; the same one again gives the same number."""
        text = template.format(*map(_written, operands))
        if text not in self.known:
            value = _function(template)(*(part.value if isinstance(part, Traced) else part for part in operands))
            found = self.known[text] = Traced(self, f"x{len(self.lines)}", value)
            needs = tuple(part.name for part in operands if isinstance(part, Traced))
            self.lines.append(Line(f"{found.name} = {text}", needs, found.name))
        return self.known[text]

    def add_condition(self, condition: Traced) -> bool:
        """Record that a number is true, or that it is not."""
        holds = bool(condition.value)
        text = f"if {'not ' if holds else ''}{condition.name}: return None"
        self.lines.append(Line(text, (condition.name,)))
        return holds

    def needed(self, results: Sequence[Any]) -> list[str]:
        """Return the lines on which conditions and results depend."""
        needed = {result.name for result in results if isinstance(result, Traced)}
        found = []
        for line in reversed(self.lines):
            if not line.name or line.name in needed:
                needed.update(line.needs)
                found.append(line.text)
        return found[::-1]


def _written(operand: Any) -> str:
    """Return a number as it stands in a line."""
    if isinstance(operand, Traced):
        return operand.name
    value = operand.item() if isinstance(operand, np.generic) else operand
    if not isinstance(value, int | float):
        raise TypeError(f"a line is written with numbers, not with {type(operand).__name__}")
    text = repr(value)
    return f"({text})" if text.startswith("-") else text


@cache
def _function(template: str) -> Callable[..., Any]:
    """Return the operation of a template as a function of its operands."""
    found: Callable[..., Any] = eval(f"lambda *x: {template.format('x[0]', 'x[1]', 'x[2]')}", NAMES)
    return found


class Traced:
    """A number whose arithmetic is recorded."""

    __slots__ = ("name", "recording", "value")
    __hash__ = None  # type: ignore[assignment]  # a set or a cache would take it for another number

    def __init__(self, recording: Recording, name: str, value: Any) -> None:
        self.recording, self.name, self.value = recording, name, value

    def __add__(self, other: Any) -> Any:
        return self.recording.add("{0} + {1}", self, other)

    def __radd__(self, other: Any) -> Any:
        return self.recording.add("{0} + {1}", other, self)

    def __sub__(self, other: Any) -> Any:
        return self.recording.add("{0} - {1}", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.recording.add("{0} - {1}", other, self)

    def __mul__(self, other: Any) -> Any:
        return self.recording.add("{0} * {1}", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.recording.add("{0} * {1}", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.recording.add("{0} / {1}", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.recording.add("{0} / {1}", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self.recording.add("{0} // {1}", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self.recording.add("{0} // {1}", other, self)

    def __mod__(self, other: Any) -> Any:
        return self.recording.add("{0} % {1}", self, other)

    def __pow__(self, other: Any) -> Any:
        return self.recording.add("{0} ** {1}", self, other)

    def __rpow__(self, other: Any) -> Any:
        return self.recording.add("{0} ** {1}", other, self)

    def __and__(self, other: Any) -> Any:
        return self.recording.add("{0} & {1}", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return self.recording.add("{0} | {1}", self, other)

    __ror__ = __or__

    def __neg__(self) -> Any:
        return self.recording.add("-{0}", self)

    def __abs__(self) -> Any:
        return self.recording.add("abs({0})", self)

    def __lt__(self, other: Any) -> Any:
        return self.recording.add("{0} < {1}", self, other)

    def __le__(self, other: Any) -> Any:
        return self.recording.add("{0} <= {1}", self, other)

    def __gt__(self, other: Any) -> Any:
        return self.recording.add("{0} > {1}", self, other)

    def __ge__(self, other: Any) -> Any:
        return self.recording.add("{0} >= {1}", self, other)

    def __eq__(self, other: object) -> Any:
        return self.recording.add("{0} == {1}", self, other)

    def __ne__(self, other: object) -> Any:
        return self.recording.add("{0} != {1}", self, other)

    def __bool__(self) -> bool:
        return self.recording.add_condition(self)

    def __float__(self) -> NoReturn:
        raise TypeError("a traced number has no value of its own")

    __array__ = __int__ = __index__ = __str__ = __repr__ = __float__

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **options: Any) -> Any:
        if method != "__call__" or options or ufunc not in UFUNCS:
            return NotImplemented
        return self.recording.add(UFUNCS[ufunc], *operands)

    def __array_function__(self, function: Any, _: Any, arguments: Any, options: Any) -> Any:
        if function is np.where and not options:
            return self.recording.add(WHERE, *arguments)
        if function in (np.any, np.all) and not options:
            return bool(*arguments)
        return NotImplemented


def compiled(function: Callable[..., Result], numbers: Sequence[Number]) -> Callable[..., Result | None]:
    """Return ``function`` as straight-line code; it returns None where a condition differs from that at ``numbers``.

    Parameters
    ----------
    function : callable
        Function of numbers that returns a named tuple of numbers.
    numbers : sequence of float
        Numbers at which it is traced.

    Raises
    ------
    TypeError
        The function needs more of its numbers than arithmetic.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class Circle(NamedTuple):
    ...     area: float
    >>> compiled(lambda radius: Circle(3.14159 * radius**2), [1.0])(2.0)
    Circle(area=12.56636)
    """
    recording = Recording()
    inputs = [Traced(recording, f"n{at}", number) for at, number in enumerate(numbers)]
    results = function(*inputs)
    body = [*recording.needed(results), f"return made({', '.join(map(_written, results))})"]
    source = f"def compiled({', '.join(part.name for part in inputs)}):\n " + "\n ".join(body)
    names = {**NAMES, "made": type(results)}
    exec(compile(source, f"<{len(body)} traced lines>", "exec"), names)
    found: Callable[..., Result | None] = names["compiled"]
    return found


OFTEN = 32
"""Calls after which a function is traced, which takes about as long as that many calls."""

MOST_PATHS = 8
"""Most combinations of conditions for which a function is compiled; others are computed as written."""


class Repeated(Generic[Result]):
    """A function of numbers that is compiled once it has been called often.

    Parameters
    ----------
    function : callable
        Function of numbers that returns a named tuple of numbers. It depends on nothing else.
    """

    def __init__(self, function: Callable[..., Result]) -> None:
        self.function = function
        self.calls = 0
        self.paths: list[Callable[..., Result | None]] = []

    def __call__(self, *numbers: Number) -> Result:
        """Return the function of the numbers."""
        for path in self.paths:
            try:
                found = path(*numbers)
            except (ArithmeticError, ValueError):  # the function may have constants of NumPy, which raise none
                break
            if found is not None:
                return found
        self.calls += 1
        if self.calls % OFTEN == 0 and self.calls <= MOST_PATHS * OFTEN:
            self._compile(numbers)
        return self.function(*numbers)

    def _compile(self, numbers: Sequence[Number]) -> None:
        try:
            self.paths.append(compiled(self.function, numbers))
        except (TypeError, AttributeError):  # it needs an actual number
            self.calls = MOST_PATHS * OFTEN
        except (ArithmeticError, ValueError):  # at these numbers, which the function itself computes or refuses
            pass
