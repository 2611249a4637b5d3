"""What the roofline plot shows of a result: its points, and the words that tell it from the others."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import Number
from ..operators.precision import Precision
from ..phases.bounds import Bound
from ..phases.passes import Phase
from ..units import humanize

Array = npt.NDArray[np.float64]
Result = Phase | Bound

TERA = 1e12


@dataclass(frozen=True)
class Spot:
    """One operator, or several with the same name, of one phase: where it lies and its share of the phase's time."""

    name: str
    x: float
    y: float
    share: float


def coordinates(result: Result) -> Array:
    """``[rows, n, 2]``: intensity in FLOP/byte and attained TFLOP/s, ``flops / roofline_s``; one row a sweep.

    FLOP/s are those of one accelerator, on average.  A point without FLOPs or bytes has no place on logarithmic axes
    and is NaN.
    """
    flops = result.per_accelerator["flops"] if isinstance(result, Phase) else result.flops
    with np.errstate(divide="ignore", invalid="ignore"):
        attained = np.divide(flops, result.roofline_s) / TERA
    pair = np.broadcast_arrays(np.asarray(result.intensity_flops_per_byte, float), attained)
    points = np.stack(pair, axis=-1)
    points = points.reshape(-1, points.shape[-2] if points.ndim > 1 else 1, 2)
    return np.where(np.all(np.isfinite(points) & (points > 0), axis=-1, keepdims=True), points, np.nan)


def swept(result: Result) -> bool:
    """Whether the result has more than one point."""
    return bool(np.ndim(result.roofline_s))


def spots(result: Result) -> list[Spot]:
    """The operators of a single pass that compute something, the longest first."""
    shares = shares_of_time(result)
    points = [coordinates(item)[0, 0] for item in result.operators]
    found = [
        Spot(operator_name(item), float(x), float(y), share)
        for item, (x, y), share in zip(result.operators, points, shares, strict=True)
        if np.isfinite(x)
    ]
    return sorted(found, key=lambda spot: -spot.share)


def operator_name(operator: Bound) -> str:
    """Its name without what all projections share."""
    return operator.name.removesuffix("_proj")


def shares_of_time(result: Result) -> list[float]:
    """Share of each operator in the sum of all of them, at `roofline_s`."""
    times = [float(item.roofline_s) for item in result.operators]
    return [time / sum(times) for time in times]


def share_without_flops(phase: Phase) -> float:
    """Share of the time in operators that move bytes and compute nothing that counts as FLOPs."""
    pairs = zip(phase.operators, shares_of_time(phase), strict=True)
    return sum((share for item, share in pairs if not np.any(item.flops)), 0.0)


def captions(results: Sequence[Result]) -> list[list[str]]:
    """A caption for each point of each result: its name, what tells it from others of that name, and its time."""
    facets = [_facets(result) for result in results]
    words = []
    for result, own in zip(results, facets, strict=True):
        alike = [other for mate, other in zip(results, facets, strict=True) if mate.name == result.name]
        telling = [
            name for name in own if name == "batch" or _varies([other[name] for other in alike if name in other])
        ]
        words.append(_captions(result, {name: own[name] for name in telling}))
    return words


def _captions(result: Result, facets: Mapping[str, npt.NDArray[np.str_]]) -> list[str]:
    columns = [np.array(result.name), *facets.values(), _measures(result)]
    rows = zip(*(column.ravel() for column in np.broadcast_arrays(*columns)), strict=True)
    return [f"{textwrap.fill(', '.join(head), 30)}\n{measures}" for *head, measures in rows]


def _measures(result: Result) -> npt.NDArray[np.str_]:
    """Its time; of a bare bound also the intensity, since its name says little."""
    times = _written(lambda value: humanize("roofline_s", value), result.roofline_s)
    if isinstance(result, Phase):
        return times
    intensity = _written(
        lambda value: f"{value:,.0f} FLOP/byte, " if value > 100 else f"{value:.3g} FLOP/byte, ",
        result.intensity_flops_per_byte,
    )
    return np.char.add(intensity, times)


def _facets(result: Result) -> dict[str, npt.NDArray[np.str_]]:
    if isinstance(result, Bound):
        return {}
    serve, segments = result.deployment, result.segments
    return {
        "model": np.array(serve.model.name),
        "precision": np.array(format_words(serve.precision)),
        "accelerators": _written("{:,.0f} accelerators".format, serve.parallel.accelerators),
        "batch": _written("batch {:,.0f}".format, sum(segment.sequences for segment in segments)),
        "tokens": _written("{:,.0f} new tokens".format, segments[0].new_tokens),
        "context": _written("{:,.0f} in cache".format, segments[0].past_tokens),
    }


def format_words(precision: Precision) -> str:
    """The one format of everything, or what is in which."""
    names = {precision.weights, precision.activations, precision.kv}
    return names.pop() if len(names) == 1 else str(precision)


def _written(write: Callable[[float], str], values: Number) -> npt.NDArray[np.str_]:
    array = np.asarray(values, float)
    return np.array([write(value) for value in array.flat]).reshape(array.shape)


def _varies(columns: Sequence[npt.NDArray[np.str_]]) -> bool:
    return len(np.unique(np.concatenate([column.ravel() for column in columns]))) > 1
