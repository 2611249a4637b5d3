"""Points of a result on the roofline plot, and the words that distinguish it from other results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import Number
from ..operators.precision import Precision
from ..phases.bounds import Bound
from ..phases.deployment import Deployment
from ..phases.passes import Phase
from ..units import humanize, plural
from .style import Look, Style

Array = npt.NDArray[np.float64]
Result = Phase | Bound

TERA = 1e12


@dataclass(frozen=True)
class Spot:
    """One operator, or several with the same name, of one phase: its position and share of the phase's time."""

    name: str
    x: float
    y: float
    share: float


def coordinates(result: Result) -> Array:
    """``[rows, n, 2]``: intensity in FLOP/byte and attained TFLOP/s, ``flops / roofline_s``; one row per sweep.

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
    """The operators of a single pass that compute something, longest first."""
    shares = shares_of_time(result)
    points = [coordinates(item)[0, 0] for item in result.operators]
    found = [
        Spot(operator_name(item), float(x), float(y), share)
        for item, (x, y), share in zip(result.operators, points, shares, strict=True)
        if np.isfinite(x)
    ]
    return sorted(found, key=lambda spot: -spot.share)


def operator_name(operator: Bound) -> str:
    """Its name without the suffix of projections."""
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
    """A caption for each point of each result: its name, what distinguishes it from others of that name, and its
    time.
    """
    facets = [_facets(result) for result in results]
    words = []
    for result, own in zip(results, facets, strict=True):
        alike = [other for mate, other in zip(results, facets, strict=True) if mate.name == result.name]
        telling = {}
        for name, value in own.items():
            others = [other[name] for other in alike if name in other]
            if name == "batch" or _varies(others):
                telling[name] = value
        words.append(_captions(result, telling))
    return words


def legend_words(results: Sequence[Result]) -> tuple[str, list[str]]:
    """What all results have in common, and for each result the rest and its time (of both ends of a sweep)."""
    every = list(dict.fromkeys(name for result in results for name in _facets(result)))
    facets = [{"name": result.name} | dict.fromkeys(every, "") | _ends_of_facets(result) for result in results]
    shared, words = tell_apart(facets)
    times = [" to ".join(dict.fromkeys(np.ravel(_measures(result))[[0, -1]])) for result in results]
    return shared, [", ".join([*own, time]) for own, time in zip(words, times, strict=True)]


def short_names(results: Sequence[Result]) -> list[str]:
    """A name for each result that is as short as tells it from the others, without its time."""
    every = list(dict.fromkeys(name for result in results for name in _facets(result)))
    facets = [{"name": result.name} | dict.fromkeys(every, "") | _ends_of_facets(result) for result in results]
    return shortest(tell_apart(facets)[1])


def shortest(words: Sequence[Sequence[str]]) -> list[str]:
    """As many of the first words of each case as tell all cases apart.

    Examples
    --------
    >>> shortest([["A", "bf16"], ["B", "fp8", "TP 2"]])
    ['A', 'B']
    """
    longest = max(map(len, words))
    for count in range(1, longest + 1):
        names = [", ".join(each[:count]) for each in words]
        if len(set(names)) == len(names):
            return names
    return [", ".join(each) for each in words]


def _ends_of_facets(result: Result) -> dict[str, str]:
    """Each property of a result in words; of a sweep, its first and last value."""
    return {name: " to ".join(dict.fromkeys(np.ravel(words)[[0, -1]])) for name, words in _facets(result).items()}


def looks_of(results: Sequence[Result], style: Style) -> list[Look]:
    """Color and marker of each result: those of the phase if names differ, else a color for each deployment.

    Phases of one deployment and batch share a color, and their shapes say which phase they are.
    """
    names = [result.name for result in results]
    if len(set(names)) == len(names):
        known = style.looks_of(names)
        return [known[name] for name in names]
    keys = [_identity(result, place) for place, result in enumerate(results)]
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    several = len({name for name in names if name in style.phases}) > 1
    looks = []
    for name, key in zip(names, keys, strict=True):
        color, marker = style.line(places[key])
        looks.append((color, style.phases[name][1] if several and name in style.phases else marker))
    return looks


def _identity(result: Result, place: int) -> tuple[object, ...]:
    """What related results share: all properties in captions except the phase and its lengths."""
    facets = _facets(result)
    if not facets:
        return (place,)
    return tuple(facets[name].tobytes() for name in ("model", "precision", "accelerators", "batch"))


def _captions(result: Result, facets: Mapping[str, npt.NDArray[np.str_]]) -> list[str]:
    columns = [np.array(result.name), *facets.values(), _measures(result)]
    rows = zip(*(column.ravel() for column in np.broadcast_arrays(*columns)), strict=True)
    return [f"{in_lines(head, 30)}\n{measures}" for *head, measures in rows]


def in_lines(parts: Iterable[str], width: int) -> str:
    r"""The parts, separated by commas, in lines of at most ``width`` characters that break between parts.

    Examples
    --------
    >>> in_lines(["prefill", "llama-3.1-70b", "batch 16"], 24)
    'prefill, llama-3.1-70b,\nbatch 16'
    """
    lines = [""]
    for part in parts:
        joined = f"{lines[-1]}, {part}" if lines[-1] else part
        if lines[-1] and len(joined) > width:
            lines[-1] += ","
            lines.append(part)
        else:
            lines[-1] = joined
    return "\n".join(lines)


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
        "precision": np.array(short_formats(serve.precision)),
        "accelerators": _written(lambda count: _several(count, serve.accelerator.name), serve.parallel.accelerators),
        "batch": _written("batch {:,.0f}".format, sum(segment.sequences for segment in segments)),
        "tokens": _written(lambda count: plural(count, "new token"), segments[0].new_tokens),
        "context": _written("{:,.0f} in cache".format, segments[0].past_tokens),
    }


def _several(count: float, name: str) -> str:
    return name if count == 1 else f"{count:,.0f} x {name}"


def format_words(precision: Precision) -> str:
    """The format of everything, or the formats of each part."""
    names = {precision.weights, precision.activations, precision.kv}
    return names.pop() if len(names) == 1 else str(precision)


def short_formats(precision: Precision) -> str:
    """The formats in short form: ``bf16``, ``fp8 weights``, ``fp8, bf16 KV``."""
    first = precision.activations if precision.weights == precision.activations else f"{precision.weights} weights"
    if precision.kv == precision.activations:
        return first
    return f"{first}, {precision.kv} KV"


def deployment_words(serve: Deployment) -> str:
    """Titles of the model and the accelerator, and the layout unless it is a single accelerator.

    Examples
    --------
    >>> deployment_words(Deployment("llama-3.1-8b", "l4"))
    'Llama 3.1 8B on NVIDIA L4 24GB'
    """
    layout = "" if serve.parallel.single else f", {serve.parallel}"
    return f"{serve.model.title or serve.model.name} on {serve.accelerator.title or serve.accelerator.name}{layout}"


def deployment_facets(serve: Deployment) -> dict[str, str]:
    """Properties that may distinguish a deployment from others, in words."""
    return {
        "model": serve.model.title or serve.model.name,
        "accelerator": serve.accelerator.name,
        "layout": str(serve.parallel),
        "formats": short_formats(serve.precision),
        "engine": "" if serve.engine is None else str(serve.engine),
    }


def tell_apart(facets: Sequence[Mapping[str, str]]) -> tuple[str, list[list[str]]]:
    """Return what all cases have in common, as a phrase, and for each case the words that differ.

    Identical cases are numbered.

    Examples
    --------
    >>> tell_apart([{"model": "A", "batch": "batch 1"}, {"model": "A", "batch": "batch 8"}])
    ('A', [['batch 1'], ['batch 8']])
    """
    names = list(facets[0])
    same = [name for name in names if len({own[name] for own in facets}) == 1]
    shared = ", ".join(facets[0][name] for name in same if facets[0][name])
    telling = [name for name in names if name not in same]
    words = [list(filter(None, (own[name] for name in telling))) for own in facets]
    if not telling and len(facets) > 1:
        words = [[str(place)] for place in range(1, len(facets) + 1)]
    return shared, words


def _written(write: Callable[[float], str], values: Number) -> npt.NDArray[np.str_]:
    array = np.asarray(values, float)
    return np.array([write(value) for value in array.flat]).reshape(array.shape)


def _varies(columns: Sequence[npt.NDArray[np.str_]]) -> bool:
    return len(np.unique(np.concatenate([column.ravel() for column in columns]))) > 1
