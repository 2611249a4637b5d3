"""MLPerf loadgen: ``mlperf_log_summary.txt``.

All latencies are in nanoseconds.  "Result is" says whether a run is valid; an invalid run does not count.  Model,
hardware and lengths are in the path of the directory, not in the file.
"""

from __future__ import annotations

import re

from .measurement import Measurement
from .record import AGREEMENT, Record, percentiles_of
from .vllm import paced

_NS = 1e-9
_LINE = re.compile(r"^ *(?P<name>[^:\n]+?) *: *(?P<value>.*?) *$", re.MULTILINE)
_LATENCIES = {"total": "latency", "ttft": "first token latency", "tpot": "time to output token"}


def is_summary(text: str) -> bool:
    """Whether this is a summary."""
    return "MLPerf Results Summary" in text and "Scenario" in text


def read_summary(text: str, source: str) -> list[Measurement]:
    """A run: Offline has rates, and Server also has latencies."""
    lines = [(" ".join(match["name"].lower().split()), match["value"]) for match in _LINE.finditer(text)]
    data: dict[str, str] = {}
    for name, value in lines:
        data.setdefault(name, value.split()[0] if value.split() else "")
    record = Record(data, source)
    scenario = record.text("scenario") or "of an unnamed scenario"
    _remarks(record, lines)
    rate = record.number("completed samples per second", "samples per second", "samples per second (inferred)")
    tokens = record.number(*_TOKENS, positive=True)
    figures: dict[str, float | None] = {"requests_per_s": rate, "tokens_per_s": tokens}
    figures["output_tokens"] = record.derive(
        "output_tokens",
        "tokens_per_s / requests_per_s",
        "tokens and samples a second",
        tokens_per_s=tokens,
        requests_per_s=rate,
    )
    figures["request_rate"] = paced(record.number("scheduled samples per second", positive=True))
    percentiles = []
    for ours, theirs in _LATENCIES.items():
        figures[f"{ours}_mean_s"] = record.number(f"mean {theirs} (ns)", unit=_NS, positive=True)
        middle = (f"50.00 percentile {theirs} (ns)", f"50 percentile {theirs} (ns)")
        figures[f"{ours}_median_s"] = record.number(*middle, unit=_NS, positive=True)
        for quantile in ("90", "95", "97", "99", "99.9"):
            written = f"{float(quantile):.2f} percentile {theirs} (ns)"
            percentiles.append((f"{ours}_p{quantile}_s", record.number(written, unit=_NS, positive=True)))
    return [
        record.finish(
            f"MLPerf {scenario}",
            stated={"scenario": scenario, "result": record.text("result is")},
            percentiles=percentiles_of(percentiles),
            **figures,
        )
    ]


_TOKENS = (
    "completed tokens per second",
    "tokens per second",
    "completed tokens per second (inferred)",
    "tokens per second (inferred)",
)


def _remarks(record: Record, lines: list[tuple[str, str]]) -> None:
    result = record.text("result is")
    if result and result.upper() != "VALID":
        record.doubt(f"the result is {result}: such a run does not count")
    if any(name.endswith("(inferred)") for name, _ in lines):
        record.doubt("the token rate is inferred as samples x a constant")
    rates = [Record({"v": value}, "").number("v") for name, value in lines if name == "completed tokens per second"]
    known = [rate for rate in rates if rate]
    if known and max(known) > min(known) * (1 + AGREEMENT):
        record.doubt(f"the file has two token rates, {min(known):g} and {max(known):g} a second")
    if (record.text("scenario") or "").lower() == "offline":
        record.doubt("all samples are sent at once, so latencies include queueing")
