"""Advice and the effects of techniques: asked of the library, and shown."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ..advisor import SLO, Advice, advise
from ..advisor.words import FLIPS, flips_of, headline_of, notes_of, reasons_of, tables_of, title_of
from ..serving.metrics import METRICS, SLO_METRICS
from ..serving.traffic import Traffic, read_traffic
from ..techniques import Effect
from .case import Case
from .options import numeral
from .screen import derived, grid, heading, notes, show, value
from .views import title

__all__ = ["advice", "advised", "effect", "show"]

COMPARED = (*SLO_METRICS, "weights_bytes", "kv_bytes_per_sequence", "max_batch", "capacity_tokens_per_s")
"""Metrics that are shown before and after."""


def advised(
    case: Case, traffic: Path | None, loads: str, promises: Mapping[str, Any], *, metric: str | None, usd_per_hour: Any
) -> Advice:
    """The advice for the traffic in a file, or for the workload of the case."""
    asked = Traffic.of([(case.load.prompt_tokens, case.load.output_tokens)])
    mix = asked if traffic is None else read_traffic(traffic)
    batches = tuple(numeral(part) for part in loads.split(","))
    return advise(case.serve, mix, SLO(**promises), batches=batches, metric=metric, usd_per_hour=usd_per_hour)


def advice(found: Advice) -> list[RenderableType]:
    """An advice, block by block."""
    parts: list[RenderableType] = [Text(title_of(found), style="bold"), heading("Verdict")]
    parts.append(notes([headline_of(found), *reasons_of(found)]))
    for words, (head, *rows) in tables_of(found):
        right = 0 if head[1:2] == ["effort"] else len(head) - 1
        parts += [heading(words), grid(rows, head=head, right=right)]
    return [*parts, heading(FLIPS), notes(flips_of(found)), heading("Notes"), notes(notes_of(found))]


def effect(case: Case, found: Effect) -> list[RenderableType]:
    """Before and after of everything, and how the techniques come to it."""
    rows = [
        (METRICS[name].words, *(value(name, getattr(side, name)) for side in (found.before, found.after)))
        for name in COMPARED
    ]
    return [
        *title(case),
        heading("Techniques"),
        notes(f"{item.label}: {item.why}" for item in found.techniques),
        heading("What they do"),
        grid(rows, right=2, head=("", "before", "after")),
        heading("What they take"),
        grid((item.label, item.effort, item.costs) for item in found.techniques),
        *derived({"": found.explain()}),
        heading("Notes"),
        notes(found.assumptions),
    ]
