"""Tables: NVIDIA NIM's documentation, and plain CSV files.

NIM calls the time per output token ITL, as genai-perf does.  In a plain CSV, a column is read if its name states the
quantity and the unit: ``ttft_ms``, ``tpot_mean_s``, ``tokens_per_s``, ``concurrency``.  A latency without a unit is
ignored, since milliseconds and seconds can't be distinguished by size.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from typing import Any

from .llama_cpp import markdown_tables
from .measurement import BATCH, SERVING, Measurement
from .record import Record, as_number, percentiles_of

# --- NVIDIA NIM ------------------------------------------------------------------------------------------------------

_HEADING = re.compile(r"^#+ +(?P<title>.+?) *$")
_SYSTEM = re.compile(
    r"(?P<count>\d+) ?[x×] ?(?P<accelerator>[^,]+)(?:, *(?P<weights>[^,]+))?(?:, *TP ?(?P<tensor>\d+))?"
)
_LENGTHS = re.compile(r"ISL:? *(?P<prompt>\d+(?:,\d{3})*).*?OSL:? *(?P<output>\d+(?:,\d{3})*)", re.IGNORECASE)
_NIM = {"concurrency", "ttft (ms)", "itl (ms)"}


def is_nim(text: str) -> bool:
    """Whether a table of this text has the columns of NIM's documentation."""
    lowered = text.lower()
    return all(name in lowered for name in _NIM) and "|" in text


def read_nim(text: str, source: str) -> list[Measurement]:
    """A run for each row; the headings above a table state what ran where."""
    found: list[Measurement] = []
    headings: dict[int, str] = {}
    for part in re.split(r"(?m)^(?=#)", text):
        match = _HEADING.match(part.split("\n", 1)[0])
        if match:
            level = len(part) - len(part.lstrip("#"))
            headings = {depth: title for depth, title in headings.items() if depth < level} | {level: match["title"]}
        for table in markdown_tables(part):
            for row in table:
                lowered = {name.lower(): cell for name, cell in row.items()}
                if lowered.keys() >= _NIM:
                    place = f"{source}, row {len(found) + 1}"
                    found.append(_nim_row(Record(lowered, place), " | ".join(headings.values())))
    return found


def _nim_row(record: Record, headings: str) -> Measurement:
    system, lengths = _SYSTEM.search(headings), _LENGTHS.search(headings)
    shape = Record(lengths.groupdict() if lengths else {}, record.source)
    where = Record(system.groupdict() if system else {}, record.source)
    rates = ("throughput (tokens/s)", "throughput (tokens/sec)", "throughput")
    return record.finish(
        "NVIDIA NIM",
        stated={
            "model": headings.split(" | ", maxsplit=1)[0] or None,
            "accelerator": where.text("accelerator"),
            "accelerators": where.count("count", positive=True),
            "weights": where.text("weights"),
            "tensor": where.count("tensor", positive=True),
        },
        concurrency=record.number("concurrency", positive=True),
        prompt_tokens=shape.number("prompt", positive=True),
        output_tokens=shape.number("output", positive=True),
        ttft_mean_s=record.number("ttft (ms)", unit=1e-3, positive=True),
        tpot_mean_s=record.number("itl (ms)", unit=1e-3, positive=True),
        tokens_per_s=record.number(*rates, positive=True),
    )


# --- a plain CSV -----------------------------------------------------------------------------------------------------

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_LATENCY = re.compile(
    r"^(?:(?P<before>mean|avg|median|p50)_)?(?P<name>ttft|tpot|itl|e2el?|e2e_latency|total|latency)"
    r"(?:_(?P<after>mean|avg|median|p50))?(?:_(?P<unit>s|ms|us))?$"
)
_PERCENTILE = re.compile(r"^(?:p(?P<a>\d+)_)?(?P<name>ttft|tpot|total|e2el?)(?:_p(?P<b>\d+))?_(?P<unit>s|ms|us)$")
_NAMES = {"e2e": "total", "e2el": "total", "e2e_latency": "total", "latency": "total"}
_PLAIN = {
    "requests": ("requests", "num_requests", "completed", "num_prompts"),
    "prompt_tokens": ("prompt_tokens", "input_tokens", "input_len", "isl", "prompt_len"),
    "output_tokens": ("output_tokens", "output_len", "osl", "generated_tokens"),
    "concurrency": ("concurrency", "max_concurrency"),
    "batch": ("batch", "batch_size"),
    "request_rate": ("request_rate", "qps", "rate"),
    "requests_per_s": ("requests_per_s", "request_throughput", "req_per_s", "requests_per_second"),
    "tokens_per_s": ("tokens_per_s", "output_tokens_per_s", "output_throughput", "output_token_throughput"),
    "total_tokens_per_s": ("total_tokens_per_s", "total_token_throughput", "total_throughput"),
    "duration_s": ("duration_s",),
}
"""Our name -> the names that a column may have."""

