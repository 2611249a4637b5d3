"""Dimension names of a sweep, taken from `xarray.DataArray` and `pandas.Series` and stored beside plain arrays.

The library computes with NumPy arrays only.  Named arrays are aligned once, so that equal names share an axis and all
others broadcast.  The names, coordinates and index are kept for the frames and datasets of the results.  Neither xarray
nor pandas is imported: their objects are recognized by their attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..arrays import FrozenMapping, same
from ..errors import PLAIN, InvalidInput
from ..values import Value

POINT = "point"
"""Name of an unnamed dimension: the points of a sweep in order."""


class Coordinate(NamedTuple):
    """Labels along one or several dimensions."""

    dims: tuple[str, ...]
    values: Any


class NamedArray(NamedTuple):
    """An array with the names of its axes."""

    values: Any
    dims: tuple[str, ...]
    coordinates: Mapping[str, Coordinate]
    index: Any = None
    title: str = ""


@dataclass(frozen=True, eq=False)
class Dimensions(Value):
    """Names and coordinates of the axes of the arrays of a sweep.

    Attributes
    ----------
    names : tuple of str
        One name per axis, in order; empty for arrays without names.
    shape : tuple of int
        Number of points along each axis.
    coordinates : mapping of str to Coordinate
        Coordinate by name.
    index : pandas.Index or None
        Index of the series that the values came from.
    titles : mapping of str to str
        Input -> name of its array, if that differs from the input's name.
    """

    names: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    coordinates: Mapping[str, Coordinate] = FrozenMapping()
    index: Any = field(default=None, compare=False)
    titles: Mapping[str, str] = FrozenMapping()

    def hold(self, values: Iterable[Any]) -> bool:
        """Whether values broadcast to these dimensions."""
        shapes = [np.shape(value) for value in values]
        return all(len(shape) <= len(self.shape) and _broadcasts(shape, self.shape) for shape in shapes)

    def named(self, name: str, value: Any) -> Any:
        """The input ``name`` as a named array, if it was aligned over these dimensions; other values unchanged."""
        plain = isinstance(value, np.ndarray) and value.ndim == len(self.names) > 0
        if not plain or not _broadcasts(value.shape, self.shape):
            return value
        dims, values = varying_along(value, self.names, self.shape)
        labels = {name: each for name, each in self.coordinates.items() if set(each.dims) <= set(dims)}
        return NamedArray(values, dims, labels, self.index, self.titles.get(name, ""))


def _broadcasts(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether each axis of ``shape`` has one point, or as many as the same axis, from the last, of ``whole``."""
    pairs = zip(reversed(shape), reversed(whole), strict=False)
    return all(size in (1, points) for size, points in pairs)


UNNAMED = Dimensions()
"""Dimensions of arrays without names."""


def _named(value: Any) -> NamedArray | None:
    """The named array behind a value; None if its axes have no names."""
    if isinstance(value, NamedArray):
        return value
    if isinstance(value, int | float | np.ndarray):
        return None
    if hasattr(value, "dims") and hasattr(value, "coords"):
        coordinates = {
            str(name): Coordinate(tuple(map(str, each.dims)), np.asarray(each.values))
            for name, each in value.coords.items()
        }
        return NamedArray(np.asarray(value.values), tuple(map(str, value.dims)), coordinates, title=_title(value))
    if hasattr(value, "to_numpy") and hasattr(value, "index") and getattr(value, "ndim", 0) == 1:
        index = value.index
        dim = str(index.name) if index.name is not None else POINT
        labels = {} if index.name is None else {dim: Coordinate((dim,), np.asarray(index))}
        for level, name in enumerate(index.names if index.nlevels > 1 else ()):
            labels[str(name or f"level_{level}")] = Coordinate((dim,), np.asarray(index.get_level_values(level)))
        return NamedArray(value.to_numpy(), (dim,), labels, index, _title(value))
    return None


def _title(value: Any) -> str:
    return "" if value.name is None else str(value.name)


def is_named(value: Any) -> bool:
    """Whether the axes of a value have names."""
    return not isinstance(value, PLAIN) and _named(value) is not None


