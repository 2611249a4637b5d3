"""vLLM: ``bench serve`` (and older ``benchmark_serving``), ``bench throughput``, ``bench latency``; JSON and text.

What the fields mean, from the sources of releases 0.4 to 0.12:

=======================  ==============================================================================================
``mean_tpot_ms``         (total - TTFT) / (output - 1) of each request, those with one token left out: a TPOT
``mean_itl_ms``          gap between stream events; with speculation or multi-step scheduling an event has many tokens
``request_rate``         asked; "inf" sends all at once
``completed``            up to 0.6 at least it counts empty answers, whose TTFT is 0.0; only the detailed lists show it
``tokens_per_second``    of ``bench throughput``: prompt and output tokens together
=======================  ==============================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..arrays import FrozenMapping
from .measurement import BATCH, Measurement
from .record import Record, as_number, mean, median, percentiles_of

_MS = 1e-3

_KEYS = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "total": "e2el"}
"""Our name of a latency -> the tool's."""

_METADATA = {
    "accelerator": ("gpu", "gpu_name", "gpu_type", "hardware", "accelerator", "device"),
    "tensor": ("tensor_parallel_size", "tp", "tp_size", "tensor_parallel"),
    "pipeline": ("pipeline_parallel_size", "pp", "pp_size"),
    "accelerators": ("num_gpus", "gpu_count", "n_gpus", "gpus"),
    "weights": ("quantization", "precision", "dtype"),
    "engine": ("engine", "version", "vllm_version"),
}
"""Common keys in ``--metadata``: our key -> theirs."""


def is_serve(data: Mapping[str, Any]) -> bool:
    """Whether this is a run of ``bench serve``."""
    latency = any(f"{statistic}_ttft{unit}" in data for statistic in ("mean", "median") for unit in ("_ms", ""))
    return latency and ("request_throughput" in data or "completed" in data)


def read_serve(record: Record) -> list[Measurement]:
    """A run of ``bench serve``; files of InferenceMAX's client have seconds and no ``_ms``."""
    seconds = record.at("median_ttft") is not None or record.at("mean_ttft") is not None
    suffix, unit = ("", 1.0) if seconds else ("_ms", _MS)
    figures = counts(record) | latencies(record, _KEYS, suffix, unit)
    figures["accepted_tokens_per_step"] = record.number("spec_decode_acceptance_length", positive=True)
    _drop_empty_answers(record, figures)
    _use_lists(record, figures)
    drop_zeros(record, figures)
    if record.at("ramp_up_strategy"):
        record.doubt("the request rate changed during the run (ramp-up), so there is no steady state")
    tool = "InferenceMAX client" if seconds else "vllm bench serve"
    return [record.finish(tool, stated=_stated(record), **figures)]


def counts(record: Record) -> dict[str, Any]:
    """Requests, tokens and rates, under the names of vLLM, SGLang and tools derived from them."""
    done = record.count("completed", "successful_requests")
    duration = record.number("duration", "total_latency", positive=True)
    figures: dict[str, Any] = {
        "requests": done,
        "failed": record.count("failed"),
        "concurrency": record.number("max_concurrency", positive=True),
        "request_rate": paced(record.number("request_rate", positive=True)),
        "duration_s": duration,
        "requests_per_s": record.number("request_throughput", positive=True),
        "tokens_per_s": record.number("output_throughput", positive=True),
        "prompt_tokens_per_s": record.number("input_throughput", positive=True),
        "total_tokens_per_s": record.number("total_token_throughput", "total_throughput", positive=True),
    }
    for name, key in (("prompt_tokens", "total_input_tokens"), ("output_tokens", "total_output_tokens")):
        total = record.number(key, positive=True)
        figures[name] = record.derive(name, "total / requests", f"{key} / completed", total=total, requests=done)
    if figures["requests_per_s"] is None and done:
        figures["requests_per_s"] = record.derive(
            "requests_per_s", "requests / duration_s", "completed / duration", requests=done, duration_s=duration
        )
    return figures


UNPACED = 1000.0
"""A rate of 1000 requests/s or more means "all at once"."""


def paced(rate: float | None) -> float | None:
    """The requested rate; None if requests were not paced."""
    if rate is None or rate >= UNPACED:
        return None
    return rate


