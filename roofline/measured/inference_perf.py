"""inference-perf: ``stage_N_lifecycle_metrics.json``, whose fields changed meaning between releases that it does not
state.

=============  ================================================================  ======================================
release        ``time_per_output_token``                                          ``output_len``, tokens a second
=============  ================================================================  ======================================
0.2.0          half: the blank line after each event is stamped as well           right
0.3.0, 0.4.0   one stamp an event: right only at one token an event               right
0.5.0          half for tokenizers that prepend a special token to every chunk    doubled
0.6.0 on       (last - first) / (output - 1)                                      right
=============  ================================================================  ======================================

So TPOT is computed as (mean total - mean TTFT) / (mean output - 1) wherever the value in the file differs.  This does
not help with 0.5.0, which also doubles output tokens; answers longer than the limit in ``config.yaml`` next to the file
reveal it (kubernetes-sigs/inference-perf, issue 564, pull requests 565 and 566).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import SpecError
from ..files import read_yaml
from .measurement import Measurement
from .record import Record, percentiles_in, percentiles_of
from .vllm import paced

SAME = 0.05
"""A TPOT in the file within 5 % of (mean total - mean TTFT) / (mean output - 1) is taken as the mean over requests."""

DOUBLED = 1.2
"""Mean answers longer than the requested maximum by this factor were counted twice."""

_LATENCIES = {"ttft": "time_to_first_token", "itl": "inter_token_latency", "total": "request_latency"}


def is_stage(data: Mapping[str, Any]) -> bool:
    """Whether this is a report of one stage, or of all."""
    return "load_summary" in data and "successes" in data


def read_stage(record: Record, path: Path | None = None) -> list[Measurement]:
    """A stage; ``config.yaml`` next to the file states the model and the requested lengths."""
    figures: dict[str, Any] = {
        "requests": record.count("successes/count"),
        "failed": record.count("failures/count"),
        "prompt_tokens": record.number("successes/prompt_len/mean", positive=True),
        "output_tokens": record.number("successes/output_len/mean", positive=True),
        "request_rate": paced(record.number("load_summary/requested_rate", positive=True)),
        "requests_per_s": record.number("successes/throughput/requests_per_sec", positive=True),
        "tokens_per_s": record.number("successes/throughput/output_tokens_per_sec", positive=True),
        "prompt_tokens_per_s": record.number("successes/throughput/input_tokens_per_sec", positive=True),
        "total_tokens_per_s": record.number("successes/throughput/total_tokens_per_sec", positive=True),
        "concurrency": record.number("load_summary/concurrency", positive=True),
    }
    found: list[tuple[str, float | None]] = []
    for ours, theirs in _LATENCIES.items():
        place = f"successes/latency/{theirs}"
        figures[f"{ours}_mean_s"] = record.number(f"{place}/mean", positive=True)
        figures[f"{ours}_median_s"] = record.number(f"{place}/median", f"{place}/p50", positive=True)
        found += percentiles_in(record, place, ours, 1.0)
    if record.at("load_summary/requested_rate") is None and figures["concurrency"] is None:
        record.doubt("the report states no rate; a summary of all stages is not a steady state")
    config = _config(path)
    figures |= tpot(record, figures, "successes/latency/time_per_output_token")
    _refuse_doubled(record, figures, config)
    stated = {"model": config.text("server/model_name"), "engine": config.text("server/type")}
    return [record.finish("inference-perf", stated=stated, percentiles=percentiles_of(found), **figures)]


def tpot(record: Record, figures: Mapping[str, Any], place: str) -> dict[str, float | None]:
    """The TPOT in the file if it is valid, or else the one that follows from the other means."""
    written = record.number(f"{place}/mean", positive=True)
    median = record.number(f"{place}/median", f"{place}/p50", positive=True)
    derived = record.derive(
        "tpot_mean_s",
        "(total_s - ttft_s) / (output_tokens - 1)",
        "means of the file",
        total_s=figures["total_mean_s"],
        ttft_s=figures["ttft_mean_s"],
        output_tokens=figures["output_tokens"],
    )
    if derived is None:
        if written:
            record.doubt(
                "TPOT can't be checked: some releases report half of it, and the file does not state its release"
            )
        return {"tpot_mean_s": written, "tpot_median_s": median}
    if written and abs(written / derived - 1) <= SAME:
        record.steps = [step for step in record.steps if step.name != "tpot_mean_s"]
        return {"tpot_mean_s": written, "tpot_median_s": median}
    if written:
        record.repair(
            f"time_per_output_token of {written * 1e3:.4g} ms is {written / derived:.2g} times "
            f"(total - TTFT) / (output - 1): the latter, {derived * 1e3:.4g} ms, is used"
        )
    return {"tpot_mean_s": derived, "tpot_median_s": None}


def _config(path: Path | None) -> Record:
    """The ``config.yaml`` next to a report; empty if there is none that can be read."""
    if path is None:
        return Record({}, "")
    beside = path.parent / "config.yaml"
    try:
        return Record(read_yaml(beside), beside.name)
    except SpecError:
        return Record({}, "")


def _refuse_doubled(record: Record, figures: dict[str, Any], config: Record) -> None:
    """Drop what depends on output tokens that were counted twice; note gaps of 0, which may be a sign of it."""
    asked = "data/output_distribution"
    longest, usual = config.number(f"{asked}/max", positive=True), config.number(f"{asked}/mean", positive=True)
    limit, got = longest or usual, figures["output_tokens"]
    if limit and got and got > DOUBLED * limit:
        record.doubt(
            f"answers of {got:g} tokens, but config.yaml asks for at most {limit:g}: release 0.5.0 counts each token "
            "twice, so output tokens, their rate and TPOT are ignored"
        )
        names = ("output_tokens", "tokens_per_s", "total_tokens_per_s", "tpot_mean_s", "tpot_median_s")
        figures |= dict.fromkeys(names)
        record.steps = [step for step in record.steps if step.name not in names]
        # Without a count of tokens nothing can be derived from the rate of requests either.
        return
    zero = record.at("successes/latency/inter_token_latency/p25")
    if zero == 0:
        record.doubt(
            "gaps of 0 between tokens: chunks carried several tokens, or release 0.5.0 counted each token twice "
            "(compare output_tokens with the requested length)"
        )


def is_config(data: Mapping[str, Any]) -> bool:
    """Whether this is the configuration of a run."""
    return {"load", "server"} <= data.keys() and "scenario" not in data
