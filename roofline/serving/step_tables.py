"""Tables of the times of a model's operators, from which steps are added up (`roofline.serving.step_times`).

Operators are sorted by what they depend on: the tokens of a step (``linear``), the logits that are needed (``head``),
or what each sequence has in its cache (``sequence``), found by varying one input at a time.  Each sort is computed on a
grid by the library's own operators.

The prompt of an encoder-decoder is its source (T5) or a start of the answer (Whisper).  Its encoder, the keys and
values that the decoder's layers project from the encoder's output, and its first attention to them are part of a prompt
(``A_p``); later steps attend to all of a source and to their own tokens (``A_d``).  A context counts both.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import Number
from ..operators.operator import Segment
from ..phases.bounds import Bound
from ..phases.deployment import Deployment
from ..phases.schedule import Schedule
from ..phases.scheduling import scheduled_pass
from ..phases.streams import branches
from ..phases.totals import ScheduledPass, resources_s
from ..specs.engines import GENERIC, Engine
from .busiest import spans_ranks
from .sources import prompts_segment, sorted_segment, steps_segment

Array = npt.NDArray[np.float64]


class TimeGrid(NamedTuple):
    """Values on a grid of one or two axes; the last axis is that of channels, which add up."""

    axes: tuple[Array, ...]
    values: Array

    def at(self, *places: Number) -> Array:
        """Return linearly interpolated values; beyond the grid, extrapolated from the last two points."""
        shape, channels = np.broadcast_shapes(*(np.shape(place) for place in places)), self.values.shape[-1]
        corners: list[tuple[Any, Array]] = [((), np.ones(shape))]
        for axis, place in zip(self.axes, places, strict=True):
            below = np.clip(np.searchsorted(axis, place, side="right") - 1, 0, len(axis) - 2)
            part = (place - axis[below]) / (axis[below + 1] - axis[below])
            low = [((*index, below), weight * (1.0 - part)) for index, weight in corners]
            high = [((*index, below + 1), weight * part) for index, weight in corners]
            corners = low + high
        found = np.zeros((*shape, channels))
        for index, weight in corners:
            found += self.values[index] * weight[..., None]
        return found


class Tables(NamedTuple):
    """Tables of one deployment for one of the three times.

    ``prompt`` is one prompt alone.  ``further`` is what a second one like it adds to the same pass: it launches no
    kernels, and its loop over the keys runs in parallel with the first one's.  ``experts`` is the part of ``linear``
    that attention replicas with shared experts compute together, ``streams`` has the branches of shared and of routed
    experts (`roofline.phases.streams`).  ``launch_s`` is the fixed time of the kernels of ``linear``, ``head`` and
    ``decode``.
    """

    linear: TimeGrid
    head: TimeGrid
    decode: TimeGrid
    prompt: TimeGrid
    further: TimeGrid
    experts: TimeGrid
    streams: TimeGrid | None
    launch_s: float


_TILES = np.concatenate([np.arange(16, 257, 16), np.arange(320, 2049, 64), np.arange(2176, 4097, 128)])
TOKENS = np.concatenate([np.arange(65), _TILES, _TILES + 1, np.round(2.0 ** np.arange(12, 20.01, 1 / 8))])
TOKENS = np.unique(TOKENS.astype(float))
"""Grid of tokens per step.  Matrix products run in tiles of rows, so their time jumps after multiples of a tile."""

BATCHES = np.unique(np.round(np.concatenate([np.arange(1, 9), 2.0 ** np.arange(3, 13.01, 1 / 4)])))
CONTEXTS = np.concatenate([[0.0], np.round(2.0 ** np.arange(4, 21.01, 1 / 2))])
NEW = np.unique(np.round(np.concatenate([[1.0], 2.0 ** np.arange(3, 20.01, 1 / 4)])))
PASTS = np.concatenate([[0.0, 32.0, 64.0], np.round(2.0 ** np.arange(7, 20.01, 1 / 2))])

SEVERAL = 4.0
"""Number of prompts in the pass used to compute what one more prompt adds."""


def without_engine(serve: Deployment) -> Deployment:
    """Return the deployment without engine settings that leave kernels unchanged, so that tables are cached once."""
    return serve.replace(engine=serve.kernels and Engine(GENERIC, kernels=serve.kernels))


@lru_cache(maxsize=256)
def tables_of(serve: Deployment, time: str, source_tokens: float) -> Tables:
    """Return the tables of a deployment for one of the three times.

    Parameters
    ----------
    serve : Deployment
        Deployment, without arrays.
    time : str
        Which of the three times.
    source_tokens : float
        Tokens that sequences of an encoder-decoder look at, if the prompt is their source.
    """
    sorts = _sorts(serve)
    row = TOKENS.clip(1.0)  # past tokens: 1, as latent attention has only one way to compute without any
    linear = _part(serve, Segment(row, 1.0, 1.0), sorts, "linear")
    head = _part(serve, Segment(row, 1.0, 1.0), sorts, "head")
    batch, context = np.meshgrid(BATCHES, CONTEXTS, indexing="ij")
    decoding = _part(serve, steps_segment(serve.model, batch, context, source_tokens), sorts, "sequence")
    new, past = np.meshgrid(NEW, PASTS, indexing="ij")
    one = _part(serve, prompts_segment(serve.model, 1.0, new, past), sorts, "sequence")
    several = _part(serve, prompts_segment(serve.model, SEVERAL, new, past), sorts, "sequence")
    names = _channel_names(serve, time)
    prompt = _channels(one, time, names, new.shape)
    further = (_channels(several, time, names, new.shape) - prompt) / (SEVERAL - 1.0)
    single = scheduled_pass(serve, ALONE, (steps_segment(serve.model, 1.0, 1000.0, source_tokens),)).operators
    return Tables(
        linear=TimeGrid((TOKENS,), _channels(linear, time, names, TOKENS.shape)),
        head=TimeGrid((TOKENS,), _channels(head, time, names, TOKENS.shape)),
        decode=TimeGrid((BATCHES, CONTEXTS), _channels(decoding, time, names, batch.shape)),
        prompt=TimeGrid((NEW, PASTS), prompt),
        further=TimeGrid((NEW, PASTS), further),
        experts=TimeGrid((TOKENS,), _channels(_of_all_replicas(linear), time, names, TOKENS.shape)),
        streams=_streams(linear) if time == "estimate_s" else None,
        launch_s=sum(launch_s(bound) for bound in single) if time == "estimate_s" else 0.0,
    )


def _part(serve: Deployment, segment: Segment, sorts: Sorts, sort: str) -> ScheduledPass:
    """Return the operators of one sort in a pass of ``segment`` on one accelerator."""
    whole = scheduled_pass(serve, ALONE, (segment,))
    if serve.model.encoder is not None:  # a pass that encodes has operators of its own, all of them per sequence
        by_name = dict(sorts)
        chosen = (each for each in whole.operators if by_name.get(each.operator.name, "sequence") == sort)
        return ScheduledPass(serve, ALONE, tuple(chosen))
    ways = tuple(zip(whole.ways or whole.operators, (own for _, own in sorts), strict=True))
    fixed = iter([own for way, own in ways if not way.operator.choice])
    found = []
    for bound in whole.operators:
        own = "sequence" if bound.operator.choice else next(fixed)
        if own == sort:
            found.append(bound)
    choices = tuple(way for way, own in ways if own == sort) if whole.ways and sort == "sequence" else ()
    return ScheduledPass(serve, ALONE, tuple(found), choices)


def _of_all_replicas(linear: ScheduledPass) -> ScheduledPass:
    """Return the operators that work on the tokens of all attention replicas that share experts."""
    chosen = (each for each in linear.operators if spans_ranks(each.operator))
    return ScheduledPass(linear.deployment, ALONE, tuple(chosen))


def _streams(linear: ScheduledPass) -> TimeGrid | None:
    """Return the branches of shared and of routed experts by tokens of a step; None without shared experts."""
    found = branches(linear.operators)
    if found is None:
        return None
    return TimeGrid((TOKENS,), np.stack(np.broadcast_arrays(*found.flat), axis=-1))


# Name of each operator of a pass, and what it depends on.
Sorts = tuple[tuple[str, str], ...]


def _sorts(serve: Deployment) -> Sorts:
    """Return what each operator of a pass depends on, found by varying one input at a time."""
    tokens, past = 64.0, 1000.0
    plain = sorted_segment(serve.model, Segment(tokens, 1.0, past, 1.0))
    base = _works(serve, plain)
    other_logits = _works(serve, sorted_segment(serve.model, Segment(tokens, 1.0, past, 2.0)))
    far = Segment(tokens, 1.0, 30 * past, 1.0)  # beyond the end of windows
    other_past = _works(serve, sorted_segment(serve.model, far))
    one_sequence = _works(serve, sorted_segment(serve.model, Segment(1.0, tokens, past, tokens)))
    sorts = []
    operators = serve.model.operators(serve.run(plain))
    for at, (operator, work) in enumerate(zip(operators, base, strict=True)):
        if operator.choice:
            sorts.append("sequence")  # the way to compute it depends on the context
        elif work != other_logits[at]:
            sorts.append("head")
        elif work != other_past[at] or work != one_sequence[at]:
            sorts.append("sequence")
        else:
            sorts.append("linear")
    return tuple(zip((operator.name for operator in operators), sorts, strict=True))


def _works(serve: Deployment, segment: Segment) -> list[tuple[float, ...]]:
    """Return FLOPs, bytes and message of every operator, rounded so that the order of summation has no effect."""
    found = []
    for operator in serve.model.operators(serve.run(segment)):
        message = 0.0 if operator.message is None else operator.message.message_bytes
        figures = (operator.work.flops, operator.work.moved_bytes, operator.least.moved_bytes, message)
        found.append(tuple(float(f"{float(np.max(value)):.9g}") for value in figures))
    return found


def encoding_of(serve: Deployment, prompt: Segment, time: str) -> Array:
    """Return the encoders' time for the images and sound of one prompt."""
    whole = scheduled_pass(serve, ALONE, (prompt,))
    towers = tuple(f"{part}." for part in serve.model.towers)
    chosen = tuple(each for each in whole.operators if each.operator.name.startswith(towers))
    return _channels(ScheduledPass(serve, ALONE, chosen), time, _channel_names(serve, time), ())


def _channel_names(serve: Deployment, time: str) -> tuple[str, ...]:
    """Return the channel names: resources for the floor, otherwise one channel."""
    if time != "floor_s":
        return ("time",)
    return tuple(resources_s(scheduled_pass(serve, ALONE, (Segment(1.0, 2.0, 0.0),))))


ALONE = Schedule((), 1.0, 1.0, 1.0, 1.0)
"""One pass of one microbatch."""


def _channels(part: ScheduledPass, time: str, names: tuple[str, ...], shape: tuple[int, ...]) -> Array:
    """Return the times of some operators by channel; channels are the last axis."""
    if not part.operators:
        return np.zeros((*shape, len(names)))
    if time == "floor_s":
        found = resources_s(part)
        values = [found.get(name, 0.0) for name in names]
    elif time == "roofline_s":
        values = [part.sums.roofline_s]
    else:
        values = [part.estimates.time_s]
    return np.stack([np.broadcast_to(value, shape) for value in values], axis=-1)


def launch_s(bound: Bound) -> float:
    """Return the fixed part of an operator's estimate over all its launches; 0 if fused into another kernel."""
    return float(np.max(bound.estimate.fixed_s))