def latencies(record: Record, keys: Mapping[str, str], suffix: str, unit: float) -> dict[str, Any]:
    """Means, medians and percentiles, from ``mean_ttft_ms`` and similar keys."""
    figures: dict[str, Any] = {}
    found: list[tuple[str, float | None]] = []
    for ours, theirs in keys.items():
        for statistic in ("mean", "median"):
            value = record.number(f"{statistic}_{theirs}{suffix}", unit=unit, positive=True)
            figures[f"{ours}_{statistic}_s"] = value
        pattern = re.compile(rf"p(\d+(?:\.\d+)?)_{theirs}{suffix}$")
        for key in record.data:
            match = pattern.match(str(key))
            if match:
                found.append((f"{ours}_p{match[1]}_s", record.number(key, unit=unit, positive=True)))
    return figures | {"percentiles": percentiles_of(found)}


def drop_zeros(record: Record, figures: dict[str, Any]) -> None:
    """Zeros mean "not measured": nothing finished, or nothing was streamed."""
    if figures.get("requests") == 0:
        record.doubt("no request finished, so the zeros in the file are ignored")
        for name in figures.keys() - {"requests", "failed", "concurrency", "request_rate", "duration_s"}:
            figures[name] = FrozenMapping() if name == "percentiles" else None
        return
    streamed = figures.get("tpot_mean_s") or figures.get("tpot_median_s") or figures.get("itl_mean_s")
    written_zero = any(record.at(key) == 0 for key in ("mean_tpot_ms", "median_tpot_ms", "mean_tpot", "median_tpot"))
    if written_zero and not streamed and (figures.get("output_tokens") or 2.0) > 1:
        record.repair("the run did not stream (TPOT 0), so its TTFT is the time of the whole request and is ignored")
        for statistic in ("mean", "median"):
            figures[f"total_{statistic}_s"] = figures.get(f"total_{statistic}_s") or figures[f"ttft_{statistic}_s"]
            figures[f"ttft_{statistic}_s"] = None
        kept = {name: value for name, value in figures["percentiles"].items() if not name.startswith("ttft")}
        figures["percentiles"] = FrozenMapping(kept)


def _drop_empty_answers(record: Record, figures: dict[str, Any]) -> None:
    """Some releases count empty answers as completed; remove them if the detailed lists show them."""
    outputs, ttfts = record.numbers("output_lens"), record.numbers("ttfts")
    done, duration = figures["requests"], figures["duration_s"]
    if outputs is None or ttfts is None or len(outputs) != len(ttfts):
        if done and "best_of" in record.data and figures["failed"] is None:
            record.doubt(
                "this release counts empty answers as completed, and the file has no detailed lists to find them"
            )
        return
    full = [index for index, tokens in enumerate(outputs) if tokens > 0]
    if not full or not done or done <= len(full):
        return
    record.repair(f"{done - len(full)} of {done} completed answers are empty; the values cover the other {len(full)}")
    first = [ttfts[index] for index in full]
    inputs = record.numbers("input_lens")
    figures |= {"requests": len(full), "output_tokens": mean([outputs[index] for index in full])}
    known = inputs is not None and len(inputs) == len(outputs)
    figures["prompt_tokens"] = mean([inputs[index] for index in full]) if inputs is not None and known else None
    figures |= {"ttft_mean_s": mean(first), "ttft_median_s": median(first)}
    rates = ("requests_per_s", "tokens_per_s", "prompt_tokens_per_s", "total_tokens_per_s")
    figures |= dict.fromkeys(rates)
    record.steps = [step for step in record.steps if step.name not in (*rates, "prompt_tokens", "output_tokens")]
    figures["requests_per_s"] = record.derive(
        "requests_per_s", "requests / duration_s", "answers / duration", requests=len(full), duration_s=duration
    )
    kept = {name: value for name, value in figures["percentiles"].items() if not name.startswith("ttft")}
    figures["percentiles"] = FrozenMapping(kept)


def _use_lists(record: Record, figures: dict[str, Any]) -> None:
    """End-to-end times from the detailed lists, if the file has these lists and no summary."""
    outputs, ttfts, gaps = record.numbers("output_lens"), record.numbers("ttfts"), record.at("itls")
    if outputs is None or ttfts is None or not isinstance(gaps, list) or figures["total_mean_s"] is not None:
        return
    if not len(outputs) == len(ttfts) == len(gaps):
        return
    decode = [_sum(each) for each in gaps]
    whole = [
        first + rest
        for tokens, first, rest in zip(outputs, ttfts, decode, strict=True)
        if tokens > 0 and rest is not None
    ]
    if len(whole) == sum(tokens > 0 for tokens in outputs):
        figures |= {"total_mean_s": mean(whole), "total_median_s": median(whole)}


