"""Progress of what takes long, on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

PATIENCE_S = 1.0
"""What takes longer shows its progress."""

WIDTH = 24
"""Characters of the bar."""


def patient(cases: list[Any]) -> Iterator[Any]:
    """The cases one by one; after a second a terminal shows how many are done."""
    tell = reporter()
    for place, case in enumerate(cases):
        tell(place, len(cases))
        yield case
    tell(len(cases), len(cases))


def reporter() -> Callable[[int, int], None]:
    """A function to be told how many of how many are done, which draws a bar after a second and wipes it at the end."""
    start, shown = time.monotonic(), sys.stderr is not None and sys.stderr.isatty()

    def tell(done: int, of: int) -> None:
        if not shown:
            return
        if done >= of:
            print(" " * 40, end="\r", file=sys.stderr)
        elif time.monotonic() - start > PATIENCE_S:
            full = int(WIDTH * done / of)
            print(f"[{'#' * full}{'.' * (WIDTH - full)}] {done:,} of {of:,}", end="\r", file=sys.stderr)

    return tell
