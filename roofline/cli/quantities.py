"""Numbers as people type them: units in, base units out.

``32k`` tokens, ``1M``, ``500ms``, ``70%``, ``$2.5``, ``80GB``, ``3.35TB/s``, and lists of them, ``1,8,64``.  Prefixes
are decimal (``32k`` is 32,000); ``Ki`` and ``Mi`` are powers of 1,024. Text that is not a number is passed on
unchanged, so that the library refuses it with the name of the field.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from ..errors import InvalidInput
from ..units import UNITS

_COUNTS = {
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "B": 1e9,
    "T": 1e12,
    "m": 1e6,
    "Ki": 2.0**10,
    "ki": 2.0**10,
    "Mi": 2.0**20,
    "mi": 2.0**20,
    "Gi": 2.0**30,
    "%": 0.01,
}
_TYPED: dict[str, dict[str, float]] = {
    "count": _COUNTS,
    "tokens": _COUNTS,
    "s": {"sec": 1.0, "min": 60.0, "h": 3600.0},
    "requests_per_s": {
        **dict.fromkeys(("/s", "rps", "req/s", "requests/s", "qps"), 1.0),
        **dict.fromkeys(("/min", "rpm", "req/min", "requests/min"), 1 / 60),
        **dict.fromkeys(("/h", "req/h", "requests/h"), 1 / 3600),
        **dict.fromkeys(("/day", "/d", "req/day", "requests/day"), 1 / 86400),
        "k/day": 1e3 / 86400,
        "M/day": 1e6 / 86400,
        "k": 1e3,
    },
    "usd_per_hour": {"/h": 1.0, "$": 1.0, "$/h": 1.0, "USD": 1.0},
    "flops_per_s": {"TFLOPS": 1e12, "PFLOPS": 1e15},
}
"""Quantity -> suffix as typed -> its size in base units, in addition to the units of spec files."""

_NUMBER = re.compile(r"([-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\D*)")


def quantity(text: str, unit: str = "count") -> Any:
    """Return the number in ``text`` in base units, or ``text`` itself if it is not a number.

    Parameters
    ----------
    text : str
        As typed: a number, perhaps with a suffix.
    unit : str
        What is counted: ``count``, ``tokens``, ``s``, ``bytes``, ``usd_per_hour`` ...

    Examples
    --------
    >>> quantity("32k"), quantity("500ms", "s"), quantity("70%"), quantity("$2.5", "usd_per_hour")
    (32000, 0.5, 0.7, 2.5)
    >>> quantity("600/min", "requests_per_s")
    10
    """
    try:
        return _whole_if_possible(float(text))
    except ValueError:
        pass
    money = text.strip().removeprefix("$") if unit == "usd_per_hour" else text.strip()
    found = _NUMBER.fullmatch(money)
    suffixes = UNITS.get(unit, {}) | _TYPED.get(unit, {}) | {"": 1.0}
    if found is None or found[2] not in suffixes:
        return text
    # Decimal keeps the typed digits: 0.07 for 70 ms, where 70 * 1e-3 in floats may differ in the last digit.
    return _whole_if_possible(float(Decimal(found[1]) * Decimal(repr(suffixes[found[2]]))))


def _whole_if_possible(value: float) -> float | int:
    if value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def listed(text: str) -> list[str]:
    """The parts of a comma-separated list, without blanks."""
    return [part.strip() for part in text.split(",") if part.strip()]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """One value or several as a tuple."""
    return value if isinstance(value, tuple) else (value,)


def quantities(text: str, unit: str = "count") -> Any:
    """One number, or a tuple of several separated by commas.

    Examples
    --------
    >>> quantities("8"), quantities("1k,32k")
    (8, (1000, 32000))
    """
    parts = listed(text)
    if _THOUSANDS.fullmatch(text.strip()) and any(part.startswith("0") for part in parts[1:]):
        raise InvalidInput(f"{text} is read as a list: write {text.replace(',', '')} for one number")
    if found := _RANGE.fullmatch(text.strip()):
        raise InvalidInput(f"{text!r} looks like a range; list the values instead, as in {found[1]},{found[2]}")
    if len(parts) > 1:
        return tuple(quantity(part, unit) for part in parts)
    return quantity(text, unit)


_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+")
_RANGE = re.compile(r"(\d+[kKM]?)\s*(?:-|:|\.\.\.?)\s*(\d+[kKM]?)(?::\d+)?")