def _sum(gaps: object) -> float | None:
    if not isinstance(gaps, list):
        return None
    known = [gap for gap in map(as_number, gaps) if gap is not None and gap >= 0]
    return sum(known) if len(known) == len(gaps) else None


def _stated(record: Record) -> dict[str, Any]:
    stated: dict[str, Any] = {"model": record.text("model_id")}
    for name, keys in _METADATA.items():
        stated[name] = record.text(*keys)
    for name in ("tensor", "pipeline", "accelerators"):
        found = record.number(*_METADATA[name], positive=True) if stated[name] else None
        stated[name] = None if found is None else round(found)
    return stated


def is_throughput(data: Mapping[str, Any]) -> bool:
    """Whether this is a run of ``bench throughput``."""
    return {"elapsed_time", "tokens_per_second"} <= data.keys()


def read_throughput(record: Record) -> list[Measurement]:
    """A run of ``bench throughput``: all requests at once, without latencies.  Tokens include prompt and output."""
    requests = record.count("num_requests", positive=True)
    lengths = {"prompt_tokens": record.number("input"), "output_tokens": record.number("ouput", "output")}
    record.doubt("tokens_per_second includes prompt and output tokens; output tokens/s need the mean lengths")
    return [
        record.finish(
            "vllm bench throughput",
            stated={"model": record.text("model", "model_id")},
            requests=requests,
            duration_s=record.number("elapsed_time", positive=True),
            requests_per_s=record.number("requests_per_second", positive=True),
            total_tokens_per_s=record.number("tokens_per_second", positive=True),
            **lengths,
        )
    ]


def is_latency(data: Mapping[str, Any]) -> bool:
    """Whether this is a run of ``bench latency``."""
    return "avg_latency" in data and ("latencies" in data or "percentiles" in data)


SLOW_FIRST = 1.1
"""A first iteration above the median by this factor was not warmed up."""


def read_latency(record: Record) -> list[Measurement]:
    """A run of ``bench latency``: one static batch, with one time for prefill and all steps."""
    each = record.numbers("latencies")
    middle = record.number("percentiles/50", "p50_latency", positive=True) or median(each or [])
    if each and middle and each[0] > SLOW_FIRST * middle:
        record.doubt(f"the first iteration took {each[0] / middle:.2f} times the median; prefer the median")
    record.doubt(
        "the file does not state batch, lengths and model; add them with replace(batch=..., prompt_tokens=...)"
    )
    found = [(f"total_p{key}_s", record.number(f"percentiles/{key}")) for key in ("90", "95", "99")]
    return [
        record.finish(
            "vllm bench latency",
            kind=BATCH,
            total_mean_s=record.number("avg_latency", positive=True),
            total_median_s=middle,
            percentiles=percentiles_of(found),
        )
    ]


def is_pytorch(data: Any) -> bool:
    """Whether this is a list that vLLM writes for PyTorch's benchmark database."""
    return (
        isinstance(data, list)
        and bool(data)
        and all(isinstance(item, Mapping) and isinstance(item.get("metric"), Mapping) for item in data)
    )


def read_pytorch(data: list[Mapping[str, Any]], source: str) -> list[Measurement]:
    """One run for each model and setting in a ``*.pytorch.json``, which has one metric per row."""
    runs: dict[str, dict[str, Any]] = {}
    for row in data:
        record = Record(row, source)
        values, name = record.numbers("metric/benchmark_values"), record.text("metric/name")
        extra = record.at("benchmark/extra_info")
        extra = extra if isinstance(extra, Mapping) else {}
        model = record.text("model/name") or ""
        run = runs.setdefault(f"{model} {extra.get('tensor_parallel_size')}", {})
        run |= {"model_id": model, "tensor_parallel_size": extra.get("tensor_parallel_size")}
        if name and values:
            run[name] = mean(values)
    found: list[Measurement] = []
    for run in runs.values():
        record = Record(run, source)
        if is_serve(run) or {"mean_ttft_ms", "median_ttft_ms"} & run.keys():
            found += read_serve(record)
        elif is_throughput(run):
            found += read_throughput(record)
    return found


# --- text ------------------------------------------------------------------------------------------------------------

