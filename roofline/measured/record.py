"""`Record`: numbers from a parsed file in any notation, with notes about invalid ones."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..arrays import FrozenMapping
from ..report import Step
from ..report.steps import value_of
from .measurement import SERVING, Measurement

MAX_DOUBTS = 20
"""Largest number of notes about unreadable values per run."""

MOST = 1e18
"""Values above this are invalid in any unit; a year has 3e16 nanoseconds."""

_UNLIMITED = {"inf", "infinity", "none", "null", "nan", ""}


def as_number(value: object) -> float | None:
    """Return a finite number from a number or a text (``"1,040.86"``, ``" 7.04 "``); None for anything else.

    Examples
    --------
    >>> as_number("1,040.86"), as_number(float("nan")), as_number("0,1,2,3"), as_number(True)
    (1040.86, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(_without_separators(value)) if isinstance(value, str) else float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


_THOUSANDS = re.compile(r"^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$")


def _without_separators(text: str) -> str:
    """``1,040.86`` without its comma; ``0,1,2,3`` and ``7,04`` are left unchanged, so they are not numbers."""
    bare = text.strip()
    return bare.replace(",", "") if _THOUSANDS.match(bare) else bare


class Record:
    """One object of a file, with the notes that its reader collects.

    Parameters
    ----------
    data : mapping
        The object.
    source : str
        The file and the place in it.
    """

    def __init__(self, data: Mapping[str, Any], source: str) -> None:
        self.data = data
        self.source = source
        self.repaired: list[str] = []
        self.doubts: list[str] = []
        self.steps: list[Step] = []

    def at(self, path: str) -> Any:
        """The value of the key ``path``, or at that path with parts separated by slashes; None if there is none."""
        if path in self.data:
            return self.data[path]
        value: Any = self.data
        for part in path.split("/"):
            if isinstance(value, Mapping):
                value = value.get(part)
            elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            else:
                return None
        return value

    def number(self, *paths: str, unit: float = 1.0, positive: bool = False) -> float | None:
        """The first number found at one of ``paths``, times ``unit``.

        Negative numbers, and zeros with ``positive``, count as not measured.
        """
        for path in paths:
            value = self.at(path)
            if value is None:
                continue
            found = as_number(value)
            if found is None:
                self._unreadable(path, value)
            elif found > MOST:
                self.doubt(f"{path} is {found:g}, which is implausible; ignored")
            elif found < 0:
                self.doubt(f"{path} is negative ({found:g}); ignored")
            elif found > 0 or not positive:
                scaled = found * unit
                return scaled if math.isfinite(scaled) else None
        return None

    def _unreadable(self, path: str, value: object) -> None:
        """A note about a value that is not a number; texts such as "inf" and NaN mean "none"."""
        if isinstance(value, float) or (isinstance(value, str) and value.strip().lower() in _UNLIMITED):
            return
        self.doubt(f"{path} holds {_shown(value)}, which is not a number; ignored")

    def count(self, *paths: str, positive: bool = False) -> int | None:
        """The first integer found at one of ``paths``."""
        found = self.number(*paths, positive=positive)
        if found is None or (positive and round(found) == 0):
            return None
        return round(found)

    def text(self, *paths: str) -> str | None:
        """The first non-empty text, or number as text, at one of ``paths``."""
        for path in paths:
            value = self.at(path)
            if isinstance(value, str) and value.strip():
                return value.strip()
            if isinstance(value, int | float) and not isinstance(value, bool):
                return f"{value:g}" if isinstance(value, float) else str(value)
        return None

    def numbers(self, path: str) -> list[float] | None:
        """The list of numbers at ``path``; None if there is none."""
        value = self.at(path)
        if not isinstance(value, list) or not value:
            return None
        found = [as_number(item) for item in value]
        clean = [item for item in found if item is not None and item >= 0]
        return clean if len(clean) == len(value) else None

    def doubt(self, words: str) -> None:
        """Add a warning about unreliable values."""
        if words not in self.doubts and len(self.doubts) < MAX_DOUBTS:
            self.doubts.append(words)

    def repair(self, words: str) -> None:
        """Add a note about a correction."""
        self.repaired.append(words)

    def derive(self, name: str, formula: str, source: str, **inputs: float | None) -> float | None:
        """The value of ``formula``, recorded as a step; None if an input is missing or the result is invalid."""
        known = {key: value for key, value in inputs.items() if value is not None}
        if len(known) < len(inputs):
            return None
        value = _evaluate(formula, known)
        if value is None:
            return None
        self.steps.append(Step(name, formula, known, value, source))
        return value

    def finish(self, tool: str, *, stated: Mapping[str, Any] | None = None, **figures: Any) -> Measurement:
        """The measurement, after cross-checks, with notes."""
        kept = {key: value for key, value in (stated or {}).items() if value is not None}
        kind = figures.pop("kind", SERVING)
        checked = _completed(self, figures)
        return Measurement(
            tool,
            self.source,
            kind,
            FrozenMapping(kept),
            **checked,
            steps=tuple(self.steps),
            repaired=tuple(self.repaired),
            doubts=tuple(self.doubts),
        )


def _evaluate(formula: str, inputs: Mapping[str, float]) -> float | None:
    try:
        value = value_of(formula, inputs)
    except (ZeroDivisionError, OverflowError):
        return None
    if math.isfinite(value) and value > 0:
        return value
    return None


def _completed(record: Record, figures: dict[str, Any]) -> dict[str, Any]:
    """Fill in values that follow from others, and note those that do not agree."""
    rate, output = figures.get("requests_per_s"), figures.get("output_tokens")
    if figures.get("tokens_per_s") is None and rate and output:
        figures["tokens_per_s"] = record.derive(
            "tokens_per_s",
            "requests_per_s * output_tokens",
            "the file has no output token rate",
            requests_per_s=rate,
            output_tokens=output,
        )
    _check_rates(record, figures)
    _check_latencies(record, figures)
    return figures


AGREEMENT = 0.02
"""Relative difference up to which two values that should be equal agree."""


def _check_rates(record: Record, figures: Mapping[str, Any]) -> None:
    rate, output, tokens = (figures.get(name) for name in ("requests_per_s", "output_tokens", "tokens_per_s"))
    if rate and output and tokens and abs(rate * output / tokens - 1) > AGREEMENT:
        record.doubt(
            f"requests_per_s x output_tokens is {rate * output:.4g} tokens/s, but the file states {tokens:.4g}; "
            "one of the three has another meaning"
        )
    asked = figures.get("request_rate")
    if asked and rate and rate < 0.9 * asked:
        record.doubt(
            f"{asked:g} requests/s were requested and {rate:.3g} finished; the run is over capacity or short, so TTFT "
            "may include queueing"
        )
    failed, done = figures.get("failed"), figures.get("requests")
    if failed and done:
        record.doubt(f"{failed:,} of {failed + done:,} requests failed; the values cover the others")


def _check_latencies(record: Record, figures: Mapping[str, Any]) -> None:
    total, ttft = figures.get("total_mean_s"), figures.get("ttft_mean_s")
    if total and ttft and ttft > total * (1 + AGREEMENT):
        record.doubt(f"the mean TTFT of {ttft:.4g} s is longer than the mean request of {total:.4g} s")
    in_flight, cap = figures.get("requests_per_s"), figures.get("concurrency")
    if total and in_flight and cap and total * in_flight > cap * (1 + AGREEMENT):
        record.doubt(f"requests_per_s x mean total gives {total * in_flight:.4g} in flight, above the limit of {cap:g}")


def percentiles_of(pairs: Iterable[tuple[str, float | None]]) -> FrozenMapping[str, float]:
    """Percentiles by name, without those that the file lacks."""
    return FrozenMapping({name: value for name, value in pairs if value is not None})


_PERCENTILE = re.compile(r"^p(\d{1,3}(?:\.\d+)?)$")


def percentiles_in(record: Record, path: str, latency: str, unit: float) -> Iterator[tuple[str, float | None]]:
    """``("ttft_p99_s", ...)`` for each ``p99`` below ``path``."""
    found = record.at(path)
    for key in found if isinstance(found, Mapping) else ():
        match = _PERCENTILE.match(str(key))
        if match:
            yield f"{latency}_p{match[1]}_s", record.number(f"{path}/{key}", unit=unit)


def mean(values: list[float]) -> float | None:
    """Arithmetic mean; None for an empty list."""
    return math.fsum(values) / len(values) if values else None


def median(values: list[float]) -> float | None:
    """Median; None for an empty list."""
    if not values:
        return None
    ordered, half = sorted(values), len(values) // 2
    if len(values) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


MOST_SHOWN = 40
"""Characters of a value that a message quotes."""


def _shown(value: object) -> str:
    words = repr(value)
    return words if len(words) <= MOST_SHOWN else f"{words[: MOST_SHOWN - 3]}..."
