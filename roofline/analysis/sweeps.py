"""Sweeps: all combinations of models, accelerators, precisions, layouts and numbers, as one labeled dataset.

The numbers of one deployment are one array expression.  With ``chunks``, dask computes it piece by piece, on this
machine or on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import FrozenMapping
from ..errors import InvalidInput, RooflineError, require, unknown
from ..footprint.memory_use import Memory, memory
from ..hardware import Accelerator
from ..model import Model
from ..operators.parallel import ONE, Parallel
from ..operators.precision import AS_PUBLISHED, Precision, precision_of
from ..phases.deployment import Deployment
from ..phases.generation import Generation, generate
from ..phases.passes import TIMES, Phase, decode, prefill
from ..phases.workload import COUNTS, Workload
from ..report import Report
from ..report.progress import reporter
from ..units import symbol_of
from ..values import Value

if TYPE_CHECKING:
    import xarray as xr

CHUNK_POINTS = 50_000
"""Points per chunk: an array takes 0.4 MB, and the work of a chunk is large compared with the overhead of a task."""

BLOCK_POINTS = 2**20
"""Points per block of computations that are not lazy; progress is shown after each block."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "decode": Phase.columns,
    "prefill": Phase.columns,
    "generate": Generation.columns,
    "memory": Memory.columns,
}
"""Available results and their columns; a bare column name selects the first result that has it."""

WORDS = {"limit", "time"}
"""String columns, of at most 16 characters."""


@dataclass(frozen=True, eq=False)
class Asked(Value):
    """The variables of a sweep, each a column of a result.

    Attributes
    ----------
    variables : mapping of str to (str, str)
        Variable -> (result, column).
    time : str
        Which of the three times `generate` uses.
    """

    variables: Mapping[str, tuple[str, str]]
    time: str

    @property
    def dtypes(self) -> list[Any]:
        """Data types of the variables, in order."""
        return [_dtype(column) for _, column in self.variables.values()]

    def values(self, serve: Deployment, names: Sequence[str], *numbers: Any) -> tuple[Any, ...]:
        """The variables of one deployment at broadcasting numbers, in order."""
        shape = np.broadcast_shapes(*map(np.shape, numbers))
        point = _Point(serve, dict(zip(names, numbers, strict=True)), self.time)
        found = []
        for result, column in self.variables.values():
            value = np.asarray(getattr(point.result(result), column), dtype=_dtype(column))
            found.append(np.broadcast_to(value, shape))
        return tuple(found)


def _dtype(column: str) -> Any:
    if column in WORDS:
        return np.dtype("<U16")
    return np.dtype(bool) if column == "fits" else np.dtype(float)


@dataclass(frozen=True, eq=False)
class _Point:
    """One deployment with arrays of numbers; each result is computed once."""

    serve: Deployment
    numbers: Mapping[str, Any]
    time: str
    known: dict[str, Report] = field(default_factory=dict)

    @cached_property
    def load(self) -> Workload:
        return Workload(**{name: value for name, value in self.numbers.items() if name in COUNTS})

    def result(self, name: str) -> Report:
        """The result with the given name."""
        if name not in self.known:
            self.known[name] = self._computed(name)
        return self.known[name]

    def _computed(self, name: str) -> Report:
        if name == "decode":
            return decode(self.serve, self.load, context_tokens=self.numbers.get("context_tokens"))
        if name == "generate":
            return generate(self.serve, self.load, time=self.time)
        if name == "prefill":
            return prefill(self.serve, self.load)
        return memory(self.serve, self.load)


