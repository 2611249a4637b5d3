"""Totals of passes at single points, compiled for a deployment that is asked for many of them (`roofline.tracing`)."""

from __future__ import annotations

from functools import lru_cache

from ..efficiency.store import specs
from ..errors import Number
from ..operators.operator import Segment
from ..tracing import Repeated
from .chunking import numbers_of
from .deployment import Deployment
from .scheduling import pass_of
from .totals import Estimates, Sums

Fixed = tuple[tuple[Number | None, ...], ...]
"""Numbers of each segment that are the same at all points; None for those that vary."""

Varied = tuple[Number, ...]
"""The numbers that vary, in their order."""

USUAL = (0, 1)
"""Numbers that are fixed where they occur, since most arithmetic with them falls away: no past, one new token."""


def sums_at(serve: Deployment, name: str, segments: tuple[Segment, ...]) -> Sums:
    """Return the sums over the operators of a pass without arrays."""
    fixed, varied = _fixed_and_varied(segments)
    return _sums_of(serve, name, fixed, specs())(*varied)


def estimates_at(serve: Deployment, name: str, segments: tuple[Segment, ...]) -> Estimates:
    """Return the expected time of a pass without arrays."""
    return _estimates_once(serve, name, *_fixed_and_varied(segments), specs())


@lru_cache(maxsize=1024)
def _estimates_once(serve: Deployment, name: str, fixed: Fixed, varied: Varied, folders: str) -> Estimates:
    """Return the same, cached since it takes ten times as long as the sums."""
    return _estimates_of(serve, name, fixed, folders)(*varied)


def _fixed_and_varied(segments: tuple[Segment, ...]) -> tuple[Fixed, Varied]:
    rows = [numbers_of(segment) for segment in segments]
    fixed = tuple(tuple(number if number in USUAL else None for number in row) for row in rows)
    # As floats, which `scalar` makes of integers and NumPy's numbers, but not of traced ones.
    return fixed, tuple(float(number) for row in rows for number in row if number not in USUAL)


def _segments(fixed: Fixed, varied: Varied) -> tuple[Segment, ...]:
    """Return the segments of one point."""
    following = iter(varied)
    return tuple(Segment(*(next(following) if number is None else number for number in row)) for row in fixed)


@lru_cache(maxsize=64)
def _sums_of(serve: Deployment, name: str, fixed: Fixed, folders: str) -> Repeated[Sums]:
    """Return the sums of a kind of pass; ``folders`` are the user's directories, which estimates depend on."""
    return Repeated(lambda *varied: pass_of(serve, name, _segments(fixed, varied)).sums)


@lru_cache(maxsize=64)
def _estimates_of(serve: Deployment, name: str, fixed: Fixed, folders: str) -> Repeated[Estimates]:
    """Return the expected time of a kind of pass."""
    return Repeated(lambda *varied: pass_of(serve, name, _segments(fixed, varied)).estimates)
