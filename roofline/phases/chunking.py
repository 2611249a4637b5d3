"""Sequences of sweeps: their names and shape, and blocks of them that stay small and that the cores share."""

from __future__ import annotations

from math import prod
from typing import Any, TypeVar

import numpy as np

from ..errors import InvalidInput, Number
from ..operators.operator import Segment

T = TypeVar("T", bound=tuple[Any, ...])

_BLOCK_POINTS = 2**15
"""Points of a sweep that are computed at once: an array of them is a quarter of a megabyte, and stays in the cache."""


def numbers_of(segment: Segment) -> tuple[Number, ...]:
    """The numbers of a segment."""
    numbers = (
        segment.sequences,
        segment.new_tokens,
        segment.past_tokens,
        segment.emitted_tokens,
        segment.shared_tokens,
    )
    return numbers if segment.sharing is None else (*numbers, segment.sharing)


def sequences_by_name(segments: tuple[Segment, ...]) -> dict[str, Number]:
    """Number and lengths of the sequences of a pass by the names of a workload's fields.

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
        number_of = 1 + sum(name.startswith("batch") for name in found)
        found |= {name if number_of == 1 else f"{name}_{number_of}": value for name, value in names.items()}
    return found


def broadcast_shape(segments: tuple[Segment, ...]) -> tuple[int, ...]:
    """The broadcast shape of everything in ``segments``.

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


def split(segments: tuple[Segment, ...]) -> list[tuple[Segment, ...]]:
    """``segments`` cut along their first axis into blocks of about `_BLOCK_POINTS` points."""
    shape = broadcast_shape(segments)
    if prod(shape) <= _BLOCK_POINTS:
        return [segments]
    rows = _rows(shape)

    def cut(value: Number, start: int) -> Number:
        whole = np.ndim(value) == len(shape) and np.shape(value)[0] > 1
        return value[start : start + rows] if whole and isinstance(value, np.ndarray) else value

    def block(start: int) -> tuple[Segment, ...]:
        parts = []
        for segment in segments:
            numbers = [cut(value, start) for value in numbers_of(segment)]
            parts.append(Segment(*numbers))
        return tuple(parts)

    return [block(start) for start in range(0, shape[0], rows)]


def put_together(parts: list[T], shape: tuple[int, ...]) -> T:
    """The totals of consecutive blocks put together again into arrays of ``shape``."""
    rows = _rows(shape)
    columns = []
    for column in zip(*parts, strict=True):
        whole = np.empty(shape)
        for at, value in enumerate(column):
            whole[at * rows : (at + 1) * rows] = value
        columns.append(whole)
    return type(parts[0])(*columns)


def _rows(shape: tuple[int, ...]) -> int:
    """Rows of the first axis that make a block."""
    return max(1, _BLOCK_POINTS * shape[0] // prod(shape))
