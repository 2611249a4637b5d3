"""SGLang: ``bench_serving`` (JSONL and text), ``bench_one_batch``, its ``_server``, ``bench_offline_throughput``.

=====================================  ================================================================================
``backend``                            the kind of server; the model is not in the file
``concurrency``                        sum of end-to-end times / duration: measured, not the cap
``total_output_tokens``                asked; ``total_output_tokens_retokenized`` is what came
``total_throughput``                   prompt and output tokens together
``mean_tpot_ms`` of 0                  the run did not stream, and its TTFT is the whole request
``output_throughput`` of a one batch   output x batch / (latency - TTFT): decode alone
=====================================  ================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .measurement import BATCH, Measurement
from .record import Record
from .vllm import blocks, counts, drop_zeros, latencies

_KEYS = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "total": "e2e_latency"}


def is_serving(data: Mapping[str, Any]) -> bool:
    """Whether this is a run of ``bench_serving``."""
    own = {"random_input_len", "total_output_tokens_retokenized", "median_e2e_latency_ms", "sharegpt_output_len"}
    return bool(own & data.keys()) and "completed" in data


def read_serving(record: Record) -> list[Measurement]:
    """A run of ``bench_serving``; releases of 2024 have medians only."""
    figures = counts(record) | latencies(record, _KEYS, "_ms", 1e-3)
    figures["in_flight"] = record.number("concurrency", positive=True)
    figures["accepted_tokens_per_step"] = record.number("accept_length", positive=True)
    figures["cached_share"] = record.number("cache_report/cache_hit_rate_pct", unit=0.01)
    drop_zeros(record, figures)
    got, asked = record.number("total_output_tokens_retokenized"), record.number("total_output_tokens", positive=True)
    if got is not None and asked and abs(got / asked - 1) > 0.05:
        record.doubt(f"{asked:,.0f} output tokens are counted, but the answers have {got:,.0f} when tokenized again")
    stated = {"engine": record.text("backend"), "model": record.text("model_id", "model")}
    return [record.finish("sglang bench_serving", stated=stated, **figures)]


def read_blocks(text: str, source: str) -> list[Measurement]:
    """The runs in the log of ``bench_serving``, whose blocks have a line "Mean E2E Latency (ms)"."""
    return [run for record in blocks(text, source) for run in read_serving(record)]


def is_one_batch(data: Mapping[str, Any]) -> bool:
    """Whether this is a run of ``bench_one_batch``."""
    return {"prefill_latency", "median_decode_latency"} <= data.keys()


def read_one_batch(record: Record) -> list[Measurement]:
    """A static batch without HTTP and scheduler; its single prefill is both mean and median."""
    figures = _shape(record)
    prefill, total = (record.number(key, positive=True) for key in ("prefill_latency", "total_latency"))
    figures |= {"ttft_mean_s": prefill, "ttft_median_s": prefill, "total_mean_s": total, "total_median_s": total}
    figures["tpot_median_s"] = record.number("median_decode_latency", positive=True)
    figures["tokens_per_s"] = _batch_rate(record, figures)
    return [record.finish("sglang bench_one_batch", kind=BATCH, stated=_named(record), **figures)]


def is_one_batch_server(data: Mapping[str, Any]) -> bool:
    """Whether this is a run of ``bench_one_batch_server``."""
    return "last_ttft" in data and "batch_size" in data


def read_one_batch_server(record: Record) -> list[Measurement]:
    """A static batch sent to a server."""
    figures = _shape(record)
    first, total = (record.number(key, positive=True) for key in ("last_ttft", "latency"))
    tpot = record.derive(
        "tpot_mean_s",
        "(total_s - ttft_s) / (output_tokens - 1)",
        "latency and last_ttft; output_throughput counts one more token",
        total_s=total,
        ttft_s=first,
        output_tokens=figures["output_tokens"],
    )
    for statistic in ("mean", "median"):
        figures |= {f"ttft_{statistic}_s": first, f"tpot_{statistic}_s": tpot, f"total_{statistic}_s": total}
    figures["tokens_per_s"] = _batch_rate(record, figures)
    figures["accepted_tokens_per_step"] = record.number("acc_length", positive=True) if _accepts(record) else None
    figures["cached_share"] = record.number("cache_hit_rate")
    return [record.finish("sglang bench_one_batch_server", kind=BATCH, stated=_named(record), **figures)]


def _accepts(record: Record) -> bool:
    """Whether the run used speculative decoding; -1 means that it did not."""
    value = record.at("acc_length")
    return isinstance(value, int | float) and value > 0


def _shape(record: Record) -> dict[str, Any]:
    return {
        "batch": record.count("batch_size", positive=True),
        "prompt_tokens": record.number("input_len", positive=True),
        "output_tokens": record.number("output_len", positive=True),
    }


def _batch_rate(record: Record, figures: Mapping[str, Any]) -> float | None:
    return record.derive(
        "tokens_per_s",
        "batch * output_tokens / total_s",
        "the whole batch including prefill",
        batch=figures["batch"],
        output_tokens=figures["output_tokens"],
        total_s=figures["total_mean_s"],
    )


def _named(record: Record) -> dict[str, Any]:
    return {"run": record.text("run_name"), "model": record.text("model", "model_path")}


def is_offline(data: Mapping[str, Any]) -> bool:
    """Whether this is a run of ``bench_offline_throughput``."""
    return {"successful_requests", "total_latency"} <= data.keys()


def read_offline(record: Record) -> list[Measurement]:
    """All requests at once, without latencies."""
    figures = counts(record)
    return [record.finish("sglang bench_offline_throughput", stated={"engine": record.text("backend")}, **figures)]
