"""Text for people: aligned columns that keep to the width of the terminal, and never cut a number."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ..report import Report, Step
from ..units import humanize, quantity_of
from .case import about

_SHOWN_BY_VALUE = {"s", "bytes", "tokens", "tokens_per_s", "flops_per_byte"}
_WORDS = {"kv": "KV cache", "ttft": "TTFT", "tpot": "TPOT", "flops": "FLOPs", "max": "largest"}
_LABELS = {
    "estimate_low_s": "estimate, low end",
    "estimate_high_s": "estimate, high end",
    "tokens_per_s": "throughput",
    "kv_bytes_per_sequence": "KV cache of one sequence",
    "kv_bytes": "KV cache of the batch",
    "ridge_batch": "projections reach the ridge at batch",
    "expert_ridge_batch": "experts reach the ridge at batch",
    "kv_context_tokens": "KV bytes pass weight bytes at context",
    "kv_tokens": "that is, batch x context",
}


def show(*parts: RenderableType) -> None:
    """Print everything at once, without the blanks that fill up table cells."""
    console = Console(markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    sys.stdout.write(re.sub(r" +$", "", captured.get(), flags=re.MULTILINE))


def label(column: str) -> str:
    """A column's name as people read it; the value shows the unit."""
    quantity = quantity_of(column)
    stem = column.removesuffix(f"_{quantity}") if quantity in _SHOWN_BY_VALUE else column
    return _LABELS.get(column) or " ".join(_WORDS.get(word, word) for word in stem.split("_"))


def value(column: str, number: Any) -> str:
    """A value as people say it."""
    return f"{number:.1%}" if column.endswith("_share") else humanize(column, number)


def size(parameters: float) -> str:
    """A count of parameters as people say it: ``70.6B``."""
    return f"{parameters / 1e9:.3g}B" if parameters >= 1e9 else f"{parameters / 1e6:.3g}M"


def heading(text: str, quiet: str = "") -> Text:
    """A line above a block."""
    return Text.assemble("\n", (text, "bold"), f"  {quiet}" if quiet else "")


def grid(rows: Iterable[Sequence[str]], *, right: int = 0, head: Sequence[str] = ()) -> Table:
    """Indented columns without lines, the last ``right`` of them right-aligned; text wraps, numbers are never cut."""
    cells = [*rows]
    table = Table(box=None, show_header=bool(head), show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    width = max(map(len, cells), default=0)
    for at in range(width):
        side: Any = "right" if at >= width - right else "left"
        table.add_column(
            ("" if at else "  ") + head[at] if head else "",
            justify=side,
            overflow="fold",
            no_wrap=at == 0,
            header_style="dim",
        )
    for first, *others in cells:
        table.add_row(f"  {first}", *others)
    return table


def side_by_side(results: Mapping[str, Report], *, leave_out: str = "") -> Table:
    """The columns of results of one kind, one result a column of text."""
    columns = [name for name in next(iter(results.values())).columns if name != leave_out]
    rows = [(label(name), *(value(name, getattr(item, name)) for item in results.values())) for name in columns]
    return grid(rows, right=len(results), head=("", *results))


def facts(result: Report) -> Table:
    """The columns of one result, one a line."""
    values = {name: getattr(result, name) for name in result.columns}
    return grid((label(name), value(name, item)) for name, item in values.items() if item is not None)


def notes(lines: Iterable[str]) -> Table:
    """Sentences, each with a mark."""
    return grid(("-", line) for line in lines)


def derived(phases: Mapping[str, Iterable[Step]]) -> list[RenderableType]:
    """Steps by phase and operator: formula, the numbers put in, the value; sources as footnotes below."""
    sources = dict.fromkeys(step.source for steps in phases.values() for step in steps)
    marks = {source: f"[{at}]" for at, source in enumerate(sources, 1)}
    parts: list[RenderableType] = []
    for phase, steps in phases.items():
        for subject, members in groupby(steps, key=about):
            rows = [row for step in members for row in _step_rows(step, marks[step.source])]
            parts += [heading(subject, "" if subject == phase else phase), grid(rows)]
    return [*parts, heading("Sources"), grid((mark, source) for source, mark in marks.items())]


def _step_rows(step: Step, mark: str) -> list[tuple[str, ...]]:
    column = step.name.rpartition(".")[2]
    put_in = re.sub(r"[A-Za-z_]\w*", lambda word: _plain_number(step.inputs.get(word[0], word[0])), step.formula)
    rows = [(column, "=", step.formula, mark)]
    rows += [("", "=", put_in, "")] if put_in != step.formula else []
    return [*rows, ("", "=", value(column, step.value), "")]


def _plain_number(number: Any) -> str:
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e7:
        return str(int(number))
    return f"{number:.6g}" if isinstance(number, float) else str(number)