_BLOCK = re.compile(r"=+ *Serving Benchmark Result *=+")
_LINE = re.compile(r"^(?P<label>[A-Za-z0-9][^:\n]*?(?:\([^)\n]*\))?):\s+(?P<value>\S+)\s*$", re.MULTILINE)
_MODEL = re.compile(r"(?:--model[ =]|model=)['\"]?(?P<model>[^\s'\",)]+)")

_LABELS = {
    "successful requests": "completed",
    "failed requests": "failed",
    "maximum request concurrency": "max_concurrency",
    "max request concurrency": "max_concurrency",
    "request rate configured (rps)": "request_rate",
    "traffic request rate": "request_rate",
    "benchmark duration (s)": "duration",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
    "request throughput (req/s)": "request_throughput",
    "output token throughput (tok/s)": "output_throughput",
    "input token throughput (tok/s)": "input_throughput",
    "total token throughput (tok/s)": "total_token_throughput",
    "concurrency": "concurrency",
    "backend": "backend",
    "accept length": "accept_length",
    "acceptance length": "spec_decode_acceptance_length",
}
_LATENCY_LABEL = re.compile(
    r"(?P<statistic>mean|median|p\d+(?:\.\d+)?) (?P<name>ttft|tpot|itl|e2el|e2e latency) \(ms\)$"
)


def blocks(text: str, source: str) -> list[Record]:
    """The blocks "Serving Benchmark Result" of a log, with the keys of the tool's JSON."""
    starts = [match.start() for match in _BLOCK.finditer(text)]
    records = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(text)
        data = dict(_labelled(text[start:end]))
        above = text[starts[number - 1] if number else 0 : start]
        models = _MODEL.findall(above) or _MODEL.findall(text[:start])
        if models:
            data["model_id"] = models[-1]
        place = f"{source}, block {number + 1}" if len(starts) > 1 else source
        records.append(Record(data, place))
    return records


def _labelled(block: str) -> Iterator[tuple[str, Any]]:
    for match in _LINE.finditer(block):
        label = " ".join(match["label"].lower().split())
        if label in _LABELS:
            yield _LABELS[label], match["value"]
        found = _LATENCY_LABEL.match(label)
        if found:
            name = found["name"].replace(" ", "_")
            yield f"{found['statistic']}_{name}_ms", match["value"]


def read_blocks(text: str, source: str) -> list[Measurement]:
    """The runs in the log of ``bench serve``."""
    return [run for record in blocks(text, source) for run in read_serve(record)]


_PERCENTILE_LINE = re.compile(r"^(\d+)% percentile latency: (\S+) seconds", re.MULTILINE)
_AVERAGE_LINE = re.compile(r"^Avg latency: (\S+) seconds", re.MULTILINE)


def read_latency_text(text: str, source: str) -> list[Measurement]:
    """The output of ``bench latency``."""
    average = _AVERAGE_LINE.search(text)
    if average is None:
        return []
    percentiles = dict(_PERCENTILE_LINE.findall(text))
    return read_latency(Record({"avg_latency": average[1], "percentiles": percentiles}, source))


_THROUGHPUT_LINE = re.compile(
    r"^Throughput: (?P<requests>[\d.,]+) requests/s, (?P<total>[\d.,]+) (?:total )?tokens/s"
    r"(?:, (?P<output>[\d.,]+) output tokens/s)?",
    re.MULTILINE,
)


def read_throughput_text(text: str, source: str) -> list[Measurement]:
    """The output of ``bench throughput``; lengths follow from its rounded rates."""
    return [_throughput_line(Record(line.groupdict(), source)) for line in _THROUGHPUT_LINE.finditer(text)]


def _throughput_line(record: Record) -> Measurement:
    rate, output = record.number("requests", positive=True), record.number("output", positive=True)
    total = record.number("total", positive=True)
    prompt_rate = total - output if total and output and total > output else None
    answer = record.derive(
        "output_tokens", "tokens_per_s / requests_per_s", "rates as printed", tokens_per_s=output, requests_per_s=rate
    )
    prompt = record.derive(
        "prompt_tokens",
        "output_tokens * prompt_tokens_per_s / tokens_per_s",
        "rates as printed, total less output",
        output_tokens=answer,
        prompt_tokens_per_s=prompt_rate,
        tokens_per_s=output,
    )
    return record.finish(
        "vllm bench throughput",
        requests_per_s=rate,
        tokens_per_s=output,
        prompt_tokens_per_s=prompt_rate,
        total_tokens_per_s=total,
        output_tokens=answer,
        prompt_tokens=prompt,
    )
