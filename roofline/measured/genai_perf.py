"""genai-perf and AIPerf: JSON and CSV exports.

Every metric states its ``unit``.  ``inter_token_latency`` is (total - TTFT) / (output - 1) of each request, a TPOT;
``inter_chunk_latency`` (AIPerf) is the gap between stream events.  The load is that of the phase "profiling", without
warm-up.  CSV exports have neither model nor concurrency.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from typing import Any

from .measurement import Measurement
from .record import Record, as_number, percentiles_in, percentiles_of
from .vllm import paced

_SECONDS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "us": 1e-6, "ns": 1e-9}
_LATENCIES = {
    "ttft": "time_to_first_token",
    "tpot": "inter_token_latency",
    "itl": "inter_chunk_latency",
    "total": "request_latency",
}
_METRICS = {*_LATENCIES.values(), "request_throughput", "output_token_throughput", "output_sequence_length"}

_SHORTER = 0.8
"""Answers shorter than this share of the requested length get a note."""


def is_export(data: Mapping[str, Any]) -> bool:
    """Whether this is an export of genai-perf or AIPerf."""
    metrics = _metrics(data)
    return sum(isinstance(metrics.get(name), Mapping) and "avg" in metrics[name] for name in _METRICS) >= 2


def _metrics(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metrics by name; the first releases of AIPerf keep them under ``records`` and abbreviate TTFT."""
    inner = data.get("records")
    if not isinstance(inner, Mapping):
        return data
    return {**data, **inner, "time_to_first_token": inner.get("time_to_first_token", inner.get("ttft"))}


def read_export(record: Record) -> list[Measurement]:
    """A run."""
    record.data = _metrics(record.data)
    figures: dict[str, Any] = {
        "requests": record.count("request_count/avg"),
        "failed": record.count("error_request_count/avg"),
        "prompt_tokens": record.number("input_sequence_length/avg", positive=True),
        "output_tokens": record.number("output_sequence_length/avg", positive=True),
        "requests_per_s": record.number("request_throughput/avg", positive=True),
        "tokens_per_s": record.number("output_token_throughput/avg", positive=True),
        "total_tokens_per_s": record.number("total_token_throughput/avg", positive=True),
        "duration_s": _seconds(record, "benchmark_duration", "avg", "s"),
    }
    found: list[tuple[str, float | None]] = []
    for ours, theirs in _LATENCIES.items():
        figures[f"{ours}_mean_s"] = _seconds(record, theirs, "avg", "ms")
        figures[f"{ours}_median_s"] = _seconds(record, theirs, "p50", "ms")
        found += percentiles_in(record, theirs, ours, _unit(record, theirs, "ms"))
    figures |= _asked(record)
    _remarks(record, figures)
    tool = "AIPerf" if _is_aiperf(record) else "genai-perf"
    return [record.finish(tool, stated=_stated(record), percentiles=percentiles_of(found), **figures)]


def _is_aiperf(record: Record) -> bool:
    own = ("schema_version", "aiperf_version", "inter_chunk_latency", "benchmark_duration")
    return any(record.at(name) is not None for name in own)


def _unit(record: Record, metric: str, usual: str) -> float:
    written = record.text(f"{metric}/unit") or usual
    scale = _SECONDS.get(written.lower())
    if scale is None:
        record.doubt(f"{metric} is in {written!r}, which is not a unit of time; read as {usual}")
        scale = _SECONDS[usual]
    return scale


def _seconds(record: Record, metric: str, statistic: str, usual: str) -> float | None:
    if record.at(metric) is None:
        return None
    return record.number(f"{metric}/{statistic}", unit=_unit(record, metric, usual), positive=True)


def _asked(record: Record) -> dict[str, float | None]:
    """The requested concurrency and rate, wherever this release stores them."""
    phases = record.at("input_config/phases")
    for phase in phases if isinstance(phases, list) else ():
        if isinstance(phase, Mapping) and phase.get("name") == "profiling":
            inner = Record(phase, record.source)
            paced_by_rate = str(phase.get("type")) != "concurrency"
            cap = inner.number("concurrency", positive=True)
            rate = inner.number("rate", "request_rate", positive=True)
            return {"concurrency": cap, "request_rate": paced(rate) if paced_by_rate else None}
    places = ("input_config", "input_config/loadgen", "input_config/perf_analyzer/stimulus")
    cap = record.number(*(f"{place}/concurrency" for place in places), positive=True)
    rate = record.number(*(f"{place}/request_rate" for place in places), positive=True)
    return {"concurrency": cap, "request_rate": paced(rate)}


def _remarks(record: Record, figures: Mapping[str, Any]) -> None:
    asked = record.number("input_config/output_tokens_mean", positive=True)
    got, tpot, gap = (figures[name] for name in ("output_tokens", "tpot_mean_s", "itl_mean_s"))
    if asked and got and got < _SHORTER * asked:
        record.doubt(f"{asked:g} output tokens were requested, but {got:.3g} came")
    if tpot and gap and gap > 1.3 * tpot:
        record.doubt(
            f"a stream event carries {gap / tpot:.2g} tokens: speculative decoding, or several steps per event"
        )
    if record.at("was_cancelled") is True:
        record.doubt("the run was cancelled")


def _stated(record: Record) -> dict[str, Any]:
    names = ("input_config/models/items/0/name", "input_config/model_names/0", "input_config/endpoint/model_names/0")
    gpus = _gpu_names(record)
    return {
        "model": record.text(*names, "input_config/model_name", "input_config/model"),
        "accelerator": gpus[0] if gpus else None,
        "accelerators": len(gpus) or None,
    }


def _gpu_names(record: Record) -> list[str]:
    """GPUs in the telemetry: those of the machine, not necessarily of the deployment."""
    endpoints = record.at("telemetry_data/endpoints")
    found = []
    for endpoint in endpoints.values() if isinstance(endpoints, Mapping) else ():
        gpus = endpoint.get("gpus") if isinstance(endpoint, Mapping) else None
        for gpu in gpus.values() if isinstance(gpus, Mapping) else ():
            name = gpu.get("gpu_name") if isinstance(gpu, Mapping) else None
            found += [name] if isinstance(name, str) else []
    return found


_HEADER = re.compile(r"^\"?Metric\"?,\"?avg\"?,", re.MULTILINE)
_NAME = re.compile(r"^(?P<name>.*?)\s*\((?P<unit>[^()]*)\)$")


def is_csv(text: str) -> bool:
    """Whether this is the CSV export of one of the two."""
    return _HEADER.search(text) is not None


def read_csv(text: str, source: str) -> list[Measurement]:
    """A run in a CSV export: rows of statistics, then single values; the same metrics as in JSON."""
    data: dict[str, dict[str, Any]] = {}
    columns: list[str] = []
    for row in csv.reader(text[_start(text) :].splitlines()):
        cells = [cell.strip() for cell in row]
        if not cells or not cells[0]:
            continue
        if cells[0] == "Metric":
            columns = ["avg" if cell == "Value" else cell for cell in cells[1:]]
            continue
        match = _NAME.match(cells[0])
        name, unit = (match["name"], match["unit"]) if match else (cells[0], "")
        key = name.lower().replace(" ", "_")
        if key not in data and any(as_number(cell) is not None for cell in cells[1:]):
            data[key] = {"unit": unit, **dict(zip(columns, cells[1:], strict=False))}
    record = Record(data, source)
    record.doubt("the CSV export contains neither model nor concurrency")
    return read_export(record) if is_export(data) else []


def _start(text: str) -> int:
    found = _HEADER.search(text)
    return found.start() if found else 0
