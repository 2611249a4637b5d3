"""Words: an advice as people read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..tables import text_table
from ..techniques.technique import HARDWARE
from ..units import humanize
from .targets import METRICS
from .verdict import DECODE_FROM, PREFILL_FROM

if TYPE_CHECKING:
    from .advice import Advice
    from .options import Option

SHOWN = 8
"""Techniques that the text lists."""


def reasons_of(advice: Advice) -> tuple[str, ...]:
    """Why, in sentences: the metric at issue, what it consists of, and what gains the most on it."""
    part = float(np.mean(advice.governs[advice.metric]))
    name = METRICS[advice.metric]
    holder, share = ("prefill", part) if part >= 0.5 else ("decode", 1 - part)
    first = f"{share:.0%} of the {name} is {holder}'s."
    promise = _promise(advice)
    if advice.first == "nothing":
        return (*promise, first, f"No technique considered gains on the {name}.")
    best = advice.options[0]
    effect = f"prefill {best.prefill_gain:.2f}x, decode {best.decode_gain:.2f}x"
    gain = f"{best.name} gains the most on it: {best.gain:.2f}x ({effect}; {best.technique.effort})."
    return (*promise, first, gain)


def _promise(advice: Advice) -> tuple[str, ...]:
    if not advice.lines:
        return ()
    line = advice.lines[0]
    level = humanize(line.metric, line.level)
    if not np.isfinite(line.breaks_at_batch):
        return (f"Every promise holds up to the largest load; the nearest is {METRICS[line.metric]} {level}.",)
    return (f"The promise that breaks first is {METRICS[line.metric]} {level}, at batch {line.breaks_at_batch:,.0f}.",)


Rows = list[list[str]]


def text_of(advice: Advice) -> str:
    """Verdict, reasons, shares, metrics, promises, techniques, crossovers."""
    lines = [title_of(advice), "", headline_of(advice), *(f"  {sentence}" for sentence in reasons_of(advice))]
    for heading, rows in tables_of(advice):
        lines += ["", heading, *text_table(rows, indent=2)]
    lines += ["", FLIPS, *(f"  {sentence}" for sentence in flips_of(advice)), "", "Notes"]
    lines += (f"  {note}" for note in notes_of(advice))
    return "\n".join(lines)


FLIPS = "Where the verdict flips, for the mean request at the medium load"


def summary_of(advice: Advice) -> str:
    """The verdict, the first target to break, and the technique that gains the most."""
    share = advice.prefill_share
    part = f"prefill takes {share:.0%} of the time, decode {1 - share:.0%}"
    lead = {"prefill": "Prefill first", "decode": "Decode first", "both": "Profile both phases"}[advice.verdict]
    sentences = [f"{lead}: {part}.", *_promise(advice)]
    name = METRICS[advice.metric]
    if advice.first == "nothing":
        sentences.append(f"No technique considered gains on the {name}.")
    else:
        sentences.append(f"The largest gain on the {name}: {advice.options[0].name}, {advice.gain:.2f}x.")
    return " ".join(sentences)


def title_of(advice: Advice) -> str:
    """What runs where."""
    model, gpu = advice.serve.model, advice.serve.accelerator
    return f"{model.title or model.name} on {gpu.title or gpu.name}"


def headline_of(advice: Advice) -> str:
    """The verdict of the rule of thumb."""
    words = {"prefill": "Prefill first", "decode": "Decode first", "both": "Profile both"}[advice.verdict]
    rule = f"prefill from {PREFILL_FROM:.0%} on, decode from {DECODE_FROM:.0%} on"
    share = advice.prefill_share
    return f"{words}: prefill takes {share:.0%} of the time, decode {1 - share:.0%} (rule: {rule})."


def tables_of(advice: Advice) -> Iterator[tuple[str, Rows]]:
    """Headings and rows, the first row of each being column heads."""
    yield "Share of prefill in the accelerators' time", _share_rows(advice)
    yield "What users feel", _metric_rows(advice)
    yield "How much of that is prefill's", _governs_rows(advice)
    if advice.lines:
        yield "Promises, the one that breaks first on top", _line_rows(advice)
    yield f"What to do, by gain on {METRICS[advice.metric]}", _gain_rows(advice)
    yield "What it takes", _price_rows(advice)


def flips_of(advice: Advice) -> tuple[str, ...]:
    """The crossovers in sentences."""
    return tuple(map(str, advice.flips)) or ("nowhere within the lengths searched",)


def notes_of(advice: Advice) -> Iterator[str]:
    """What is there already, what can't be had, what the figures rest on."""
    if advice.had:
        yield f"Already there: {', '.join(advice.had)}."
    yield from (f"Not here: {name}, {reason}." for name, reason in advice.refused)
    yield from (f"{note}." for note in advice.assumptions)


def _loads(advice: Advice) -> list[str]:
    return [f"batch {batch:,}" for batch in advice.batches]


def _share_rows(advice: Advice) -> Rows:
    traffic = advice.traffic
    columns = (traffic.prompt_tokens, traffic.output_tokens, traffic.share, advice.bucket_shares.T)
    buckets = [
        [f"{prompt:,.0f}", f"{output:,.0f}", f"{share:.0%}", *(f"{value:.0%}" for value in values)]
        for prompt, output, share, values in zip(*columns, strict=True)
    ]
    total = ["all", "", "100%", *(f"{value:.0%}" for value in advice.load_shares)]
    head = ["prompt", "output", "requests", *_loads(advice)]
    return [head, *buckets, total, ["verdict", "", "", *advice.load_verdicts]]


def _metric_rows(advice: Advice) -> Rows:
    rows = [[words, *(humanize(name, value) for value in advice.mean(name))] for name, words in METRICS.items()]
    cost = advice.usd_per_million_tokens
    priced = [] if cost is None else [["USD a million tokens", *(f"{value:.2f}" for value in cost)]]
    return [["", *_loads(advice)], *rows, *priced]


def _governs_rows(advice: Advice) -> Rows:
    rows = [[words, *(f"{part:.0%}" for part in advice.governs[name])] for name, words in METRICS.items()]
    return [["", *_loads(advice)], *rows]


def _line_rows(advice: Advice) -> Rows:
    rows = [["promise", "level", "breaks at", "governed by", *_loads(advice)]]
    for line in advice.lines:
        at = f"batch {line.breaks_at_batch:,.0f}" if np.isfinite(line.breaks_at_batch) else "never"
        strain = (f"{value:.0%}" for value in line.strain)
        rows.append([METRICS[line.metric], humanize(line.metric, line.level), at, line.phase, *strain])
    return rows


def _gain_rows(advice: Advice) -> Rows:
    rows = [["", "gain", "prefill", "decode", "memory freed"]]
    for option in _shown(advice):
        gains = (option.gain, option.prefill_gain, option.decode_gain)
        rows.append([option.name, *(f"{gain:.2f}x" for gain in gains), humanize("bytes", option.memory_freed_bytes)])
    return rows


def _price_rows(advice: Advice) -> Rows:
    shown = _shown(advice)
    return [["", "effort", "costs"], *([item.name, item.technique.effort, item.technique.costs] for item in shown)]


def _shown(advice: Advice) -> tuple[Option, ...]:
    """The first techniques, and those that take more accelerators."""
    rest = (option for option in advice.options[SHOWN:] if option.technique.effort == HARDWARE)
    return (*advice.options[:SHOWN], *rest)
