"""TensorRT-LLM: the report of ``trtllm-bench``, which states most about the deployment.

``avg_num_concurrent_requests`` includes queued requests, an ``issue_rate`` of 3e13 means "all at once", and
``output_throughput_per_user`` includes queueing, so it is not 1 / TPOT.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .measurement import Measurement
from .record import Record, percentiles_in, percentiles_of
from .vllm import paced

_MS = 1e-3


def is_report(data: Mapping[str, Any]) -> bool:
    """Whether this is a report of ``trtllm-bench``."""
    performance = data.get("performance")
    return isinstance(performance, Mapping) and (
        "world_info" in data
        or "system_output_throughput_tok_s" in performance
        or "request_throughput_req_s" in performance
    )


def read_report(record: Record) -> list[Measurement]:
    """A run; it has latencies only if it streamed."""
    in_flight = record.number("request_info/avg_num_concurrent_requests", positive=True)
    largest = record.number("world_info/max_batch_size", positive=True)
    if in_flight and largest and in_flight > largest:
        record.doubt(f"{in_flight:,.0f} requests in flight include queued ones; at most {largest:,.0f} ran at once")
    if record.text("engine/quantization") and record.at("engine/kv_cache_dtype") is None:
        record.doubt("kv_cache_dtype is automatic; a quantized checkpoint may select an FP8 cache")
    figures: dict[str, Any] = {
        "requests": record.count("request_info/num_requests", "dataset/num_requests", positive=True),
        "prompt_tokens": record.number("request_info/avg_input_length", "dataset/avg_isl", positive=True),
        "output_tokens": record.number("request_info/avg_output_length", "dataset/avg_osl", positive=True),
        "in_flight": in_flight,
        "request_rate": paced(record.number("world_info/issue_rate", positive=True)),
        "duration_s": record.number("performance/total_latency_ms", unit=_MS, positive=True),
        "requests_per_s": record.number("performance/request_throughput_req_s", positive=True),
        "tokens_per_s": record.number("performance/system_output_throughput_tok_s", positive=True),
        "total_tokens_per_s": record.number("performance/system_total_throughput_tok_s", positive=True),
        "accepted_tokens_per_step": record.number(
            "decoding_stats/acceptance_length_percentiles/average", "decoding_stats/acceptance_length", positive=True
        ),
    }
    found: list[tuple[str, float | None]] = []
    for ours, path, average in _LATENCIES:
        figures[f"{ours}_mean_s"] = record.number(average, f"{path}/average", unit=_MS, positive=True)
        figures[f"{ours}_median_s"] = record.number(f"{path}/p50", unit=_MS, positive=True)
        found += percentiles_in(record, path, ours, _MS)
    return [record.finish("trtllm-bench", stated=_stated(record), percentiles=percentiles_of(found), **figures)]


_LATENCIES = (
    ("ttft", "streaming_metrics/ttft_percentiles", "streaming_metrics/avg_ttft_ms"),
    ("tpot", "streaming_metrics/tpot_percentiles", "streaming_metrics/avg_tpot_ms"),
    ("total", "performance/request_latency_percentiles_ms", "performance/avg_request_latency_ms"),
)
"""Our name of a latency, and the paths of its percentiles and its mean."""


def _stated(record: Record) -> dict[str, Any]:
    words = ("tensorrt-llm", record.text("engine/version"), record.text("engine/backend"))
    return {
        "model": record.text("engine/model", "engine/model_path"),
        "accelerator": record.text("machine/name"),
        "accelerators": record.count("world_info/world_size", positive=True),
        "tensor": record.count("world_info/tp_size", positive=True),
        "pipeline": record.count("world_info/pp_size", positive=True),
        "expert": record.count("world_info/ep_size", positive=True),
        "weights": record.text("engine/quantization", "engine/dtype"),
        "kv": record.text("engine/kv_cache_dtype"),
        "engine": " ".join(word for word in words if word),
        "max_batch": record.count("world_info/max_batch_size", positive=True),
        "speculation": record.text("decoding_stats/mode"),
    }
