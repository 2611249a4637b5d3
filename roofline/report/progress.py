"""Progress bars for slow work, in a terminal and in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

PATIENCE_S = 1.0
"""Seconds after which progress is shown."""

WIDTH = 24
"""Width of the bar in characters."""


def patient(cases: list[Any]) -> Iterator[Any]:
    """Yield the cases one by one; after a second, a terminal or notebook shows how many are done."""
    tell = reporter()
    for place, case in enumerate(cases):
        tell(place, len(cases))
        yield case
    tell(len(cases), len(cases))


def reporter(shown: bool | None = None) -> Callable[[int, int], None]:
    """Return a function that takes (done, total), draws a bar after a second, and erases it at the end.

    Parameters
    ----------
    shown : bool, optional
        Whether to draw a bar; None draws it in terminals and notebooks only.
    """
    start, visible = time.monotonic(), watched() if shown is None else shown

    def tell(done: int, of: int) -> None:
        if not visible:
            return
        if done >= of:
            print(" " * 40, end="\r", file=sys.stderr)
        elif time.monotonic() - start > PATIENCE_S:
            full = int(WIDTH * done / of)
            bar = f"[{'#' * full}{'.' * (WIDTH - full)}] {done:,} of {of:,}"
            print(bar, end="\r", file=sys.stderr, flush=True)

    return tell


def watched() -> bool:
    """Whether the standard error stream is a terminal, or the output of a notebook's cell."""
    if sys.stderr is None:
        return False
    return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
