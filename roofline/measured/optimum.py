"""optimum-benchmark and llm-perf: ``benchmark.json``, or only its ``report``.

TTFT is the prefill; TPOT is the decode over ``max_new_tokens - 1``.  ``environment.gpu`` lists all GPUs of the machine,
including display cards; ``backend.device_ids`` lists those that ran.  Prefill throughput is not read, since it may be
in samples/s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .measurement import BATCH, Measurement
from .record import Record, percentiles_in, percentiles_of

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


def is_benchmark(data: Mapping[str, Any]) -> bool:
    """Whether this is a benchmark with its report, or a report."""
    report = data.get("report", data)
    if not isinstance(report, Mapping):
        return False
    parts = [report.get("prefill"), report.get("decode"), report.get("generate")]
    return any(isinstance(part, Mapping) and isinstance(part.get("latency"), Mapping) for part in parts)


def read_benchmark(record: Record) -> list[Measurement]:
    """A run of ``generate``: one batch, with separate times of prefill and decode."""
    root = "report/" if isinstance(record.at("report"), Mapping) else ""
    output = record.number(*_OUTPUT, positive=True)
    figures: dict[str, Any] = {
        "batch": record.count(*(f"{place}/batch_size" for place in _SHAPES), positive=True),
        "prompt_tokens": record.number(*(f"{place}/sequence_length" for place in _SHAPES), positive=True),
        "output_tokens": output,
    }
    found: list[tuple[str, float | None]] = []
    for statistic, key in (("mean", "mean"), ("median", "p50")):
        first, rest = (_latency(record, f"{root}{part}", key) for part in ("prefill", "decode"))
        figures[f"ttft_{statistic}_s"] = first
        figures[f"tpot_{statistic}_s"] = record.derive(
            f"tpot_{statistic}_s",
            "decode_s / (output_tokens - 1)",
            f"{key} of decode over max_new_tokens - 1",
            decode_s=rest,
            output_tokens=output,
        ) or _latency(record, f"{root}per_token", key)
        figures[f"total_{statistic}_s"] = record.derive(
            f"total_{statistic}_s", "ttft_s + decode_s", f"{key} of prefill and decode", ttft_s=first, decode_s=rest
        )
    found += percentiles_in(record, f"{root}prefill/latency", "ttft", _unit(record, f"{root}prefill"))
    figures["tokens_per_s"] = record.derive(
        "tokens_per_s",
        "batch * output_tokens / total_s",
        "the whole batch including prefill",
        batch=figures["batch"],
        output_tokens=output,
        total_s=figures["total_mean_s"],
    )
    stated = _stated(record)
    return [record.finish("optimum-benchmark", kind=BATCH, stated=stated, percentiles=percentiles_of(found), **figures)]


_SHAPES = ("config/scenario/input_shapes", "config/benchmark/input_shapes")
_OUTPUT = ("config/scenario/generate_kwargs/max_new_tokens", "config/benchmark/generate_kwargs/max_new_tokens")


def _unit(record: Record, part: str) -> float:
    written = record.text(f"{part}/latency/unit")
    scale = _UNITS.get(written or "s")
    if scale is None:
        record.doubt(f"{part} is in {written!r}, which is not a unit of time; ignored")
        return float("inf")  # whatever is scaled by it counts as not measured
    return scale


def _latency(record: Record, part: str, key: str) -> float | None:
    return record.number(f"{part}/latency/{key}", unit=_unit(record, part), positive=True)


def _stated(record: Record) -> dict[str, Any]:
    ids = [part for part in (record.text("config/backend/device_ids") or "").split(",") if part.strip().isdigit()]
    names = record.at("config/environment/gpu")
    names = names if isinstance(names, list) else []
    used = [names[int(part)] for part in ids if int(part) < len(names)]
    return {
        "model": record.text("config/backend/model"),
        "accelerator": used[0] if used and isinstance(used[0], str) else None,
        "accelerators": len(ids) or None,
        "weights": record.text("config/backend/quantization_scheme", "config/backend/torch_dtype"),
        "engine": record.text("config/backend/name"),
    }
