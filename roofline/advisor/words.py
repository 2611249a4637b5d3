"""Words: an advice as people read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..units import humanize
from .targets import METRICS
from .verdict import DECODE_FROM, PREFILL_FROM

if TYPE_CHECKING:
    from .advice import Advice

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


def text_of(advice: Advice) -> str:
    """Verdict, reasons, shares, metrics, promises, techniques, crossovers."""
    return "\n".join(_lines(advice))


def _lines(advice: Advice) -> Iterator[str]:
    serve = advice.serve
    yield f"{serve.model.title or serve.model.name} on {serve.accelerator.title or serve.accelerator.name}"
    yield from ("", _headline(advice), *(f"  {sentence}" for sentence in reasons_of(advice)))
    yield from ("", "Share of prefill in the accelerators' time", *_table(_share_rows(advice)))
    yield from ("", "What users feel, and how much of it is prefill's", *_table(_metric_rows(advice)))
    if advice.lines:
        yield from ("", "Promises, the one that breaks first on top", *_table(_line_rows(advice)))
    yield from ("", f"What to do, by gain on {METRICS[advice.metric]}", *_table(_option_rows(advice)))
    yield from ("", "Where the verdict flips, for the mean request at the medium load")
    yield from (f"  {flip}" for flip in advice.flips)
    if not advice.flips:
        yield "  nowhere within the lengths searched"
    yield from ("", *_notes(advice))


def _headline(advice: Advice) -> str:
    words = {"prefill": "Prefill first", "decode": "Decode first", "both": "Profile both"}[advice.verdict]
    rule = f"prefill from {PREFILL_FROM:.0%} on, decode from {DECODE_FROM:.0%} on"
    share = advice.prefill_share
    return f"{words}: prefill takes {share:.0%} of the time, decode {1 - share:.0%} (rule: {rule})."


def _notes(advice: Advice) -> Iterator[str]:
    if advice.had:
        yield f"Already there: {', '.join(advice.had)}."
    yield from (f"Not here: {name}, {reason}." for name, reason in advice.refused)
    yield from (f"Note: {note}." for note in advice.assumptions)


def _loads(advice: Advice) -> list[str]:
    return [f"batch {batch:,}" for batch in advice.batches]


def _share_rows(advice: Advice) -> Iterator[list[str]]:
    yield ["prompt", "output", "requests", *_loads(advice)]
    traffic = advice.traffic
    columns = (traffic.prompt_tokens, traffic.output_tokens, traffic.share, advice.bucket_shares.T)
    for prompt, output, share, values in zip(*columns, strict=True):
        yield [f"{prompt:,.0f}", f"{output:,.0f}", f"{share:.0%}", *(f"{value:.0%}" for value in values)]
    yield ["all", "", "100%", *(f"{value:.0%}" for value in advice.load_shares)]
    yield ["verdict", "", "", *advice.load_verdicts]


def _metric_rows(advice: Advice) -> Iterator[list[str]]:
    yield ["", *_loads(advice)]
    for metric, words in METRICS.items():
        cells = zip(advice.mean(metric), advice.governs[metric], strict=True)
        yield [words, *(f"{humanize(metric, value)} ({part:.0%})" for value, part in cells)]
    cost = advice.usd_per_million_tokens
    if cost is not None:
        parts = zip(cost, advice.governs["tokens_per_s"], strict=True)
        yield ["USD a million tokens", *(f"{value:.2f} ({part:.0%})" for value, part in parts)]


def _line_rows(advice: Advice) -> Iterator[list[str]]:
    yield ["promise", "level", "breaks at batch", "governed by", *_loads(advice)]
    for line in advice.lines:
        at = f"{line.breaks_at_batch:,.0f}" if np.isfinite(line.breaks_at_batch) else "holds"
        strain = (f"{value:.0%} of it" for value in line.strain)
        yield [METRICS[line.metric], humanize(line.metric, line.level), at, line.phase, *strain]


def _option_rows(advice: Advice) -> Iterator[list[str]]:
    yield ["", "gain", "prefill", "decode", "memory freed", "effort", "costs"]
    for option in advice.options[:SHOWN]:
        gains = (option.gain, option.prefill_gain, option.decode_gain)
        freed = humanize("bytes", option.memory_freed_bytes)
        yield [option.name, *(f"{gain:.2f}x" for gain in gains), freed, option.technique.effort, option.technique.costs]


def _table(rows: Iterator[list[str]]) -> Iterator[str]:
    """Rows as aligned columns, indented."""
    cells = list(rows)
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    for row in cells:
        yield ("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
