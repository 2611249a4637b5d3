"""Helpers for values that may be floats or arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from .errors import Number
from .tracing import Traced

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T", bound=Iterable[Any])

Words = str | npt.NDArray[np.str_]
"""A string, or an array of strings for a sweep, such as what limits an operator."""

Truth = bool | npt.NDArray[np.bool_]
"""A bool, or an array of bools for a sweep."""

PLAIN = (int, float, str)
"""Types whose values hash by their content."""

ARRAYS = (np.ndarray, Traced)
"""Types that NumPy's functions are for: arrays, and numbers whose arithmetic is recorded (`roofline.tracing`)."""

_ARRAYS = frozenset(ARRAYS)

MOST_HALVINGS = 200
"""Most halvings of a bisection: floats within a factor of 2 need 53, a range of 2**50 integers needs 50."""


def scalar(value: Any) -> Number:
    """Return a plain float for a zero-dimensional value, and a float64 array otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> scalar(np.float64(2.5)), scalar([1, 2]).tolist()
    (2.5, [1.0, 2.0])
    """
    if type(value) in (float, Traced):
        return value  # type: ignore[no-any-return]
    array = np.asarray(value, dtype=float)
    return array if array.ndim else float(array)


def larger(one: Number, other: Number) -> Number:
    """Return the elementwise maximum of two values; two plain numbers give a plain number in a tenth of NumPy's time.

    Examples
    --------
    >>> import numpy as np
    >>> larger(2.0, 3.0), larger(np.array([1.0, 4.0]), 3.0).tolist()
    (3.0, [3.0, 4.0])
    """
    if type(one) is float and type(other) is float:
        return other if other > one else one
    if isinstance(one, ARRAYS) or isinstance(other, ARRAYS):
        return np.maximum(one, other)
    return max(one, other)


def smaller(one: Number, other: Number) -> Number:
    """Return the elementwise minimum of two values; two plain numbers give a plain number.

    Examples
    --------
    >>> smaller(2.0, 3.0)
    2.0
    """
    if type(one) is float and type(other) is float:
        return other if other < one else one
    if isinstance(one, ARRAYS) or isinstance(other, ARRAYS):
        return np.minimum(one, other)
    return min(one, other)


def where(holds: Any, one: Any, other: Any) -> Any:
    """Return the first of two values where a condition holds and else the other, element by element for arrays.

    Examples
    --------
    >>> import numpy as np
    >>> where(True, 2.0, 3.0), where(np.array([True, False]), 2.0, 3.0).tolist()
    (2.0, [2.0, 3.0])
    """
    if isinstance(holds, ARRAYS):
        return np.where(holds, one, other)
    return one if holds else other


