"""GuideLLM: JSON (releases 0.2 to 0.8) and CSV; one run for each entry of ``benchmarks``.

``inter_token_latency_ms`` is (last - first) / (output - 1), a TPOT; ``time_per_output_token_ms`` is total / output and
includes the first token, so it is not a TPOT.  ``request_latency`` is in seconds.  ``max_concurrency`` of a
constant-rate or Poisson strategy is a limit of the client, not the load.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from typing import Any

from .measurement import Measurement
from .record import AGREEMENT, Record, as_number, percentiles_of
from .vllm import paced

_LATENCIES = {
    "ttft": ("time_to_first_token_ms", 1e-3),
    "tpot": ("inter_token_latency_ms", 1e-3),
    "total": ("request_latency", 1.0),
}
_PERCENTILES = {"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "p999": "p99.9"}


def is_report(data: Mapping[str, Any]) -> bool:
    """Whether this is a GuideLLM report."""
    runs = data.get("benchmarks")
    return isinstance(runs, list) and any(isinstance(run, Mapping) and "metrics" in run for run in runs)


def read_report(record: Record) -> list[Measurement]:
    """One run for each benchmark of the report; a sweep consists of a synchronous, a throughput and several paced
    benchmarks.
    """
    model = record.text("args/model", "config/spec/backend/model", "config/backend/model", "args/backend_kwargs/model")
    runs = record.at("benchmarks")
    found = []
    for number, run in enumerate(runs, 1):
        if isinstance(run, Mapping):
            place = f"{record.source}, benchmark {number}" if len(runs) > 1 else record.source
            found.append(_run(Record(run, place), model))
    return found


def _run(record: Record, model: str | None) -> Measurement:
    figures = _metrics(record) | _load(record)
    figures["failed"] = record.count("metrics/request_totals/errored", "request_totals/errored")
    incomplete = record.count("metrics/request_totals/incomplete", "request_totals/incomplete")
    if incomplete:
        record.doubt(f"{incomplete:,} requests were cut off at the end of the run and are not counted")
    own = model or record.text("benchmarker/backend/model", "worker/backend_model", "args/model")
    return record.finish("GuideLLM", stated={"model": own}, **figures)


def _metrics(record: Record) -> dict[str, Any]:
    def value(metric: str, statistic: str, unit: float = 1.0) -> float | None:
        return record.number(f"metrics/{metric}/successful/{statistic}", unit=unit, positive=True)

    figures: dict[str, Any] = {
        "requests": record.count(
            "metrics/request_totals/successful", "request_totals/successful", "metrics/request_latency/successful/count"
        ),
        "prompt_tokens": value("prompt_token_count", "mean"),
        "output_tokens": value("output_token_count", "mean"),
        "requests_per_s": value("requests_per_second", "mean"),
        "in_flight": value("request_concurrency", "mean"),
        "total_tokens_per_s": value("tokens_per_second", "mean"),
        "duration_s": record.number("duration", positive=True),
    }
    percentiles = []
    for ours, (theirs, unit) in _LATENCIES.items():
        figures[f"{ours}_mean_s"] = value(theirs, "mean", unit)
        figures[f"{ours}_median_s"] = value(theirs, "median", unit)
        for key, name in _PERCENTILES.items():
            percentiles.append((f"{ours}_{name}_s", value(theirs, f"percentiles/{key}", unit)))
    figures["percentiles"] = percentiles_of(percentiles)
    figures["tokens_per_s"] = _rate(record, figures, value("output_tokens_per_second", "mean"))
    return figures


def _rate(record: Record, figures: Mapping[str, Any], written: float | None) -> float | None:
    """Output tokens per second from requests and their lengths; the mean in the file is over time intervals."""
    rate = record.derive(
        "tokens_per_s",
        "requests_per_s * output_tokens",
        "the mean in the file is weighted by time",
        requests_per_s=figures["requests_per_s"],
        output_tokens=figures["output_tokens"],
    )
    if rate and written and abs(written / rate - 1) > AGREEMENT:
        record.repair(
            f"output_tokens_per_second is {written:.4g}, requests/s x output tokens {rate:.4g}: the latter is used"
        )
    return rate or written


def _load(record: Record) -> dict[str, float | None]:
    """Concurrency or rate requested by the strategy."""
    strategy: Any = None
    for place in ("config/strategy", "args/strategy", "scheduler/strategy"):
        strategy = strategy or record.at(place)
    if not isinstance(strategy, Mapping):
        return {"concurrency": None, "request_rate": None}
    inner = Record(strategy, record.source)
    kind = inner.text("type_", "type", "kind") or ""
    if kind == "synchronous":
        return {"concurrency": 1.0, "request_rate": None}
    if kind == "concurrent":
        return {"concurrency": inner.number("streams", positive=True), "request_rate": None}
    if kind == "throughput":
        record.doubt("the throughput strategy sends all requests at once; TTFT includes queueing")
        return {"concurrency": inner.number("max_concurrency", positive=True), "request_rate": None}
    return {"concurrency": None, "request_rate": paced(inner.number("rate", positive=True))}


def is_csv(text: str) -> bool:
    """Whether this is a GuideLLM CSV: three header rows, the first of groups."""
    first = text.split("\n", 1)[0]
    return "Time to First Token" in first and ("Request Latency" in first or "Request Counts" in first)


_UNITS = {"ms": 1e-3, "sec": 1.0}
_COLUMNS = {
    "ttft": "time to first token",
    "tpot": "inter token latency",
    "total": "request latency",
}
_SINGLE = {
    "in_flight": ("server throughput", "concurrency"),
    "requests_per_s": ("server throughput", "requests/sec"),
    "prompt_tokens": ("token metrics", "input tokens"),
    "output_tokens": ("token metrics", "output tokens"),
    "total_tokens_per_s": ("token throughput", "total tokens/sec"),
}


def read_csv(text: str, source: str) -> list[Measurement]:
    """One run for each row below the headers."""
    rows = [row for row in csv.reader(text.splitlines()) if any(cell.strip() for cell in row)]
    if len(rows) < 4:
        return []
    width = max(len(row) for row in rows[:3])
    heads = [_head(rows[:3], column) for column in range(width)]
    found = []
    for number, row in enumerate(rows[3:], 1):
        cells = {head: _cell(row, column) for column, head in enumerate(heads) if _cell(row, column)}
        place = f"{source}, row {number}" if len(rows) > 4 else source
        found.append(_row(cells, place))
    return found


def _cell(row: list[str], column: int) -> str:
    return row[column].strip() if column < len(row) else ""


def _head(rows: list[list[str]], column: int) -> tuple[str, ...]:
    """The three lines of the heading of a column."""
    return tuple(_cell(row, column).lower() for row in rows)


def _row(cells: Mapping[tuple[str, ...], str], source: str) -> Measurement:
    record = Record({}, source)
    figures: dict[str, Any] = {}
    for ours, group in _COLUMNS.items():
        for statistic in ("mean", "median"):
            figures[f"{ours}_{statistic}_s"] = _latency(cells.items(), group, statistic)
    for ours, (group, words) in _SINGLE.items():
        figures[ours] = _single(cells.items(), group, words)
    done = _single(cells.items(), "request counts", "successful", statistic="")
    strategy = next((cell for head, cell in cells.items() if head[1] == "strategy"), "")
    synchronous = strategy == "synchronous"
    record.doubt("the CSV export does not state the requested rate or concurrency" if not synchronous else "")
    record.doubts = [words for words in record.doubts if words]
    figures |= {"requests": None if done is None else round(done), "concurrency": 1.0 if synchronous else None}
    figures["tokens_per_s"] = _rate(record, figures, _single(cells.items(), "token throughput", "output tokens/sec"))
    model = next((cell for head, cell in cells.items() if head[1] == "model"), None)
    return record.finish("GuideLLM", stated={"model": model, "strategy": strategy or None}, **figures)


_Cells = Iterable[tuple[tuple[str, ...], str]]


def _latency(cells: _Cells, group: str, statistic: str) -> float | None:
    """A statistic of the successful requests, in the unit of its header."""
    for (head, field, kind), cell in cells:
        unit = _UNITS.get(field.rpartition(" ")[2])
        if head == group and field.startswith("successful") and kind == statistic and unit:
            value = as_number(cell)
            return None if not value else value * unit
    return None


def _single(cells: _Cells, group: str, words: str, statistic: str = "mean") -> float | None:
    for (head, field, kind), cell in cells:
        if head == group and field.removeprefix("successful ") == words and kind == statistic:
            return as_number(cell) or None
    return None
