"""Units: those accepted in spec files, and how numbers are printed.

Inside the package all numbers are in base units, with the unit in the name (``_bytes``, ``_s``, ``_bytes_per_s``,
``_flops_per_s``, ...).  They are converted once, when a file is read.  GB is 1e9 bytes and GiB is 2**30.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import InvalidInput

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


def _scaled(base: str, factor: float = 1.0, *, binary: bool = False) -> dict[str, float]:
    prefixes = _DECIMAL | _BINARY if binary else _DECIMAL
    return {f"{prefix}{base}": scale * factor for prefix, scale in prefixes.items()}


UNITS: dict[str, dict[str, float]] = {
    "bytes": _scaled("B", binary=True),
    "bytes_per_s": _scaled("B/s", binary=True) | _scaled("bit/s", 1 / 8),
    "flops_per_s": _scaled("FLOP/s") | _scaled("OP/s"),
    "flops": {"FLOP": 1.0, "OP": 1.0},
    "bits": {"bit": 1.0},
    "hz": _scaled("Hz"),
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "watts": {"W": 1.0, "kW": 1e3},
    "usd_per_hour": {"USD/h": 1.0},
    "usd": {"USD": 1.0},
    "count": {"": 1.0, "SM": 1.0, "CU": 1.0, "core": 1.0, "MXU": 1.0, "MME": 1.0},
}
"""Quantity (the suffix of a field's name) -> unit as written -> value in base units."""


def to_base(value: float, unit: str, quantity: str, *, field: str) -> float:
    """Convert ``value`` to the base unit of ``quantity``.

    Raises
    ------
    InvalidInput
        The unit is unknown, or does not fit the quantity.
    """
    if unit in UNITS[quantity]:
        return value * UNITS[quantity][unit]
    holder = next((name for name, table in UNITS.items() if unit in table), None)
    if holder is None:
        raise InvalidInput(f"{field}: unknown unit {unit!r}; {quantity} takes {', '.join(UNITS[quantity])}")
    raise InvalidInput(f"{field} holds {quantity}, but {value:g} {unit} is in {holder}")


_PRINTED = {
    "bytes_per_s": "B/s",
    "tokens_per_s": "tokens/s",
    "requests_per_s": "requests/s",
    "flops_per_s": "FLOP/s",
    "flops_per_byte": "FLOP/byte",
    "usd_per_hour": "USD/h",
    "flops": "FLOP",
    "bytes": "B",
    "tokens": "tokens",
    "watts": "W",
    "j": "J",
    "hz": "Hz",
    "s": "s",
}
_PLAIN = {"tokens", "tokens_per_s", "requests_per_s", "flops_per_byte", "usd_per_hour"}
_TAILS = ("_per_sequence", "_per_token", "_of_a_pass")


def quantity_of(name: str) -> str | None:
    """Unit suffix of a column's name (before suffixes like ``_per_sequence``); None for counts and strings."""
    if "_per_million_" in name:
        return None
    name = next((name.removesuffix(tail) for tail in _TAILS if name.endswith(tail)), name)
    return next((suffix for suffix in _PRINTED if name == suffix or name.endswith("_" + suffix)), None)


NO_POINTS = "A sweep without points."
"""Summary of a result whose inputs are empty arrays."""


def symbol_of(name: str) -> str:
    """Symbol of the unit in a column's name, such as ``s`` or ``B/s``; empty for counts and strings.

    Examples
    --------
    >>> symbol_of("floor_s"), symbol_of("memory_bytes_per_s"), symbol_of("batch")
    ('s', 'B/s', '')
    """
    return _PRINTED.get(quantity_of(name) or "", "")


def humanize(name: str, value: Any) -> str:
    """Format ``value`` of the column ``name`` for people: ``41.7 ms``, ``139 GB``, ``989 TFLOP/s``.

    An array prints as its first and last element, as one value if all are equal, and as a dash if it is empty.
    """
    if isinstance(value, np.ndarray) and value.ndim:
        if not value.size:
            return "–"
        first = humanize(name, value.flat[0])
        if np.all(value == value.flat[0]):
            return first
        return f"{first} … {humanize(name, value.flat[-1])}"
    if isinstance(value, np.generic | np.ndarray):
        value = value.item()
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, float) and np.isnan(value):  # NumPy has no integers beyond 64 bits
        return "–"
    if not -np.inf < value < np.inf:
        return "never" if value > 0 else str(value)
    quantity = quantity_of(name)
    if quantity is None:
        return _digits(value)
    unit = _PRINTED[quantity]
    if quantity == "s":
        return _seconds(value)
    if quantity in _PLAIN:
        return f"{_digits(value)} {unit}"
    return _with_prefix(value, unit)


