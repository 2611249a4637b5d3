"""llm-d benchmark reports, versions 0.1 and 0.2, YAML or JSON; they state hardware and parallelism.

Every metric has ``units`` (ms in 0.1, s in 0.2).  The latencies are those of the load generator, including its pitfalls
about TPOT.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .inference_perf import tpot
from .measurement import Measurement
from .record import Record, percentiles_in, percentiles_of
from .vllm import paced

_SECONDS = {"ms": 1e-3, "s": 1.0, "us": 1e-6, "ns": 1e-9}
_LATENCIES = {"ttft": "time_to_first_token", "itl": "inter_token_latency", "total": "request_latency"}


def is_report(data: Mapping[str, Any]) -> bool:
    """Whether this is a benchmark report."""
    return "scenario" in data and ("metrics" in data or "results" in data)


def looks_like(text: str) -> bool:
    """Whether a YAML text may be one."""
    return bool(re.search(r"^scenario:", text, re.MULTILINE) and re.search(r"^(metrics|results):", text, re.MULTILINE))


def read_report(record: Record) -> list[Measurement]:
    """A run."""
    root = "metrics" if record.at("metrics") is not None else "results/request_performance/aggregate"
    figures: dict[str, Any] = {
        "requests": _done(record, root),
        "failed": record.count(f"{root}/requests/failures"),
        "prompt_tokens": record.number(f"{root}/requests/input_length/mean", positive=True),
        "output_tokens": record.number(f"{root}/requests/output_length/mean", positive=True),
        "duration_s": record.number(f"{root}/time/duration", positive=True) if root == "metrics" else None,
        "concurrency": record.number(*_CONCURRENCY, positive=True),
        "request_rate": paced(_rate(record)),
    }
    for name, (old, new) in _RATES.items():
        figures[name] = record.number(f"{root}/throughput/{new}/mean", f"{root}/throughput/{old}", positive=True)
    found: list[tuple[str, float | None]] = []
    for ours, theirs in _LATENCIES.items():
        place = f"{root}/latency/{theirs}"
        unit = _unit(record, place)
        figures[f"{ours}_mean_s"] = record.number(f"{place}/mean", unit=unit, positive=True)
        figures[f"{ours}_median_s"] = record.number(f"{place}/p50", unit=unit, positive=True)
        found += percentiles_in(record, place, ours, unit)
    figures |= _tpot(record, figures, f"{root}/latency/time_per_output_token")
    return [record.finish("llm-d", stated=_stated(record), percentiles=percentiles_of(found), **figures)]


_CONCURRENCY = ("scenario/load/standardized/concurrency", "scenario/load/args/max_concurrency")
_RATES = {
    "requests_per_s": ("requests_per_sec", "request_rate"),
    "tokens_per_s": ("output_tokens_per_sec", "output_token_rate"),
    "prompt_tokens_per_s": ("input_tokens_per_sec", "input_token_rate"),
    "total_tokens_per_s": ("total_tokens_per_sec", "total_token_rate"),
}
"""Our name of a rate -> its names in 0.1 and 0.2."""


def _done(record: Record, root: str) -> int | None:
    total, failed = record.count(f"{root}/requests/total"), record.count(f"{root}/requests/failures")
    return None if total is None else total - min(failed or 0, total)


def _rate(record: Record) -> float | None:
    found = record.at("scenario/load/args/qps_values")
    if isinstance(found, list):
        return None
    return record.number(
        "scenario/load/standardized/rate_qps",
        "scenario/load/args/qps_values",
        "scenario/load/args/request_rate",
        positive=True,
    )


def _unit(record: Record, place: str) -> float:
    if record.at(place) is None:
        return 1.0
    written = record.text(f"{place}/units") or ""
    scale = _SECONDS.get(written.partition("/")[0])
    if scale is None:
        record.doubt(f"{place.rpartition('/')[2]} has the units {written!r}, which is not a unit of time; ignored")
        return float("inf")
    return scale


def _tpot(record: Record, figures: Mapping[str, Any], place: str) -> dict[str, float | None]:
    """The TPOT in seconds, checked against the other means like in the load generator's own files."""
    unit = _unit(record, place)
    scaled = {name: record.number(f"{place}/{name}", unit=unit, positive=True) for name in ("mean", "p50")}
    inner = Record({"tpot": scaled}, record.source)
    found = tpot(inner, figures, "tpot")
    record.steps += inner.steps
    record.repaired += inner.repaired
    record.doubts += inner.doubts
    return found


def _stated(record: Record) -> dict[str, Any]:
    stack = record.at("scenario/stack")
    parts = [part.get("standardized") for part in stack if isinstance(part, Mapping)] if isinstance(stack, list) else []
    engines = [part for part in parts if isinstance(part, Mapping) and part.get("kind") == "inference_engine"]
    if not engines:
        return _stated_before(record)
    first = Record(engines[0], record.source)
    counts = [Record(part, "").number("accelerator/count") or 0 for part in engines]
    replicas = [Record(part, "").number("replicas") or 1 for part in engines]
    every = sum(count * copies for count, copies in zip(counts, replicas, strict=True))
    return {
        "model": first.text("model/name"),
        "weights": first.text("model/quantization"),
        "accelerator": first.text("accelerator/model"),
        "accelerators": round(every) or None,
        "engine": first.text("tool"),
        "disaggregated": len({part.get("role") for part in engines}) > 1 or None,
    } | _parallel(first, "accelerator/parallelism")


def _stated_before(record: Record) -> dict[str, Any]:
    """Version 0.1 lists one accelerator per replica."""
    hosts = record.at("scenario/host/accelerator")
    hosts = hosts if isinstance(hosts, list) else []
    every = sum(Record(host, "").number("count") or 0 for host in hosts if isinstance(host, Mapping))
    return {
        "model": record.text("scenario/model/name"),
        "weights": record.text("scenario/model/quantization"),
        "accelerator": record.text("scenario/host/accelerator/0/model"),
        "accelerators": round(every) or None,
        "engine": record.text("scenario/platform/engine/0/name"),
    } | _parallel(record, "scenario/host/accelerator/0/parallelism")


def _parallel(record: Record, place: str) -> dict[str, int | None]:
    names = {"tensor": "tp", "pipeline": "pp", "expert": "ep", "data": "dp"}
    return {ours: record.count(f"{place}/{theirs}", positive=True) for ours, theirs in names.items()}