def sweep(
    models: Any,
    accelerators: Any,
    *,
    precisions: Any = None,
    parallels: Any = None,
    batch: Any = 1,
    prompt_tokens: Any = Workload.prompt_tokens,
    output_tokens: Any = Workload.output_tokens,
    cached_tokens: Any = 0,
    context_tokens: Any = None,
    what: str | Sequence[str] = "decode",
    engine: str | None = None,
    time: str = "estimate_s",
    chunks: int | str | Mapping[str, int] | None = None,
    progress: bool | None = None,
) -> xr.Dataset:
    """Compute every combination of models, accelerators, precisions, layouts and numbers as one dataset.

    Needs ``roofline[sweep]``. Each list becomes a dimension of the dataset, labeled with its values; a single value
    becomes a coordinate without a dimension. A combination that cannot run (a chip without units for the
    format, a layout that does not divide the model) is NaN; ``attrs["refused"]`` gives the reason.

    Parameters
    ----------
    models : Model or str, or several of them
        Dimension ``model``.
    accelerators : Accelerator or str, or several of them
        Dimension ``accelerator``.
    precisions : Precision or str, or several of them, or a mapping of labels to them, optional
        Dimension ``precision``. The name of a format applies to weights and, if chips can compute with it, to
        activations. None uses the checkpoint's own.
    parallels : Parallel or int, or several of them, or a mapping of labels to them, optional
        Dimension ``layout``. A number is the degree of tensor parallelism; None means one accelerator.
    batch, prompt_tokens, output_tokens, cached_tokens, context_tokens : int, sequence, Series or DataArray
        Numbers of the workload, and the tokens in the cache before a decode step (None: those of the prompt). A
        sequence becomes a dimension of that name. A `xarray.DataArray` keeps its dimensions, and stays lazy if it is
        lazy. A `pandas.Series` has the dimension of its index.
    what : str or sequence of str
        ``decode``, ``prefill``, ``generate`` or ``memory`` for all columns of that result; or single columns, such as
        ``decode.floor_s``. A bare ``floor_s`` is taken from the first result in this order that has it.
    engine : str, optional
        Engine whose kernels the estimates describe.
    time : str
        Which of the three times ``generate`` uses.
    chunks : int, str or mapping of str to int, optional
        Makes the sweep lazy on dask: points per chunk, ``auto`` for 50,000, or chunk sizes by dimension. None computes
        at once.
    progress : bool, optional
        Whether to show a progress bar, unless the sweep is lazy. None shows one in a terminal or notebook after one
        second. For lazy datasets use ``dask.diagnostics.ProgressBar``.

    Returns
    -------
    xarray.Dataset
        One variable per column, named like the column if a single result or bare columns are requested, and as
        requested otherwise. Units are in ``attrs["units"]``.

    Raises
    ------
    InvalidInput
        There is no model or accelerator, an array has several unnamed axes, or no combination can run.
    UnknownName
        A model, accelerator, format, result or column is unknown.

    Examples
    --------
    >>> import roofline as rl
    >>> found = rl.sweep("llama-3.1-8b", ["h100-sxm", "l40s"], precisions=["bf16", "fp8"], batch=[1, 8, 64],
    ...                  what=["floor_s", "estimate_s"])
    >>> dict(found.sizes)
    {'accelerator': 2, 'precision': 2, 'batch': 3}
    >>> faster = found.floor_s.sel(precision="bf16") / found.floor_s.sel(precision="fp8")
    >>> round(float(faster.sel(accelerator="l40s", batch=1)), 2)
    1.84
    """
    if time not in TIMES:
        raise unknown("time", time, TIMES)
    asked = Asked(FrozenMapping(_variables(what)), time)
    numbers = {"batch": batch, "prompt_tokens": prompt_tokens, "output_tokens": output_tokens}
    numbers |= {"cached_tokens": cached_tokens} | ({} if context_tokens is None else {"context_tokens": context_tokens})
    arrays = {name: _labeled(name, value) for name, value in numbers.items()}
    axes = {
        "model": _choices(models, Model, _name_of),
        "accelerator": _choices(accelerators, Accelerator, _name_of),
        "precision": _Axis((AS_PUBLISHED,), (), single=True),
        "layout": _Axis((ONE,), (), single=True),
    }
    if precisions is not None:
        axes["precision"] = _choices(precisions, Precision, _precision_label)
    if parallels is not None:
        axes["layout"] = _choices(parallels, Parallel, lambda each: str(_parallel(each)))
    if chunks is not None:
        arrays = _chunked(arrays, chunks)
    return _crossed(axes, _Job(arrays, asked, engine, progress))


def _variables(what: str | Sequence[str]) -> dict[str, tuple[str, str]]:
    """The result and column of each variable, by name."""
    if isinstance(what, str) and what in COLUMNS:
        return {column: (what, column) for column in COLUMNS[what]}
    found: dict[str, tuple[str, str]] = {}
    for name in [what] if isinstance(what, str) else what:
        result, dot, column = name.rpartition(".")
        if name in COLUMNS:
            found |= {f"{name}.{each}": (name, each) for each in COLUMNS[name]}
        elif dot and column in COLUMNS.get(result, ()):
            found[name] = (result, column)
        else:
            known = [each for each, columns in COLUMNS.items() if name in columns]
            if not known:
                raise unknown("result or column", name, [*COLUMNS, *(c for each in COLUMNS.values() for c in each)])
            found[name] = (known[0], name)
    if not found:
        raise InvalidInput("what is empty; name at least one quantity to compute")
    return found


