"""InferenceMAX, now InferenceX: ``agg_*.json``, one run or a list of them.

Latencies are in seconds though the keys have lost their ``_ms``; ``tput_per_gpu`` counts prompt and output tokens;
``isl`` and ``osl`` are the longest lengths asked for, from which lengths are drawn between 80 and 100 %.  The lengths
that came follow from the file's own times and rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .measurement import Measurement
from .record import AGREEMENT, Record
from .vllm import latencies

_KEYS = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "total": "e2el"}


def is_run(data: Mapping[str, Any]) -> bool:
    """Whether this is an aggregated run."""
    return "tput_per_gpu" in data and bool({"mean_ttft", "median_ttft", "mean_tpot", "median_tpot"} & data.keys())


def read_run(record: Record) -> list[Measurement]:
    """A run."""
    apart = record.at("disagg") in (True, "true", "True")
    every, prefilling, decoding = _accelerators(record, apart)
    figures = latencies(record, _KEYS, "", 1.0)
    rates = {
        "tokens_per_s": ("output_tput_per_gpu", decoding),
        "prompt_tokens_per_s": ("input_tput_per_gpu", prefilling),
    }
    for name, (key, count) in rates.items():
        figures[name] = record.derive(
            name,
            "per_accelerator * accelerators",
            f"{key}, each over the accelerators of its own pool" if apart else key,
            per_accelerator=record.number(key, positive=True),
            accelerators=count,
        )
    figures |= _lengths(record, figures)
    figures["requests_per_s"] = record.derive(
        "requests_per_s",
        "tokens_per_s / output_tokens",
        "not in the file",
        tokens_per_s=figures["tokens_per_s"],
        output_tokens=figures["output_tokens"],
    )
    figures["concurrency"] = record.number("conc", positive=True)
    if apart:
        record.doubt("prefill and decode ran on pools of their own: no single deployment describes the run")
    return [record.finish("InferenceMAX", stated=_stated(record, every, apart), **figures)]


def _accelerators(record: Record, apart: bool) -> tuple[float | None, float | None, float | None]:
    """Accelerators of the deployment, those that prefill and those that decode."""
    if apart:
        first, then = (record.number(key, positive=True) for key in ("num_prefill_gpu", "num_decode_gpu"))
        return (first + then if first and then else None), first, then
    every = record.number("num_gpus", "tp", positive=True)
    return every, every, every


def _lengths(record: Record, figures: Mapping[str, Any]) -> dict[str, float | None]:
    """Mean lengths that came: output from the times of a request, prompt from the rates of tokens."""
    asked = {"prompt_tokens": record.number("isl", positive=True), "output_tokens": record.number("osl", positive=True)}
    output = record.derive(
        "output_tokens",
        "1 + (total_s - ttft_s) / tpot_s",
        "means of the file; osl is the longest answer asked for",
        total_s=figures["total_mean_s"],
        ttft_s=figures["ttft_mean_s"],
        tpot_s=figures["tpot_mean_s"],
    )
    longest = asked["output_tokens"]
    if output is None or (longest and output > longest * (1 + AGREEMENT)):
        record.steps = [step for step in record.steps if step.name != "output_tokens"]
        record.doubt("isl and osl are the longest lengths asked for; the means are near 0.9 times as long")
        return asked
    prompt = record.derive(
        "prompt_tokens",
        "output_tokens * prompt_tokens_per_s / tokens_per_s",
        "rates of the file; isl is the longest prompt asked for",
        output_tokens=output,
        prompt_tokens_per_s=figures["prompt_tokens_per_s"],
        tokens_per_s=figures["tokens_per_s"],
    )
    return {"prompt_tokens": prompt or asked["prompt_tokens"], "output_tokens": output}


def _stated(record: Record, accelerators: float | None, apart: bool) -> dict[str, Any]:
    speculation = record.text("spec_decoding")
    return {
        "model": record.text("model"),
        "accelerator": record.text("hw"),
        "accelerators": None if accelerators is None else round(accelerators),
        "tensor": record.count("decode_tp" if apart else "tp", positive=True),
        "expert": record.count("decode_ep" if apart else "ep", positive=True),
        "weights": record.text("precision"),
        "engine": record.text("framework"),
        "speculation": None if speculation in (None, "none") else speculation,
        "disaggregated": apart or None,
    }
