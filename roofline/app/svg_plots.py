"""The plots of the page, as SVG."""

from __future__ import annotations

import dataclasses
import io
import threading
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes

from ..cli.answers import Answers
from ..errors import unknown
from ..phases.passes import decode
from ..plot import LIGHT, curves, memory_stack, new_axes, roofline, time_breakdown
from .numbers import load_of
from .state import RefusedState, State

SIZE_INCHES = (5.0, 3.9)
"""Size in inches, close to that on the page, so that text is readable."""

_ONE_AT_A_TIME = threading.Lock()
"""Matplotlib shares caches of fonts and texts between figures, which are not thread-safe."""


def _roofline(found: Answers, ax: Axes) -> None:
    roofline(found.serve.accelerator, found.prefill, found.decode, ax=ax)


def _operators(found: Answers, ax: Axes) -> None:
    time_breakdown(found.prefill, found.decode, ax=ax)


def _memory(found: Answers, ax: Axes) -> None:
    memory_stack(found.memory, ax=ax)


def _curve(found: Answers, ax: Axes) -> None:
    batches = np.unique(np.round(np.geomspace(1, max(64, 2 * found.load.batch), 40)))
    step = decode(found.serve, dataclasses.replace(found.load, batch=batches))
    curves(step, ax=ax)


PICTURES: dict[str, Callable[[Answers, Axes], None]] = {
    "roofline": _roofline,
    "operators": _operators,
    "memory": _memory,
    "curve": _curve,
}
"""Kind of plot -> how it is drawn."""


PAPERS = {"light": "#ffffff", "dark": "#1b252b"}
"""Theme of the page -> background color of its cards, from which the plots choose their colors."""


def draw(state: State, kind: str, *, theme: str = "light", wanted: Callable[[], bool] = lambda: True) -> bytes:
    """Draw a plot of a state.

    Parameters
    ----------
    state : State
        What the controls ask for.
    kind : str
        One of `PICTURES`.
    theme : str
        ``light`` or ``dark``.
    wanted : callable
        Called before drawing; returns whether the plot is still needed.

    Returns
    -------
    bytes
        The SVG; empty if it is no longer needed.

    Raises
    ------
    Refused
        There is no such plot or theme.
    """
    if kind not in PICTURES:
        raise RefusedState(str(unknown("picture", kind, PICTURES)))
    if theme not in PAPERS:
        raise RefusedState(str(unknown("theme", theme, PAPERS)))
    found = Answers(state.serve, load_of(state))
    with _ONE_AT_A_TIME:
        if not wanted():
            return b""
        width, height = SIZE_INCHES
        ax = new_axes(style=dataclasses.replace(LIGHT, paper=PAPERS[theme]), width=width, height=height)
        PICTURES[kind](found, ax)
        figure, drawn = ax.figure.figure, io.BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()
