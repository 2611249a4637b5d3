"""Logarithmic axes with plain numbers at their ticks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from .style import LIGHT

FEWEST_TICKS = 3
"""A logarithmic axis with fewer powers of ten has ticks between them as well."""


class LogTicks(LogLocator):
    """Ticks at powers of ten; over few decades at 2 and 5 as well, and over less than one at steps that are round."""

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Where the ticks are, for limits that may have changed since the axis was made."""
        low, high = sorted((float(vmin), float(vmax)))
        if not 0 < low < high:
            return np.asarray(super().tick_values(vmin, vmax))
        found = next(ticks for count in (12, 8, 6, 4, 3, 2) if self._has_room(ticks := self._at(low, high, count)))
        for subs in ((1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)):
            finer = self._at(low, high, 12, subs)
            if len(found) < FEWEST_TICKS and self._has_room(finer):
                found = finer
        if len(found) > 1:
            return found
        return np.asarray(MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(low, high))

    def _at(self, low: float, high: float, count: int, subs: Sequence[float] = (1.0,)) -> npt.NDArray[np.float64]:
        """Multiples ``subs`` of at most about ``count`` powers of ten within the limits."""
        self.set_params(subs=subs, numticks=count)
        ticks = np.asarray(super().tick_values(low, high))
        return ticks[(ticks >= low * (1 - 1e-9)) & (ticks <= high * (1 + 1e-9))]  # powers of ten may be rounded

    def _has_room(self, ticks: npt.NDArray[np.float64]) -> bool:
        """Whether the tick labels do not overlap; at most two never do."""
        axis: Any = self.axis
        width, height = axis.axes.bbox.size / axis.axes.figure.dpi * 72
        if axis.axis_name == "y":
            return len(ticks) <= 2 or 1.6 * LIGHT.text_size * len(ticks) < height
        words = [axis.get_major_formatter()(tick) for tick in ticks]
        low, high = axis.get_view_interval()
        places = width * np.log(ticks / low) / np.log(high / low)
        wide = 0.62 * LIGHT.text_size * np.array([len(word) + 1.5 for word in words])
        return len(ticks) <= 2 or bool((np.diff(places) > (wide[1:] + wide[:-1]) / 2).all())


def log_axis(axis: Axis, written: Callable[[float], str] | None = None) -> None:
    """Ticks of a logarithmic axis with plain numbers: at powers of ten, over few decades at further places as well."""
    words = written or plain_number
    axis.set_major_locator(LogTicks())
    axis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def log_limits(*values: Any, room: float = 0.05) -> tuple[float, float]:
    """Limits of a logarithmic axis around all positive finite ``values``, with a share of their span on either side."""
    flat = np.concatenate([np.ravel(np.asarray(value, float)) for value in values])
    logs = np.log(flat[np.isfinite(flat) & (flat > 0)])
    span = max(np.ptp(logs), 0.5) * room
    return float(np.exp(logs.min() - span)), float(np.exp(logs.max() + span))


def plain_number(value: float) -> str:
    """A tick label without an exponent: ``1,000``, ``0.01``."""
    if value < 1:
        return f"{value:g}"
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}"
