"""Results as `pandas.DataFrame` and `xarray.Dataset`, labeled with their inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..errors import require
from ..units import symbol_of
from .dimensions import Coordinate, Dimensions, names_of_axes, varying_along

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


class Result(Protocol):
    """Attributes of a result that are used here (`roofline.report.Report`)."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Inputs, by name."""

    @property
    def dimensions(self) -> Dimensions:
        """Names of the axes."""

    @property
    def heading(self) -> str:
        """One-line title of the result."""


class _Labeled(NamedTuple):
    """Inputs and columns of a result, with the dimensions and shape to which they broadcast."""

    inputs: Mapping[str, Any]
    columns: Mapping[str, Any]
    names: tuple[str, ...]
    shape: tuple[int, ...]


def _labeled(result: Result) -> _Labeled:
    columns = {name: np.asarray(getattr(result, name)) for name in result.columns}
    inputs = {name: _asked(name, value) for name, value in result.inputs.items() if name not in columns}
    shape = np.broadcast_shapes(*(value.shape for value in (*inputs.values(), *columns.values())))
    known = result.dimensions.names
    names = known if len(known) == len(shape) else names_of_axes(inputs, shape)
    return _Labeled(inputs, columns, names, shape)


def _asked(name: str, value: Any) -> Any:
    """An input as an array, with counts as integers if they fit in 64 bits."""
    array = np.asarray(value)
    if array.dtype.kind != "f" or symbol_of(name) not in ("", "tokens"):
        return array
    is_whole = np.all(array == np.floor(array)) and np.all(np.abs(array) < 2.0**63)
    return array.astype(np.int64) if is_whole else array


def frame_of(result: Result) -> pd.DataFrame:
    """One row per point of the sweep: coordinates, inputs, then columns."""
    require("pandas", "frame", "a table")
    import pandas as pd

    found, dimensions = _labeled(result), result.dimensions
    values = {name: np.broadcast_to(value, found.shape) for name, value in found.inputs.items()}
    for name, each in _kept(dimensions, found).items():
        if name not in values and name not in found.columns and name != getattr(dimensions.index, "name", None):
            values[name] = _spread(each, found.names, found.shape)
    for name, title in dimensions.titles.items():
        if name in values and title not in values:
            values[title] = values[name]
    values |= {name: np.broadcast_to(value, found.shape) for name, value in found.columns.items()}
    index = dimensions.index if found.shape == dimensions.shape and len(found.shape) == 1 else None
    return pd.DataFrame({name: value.ravel() for name, value in values.items()}, index=index)


def _kept(dimensions: Dimensions, found: _Labeled) -> dict[str, Coordinate]:
    """Input coordinates that match the dimensions of the result."""
    if found.names != dimensions.names:
        return {}
    sizes = dict(zip(found.names, found.shape, strict=True))
    fitting = {name: tuple(sizes[dim] for dim in each.dims) for name, each in dimensions.coordinates.items()}
    return {name: each for name, each in dimensions.coordinates.items() if np.shape(each.values) == fitting[name]}


def _spread(each: Coordinate, names: tuple[str, ...], shape: tuple[int, ...]) -> Any:
    """A coordinate repeated over the dimensions that it lacks."""
    sizes = [size if name in each.dims else 1 for name, size in zip(names, shape, strict=True)]
    order = [each.dims.index(name) for name in names if name in each.dims]
    return np.broadcast_to(np.transpose(each.values, order).reshape(sizes), shape)


def dataset_of(result: Result) -> xr.Dataset:
    """Dataset of the columns over named dimensions, with the inputs as coordinates."""
    require("xarray", "sweep", "a labeled dataset")
    import xarray as xr

    found = _labeled(result)
    coordinates = {name: varying_along(value, found.names, found.shape) for name, value in found.inputs.items()}
    given = _kept(result.dimensions, found)
    for name, each in coordinates.items():
        # A dimension keeps the labels that it came with; numbers that differ from them get a name of their own.
        clash = (name in found.names and each.dims != (name,)) or (name in given and not _equal(given[name], each))
        given[f"{name}_values" if clash else name] = each
    known = {name: value for name, value in found.columns.items() if value.ndim or value.item() is not None}
    variables = {name: _variable(name, value, found) for name, value in known.items()}
    titles = {name: {"long_name": title} for name, title in result.dimensions.titles.items()}
    labels = {name: (each.dims, each.values, _units(name) | titles.get(name, {})) for name, each in given.items()}
    return xr.Dataset(variables, labels, {"title": result.heading} if result.heading else {})


def _variable(name: str, value: Any, found: _Labeled) -> tuple[tuple[str, ...], Any, dict[str, str]]:
    """A column over all dimensions; a string that is the same everywhere has no dimension."""
    if value.ndim == 0 and value.dtype.kind not in "iufb":
        return (), value, {}
    return found.names, np.broadcast_to(value, found.shape), _units(name)


def _equal(one: Coordinate, other: Coordinate) -> bool:
    return one.dims == other.dims and np.array_equal(one.values, other.values)


def _units(name: str) -> dict[str, str]:
    symbol = symbol_of(name)
    return {"units": symbol} if symbol else {}