def ceil(value: Number) -> Number:
    """Round up to an integer, element by element; a plain number gives a plain number.

    Examples
    --------
    >>> ceil(2.25)
    3.0
    """
    return np.ceil(value) if isinstance(value, ARRAYS) else -(-value // 1)


def ascending(values: Iterable[Number]) -> list[Number]:
    """Return a few values in ascending order, element by element.

    Neighbors are exchanged (bubble sort), which takes a tenth of the time of stacking two to four arrays and sorting
    them along the new axis.

    Examples
    --------
    >>> import numpy as np
    >>> ascending([3.0, 1.0, 2.0]), [row.tolist() for row in ascending([np.array([1.0, 4.0]), 3.0])]
    ([1.0, 2.0, 3.0], [[1.0, 3.0], [3.0, 4.0]])
    """
    found = list(values)
    for last in range(len(found) - 1, 0, -1):
        for at in range(last):
            one, other = found[at], found[at + 1]
            found[at], found[at + 1] = smaller(one, other), larger(one, other)
    return found


def middle(values: Sequence[Number]) -> Number:
    """Return the median of a few values, element by element.

    Examples
    --------
    >>> middle([3.0, 1.0, 2.0]), middle([1.0, 2.0, 4.0, 9.0])
    (2.0, 3.0)
    """
    if len(values) == 3:  # in fewer steps than those that put them in order
        one, two, three = values
        return larger(smaller(one, two), smaller(larger(one, two), three))
    ordered, half = ascending(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def log(value: Number) -> Number:
    """Return the natural logarithm, element by element for arrays; of a number without the price of an array.

    Examples
    --------
    >>> log(1.0)
    0.0
    """
    return np.log(value) if isinstance(value, ARRAYS) else math.log(value)


def log2(value: Number) -> Number:
    """Return the logarithm to base 2, element by element for arrays.

    Examples
    --------
    >>> log2(8.0)
    3.0
    """
    return np.log2(value) if isinstance(value, ARRAYS) else math.log2(value)


def exp(value: Number) -> Number:
    """Return the exponential, element by element for arrays.

    Examples
    --------
    >>> exp(0.0)
    1.0
    """
    return np.exp(value) if isinstance(value, ARRAYS) else math.exp(value)


def expm1(value: Number) -> Number:
    """Return the exponential less 1, exact for small values, element by element for arrays.

    Examples
    --------
    >>> expm1(0.0)
    0.0
    """
    return np.expm1(value) if isinstance(value, ARRAYS) else math.expm1(value)


def log1p(value: Number) -> Number:
    """Return the natural logarithm of 1 more, exact for small values, element by element for arrays.

    Examples
    --------
    >>> log1p(0.0)
    0.0
    """
    return np.log1p(value) if isinstance(value, ARRAYS) else math.log1p(value)


def everywhere(holds: Any) -> bool:
    """Whether a condition holds at every point; a plain bool is returned directly, without NumPy's overhead.

    Examples
    --------
    >>> import numpy as np
    >>> everywhere(1.0 > 0.5), everywhere(np.array([True, False]))
    (True, False)
    """
    return bool(np.all(holds)) if isinstance(holds, np.ndarray) else bool(holds)


def anywhere(holds: Any) -> bool:
    """Whether a condition holds at some point.

    Examples
    --------
    >>> import numpy as np
    >>> anywhere(1.0 > 0.5), anywhere(np.array([True, False]))
    (True, True)
    """
    return bool(np.any(holds)) if isinstance(holds, np.ndarray) else bool(holds)


def distinct(values: Number) -> list[float]:
    """Return the distinct values in ascending order.

    `numpy.unique` does the same but imports masked arrays first, which takes longer than most commands run.

    Examples
    --------
    >>> import numpy as np
    >>> distinct(8), distinct(np.array([8.0, 2.0, 8.0]))
    ([8.0], [2.0, 8.0])
    """
    if not isinstance(values, np.ndarray):
        return [float(values)]
    ascending = np.sort(values, axis=None)
    is_new = ascending[1:] != ascending[:-1]
    return [float(value) for value in (*ascending[:1], *ascending[1:][is_new])]


def has_array(values: Iterable[Any]) -> bool:
    """Whether any of the values is an array or traced, so that what depends on it cannot be cached.

    Examples
    --------
    >>> import numpy as np
    >>> has_array((1.0, "fp8", None)), has_array((1.0, np.ones(2)))
    (False, True)
    """
    return not _ARRAYS.isdisjoint(map(type, values))


def last_axis(value: Any) -> Any:
    """Append an axis of length 1 to an array; other values are returned unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> last_axis(np.ones(3)).shape, last_axis(2.0)
    ((3, 1), 2.0)
    """
    return value[..., None] if isinstance(value, np.ndarray) else value


def read_only(values: T) -> T:
    """Return ``values`` after making every array among them read-only, for results that are cached.

    Examples
    --------
    >>> import numpy as np
    >>> read_only((np.ones(2), 1.0))[0].flags.writeable
    False
    """
    for value in values:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return values


def plain(value: Any) -> Any:
    """Convert ``value`` to JSON types: arrays become lists, infinities become None.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"batch": np.array([1.0, np.inf])})
    {'batch': [1, None]}
    """
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        if not np.isfinite(value):
            return None
        # Up to 2**53 every integer is a float of its own.
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return value


def bisect(
    condition: Callable[[Any], Any], low: Number, high: Number, *, whole: bool = False, halvings: int = MOST_HALVINGS
) -> tuple[Number, Number]:
    """Return the two neighbors between which ``condition`` changes.

    Parameters
    ----------
    condition : callable
        Function of a value (or an array of values) that returns a bool. It must change at most once between ``low`` and
        ``high``; where it does not change, both results are next to ``high``.
    low, high : float or array
        The bracket.
    whole : bool
        Whether only integers are tried; the results are then 1 apart.
    halvings : int
        Maximum number of halvings of the bracket, for approximate answers.

    Returns
    -------
    tuple of float or array
        The last value with the same condition as ``low``, and the first value without it.

    Examples
    --------
    >>> bisect(lambda n: n * n < 50, 1, 100, whole=True)
    (7.0, 8.0)
    """
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    like_low = np.asarray(condition(scalar(low)))
    for _ in range(halvings):
        middle = (low + high) / 2
        if whole:
            middle = np.floor(middle)
        if np.all((middle == low) | (middle == high)):
            break
        same = np.asarray(condition(scalar(middle))) == like_low
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return scalar(low), scalar(high)


def same(one: Any, other: Any) -> bool:
    """Whether two values have the same content, including arrays of equal shape and elements; NaN equals NaN.

    Unlike ``==``, the result is always a single bool.

    Examples
    --------
    >>> import numpy as np
    >>> same(np.array([1.0, np.nan]), np.array([1.0, np.nan])), same(np.arange(3), 1.0)
    (True, False)
    """
    if one is other:
        return True
    if isinstance(one, PLAIN) and isinstance(other, PLAIN):  # most are
        return one == other or (one != one and other != other)  # noqa: PLR0124 (only NaN differs from itself)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return _same_arrays(np.asarray(one), np.asarray(other))
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return bool(one == other) or bool(one != one and other != other)  # noqa: PLR0124 (only NaN differs from itself)


def _same_arrays(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    if one.shape != other.shape:
        return False
    equal = one == other
    if one.dtype.kind in "fc" and other.dtype.kind in "fc":
        equal |= np.isnan(one) & np.isnan(other)
    return bool(np.all(equal))


def content_hash(value: Any, name: str) -> int:
    """Return a hash that is equal for values that are the `same`.

    Parameters
    ----------
    value : object
        A number, a string, or a tuple or mapping of these.
    name : str
        Name of the value in error messages.

    Raises
    ------
    TypeError
        ``value`` is or contains an array or another unhashable object.

    Examples
    --------
    >>> content_hash({"bf16": 1e15}, "peaks") == content_hash(FrozenMapping({"bf16": 1e15}), "peaks")
    True
    """
    if isinstance(value, PLAIN):  # most are
        return hash(value) if value == value else 0  # noqa: PLR0124 (NaN hashes by identity, yet is the same here)
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError(
            f"unhashable: {name} is an array of shape {value.shape}; only values without arrays can be hashed"
        )
    if isinstance(value, np.ndarray):
        return content_hash(value.item(), name)
    if isinstance(value, tuple):
        return hash(tuple(content_hash(item, name) for item in value))
    if isinstance(value, Mapping):
        return hash(frozenset((key, content_hash(item, f"{name}[{key!r}]")) for key, item in value.items()))
    return hash(value)


class FrozenMapping(dict[K, V]):
    """An immutable mapping, so that values that contain one can be compared, hashed, copied and pickled.

    It is a `dict` for fast lookups; all methods that would change it raise an error.

    Examples
    --------
    >>> peaks = FrozenMapping({"bf16": 1e15})
    >>> peaks == {"bf16": 1e15}, hash(peaks) == hash(FrozenMapping({"bf16": 1e15}))
    (True, True)
    """

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot change: it does not support item assignment")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a {type(self).__name__} cannot change: {name!r} can't be set")

    def __or__(self, other: Mapping[K, V]) -> FrozenMapping[K, V]:  # type: ignore[override]
        return FrozenMapping({**self, **other})

    def copy(self) -> FrozenMapping[K, V]:
        """Return the mapping itself, as it is immutable."""
        return self

    def __eq__(self, other: object) -> bool:
        return same(dict(self), dict(other)) if isinstance(other, Mapping) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]
        return content_hash(dict(self), "the mapping")

    def __reduce__(self) -> tuple[type[FrozenMapping[K, V]], tuple[dict[K, V]]]:
        return type(self), (dict(self),)
