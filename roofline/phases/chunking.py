"""Large sweeps in blocks: small enough for the cache, and divided among the cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import chain
from math import prod
from typing import Any, TypeVar

import numpy as np

from ..errors import InvalidInput, Number
from ..operators.operator import Segment

Found = TypeVar("Found")
T = TypeVar("T", bound=tuple[Any, ...])

_BLOCK_POINTS = 2**14
"""Points of a sweep computed at once.  An array of them takes 1/8 MB, which stays in the cache."""

_MANY_POINTS = 2**19
"""Sweeps with more points use blocks of half the size, so that most of the memory holds their results."""


_MOST_AT_ONCE = 4
"""Blocks computed at the same time; the operators of each take about 7 kB per point."""


def numbers_of(segment: Segment) -> tuple[Number, ...]:
    """Return the numeric fields of a segment."""
    numbers = (
        segment.sequences,
        segment.new_tokens,
        segment.past_tokens,
        segment.emitted_tokens,
        segment.shared_tokens,
        segment.images,
        segment.image_tokens,
        segment.audio_s,
        segment.source_tokens,
        segment.encoded_tokens,
    )
    return numbers if segment.sharing is None else (*numbers, segment.sharing)


def sequences_by_name(segments: tuple[Segment, ...]) -> dict[str, Number]:
    """Return the number and lengths of a pass's sequences, under the field names of a workload.

    Examples
    --------
    >>> sequences_by_name((Segment(8, 1.0, 2048),))
    {'batch': 8, 'context_tokens': 2048}
    """
    found: dict[str, Number] = {}
    for segment in segments:
        names = {"batch": segment.sequences}
        if isinstance(segment.new_tokens, float) and segment.new_tokens == 1.0:
            names |= {"context_tokens": segment.past_tokens}
        else:
            names |= {"prompt_tokens": segment.new_tokens, "cached_tokens": segment.past_tokens}
        if np.any(segment.source_tokens):
            names["source_tokens"] = segment.source_tokens
        if segment.has_media:
            names |= {name: getattr(segment, name) for name in ("images", "image_tokens", "audio_s")}
        number_of = 1 + sum(name.startswith("batch") for name in found)
        found |= {name if number_of == 1 else f"{name}_{number_of}": value for name, value in names.items()}
    return found


def broadcast_shape(segments: tuple[Segment, ...]) -> tuple[int, ...]:
    """Return the broadcast shape of all numbers in ``segments``.

    Raises
    ------
    InvalidInput
        The shapes do not broadcast.
    """
    shapes: list[tuple[int, ...]] = []
    for segment in segments:
        shapes.extend(value.shape for value in numbers_of(segment) if isinstance(value, np.ndarray))
    if not shapes:
        return ()
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise InvalidInput(f"batch and tokens must broadcast, not {' with '.join(map(str, set(shapes)))}") from None


def is_large(segments: tuple[Segment, ...]) -> bool:
    """Return whether a sweep has so many points that it is computed in blocks."""
    return prod(broadcast_shape(segments)) > 2 * _BLOCK_POINTS


def each_block(function: Callable[[tuple[Segment, ...]], Found], segments: tuple[Segment, ...]) -> Iterator[Found]:
    """Yield ``function`` of each block of a sweep, in order; blocks run in parallel on the cores."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_AT_ONCE)) as pool:
        yield from pool.map(function, split(segments))


def split(segments: tuple[Segment, ...]) -> list[tuple[Segment, ...]]:
    """Split a large sweep along its first axis into blocks of about `_BLOCK_POINTS` points."""
    shape = broadcast_shape(segments)
    if not is_large(segments):
        return [segments]
    rows = _rows(shape)

    def cut(value: Number, start: int) -> Number:
        whole = np.ndim(value) == len(shape) and np.shape(value)[0] > 1
        if whole and isinstance(value, np.ndarray):
            return value[start : start + rows]
        return value

    def block(start: int) -> tuple[Segment, ...]:
        parts = []
        for segment in segments:
            numbers = [cut(value, start) for value in numbers_of(segment)]
            parts.append(Segment(*numbers))
        return tuple(parts)

    return [block(start) for start in range(0, shape[0], rows)]


def setting_aside(
    parts: Iterator[tuple[T, tuple[tuple[str, ...], ...]]], found: tuple[dict[str, None], ...]
) -> Iterator[T]:
    """Yield the first of each pair; collect the notes of the second in ``found``, per group and without repeats."""
    for part, groups in parts:
        for every, words in zip(found, groups, strict=True):
            every.update(dict.fromkeys(words))
        yield part


def put_together(parts: Iterator[T], segments: tuple[Segment, ...]) -> T:
    """Join the totals of consecutive blocks of ``segments`` into arrays, as the blocks arrive.

    A value that is the same at all points is stored once.
    """
    shape = broadcast_shape(segments)
    rows, first = _rows(shape), next(parts)
    columns = [_Column(shape) for _ in first]
    for at, part in enumerate(chain((first,), parts)):
        for column, value in zip(columns, part, strict=True):
            column.put(at * rows, rows, np.asarray(value, dtype=float))
    return type(first)(*(column.values() for column in columns))


class _Column:
    """Values of consecutive blocks: one number while all are equal, an array after that."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.same: float | None = None
        self.whole: np.ndarray | None = None

    def put(self, start: int, rows: int, value: np.ndarray) -> None:
        """Store the values of the block of ``rows`` that begins at ``start``."""
        if self.whole is None:
            first = float(value.flat[0])
            if (start == 0 or first == self.same) and bool(np.all(value == first)):
                self.same = first
                return
            self.whole = np.empty(self.shape)
            self.whole[:start] = self.same
        self.whole[start : start + rows] = value

    def values(self) -> np.ndarray:
        """Return an array of the whole shape; it may be a view of one number."""
        if self.whole is None:
            return np.broadcast_to(np.float64(self.same or 0.0), self.shape)
        return self.whole


def _rows(shape: tuple[int, ...]) -> int:
    """Number of rows of the first axis per block."""
    points = prod(shape)
    block = _BLOCK_POINTS // 2 if points > _MANY_POINTS else _BLOCK_POINTS
    return max(1, block * shape[0] // points)
