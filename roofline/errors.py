"""Exceptions and the checks that raise them.

    RooflineError
    ├── InvalidInput   (also a ValueError)    a value that makes no sense
    │   └── SpecError                         a file that cannot be read or is invalid
    └── UnknownName    (also a LookupError)   an unknown name

Every message says what is wrong, gives the value, and says what would work.
"""

from __future__ import annotations

import difflib
import importlib
import reprlib
import sys
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

Number = float | int | npt.NDArray[Any]

PLAIN = (int, float)
"""Types of plain numbers."""

MOST = 1e30
"""Larger counts (tokens, sequences, heads) must be mistakes, and their products would overflow a float."""

EXACT = 1e15
"""Smaller bounds are printed with all their digits."""

PRINTED = 1e308
"""Larger integers cannot be formatted as floats."""

MOST_WHOLE = 2**20
"""Larger integers become floats, because NumPy's products of several of them would overflow 64 bits silently."""


class RooflineError(Exception):
    """Base class of all errors that this package raises deliberately."""


class InvalidInput(RooflineError, ValueError):
    """An invalid value: negative, not finite, not an integer, or contradictory."""


class SpecError(InvalidInput):
    """A file that cannot be read, or lacks required fields."""


class UnknownName(RooflineError, LookupError):
    """An unknown name; the message suggests the nearest known names."""


def unknown(what: str, name: object, known: Iterable[str]) -> UnknownName:
    """Return an `UnknownName` for ``name`` that suggests the nearest of ``known``."""
    names = sorted(set(known))
    near = difflib.get_close_matches(str(name).lower(), names, n=3, cutoff=0.5)
    hint = f"did you mean {either(near)}?" if near else f"known: {_some(names)}"
    return UnknownName(f"no {what} named {name!r}; {hint}")


def either(names: Sequence[str]) -> str:
    """Names to choose from, in words.

    Examples
    --------
    >>> either(["fp8"]), either(["fp8", "fp6", "fp4"])
    ("'fp8'", "'fp8', 'fp6' or 'fp4'")
    """
    *others, last = map(repr, names)
    return f"{', '.join(others)} or {last}" if others else last


def require(name: str, extra: str, purpose: str) -> None:
    """Check that an optional module is installed.

    Parameters
    ----------
    name : str
        Name of the module.
    extra : str
        Extra of this package that installs it.
    purpose : str
        What needs the module, for the message.

    Raises
    ------
    InvalidInput
        The module is not installed.
    """
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InvalidInput(f"{purpose} needs {name}: pip install 'roofline[{extra}]'") from None


def _some(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def number(
    what: str,
    value: object,
    *,
    least: float = 0.0,
    most: float = np.inf,
    whole: bool = False,
    empty: bool = False,
) -> Number:
    """Return ``value`` as a finite float or float64 array between ``least`` and ``most``.

    Parameters
    ----------
    what : str
        Name of the value in messages.
    value : object
        A real number or anything that NumPy reads as an array of them.
    least, most : float
        Smallest and largest allowed value.
    whole : bool
        Whether only integers are valid (tokens, sequences, heads).
    empty : bool
        Whether an array may be empty, as inputs of a sweep may.

    Raises
    ------
    InvalidInput
        The value is not a real number, is an empty array, NaN, infinite, out of range, or not an integer.
    """
    largest = min(most, MOST) if whole else most
    if isinstance(value, PLAIN) and not isinstance(value, bool):
        if largest < value < float("inf"):
            raise InvalidInput(_beyond(what, largest, value))
        if isinstance(value, int) and value > sys.float_info.max:
            raise InvalidInput(_beyond(what, sys.float_info.max, value))
        if least <= value < float("inf") and (not whole or value == int(value)):
            return value if isinstance(value, float) or value <= MOST_WHOLE else float(value)
        _check_least(what, value, least)
        raise InvalidInput(f"{what} must be {_wanted(least, whole)}: {value!r}")
    array = _real_array(value)
    if array is None or not (array.size or empty):
        given = value.item() if isinstance(value, np.generic) else value
        raise InvalidInput(f"{what} must be {_wanted(least, whole)}: {given!r}")
    wrong = ~(np.isfinite(array) & (array >= least))
    if whole:
        wrong |= array != np.floor(array)
    if not wrong.any() and np.any(array > largest):
        raise InvalidInput(_beyond(what, largest, np.max(array)))
    if wrong.any():
        _check_least(what, array[wrong].flat[0], least)
        raise InvalidInput(f"{what} must be {_wanted(least, whole)}: {array[wrong].flat[0]:g}")
    return array if array.ndim else float(array)


def one_number(what: str, value: object, *, least: float = 0.0, most: float = np.inf, whole: bool = False) -> float:
    """Return ``value`` as `number` does, where only a single one makes sense.

    Raises
    ------
    InvalidInput
        As `number`, or several numbers.

    Examples
    --------
    >>> one_number("requests_per_s", 5)
    5.0
    """
    found = number(what, value, least=least, most=most, whole=whole)
    if np.ndim(found):
        raise InvalidInput(f"{what} must be a single number, not an array of {np.size(found)}")
    return float(found)


def is_within(value: object, least: float, most: float) -> bool:
    """Whether a value is one real number from ``least`` to ``most``."""
    return not isinstance(value, bool) and isinstance(value, Real) and least <= float(value) <= most


def of_kind(what: str, value: object, kind: type, example: str) -> None:
    """Check that an argument is a value of ``kind``.

    Raises
    ------
    InvalidInput
        The value is of another kind.
    """
    if not isinstance(value, kind):
        vowels = "AEIO"
        if kind.__name__.isupper():  # spelled out, so that letters such as S begin with a vowel: an SLO
            vowels = "AEFHILMNORSX"
        article = "an" if kind.__name__[0] in vowels else "a"
        raise InvalidInput(f"{what} must be {article} {kind.__name__}, such as {example}: {reprlib.repr(value)}")


def _real_array(value: object) -> npt.NDArray[np.float64] | None:
    """``value`` as a NumPy array; None if its elements are not real numbers."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        return None
    if array.dtype.kind not in "iuf":
        return None
    copied = array.astype(np.float64)
    copied.flags.writeable = False  # the array becomes a field of a frozen value or a cached result
    return copied


def _beyond(what: str, most: float, value: float) -> str:
    bound = f"{most:,.0f}" if most < EXACT else f"{most:.3g}"
    return f"{what} must be at most {bound}" + (f": {value:g}" if value < PRINTED else "")


SMALLEST = 1e-6
"""Lower bounds below this mean "above 0"."""


def _check_least(what: str, value: float, least: float) -> None:
    """Name a tiny lower bound to numbers below it, for which `_wanted` says "above 0"."""
    if 0 < value < least < SMALLEST:
        raise InvalidInput(f"{what} must be at least {least:g}: {value:g}")


def _wanted(least: float, whole: bool) -> str:
    kind = "an integer" if whole else "a finite number"
    return f"{kind} above 0" if 0 < least < SMALLEST else f"{kind} >= {least:g}"
