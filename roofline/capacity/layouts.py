"""Layouts: ways to divide a model over a number of accelerators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, number
from ..hardware import Accelerator
from ..model import Model
from ..model.layout_rules import refusal
from ..operators.links import NODE
from ..operators.parallel import Parallel
from ..operators.precision import Precision
from ..operators.weights import Linear
from ..specs.library import get_model

Degrees = tuple[int, int, int, int]
"""Tensor, pipeline, expert, data."""


def layouts(model: Model | str | Path, accelerators: Iterable[int] = (1, 2, 4, 8)) -> Parallel:
    """Return all layouts of ``model`` on each number of accelerators, as one `Parallel` of ``[L, 1]`` arrays.

    Tensor parallelism is limited by the attention heads, pipelines by the layers.  Replicas of a dense model gain
    nothing from being in one group, so data parallelism means data-parallel attention with shared experts, where
    ``expert`` is ``tensor * data``.  Otherwise experts are divided like matrices, or each is on one accelerator of the
    group.

    Raises
    ------
    InvalidInput
        A number is not an integer >= 1, or there is no layout.
    """
    model = get_model(model)
    counts = sorted({int(np.max(number("accelerators", count, least=1, whole=True))) for count in accelerators})
    found = [degrees for count in counts for degrees in _layouts_of(model, count)]
    if not found:
        raise InvalidInput(f"{model.name} can't be spread over {' or '.join(map(str, counts)) or 'no accelerator'}")
    tensor, pipeline, expert, data = (np.array(column, dtype=float)[:, None] for column in zip(*found, strict=True))
    return Parallel(tensor, pipeline, expert, data)


def _layouts_of(model: Model, count: int) -> Iterator[Degrees]:
    heads, experts = _heads(model), _experts(model)
    if count > heads * model.layer_count * max(experts, 1):  # more than any layout takes: no search for divisors
        return
    for tensor in _divisors(count):
        for pipeline in _divisors(count // tensor):
            data = count // tensor // pipeline
            if tensor > heads or pipeline > model.layer_count or (data > 1 and tensor * data > experts):
                continue
            yield tensor, pipeline, tensor * data if data > 1 else 1, data
            if data == 1 < tensor <= experts:
                yield tensor, pipeline, tensor, 1


def _divisors(count: int) -> list[int]:
    small = [ways for ways in range(1, isqrt(count) + 1) if count % ways == 0]
    return sorted({*small, *(count // ways for ways in small)})


def _heads(model: Model) -> int:
    """Largest number of heads of any mixer; unlimited if none has heads."""
    pieces = [weight.pieces for weight in _matrices(model) if weight.pieces]
    return max(pieces, default=2**30)  # more than any layout has accelerators


def _experts(model: Model) -> int:
    return max((weight.copies for weight in _matrices(model) if weight.part == "experts"), default=0)


def _matrices(model: Model) -> Iterator[Linear]:
    return (weight for _, weight in model.counted_weights() if isinstance(weight, Linear))


def reach(accelerator: Accelerator) -> float:
    """Number of accelerators of this kind that can communicate, by their links, host bus or network cards."""
    link = accelerator.scale_up
    if accelerator.nic_bytes_per_s is not None and (link is not None or accelerator.host_bytes_per_s is not None):
        bridged = link is not None and link.kind == "bridge" and accelerator.host_bytes_per_s is None
        if bridged and link is not None:
            return float(link.domain)
        return np.inf
    if link is not None and link.kind != "bridge":
        return float(link.domain)
    if accelerator.host_bytes_per_s is not None:
        return float(NODE)
    return float(link.domain) if link is not None else 1.0


def within_reach(parallel: Parallel, accelerator: Accelerator) -> Parallel | None:
    """Rows of a `Parallel` of layouts whose accelerators can communicate; None if there are none."""
    return rows_kept(parallel, np.ravel(np.asarray(parallel.accelerators) <= reach(accelerator)))


def rows_of(parallel: Parallel) -> list[Parallel]:
    """Each row of a `Parallel` of layouts."""
    columns = (np.ravel(degree) for degree in parallel.degrees[:4])
    return [Parallel(*map(int, row)) for row in zip(*columns, strict=True)]


def rows_kept(parallel: Parallel, kept: Sequence[bool] | npt.NDArray[np.bool_]) -> Parallel | None:
    """Selected rows of a `Parallel` of layouts; None if there are none."""
    chosen = np.asarray(kept, dtype=bool)
    if not chosen.any():
        return None
    if chosen.all():
        return parallel
    tensor, pipeline, expert, data = (np.asarray(degree)[chosen] for degree in parallel.degrees[:4])
    return Parallel(tensor, pipeline, expert, data)


def startable(parallel: Parallel, model: Model, precision: Precision) -> tuple[Parallel | None, tuple[str, ...]]:
    """Rows of a `Parallel` of layouts that engines accept (None if there are none), and why they reject others.

    Parameters
    ----------
    parallel : Parallel
        Layouts, as returned by `layouts`.
    model : Model
        Model to divide.
    precision : Precision
        Formats of the weights.
    """
    reasons = [refusal(model, precision, row) for row in rows_of(parallel)]
    kept = rows_kept(parallel, [not reason for reason in reasons])
    return kept, tuple(dict.fromkeys(reason for reason in reasons if reason))
