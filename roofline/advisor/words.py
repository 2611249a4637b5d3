"""Text of an advice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ..report.tables import text_table
from ..serving.metrics import METRICS, SLO_METRICS
from ..serving.traffic import Traffic
from ..techniques.technique import HARDWARE
from ..units import humanize
from .findings import Findings
from .ranked_techniques import Option
from .verdict import DECODE_FROM, PREFILL_FROM

SHOWN = 8
"""Number of techniques listed in the text."""

Rows = list[list[str]]


def reasons_of(found: Findings) -> tuple[str, ...]:
    """Reasons in sentences: the metric, what contributes to it, and which technique gains the most."""
    part = float(np.mean(found.governs[found.metric]))
    name = METRICS[found.metric].words
    phase, share = ("prefill", part) if part >= 0.5 else ("decode", 1 - part)
    first = f"{share:.0%} of the {name} is {phase}."
    missed = _missed(found)
    if found.first == "nothing":
        return (*missed, first, f"No technique considered improves the {name}.")
    best = found.options[0]
    effect = f"prefill {best.prefill_gain:.2f}x, decode {best.decode_gain:.2f}x"
    gain = f"{best.name} improves it the most: {best.gain:.2f}x ({effect}; {best.technique.effort})."
    return (*missed, first, gain)


def _missed(found: Findings) -> tuple[str, ...]:
    if not found.lines:
        return ()
    line = found.lines[0]
    words, target = METRICS[line.metric].words, humanize(line.metric, line.target)
    if not np.isfinite(line.breaks_at_batch):
        return (f"All SLO targets are met up to the largest load; the tightest is {words} {target}.",)
    at = f"batch {line.breaks_at_batch:,.0f}{_of_bucket(found.traffic, line.bucket)}"
    return (f"The first SLO target to be missed is {words} {target}, at {at}.",)


def _of_bucket(traffic: Traffic, bucket: int) -> str:
    """Lengths of the requests of a batch; empty if all requests have the same lengths."""
    if len(traffic.share) == 1:
        return ""
    return f" of {traffic.prompt_tokens[bucket]:,.0f} + {traffic.output_tokens[bucket]:,.0f} tokens"


def text_of(found: Findings) -> str:
    """Full text: verdict, reasons, shares, metrics, SLO targets, techniques and crossovers."""
    lines = [title_of(found), "", headline_of(found), *(f"  {sentence}" for sentence in reasons_of(found))]
    for heading, rows in tables_of(found):
        lines += ["", heading, *text_table(rows, indent=2)]
    lines += ["", FLIPS, *(f"  {sentence}" for sentence in flips_of(found)), "", "Notes"]
    lines += (f"  {note}" for note in notes_of(found))
    return "\n".join(lines)


FLIPS = "Where the verdict changes, for the mean request at the medium load"


def summary_of(found: Findings) -> str:
    """Short text: verdict, first missed target, and the technique with the largest gain."""
    share = found.prefill_share
    part = f"prefill takes {share:.0%} of the time, decode {1 - share:.0%}"
    lead = {"prefill": "Prefill first", "decode": "Decode first", "both": "Profile both phases"}[found.verdict]
    sentences = [*filter(None, [found.start]), f"{lead}: {part}.", *_missed(found)]
    name = METRICS[found.metric].words
    if found.first == "nothing":
        sentences.append(f"No technique considered improves the {name}.")
    else:
        sentences.append(f"Largest gain in {name}: {found.options[0].name}, {found.gain:.2f}x.")
    return " ".join(sentences)


def title_of(found: Findings) -> str:
    """Title: model, accelerator and layout."""
    model, gpu, parallel = found.serve.model, found.serve.accelerator, found.serve.parallel
    layout = "" if parallel.single else f", {parallel}"
    return f"{model.title or model.name} on {gpu.title or gpu.name}{layout}"


def headline_of(found: Findings) -> str:
    """Headline with the verdict."""
    words = {"prefill": "Prefill first", "decode": "Decode first", "both": "Profile both"}[found.verdict]
    rule = f"prefill from {PREFILL_FROM:.0%} on, decode from {DECODE_FROM:.0%} on"
    share = found.prefill_share
    return f"{words}: prefill takes {share:.0%} of the time, decode {1 - share:.0%} (rule: {rule})."


def tables_of(found: Findings) -> Iterator[tuple[str, Rows]]:
    """Headings and tables; the first row of each table has the column headings."""
    yield "Share of prefill in the accelerators' time", _share_rows(found)
    yield "What users see", _metric_rows(found)
    yield "How much of that is prefill", _governs_rows(found)
    if found.lines:
        worst = ", each for the most demanding kind of request" if len(found.traffic.share) > 1 else ""
        yield f"SLO targets{worst}; the first to be missed on top", _line_rows(found)
    yield (
        f"What to do, by gain in {METRICS[found.metric].words}; what needs more hardware comes last",
        _gain_rows(found),
    )
    yield "What it takes", _price_rows(found)


def flips_of(found: Findings) -> tuple[str, ...]:
    """The crossovers in sentences."""
    return tuple(map(str, found.flips)) or ("the verdict is the same at all lengths searched",)


def notes_of(found: Findings) -> Iterator[str]:
    """Notes: techniques in use, techniques that cannot be used, and assumptions."""
    if found.had:
        yield f"In use already: {', '.join(found.had)}."
    by_reason: dict[str, list[str]] = {}
    for name, reason in found.refused:
        by_reason.setdefault(reason, []).append(name)
    yield from (f"Not available here ({reason}): {', '.join(names)}." for reason, names in by_reason.items())
    yield from (f"{note}." for note in found.assumptions)


def _loads(found: Findings) -> list[str]:
    return [f"batch {batch:,}" for batch in found.batches]


def _percentages(shares: Iterable[float]) -> list[str]:
    return [f"{share:.0%}" for share in shares]


def _share_rows(found: Findings) -> Rows:
    traffic = found.traffic
    columns = (traffic.prompt_tokens, traffic.output_tokens, traffic.share, found.bucket_shares.T)
    buckets = []
    for prompt, output, share, values in zip(*columns, strict=True):
        buckets.append([f"{prompt:,.0f}", f"{output:,.0f}", f"{share:.0%}", *_percentages(values)])
    total = ["all", "", "100%", *_percentages(found.load_shares)]
    head = ["prompt", "output", "requests", *_loads(found)]
    return [head, *buckets, total, ["verdict", "", "", *found.load_verdicts]]


def _metric_rows(found: Findings) -> Rows:
    rows = [[METRICS[name].words, *(humanize(name, value) for value in found.mean(name))] for name in SLO_METRICS]
    cost = found.usd_per_million_tokens
    priced = [] if cost is None else [["USD per million tokens", *(f"{value:.2f}" for value in cost)]]
    return [["", *_loads(found)], *rows, *priced]


def _governs_rows(found: Findings) -> Rows:
    rows = [[METRICS[name].words, *_percentages(found.governs[name])] for name in SLO_METRICS]
    return [["", *_loads(found)], *rows]


def _line_rows(found: Findings) -> Rows:
    rows = [["metric", "target", "missed from", "governed by", *_loads(found)]]
    for line in found.lines:
        at = f"batch {line.breaks_at_batch:,.0f}" if np.isfinite(line.breaks_at_batch) else "never"
        strain = (f"{value:.0%}" for value in line.strain)
        rows.append([METRICS[line.metric].words, humanize(line.metric, line.target), at, line.phase, *strain])
    return rows


def _gain_rows(found: Findings) -> Rows:
    rows = [["", "gain", "prefill", "decode", "memory freed"]]
    for option in _shown(found):
        gains = (option.gain, option.prefill_gain, option.decode_gain)
        rows.append(
            [
                _with_assumption(option),
                *(f"{gain:.2f}x" for gain in gains),
                humanize("bytes", option.memory_freed_bytes),
            ]
        )
    return rows


def _with_assumption(option: Option) -> str:
    """A technique with its assumptions."""
    return ", ".join(filter(None, (option.name, option.technique.assumption)))


def _price_rows(found: Findings) -> Rows:
    rows = [[option.name, option.technique.effort, option.technique.costs] for option in _shown(found)]
    return [["", "effort", "costs"], *rows]


def _shown(found: Findings) -> tuple[Option, ...]:
    """Techniques to list: the first ones, and those that need more accelerators."""
    rest = [option for option in found.options[SHOWN:] if option.technique.effort == HARDWARE]
    return (*found.options[:SHOWN], *rest)
