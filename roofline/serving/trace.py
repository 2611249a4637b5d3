"""Traces: recorded requests, each with its arrival time and lengths."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput, SpecError
from ..files import as_path, read_text
from ..phases.workload import Workload
from ..report import Report
from .traffic import MAX_BYTES, OUTPUT_NAMES, PROMPT_NAMES, Traffic, read_traffic

ARRIVAL_NAMES = ("arrival_s", "arrival_time", "arrived_at", "timestamp", "time", "start_time", "arrival")
"""Columns of arrival times, in seconds or as ISO 8601 dates."""

CACHED_NAMES = ("cached_tokens", "num_cached_tokens")


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Report):
    """Recorded requests, in order of arrival.

    Attributes
    ----------
    arrival_s : array
        Arrival times in seconds since the first, in ascending order.
    prompt_tokens, output_tokens : array
        Lengths of each request; prompt tokens that are already cached are not counted.
    cached_tokens : array
        Tokens of each prompt that are already cached.
    source : str
        Source of the trace.
    """

    arrival_s: npt.NDArray[np.float64]
    prompt_tokens: npt.NDArray[np.float64]
    output_tokens: npt.NDArray[np.float64]
    cached_tokens: npt.NDArray[np.float64]
    source: str = "given"

    columns = ("arrival_s", "prompt_tokens", "output_tokens", "cached_tokens")

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def requests_per_s(self) -> float:
        """Mean rate of arrivals, 1/s; infinite if all arrive at once."""
        span = float(self.arrival_s[-1] - self.arrival_s[0])
        return (len(self) - 1) / span if span > 0 else float("inf")

    @property
    def burstiness(self) -> float:
        """Squared coefficient of variation of the gaps between arrivals."""
        gaps = np.diff(self.arrival_s)
        mean = float(gaps.mean()) if gaps.size else 0.0
        return float(gaps.var()) / mean**2 if mean > 0 else 0.0

    @property
    def longest_tokens(self) -> float:
        """Prompt and output tokens of the longest request."""
        return float(np.max(self.prompt_tokens + self.output_tokens))

    @property
    def traffic(self) -> Traffic:
        """Request lengths as a traffic, without arrival times; every request has the mean number of cached tokens."""
        cached = float(np.round(np.mean(self.cached_tokens)))
        return Traffic(self.prompt_tokens, self.output_tokens, np.ones(len(self)), self.source, cached_tokens=cached)

    def at_rate(self, requests_per_s: float) -> Trace:
        """Return the trace with its arrival times scaled to another mean rate; bursts are kept."""
        factor = self.requests_per_s / requests_per_s
        return Trace(self.arrival_s * factor, self.prompt_tokens, self.output_tokens, self.cached_tokens, self.source)


def read_trace(path: str | Path, *, max_bytes: int = MAX_BYTES) -> Trace:
    """Read a trace from a CSV or JSON Lines file.

    Parameters
    ----------
    path : str or Path
        One line per request: its arrival time (``arrival_s``, ``timestamp`` ..., in seconds or as a date),
        ``prompt_tokens`` and ``output_tokens`` or other tools' names for them, and optionally ``cached_tokens``.
    max_bytes : int
        Largest accepted file size, bytes.

    Returns
    -------
    Trace
        Requests with times relative to the first arrival.

    Raises
    ------
    SpecError
        The file cannot be read, or a row lacks a value, has a length below 1, or is earlier than the row above it; the
        message names the row.
    """
    path = as_path(path)
    text = read_text(path, max_bytes=max_bytes).removeprefix("\ufeff").strip()
    if not text:
        raise SpecError(f"{path} is empty")
    reader = _json_rows if text[0] == "{" else _csv_rows
    requests = [_request(row, f"{path}, row {number}") for number, row in enumerate(reader(text, path), start=1)]
    if not requests:
        raise SpecError(f"{path} contains no requests")
    arrival, prompt, output, cached = (np.array(column) for column in zip(*requests, strict=True))
    late = np.flatnonzero(np.diff(arrival) < 0)
    if late.size:
        row = int(late[0]) + 2
        raise SpecError(f"{path}, row {row}: arrives {arrival[row - 2] - arrival[row - 1]:g} s before the row above it")
    return Trace(arrival - arrival[0], prompt, output, cached, path.name)


def read_arrivals(path: str | Path) -> Traffic | Trace:
    """Read the requests in a file: as a trace if it has arrival times, else as a traffic.

    Parameters
    ----------
    path : str or Path
        File in a format that `read_trace` or `roofline.serving.traffic.read_traffic` accepts.

    Returns
    -------
    Trace or Traffic
        A trace if the first row has an arrival time.

    Raises
    ------
    SpecError
        The file cannot be read or contains no requests.
    """
    path = as_path(path)
    text = read_text(path, max_bytes=MAX_BYTES).removeprefix("\ufeff").strip()
    first = text.partition("\n")[0].lower()
    timed = any(name in names_of(first) for name in ARRIVAL_NAMES)
    return read_trace(path) if timed else read_traffic(path)


def names_of(line: str) -> set[str]:
    """Return the names in the first line of a file: columns of CSV, or quoted names of JSON."""
    quoted = line.split('"')[1::2] if line.startswith(("{", "[")) else line.replace('"', "").split(",")
    return {name.strip() for name in quoted}


def _csv_rows(text: str, path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        for row in csv.DictReader(io.StringIO(text), strict=True):
            yield {key.strip().lower(): value for key, value in row.items() if isinstance(key, str)}
    except csv.Error as error:
        raise SpecError(f"{path} is not CSV: {error}") from None


def _json_rows(text: str, path: Path) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise SpecError(f"{path}, row {number} is not JSON: {error}") from None
        if not isinstance(row, Mapping):
            raise SpecError(f"{path}, row {number} must be an object, not {type(row).__name__}")
        usage = row.get("usage")
        yield {**row, **usage} if isinstance(usage, Mapping) else row


def _request(row: Mapping[str, Any], where: str) -> tuple[float, float, float, float]:
    arrival = _seconds(*_value(row, ARRIVAL_NAMES, where), where)
    prompt, output = (_tokens(*_value(row, names, where), where, least=1) for names in (PROMPT_NAMES, OUTPUT_NAMES))
    cached = 0.0
    if any(name in row for name in CACHED_NAMES):
        cached = _tokens(*_value(row, CACHED_NAMES, where), where, least=0)
    return arrival, prompt, output, cached


def _value(row: Mapping[str, Any], names: tuple[str, ...], where: str) -> tuple[str, Any]:
    """Return the name of the first of ``names`` that is a column, and its value."""
    name = next((name for name in names if name in row), None)
    if name is None:
        raise SpecError(f"{where}: no column {names[0]}; there are {', '.join(map(str, row)) or 'none'}")
    if row[name] is None or str(row[name]).strip() == "":
        raise SpecError(f"{where}: {name} is missing")
    return name, row[name]


def _tokens(name: str, value: Any, where: str, *, least: int) -> float:
    try:
        found = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = float("nan")
    if not least <= found < float("inf") or found != int(found):
        raise SpecError(f"{where}: {name} must be an integer >= {least}: {value!r}")
    return found


def _seconds(name: str, value: Any, where: str) -> float:
    """Return a time given in seconds or as a date, in seconds."""
    try:
        found = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = _date(value)
    if not np.isfinite(found):
        raise SpecError(f"{where}: {name} must be a time in seconds or a date: {value!r}")
    return found


def _date(value: Any) -> float:
    try:
        return datetime.fromisoformat(str(value).strip()).timestamp()
    except (ValueError, OverflowError):
        return float("nan")


def without_times(load: Workload | Traffic | Trace) -> Workload | Traffic:
    """Return a load for a closed form: a trace becomes its traffic.

    Raises
    ------
    InvalidInput
        The load is not a workload, a traffic or a trace.
    """
    if isinstance(load, Trace):
        return load.traffic
    if not isinstance(load, Workload | Traffic):
        raise InvalidInput(f"a load must be a Workload, a Traffic or a Trace, not {type(load).__name__}")
    return load