def plural(count: float, noun: str) -> str:
    """Return a number and a noun that agrees with it.

    Parameters
    ----------
    count : float
        The number.
    noun : str
        Singular of a noun with a regular plural in "s".

    Returns
    -------
    str
        The number, formatted, and the noun.

    Examples
    --------
    >>> plural(1, "request"), plural(1200, "layer"), plural(0.5, "token")
    ('1 request', '1,200 layers', '0.5 tokens')
    """
    if count == 1:
        return f"{_digits(count)} {noun}"
    return f"{_digits(count)} {noun}s"


def _digits(value: float) -> str:
    # From 999.5 on, three digits would print 1e+03.
    if abs(value) >= 1e15:
        return f"{value:.4g}"
    if value == int(value) or abs(value) >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _seconds(value: float) -> str:
    scale, unit = _time_scale(value)
    return f"{value / scale:.4g} {unit}" if value else "0 s"


def _time_scale(value: float) -> tuple[float, str]:
    return next(((s, u) for s, u in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")) if value >= s), (1e-9, "ns"))


OVERLOAD = "overload"
"""A time, or the end of an interval, of a queue that grows without bound."""


def brief_time(value: Any, low: Any = None, high: Any = None) -> str:
    """Format a time with three digits and its interval, if any; an array shows its first and last element.

    Examples
    --------
    >>> brief_time(0.05123), brief_time(0.05123, 0.0446, 0.0581)
    ('51.2 ms', '51.2 ms [44.6-58.1]')
    >>> brief_time(0.112, 0.0745, float("inf"))
    '112 ms [74.5-overload]'
    """
    if np.ndim(value):
        if not np.size(value):
            return "–"
        least, most = brief_time(np.min(value)), brief_time(np.max(value))
        return least if least == most else f"{least} to {most}"
    if not value:
        return "0 s"
    scale, unit = _time_scale(value)
    ends = [_digits(float(end) / scale) if np.isfinite(end) else OVERLOAD for end in (low, high) if end is not None]
    interval = f" [{'-'.join(ends)}]" if ends else ""
    return f"{_digits(float(value) / scale)} {unit}{interval}"


def brief_speed(ratio: Any) -> str:
    """Describe a ratio after / before as a speedup or slowdown; an array shows its first and last element.

    Examples
    --------
    >>> brief_speed(0.5), brief_speed(1.25), brief_speed(1.003), brief_speed(1.0)
    ('2x faster', '1.25x slower', 'under 1% slower', 'unchanged')
    """
    if not np.size(ratio):
        return "–"
    return " to ".join(dict.fromkeys(_speed(float(end)) for end in (np.max(ratio), np.min(ratio))))


def _speed(ratio: float) -> str:
    # Three digits are shown, so differences below half a thousandth are not visible.
    if abs(ratio - 1) < 5e-4:
        return "unchanged"
    how, times = ("faster", 1 / ratio) if ratio < 1 else ("slower", ratio)
    return f"{times:.3g}x {how}" if times >= 1.005 else f"under 1% {how}"


def bound_by(limit: Any) -> str:
    """Describe a limit: ``memory`` becomes ``memory-bound``; an array lists all limits that occur."""
    return " or ".join(f"{name}-bound" for name in dict.fromkeys(np.ravel(limit)))


def _with_prefix(value: float, unit: str) -> str:
    prefix, scale = next(((p, s) for p, s in reversed(_DECIMAL.items()) if abs(value) >= s), ("", 1.0))
    return f"{value / scale:.4g} {prefix}{unit}"