def laid_out(values: Mapping[str, Any]) -> tuple[dict[str, Any], Dimensions]:
    """Align arrays so that axes of equal name match and all others broadcast.

    Parameters
    ----------
    values : mapping of str to object
        Numbers, arrays, `xarray.DataArray`, `pandas.Series` or `NamedArray` by name.

    Returns
    -------
    tuple of (dict, Dimensions)
        The values as numbers and plain arrays, and the names of their axes. Unnamed values are unchanged.

    Raises
    ------
    InvalidInput
        Two values disagree about the size or the labels of a dimension, or an array without names does not fit.

    Examples
    --------
    >>> import pandas as pd
    >>> series = pd.Series([1, 8], index=pd.Index(["a", "b"], name="case"))
    >>> found, dimensions = laid_out({"batch": series, "prompt_tokens": 2000})
    >>> found["batch"].tolist(), dimensions.names
    ([1, 8], ('case',))
    """
    named = {name: each for name, value in values.items() if (each := _named(value)) is not None}
    if not named:
        return dict(values), UNNAMED
    sizes: dict[str, int] = {}
    coordinates: dict[str, Coordinate] = {}
    for name, each in named.items():
        for dim, size in zip(each.dims, np.shape(each.values), strict=True):
            if sizes.setdefault(dim, size) != size:
                raise InvalidInput(f"{name} has {size} points along {dim!r}, another input {sizes[dim]}")
        for label, coordinate in each.coordinates.items():
            if not same(coordinates.setdefault(label, coordinate), coordinate):
                raise InvalidInput(f"{name} and another input have different labels along {label!r}: align them first")
    names = tuple(sizes)
    index = next((each.index for each in named.values() if each.index is not None), None)
    found = {**values} | {name: _expanded(each, names) for name, each in named.items()}
    _check_plain(found, named, tuple(sizes.values()))
    kept = {label: each for label, each in coordinates.items() if set(each.dims) <= set(names)}
    titles = {name: each.title for name, each in named.items() if each.title not in ("", name)}
    return found, Dimensions(names, tuple(sizes.values()), FrozenMapping(kept), index, FrozenMapping(titles))


def _expanded(each: NamedArray, names: tuple[str, ...]) -> Any:
    """The array with one axis per name, of size 1 where it does not vary."""
    order = [name for name in names if name in each.dims]
    moved = np.transpose(each.values, [each.dims.index(name) for name in order])
    sizes = dict(zip(order, moved.shape, strict=True))
    if names:
        return moved.reshape([sizes.get(name, 1) for name in names])
    return moved


def _check_plain(values: Mapping[str, Any], named: Mapping[str, Any], shape: tuple[int, ...]) -> None:
    """Check that unnamed arrays broadcast against named ones."""
    for name, value in values.items():
        if name in named or np.ndim(value) == 0:
            continue
        try:
            fits = np.broadcast_shapes(np.shape(value), shape) == shape
        except ValueError:
            fits = False
        if not fits:
            wanted = f"{name} has no dimension names and shape {np.shape(value)}, other inputs have {shape}"
            raise InvalidInput(f"{wanted}: give it as a DataArray or Series too")


def names_of_axes(inputs: Mapping[str, Any], shape: tuple[int, ...]) -> tuple[str, ...]:
    """Name the axes of a sweep over plain arrays.

    An axis is named after its input if exactly one input varies along it, and ``point`` otherwise, with a number if
    there are several.

    Examples
    --------
    >>> names_of_axes({"batch": np.ones((3, 1)), "prompt_tokens": np.ones(2)}, (3, 2))
    ('batch', 'prompt_tokens')
    >>> names_of_axes({"batch": np.ones(3), "prompt_tokens": np.ones(3)}, (3,))
    ('point',)
    """
    found = []
    for axis in range(len(shape)):
        varying = [name for name, value in inputs.items() if _varies(value, axis - len(shape), shape[axis])]
        alone = len(varying) == 1 and np.size(inputs[varying[0]]) == shape[axis]
        unnamed = POINT if len(shape) == 1 else f"{POINT}_{axis}"
        found.append(varying[0] if alone else unnamed)
    return tuple(found)


def _varies(value: Any, axis: int, size: int) -> bool:
    """Whether a value has ``size`` elements along an axis, counted from the last."""
    return np.ndim(value) >= -axis and np.shape(value)[axis] == size


def varying_along(value: Any, names: tuple[str, ...], shape: tuple[int, ...]) -> Coordinate:
    """An array of a sweep reduced to the dimensions along which it varies.

    Examples
    --------
    >>> varying_along(np.ones((3, 1)), ("batch", "prompt_tokens"), (3, 2)).dims
    ('batch',)
    """
    array = np.asarray(value)
    first = len(shape) - array.ndim
    kept = [axis for axis, size in enumerate(array.shape) if size == shape[first + axis]]
    values = array.reshape([array.shape[axis] for axis in kept])
    return Coordinate(tuple(names[first + axis] for axis in kept), values)
