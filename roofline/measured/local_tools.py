"""Local tools: mlx-lm, exllamav3 and ollama, with batch 1 or a small static batch.

Rates are converted to times: TPOT = batch / (generated tokens per second), since a rate is the total over the batch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .measurement import BATCH, DECODE, PREFILL, Measurement
from .record import Record, as_number, mean, median

# --- mlx-lm ----------------------------------------------------------------------------------------------------------

_TIMING = re.compile(
    r"^Timing with prompt_tokens=(?P<prompt>\d+), generation_tokens=(?P<output>\d+), batch_size=(?P<batch>\d+)",
    re.MULTILINE,
)
_TRIAL = re.compile(r"^Trial \d+: +prompt_tps=(?P<prompt>[\d.]+), generation_tps=(?P<output>[\d.]+)", re.MULTILINE)
_AVERAGES = re.compile(r"^Averages: +prompt_tps=(?P<prompt>[\d.]+), generation_tps=(?P<output>[\d.]+)", re.MULTILINE)


def read_mlx_benchmark(text: str, source: str) -> list[Measurement]:
    """The runs that ``mlx_lm.benchmark`` prints."""
    starts = list(_TIMING.finditer(text))
    found = []
    for number, start in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        place = f"{source}, run {number + 1}" if len(starts) > 1 else source
        found.append(_mlx_run(start, text[start.end() : end], place))
    return found


def _mlx_run(start: re.Match[str], body: str, source: str) -> Measurement:
    record = Record(start.groupdict(), source)
    batch = record.count("batch", positive=True)
    prompt, output = record.number("prompt", positive=True), record.number("output", positive=True)
    trials = list(_TRIAL.finditer(body)) or list(_AVERAGES.finditer(body))
    firsts = [(batch or 1) * (prompt or 0) / rate for rate in _rates(trials, "prompt")]
    steps = [(batch or 1) / rate for rate in _rates(trials, "output")]
    rates = _rates(trials, "output")
    return record.finish(
        "mlx_lm.benchmark",
        kind=BATCH,
        batch=batch,
        prompt_tokens=prompt,
        output_tokens=output,
        ttft_mean_s=mean(firsts),
        ttft_median_s=median(firsts),
        tpot_mean_s=mean(steps),
        tpot_median_s=median(steps),
        tokens_per_s=mean(rates),
    )


def _rates(matches: list[re.Match[str]], name: str) -> list[float]:
    found = [as_number(match[name]) for match in matches]
    return [rate for rate in found if rate is not None and rate > 0]


_PROMPT = re.compile(r"^Prompt: (?P<tokens>\d+) tokens, (?P<rate>[\d.]+) tokens-per-sec", re.MULTILINE)
_GENERATION = re.compile(r"^Generation: (?P<tokens>\d+) tokens, (?P<rate>[\d.]+) tokens-per-sec", re.MULTILINE)


def read_mlx_generate(text: str, source: str) -> list[Measurement]:
    """The answers for which ``mlx_lm.generate`` prints timings."""
    found = []
    prompts, answers = list(_PROMPT.finditer(text)), list(_GENERATION.finditer(text))
    for prompt, answer in zip(prompts, answers, strict=False):
        record = Record({"prompt": prompt.groupdict(), "answer": answer.groupdict()}, source)
        tokens, rate = record.number("prompt/tokens", positive=True), record.number("prompt/rate", positive=True)
        speed = record.number("answer/rate", positive=True)
        first = record.derive(
            "ttft_mean_s",
            "batch * prompt_tokens / prompt_tokens_per_s",
            "rate as printed",
            batch=1,
            prompt_tokens=tokens,
            prompt_tokens_per_s=rate,
        )
        step = record.derive("tpot_mean_s", "batch / tokens_per_s", "rate as printed", batch=1, tokens_per_s=speed)
        found.append(
            record.finish(
                "mlx_lm.generate",
                kind=BATCH,
                batch=1,
                prompt_tokens=tokens,
                output_tokens=record.number("answer/tokens", positive=True),
                ttft_mean_s=first,
                tpot_mean_s=step,
                prompt_tokens_per_s=rate,
                tokens_per_s=speed,
            )
        )
    return found


# --- exllamav3 -------------------------------------------------------------------------------------------------------

_COLOR = re.compile(r"\x1b?\[[0-9;]*m")
_LENGTH = re.compile(r"^(?P<what>Length|Context) +(?P<tokens>\d+): +(?P<rate>[\d.,]+) tokens/s", re.MULTILINE)
_BITS = re.compile(r"Bitrate: (?P<bits>[\d.]+) bpw")
_FORCED_STEPS = 100.0
"""Decode steps of exllamav3's ``eval/perf.py`` at each context."""