@dataclass(frozen=True, eq=False)
class _Axis:
    """Values along a dimension that is not numeric, with their labels.

    A single value has no dimension; without a label it has no coordinate either.
    """

    values: tuple[Any, ...]
    labels: tuple[str, ...]
    single: bool = False


def _choices(given: Any, kind: type, label: Callable[[Any], str]) -> _Axis:
    """Read one value, several values, or a mapping of labels to values."""
    if isinstance(given, kind | str | Path | int):
        return _Axis((given,), (label(given),), single=True)
    if isinstance(given, Mapping):
        found = _Axis(tuple(given.values()), tuple(map(str, given)))
    elif isinstance(given, Iterable):
        values = tuple(given)
        found = _Axis(values, tuple(map(label, values)))
    else:
        raise InvalidInput(f"a sweep takes a {kind.__name__}, its name, or several of them: {given!r}")
    if not found.values or len(set(found.labels)) < len(found.labels):
        raise InvalidInput(f"a sweep needs at least one {kind.__name__}, and each only once: {given!r}")
    return found


def _name_of(value: Any) -> str:
    return value.name if isinstance(value, Model | Accelerator) else str(value)


def _precision_label(value: Precision | str) -> str:
    return value if isinstance(value, str) else str(value)


def _parallel(value: Parallel | int) -> Parallel:
    return Parallel(tensor=value) if isinstance(value, int) else value


def _labeled(name: str, value: Any) -> xr.DataArray:
    """Convert numbers to an array with named dimensions."""
    require("xarray", "sweep", "a labeled dataset")
    import xarray as xr

    if isinstance(value, xr.DataArray):
        return value.drop_vars([label for label in value.coords if label == name and label not in value.dims])
    if hasattr(value, "index") and hasattr(value, "to_numpy"):
        dim = value.index.name or "point"
        return xr.DataArray(value.to_numpy(), dims=dim, coords={dim: value.index})
    array = np.asarray(value)
    if array.ndim > 1:
        raise InvalidInput(f"{name} has {array.ndim} unnamed axes; pass a DataArray")
    if array.ndim:
        return xr.DataArray(array, dims=name, coords={name: array})
    return xr.DataArray(array)


