"""A clock for simulations: `StepTimes` for one step at a time, in plain Python.

A simulation looks up single values millions of times, which is slow with arrays.  The tables are the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import ceil

import numpy as np

from .step_tables import TimeGrid
from .step_times import StepTimes

Chunk = tuple[int, int]
"""New tokens of a prompt in a step, and the number of prompt tokens before them."""


class Polyline:
    """Piecewise linear function, extrapolated beyond its last point."""

    __slots__ = ("places", "values")

    def __init__(self, places: Sequence[float], values: Sequence[float]) -> None:
        self.places = places
        self.values = values

    def at(self, place: float) -> float:
        """Return the value at ``place``."""
        places, values = self.places, self.values
        below = bisect_right(places, place, 1, len(places) - 1) - 1
        left, low = places[below], values[below]
        return low + (values[below + 1] - low) * (place - left) / (places[below + 1] - left)

    def inverse(self, value: float) -> float:
        """Return the place at which an increasing function reaches ``value``."""
        return Polyline(self.values, self.places).at(value)

    def steps_until(self, span: float, most: int, place: float) -> int:
        """Return how many consecutive steps fit in ``span``, about ``most`` at most. Each step is one place further."""
        first = self.at(place)
        if span <= first:
            return 1
        guess = min(ceil(span / first), most)
        return max(ceil(span / self.at(place + (guess - 1) / 2)), 1)


class Sheet:
    """Values of one channel on a two-dimensional grid, interpolated linearly."""

    __slots__ = ("columns", "places", "rows")

    def __init__(self, table: TimeGrid, channel: int) -> None:
        self.places: list[float] = table.axes[0].tolist()
        self.columns: list[float] = table.axes[1].tolist()
        self.rows: list[list[float]] = table.values[..., channel].tolist()

    def at(self, place: float, column: float) -> float:
        """Return the value at a point."""
        places, columns = self.places, self.columns
        i = bisect_right(places, place, 1, len(places) - 1) - 1
        j = bisect_right(columns, column, 1, len(columns) - 1) - 1
        x = (place - places[i]) / (places[i + 1] - places[i])
        y = (column - columns[j]) / (columns[j + 1] - columns[j])
        upper, lower = self.rows[i], self.rows[i + 1]
        first = upper[j] + (upper[j + 1] - upper[j]) * y
        return first + (lower[j] + (lower[j + 1] - lower[j]) * y - first) * x


LINES = 32
"""Number of batch sizes whose decode steps are tabulated at once."""


class Clock:
    """Step durations, one step at a time.

    Parameters
    ----------
    times : StepTimes
        Tabulated step times.
    """

    def __init__(self, times: StepTimes) -> None:
        self.times = times
        tables = times.tables
        self.channels = range(tables.linear.values.shape[-1])
        self.linear = [_line(tables.linear, channel) for channel in self.channels]
        self.experts = [_line(tables.experts, channel) for channel in self.channels]
        self.head = [_line(tables.head, channel) for channel in self.channels]
        self.decode = [Sheet(tables.decode, channel) for channel in self.channels]
        self.prompt = [Sheet(tables.prompt, channel) for channel in self.channels]
        self.further = [Sheet(tables.further, channel) for channel in self.channels]
        self.encoding: list[float] | None = None if times.encoding is None else times.encoding.tolist()
        self.whole_prompts = times.decoder_tokens(2) == 2  # else only a start token passes through the decoder
        self.floor = times.time == "floor_s"
        self._lines: dict[int, Polyline] = {}
        self._experts_s: dict[float, float] = {}

    def line(self, batch: int) -> Polyline:
        """Return the time of a decode step of ``batch`` sequences as a function of their mean context."""
        found = self._lines.get(batch)
        if found is None:
            self._draw(batch - (batch - 1) % LINES)
            found = self._lines[batch]
        return found

    def experts_s(self, tokens: float) -> float:
        """Return the experts' time in a step in which each rank has ``tokens`` tokens."""
        found = self._experts_s.get(tokens)
        if found is None:
            found = self._experts_s[tokens] = float(self.times.scale) * sum(line.at(tokens) for line in self.experts)
        return found

    def _draw(self, first: int) -> None:
        """Tabulate decode times for a block of batch sizes that starts at ``first``."""
        contexts = self.times.tables.decode.axes[1]
        batches = np.arange(first, first + LINES)
        places = contexts.tolist()
        rows = self.times.decode_s(batches[:, None].astype(float), contexts).tolist()
        for batch, row in zip(batches.tolist(), rows, strict=True):
            self._lines[batch] = Polyline(places, row)

    def prompts_s(
        self, batch: int, context_tokens: float, chunks: Sequence[Chunk], emitted: int, begun: int = 0
    ) -> float:
        """Return the time of a step with ``batch`` decoding sequences and chunks of prompts.

        ``emitted`` counts chunks that complete their prompt; ``begun`` counts first chunks, which encode the images.
        """
        tokens = batch + (sum(new for new, _ in chunks) if self.whole_prompts else len(chunks))
        found = [
            self.linear[channel].at(tokens)
            + self.head[channel].at(batch + emitted)
            + (self.decode[channel].at(batch, context_tokens) if batch else 0.0)
            + self._attention_s(channel, chunks)
            for channel in self.channels
        ]
        if self.encoding is not None:
            found = [kernels_s + begun * encoding for kernels_s, encoding in zip(found, self.encoding, strict=True)]
        kernels_s = max(found) if self.floor else sum(found)
        times = self.times
        return float(times.scale * times.host.prompts_s(kernels_s, times.shape, tokens))

    def _attention_s(self, channel: int, chunks: Sequence[Chunk]) -> float:
        """Return the attention time of the chunks: the first in full, the others by what they add."""
        (new, past), *others = chunks
        total, further = self.prompt[channel].at(new, past), self.further[channel]
        for new, past in others:
            total += further.at(new, past)
        return total


def _line(table: TimeGrid, channel: int) -> Polyline:
    return Polyline(table.axes[0].tolist(), table.values[:, channel].tolist())