def read_exllama(text: str, source: str) -> list[Measurement]:
    """The prefills and decodes in a log of exllamav3's ``eval/perf.py``, which may contain color codes."""
    plain = _COLOR.sub("", text)
    if "Prefill:" not in plain and "Generation" not in plain:
        return []
    bits = _BITS.search(plain)
    stated = {"engine": "exllamav3", "weights": f"{bits['bits']} bits" if bits else None}
    return [_exllama_line(line, stated, source) for line in _LENGTH.finditer(plain)]


def _exllama_line(line: re.Match[str], stated: Mapping[str, Any], source: str) -> Measurement:
    record = Record(line.groupdict(), f"{source}, {line['what'].lower()} {line['tokens']}")
    tokens, rate = record.number("tokens"), record.number("rate", positive=True)
    if line["what"] == "Length":
        first = record.derive(
            "ttft_mean_s",
            "batch * prompt_tokens / prompt_tokens_per_s",
            "rate as printed",
            batch=1,
            prompt_tokens=tokens,
            prompt_tokens_per_s=rate,
        )
        figures = {"prompt_tokens": tokens, "context_tokens": 0.0, "ttft_mean_s": first, "prompt_tokens_per_s": rate}
        return record.finish("exllamav3 perf", kind=PREFILL, stated=stated, batch=1, **figures)
    step = record.derive("tpot_mean_s", "batch / tokens_per_s", "rate as printed", batch=1, tokens_per_s=rate)
    figures = {"context_tokens": tokens, "output_tokens": _FORCED_STEPS, "tpot_mean_s": step, "tokens_per_s": rate}
    return record.finish("exllamav3 perf", kind=DECODE, stated=stated, batch=1, **figures)


# --- ollama ----------------------------------------------------------------------------------------------------------

_NS = 1e-9


def is_ollama(data: Mapping[str, Any]) -> bool:
    """Whether this is an answer of ollama's API."""
    return {"eval_count", "eval_duration"} <= data.keys()


def read_ollama(record: Record) -> list[Measurement]:
    """An answer of ollama's API, in nanoseconds; there are no timings for a cached prompt."""
    prompt, output = record.number("prompt_eval_count", positive=True), record.number("eval_count", positive=True)
    first = record.number("prompt_eval_duration", unit=_NS, positive=True)
    rest = record.number("eval_duration", unit=_NS, positive=True)
    loading = record.number("load_duration", unit=_NS)
    if first is None:
        record.doubt("the prompt was cached, so the file has neither its time nor its tokens")
    if loading and first and loading > first:
        record.doubt(f"loading the model took {loading:.3g} s, which is not included in TTFT")
    step = record.derive(
        "tpot_mean_s", "decode_s / output_tokens", "eval_duration / eval_count", decode_s=rest, output_tokens=output
    )
    rate = record.derive(
        "tokens_per_s",
        "output_tokens / decode_s",
        "eval_count / eval_duration; decode only",
        output_tokens=output,
        decode_s=rest,
    )
    return [
        record.finish(
            "ollama",
            kind=BATCH,
            stated={"model": record.text("model"), "engine": "ollama"},
            batch=1,
            prompt_tokens=prompt,
            output_tokens=output,
            ttft_mean_s=first,
            tpot_mean_s=step,
            total_mean_s=record.number("total_duration", unit=_NS, positive=True),
            tokens_per_s=rate,
        )
    ]


_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>h|ms|m|s|us|µs|μs|ns)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_VERBOSE = re.compile(
    r"^(?P<name>total duration|load duration|prompt eval count|prompt eval duration|eval count|eval duration):"
    r" +(?P<value>\S+)",
    re.MULTILINE,
)


def duration_s(text: str) -> float | None:
    """Seconds of a duration in Go's format.

    Examples
    --------
    >>> duration_s("1m3.482s"), duration_s("48.21ms"), duration_s("soon")
    (63.482, 0.04821, None)
    """
    parts = list(_DURATION.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        return None
    return sum(float(part["number"]) * _UNITS[part["unit"]] for part in parts)


def read_ollama_text(text: str, source: str) -> list[Measurement]:
    """The output of ``ollama run --verbose``, with one answer for each "total duration"."""
    answers: list[dict[str, float]] = []
    for line in _VERBOSE.finditer(text):
        name, value = line["name"].replace(" ", "_"), line["value"]
        if name == "total_duration" or not answers:
            answers.append({})
        if name.endswith("duration"):
            seconds = duration_s(value)
            if seconds is not None:
                answers[-1][name] = seconds / _NS
        else:
            count = as_number(value)
            if count is not None:
                answers[-1][name] = count
    places = [f"{source}, answer {n}" if len(answers) > 1 else source for n in range(1, len(answers) + 1)]
    complete = [(data, place) for data, place in zip(answers, places, strict=True) if is_ollama(data)]
    return [run for data, place in complete for run in read_ollama(Record(data, place))]