_STATED = {
    "model": ("model", "model_id", "model_name"),
    "accelerator": ("accelerator", "gpu", "hardware", "hw"),
    "accelerators": ("accelerators", "num_gpus", "gpus"),
    "tensor": ("tensor", "tp", "tensor_parallel", "tensor_parallel_size"),
    "weights": ("weights", "precision", "dtype", "quantization"),
    "engine": ("engine", "framework", "backend"),
}


def _normal(name: str) -> str:
    """A column's name in lower case with underscores: ``TTFT (ms)`` is ``ttft_ms``."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower().replace("/", "_per_")).strip("_")


def _is_known(name: str) -> bool:
    return bool(_LATENCY.match(name) or _PERCENTILE.match(name)) or any(name in names for names in _PLAIN.values())


def read_plain_csv(text: str, source: str) -> list[Measurement]:
    """A run for each row of a CSV with two or more known columns, at least one of them a time or a rate."""
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")), None)
    if start is None:
        return []
    try:
        dialect: Any = csv.Sniffer().sniff(lines[start], delimiters=",;\t")
    except csv.Error:
        dialect = csv.excel
    rows = list(csv.reader(lines[start:], dialect))
    columns = [_normal(cell) for cell in rows[0]]
    measured = [name for name in columns if _LATENCY.match(name) or name.endswith("_per_s") or "throughput" in name]
    if sum(map(_is_known, columns)) < 2 or not measured:
        return []
    data = [dict(zip(columns, row, strict=False)) for row in rows[1:] if any(cell.strip() for cell in row)]
    places = [f"{source}, row {n}" if len(data) > 1 else source for n in range(1, len(data) + 1)]
    return [_plain_row(Record(row, place)) for row, place in zip(data, places, strict=True)]


def _plain_row(record: Record) -> Measurement:
    figures: dict[str, Any] = {name: record.number(*keys, positive=True) for name, keys in _PLAIN.items()}
    for name in ("requests", "batch"):
        figures[name] = record.count(*_PLAIN[name], positive=True)
    for column in record.data:
        match = _LATENCY.match(column)
        if match and as_number(record.data[column]) is not None:
            _put_latency(record, figures, column, match)
    kind = BATCH if figures["batch"] and not figures["concurrency"] else SERVING
    stated: dict[str, Any] = {name: record.text(*keys) for name, keys in _STATED.items()}
    for name in ("accelerators", "tensor"):
        stated[name] = record.count(*_STATED[name], positive=True)
    return record.finish("CSV", kind=kind, stated=stated, percentiles=_percentiles(record), **figures)


def _put_latency(record: Record, figures: dict[str, Any], column: str, match: re.Match[str]) -> None:
    statistic = "median" if (match["before"] or match["after"]) in ("median", "p50") else "mean"
    if match["unit"] is None:
        record.doubt(f"column {column!r} has no unit and is ignored; rename it to {column}_ms or {column}_s")
        return
    if not (match["before"] or match["after"]):
        record.doubt(f"column {column!r} does not state whether it is a mean or a median; read as a mean")
    name = _NAMES.get(match["name"], match["name"])
    figures[f"{name}_{statistic}_s"] = record.number(column, unit=_UNITS[match["unit"]], positive=True)


def _percentiles(record: Record) -> Mapping[str, float]:
    found = []
    for column in record.data:
        match = _PERCENTILE.match(column)
        quantile = match and (match["a"] or match["b"])
        if match and quantile:
            name = _NAMES.get(match["name"], match["name"])
            found.append((f"{name}_p{quantile}_s", record.number(column, unit=_UNITS[match["unit"]], positive=True)))
    return percentiles_of(found)
