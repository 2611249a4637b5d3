"""The few helpers that every room needs for values that may be floats or arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from .errors import Number

K = TypeVar("K")
V = TypeVar("V")

MOST_HALVINGS = 200
"""Bisection stops here at the latest: floats within a factor of 2 take 53 halvings, 2**50 whole numbers take 50."""


def scalar(value: Any) -> Number:
    """Return a plain float for a value without a shape, and the float64 array otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> scalar(np.float64(2.5)), scalar([1, 2]).tolist()
    (2.5, [1.0, 2.0])
    """
    array = np.asarray(value, dtype=float)
    return array if array.ndim else float(array)


def bisect(condition: Callable[[Any], Any], low: Number, high: Number, *, whole: bool = False) -> tuple[Number, Number]:
    """Return the two neighbors between which ``condition`` changes.

    Parameters
    ----------
    condition : callable
        Takes a value (or an array of them) and says whether something holds there. It is taken to change once between
        ``low`` and ``high``; where it does not change, both results are next to ``high``.
    low, high : float or array
        The bracket.
    whole : bool
        Whether only whole numbers are tried; the results are then 1 apart.

    Returns
    -------
    tuple of float or array
        The last value that is like ``low`` and the first that is not.

    Examples
    --------
    >>> bisect(lambda n: n * n < 50, 1, 100, whole=True)
    (7.0, 8.0)
    """
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    like_low = np.asarray(condition(scalar(low)))
    for _ in range(MOST_HALVINGS):
        middle = (low + high) / 2
        if whole:
            middle = np.floor(middle)
        if np.all((middle == low) | (middle == high)):
            break
        same = np.asarray(condition(scalar(middle))) == like_low
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return scalar(low), scalar(high)


class FrozenMapping(Mapping[K, V]):
    """A mapping that cannot change, so that values which hold one can be compared, hashed, copied and pickled.

    Examples
    --------
    >>> peaks = FrozenMapping({"bf16": 1e15})
    >>> peaks == {"bf16": 1e15}, hash(peaks) == hash(FrozenMapping({"bf16": 1e15}))
    (True, True)
    """

    __slots__ = ("_items",)

    _items: dict[K, V]

    def __init__(self, items: Mapping[K, V] | tuple[()] = ()) -> None:
        object.__setattr__(self, "_items", dict(items))

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __or__(self, other: Mapping[K, V]) -> FrozenMapping[K, V]:
        return FrozenMapping(self._items | dict(other))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} cannot change: {name!r} can't be set")

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __reduce__(self) -> tuple[type[FrozenMapping[K, V]], tuple[dict[K, V]]]:
        return type(self), (self._items,)

    def __repr__(self) -> str:
        return repr(self._items)