def _chunked(arrays: Mapping[str, xr.DataArray], chunks: int | str | Mapping[str, int]) -> dict[str, xr.DataArray]:
    """Convert the arrays to lazy arrays, in chunks of so many points of the whole sweep."""
    sizes: dict[str, int] = {}
    for array in arrays.values():
        sizes |= {str(dim): size for dim, size in array.sizes.items()}
    if isinstance(chunks, Mapping):
        wanted = dict(chunks)
    else:
        points = CHUNK_POINTS if isinstance(chunks, str) or chunks is True else int(chunks)
        wanted = {}
        for dim, size in reversed(sizes.items()):  # whole rows first, so that chunks are contiguous
            wanted[dim] = max(1, min(size, points))
            points = max(1, points // max(wanted[dim], 1))
    chunked = {}
    for name, array in arrays.items():
        chunked[name] = array.chunk({dim: wanted.get(str(dim), -1) for dim in array.dims})
    return chunked


@dataclass(frozen=True, eq=False)
class _Job:
    """The computation for every deployment."""

    arrays: Mapping[str, xr.DataArray]
    asked: Asked
    engine: str | None
    progress: bool | None

    def deployment(self, case: tuple[Any, ...]) -> Deployment:
        model, accelerator, precision, layout = case
        parallel = _parallel(layout)
        formats = precision if precision is AS_PUBLISHED else precision_of(precision)
        return Deployment(model, accelerator, formats, parallel, engine=self.engine)

    @property
    def lazy(self) -> bool:
        """Whether the sweep is lazy."""
        return any(array.chunks is not None for array in self.arrays.values())

    def refusal(self, serve: Deployment) -> str:
        """Why a deployment cannot run, tested at the first point; empty if it can."""
        if any(not array.size for array in self.arrays.values()):
            return ""
        first = [np.asarray(array.isel(dict.fromkeys(array.dims, 0)))[()] for array in self.arrays.values()]
        try:
            self.asked.values(serve, [*self.arrays], *first)
        except RooflineError as error:
            return str(error)
        return ""

    def dataset(self, function: Callable[..., Any]) -> xr.Dataset:
        """Dataset of the variables, lazy if the numbers are."""
        require("xarray", "sweep", "a labeled dataset")
        import xarray as xr

        names, dtypes = [*self.asked.variables], self.asked.dtypes
        found = xr.apply_ufunc(
            function,
            *self.arrays.values(),
            output_core_dims=[[]] * len(names),
            dask="parallelized",
            output_dtypes=dtypes,
            keep_attrs=False,
        )
        variables = dict(zip(names, found if isinstance(found, tuple) else (found,), strict=True))
        for name, variable in variables.items():
            symbol = symbol_of(name.rpartition(".")[2])
            variable.attrs = {"units": symbol} if symbol else {}
        return xr.Dataset(variables)


def _crossed(axes: Mapping[str, _Axis], job: _Job) -> xr.Dataset:
    """Compute all deployments with all numbers and combine them along the dimensions."""
    cases = list(product(*(axis.values for axis in axes.values())))
    labels = list(product(*(axis.labels or ("",) for axis in axes.values())))
    serves = [job.deployment(case) for case in cases]
    tell = reporter(job.progress)
    parts, refused = [], []
    for at, (serve, label) in enumerate(zip(serves, labels, strict=True)):
        if reason := job.refusal(serve):
            refused.append(f"{', '.join(filter(None, label))}: {reason}")
            parts.append(job.dataset(partial(_nothing, job.asked.dtypes)))
            continue
        report = _silent if job.lazy else partial(_of_one, tell, at, len(cases))
        parts.append(job.dataset(partial(_in_blocks, job.asked, serve, tuple(job.arrays), report)))
    tell(1, 1)
    if len(refused) == len(cases):
        raise InvalidInput(f"no point of this sweep can be computed: {refused[0]}")
    whole = _nested(parts, [*axes.items()])
    return whole.assign_attrs(refused=refused) if refused else whole


def _silent(done: int, of: int) -> None:
    """Report nothing, as tasks run elsewhere and dask has its own progress bars."""


def _of_one(tell: Callable[[int, int], None], at: int, cases: int, done: int, of: int) -> None:
    """Report progress of one deployment as a share of all."""
    tell(at * of + done, cases * of)


def _in_blocks(asked: Asked, serve: Deployment, names: tuple[str, ...], report: Any, *numbers: Any) -> Any:
    """The variables of one deployment, computed in blocks along the first axis."""
    shape = np.broadcast_shapes(*map(np.shape, numbers))
    rows = max(1, BLOCK_POINTS * shape[0] // max(prod(shape), 1)) if shape else 1
    if not shape or shape[0] <= rows:
        report(0, 1)
        found = asked.values(serve, names, *numbers)
        return found if len(found) > 1 else found[0]
    wholes = tuple(np.empty(shape, dtype) for dtype in asked.dtypes)
    for start in range(0, shape[0], rows):
        report(start, shape[0])
        part = slice(start, start + rows)
        cut = [value[part] if np.ndim(value) == len(shape) and len(value) > 1 else value for value in numbers]
        for whole, value in zip(wholes, asked.values(serve, names, *cut), strict=True):
            whole[part] = value
    return wholes if len(wholes) > 1 else wholes[0]


def _nothing(dtypes: Sequence[Any], *numbers: Any) -> Any:
    """Value for deployments that cannot run: NaN, False or an empty string."""
    shape = np.broadcast_shapes(*map(np.shape, numbers))
    blanks = {"U": "", "b": False}
    found = tuple(np.full(shape, blanks.get(dtype.kind, np.nan), dtype) for dtype in dtypes)
    return found if len(found) > 1 else found[0]


def _nested(parts: Sequence[xr.Dataset], axes: Sequence[tuple[str, _Axis]]) -> xr.Dataset:
    """Combine datasets along the dimensions of the axes; the last axis varies fastest."""
    require("xarray", "sweep", "a labeled dataset")
    import xarray as xr

    if not axes:
        return parts[0]
    (name, axis), inner = axes[0], axes[1:]
    size = len(parts) // len(axis.values)
    found = [_nested(parts[at : at + size], inner) for at in range(0, len(parts), size)]
    if axis.single:
        if axis.labels:
            return found[0].assign_coords({name: axis.labels[0]})
        return found[0]
    labels = xr.DataArray(list(axis.labels), dims=name, name=name)
    return xr.concat(found, labels, join="exact", combine_attrs="drop_conflicts")
