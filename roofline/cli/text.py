"""Plain text for a terminal: tables and paragraphs that keep to its width and never cut a number."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from ..report import Report, Step
from ..report.tables import text_table, wrapped_lines
from ..units import humanize, quantity_of
from .answers import subject
from .terminal import width

INDENT = 2
"""Blanks before the first column of a table."""

_SHOWN_BY_VALUE = {"s", "bytes", "tokens", "tokens_per_s", "flops_per_byte", "watts"}
_WORDS = {"kv": "KV cache", "ttft": "TTFT", "tpot": "TPOT", "flops": "FLOPs", "max": "largest"}
_LABELS = {
    "estimate_low_s": "estimate, low end",
    "estimate_high_s": "estimate, high end",
    "tokens_per_s": "throughput",
    "kv_bytes_per_sequence": "KV cache of one sequence",
    "kv_bytes": "KV cache of the batch",
    "paged_kv_bytes": "KV cache in whole pages",
    "tower_bytes": "towers for images and sound",
    "prediction_bytes": "multi-token prediction layers",
    "state_bytes": "recurrent state",
    "workspace_bytes": "workspace for activations",
    "non_torch_bytes": "outside PyTorch",
    "graph_bytes": "CUDA graphs",
    "reserved_bytes": "outside the engine's fraction",
    "pool_bytes": "left for the KV cache",
    "cache_tokens": "tokens that fit in the KV cache",
    "largest_context": "longest context that fits",
    "ridge_batch": "batch at which projections reach the ridge point",
    "expert_ridge_batch": "batch at which experts reach the ridge point",
    "kv_context_tokens": "context at which KV bytes exceed weight bytes",
    "kv_tokens": "the same, as batch x context",
}


def label(column: str) -> str:
    """The printed name of a column; the value shows the unit."""
    quantity = quantity_of(column)
    stem = column.removesuffix(f"_{quantity}") if quantity in _SHOWN_BY_VALUE else column
    return _LABELS.get(column) or " ".join(_WORDS.get(word, word) for word in stem.split("_"))


def value(column: str, number: Any) -> str:
    """A printed value."""
    return f"{number:.1%}" if column.endswith("_share") else humanize(column, number)


def size(parameters: float) -> str:
    """A parameter count in short form.

    Examples
    --------
    >>> size(70_553_706_496), size(999_700_000), size(1.57e12)
    ('70.6B', '1B', '1.57T')
    """
    for scale, letter in ((1e12, "T"), (1e9, "B")):
        # From 999.5 of the smaller unit on, three digits would print 1e+03.
        if parameters >= 0.9995 * scale:
            return f"{parameters / scale:.3g}{letter}"
    return f"{parameters / 1e6:.3g}M"


KEPT_BLANK = "\N{NO-BREAK SPACE}"
"""Placeholder for a blank in a cell at which a column must not break."""


def paragraph(text: str, *, indent: str = "", hang: str | None = None) -> str:
    """``text`` wrapped to the terminal's width, with ``hang`` before all lines but the first."""
    return "\n".join(wrapped_lines(text, width(), indent=indent, hang=hang))


HANG = " " * 6
"""Indent of continued lines of a command."""


def _kept(pair: str, room: int) -> str:
    """An option and its value, kept on one line if there is room."""
    return pair.replace(" ", NO_BREAK) if len(pair) <= room else pair


NO_BREAK = "\N{WORD JOINER}"
"""Placeholder for a blank at which a line must not break."""


def shell_line(text: str, notes: Iterable[str] = ()) -> str:
    """A shell command, continued over lines with backslashes, each option on one line with its value.

    Its comment and the notes come before it as comments of their own, so that all lines can be pasted into a shell.
    """
    command, _, comment = text.partition("  # ")
    said = "; ".join(filter(None, (comment, *notes)))
    above = f"{paragraph(said, indent='  # ', hang='  # ')}\n" if said else ""
    room = width() - 2 - len(HANG)
    together = re.sub(r"(?<=\s)--?[\w-]+ [^-\s]\S*", lambda pair: _kept(pair[0], room), command)
    lines = textwrap.wrap(
        together,
        width() - 2,
        initial_indent="  ",
        subsequent_indent=HANG,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return above + " \\\n".join(line.replace(NO_BREAK, " ") for line in lines)


def block(heading: str, body: str) -> str:
    """A heading with a body below it; empty if the body is."""
    return f"\n{paragraph(heading)}\n{body}" if body else ""


def bullets(lines: Iterable[str]) -> str:
    """A bulleted list."""
    return "\n".join(paragraph(line, indent="  - ", hang="    ") for line in lines)


BASIS = (" timings on ", "power: ")
"""Words in notes about the basis of estimates and power, which a short answer leaves out."""


def without_basis(notes: Iterable[str]) -> list[str]:
    """The notes of a short answer, without those about the basis of fitted values."""
    return [note for note in notes if not any(words in note for words in BASIS)]


def table(
    rows: Iterable[Sequence[str]],
    *,
    head: Sequence[str] = (),
    right: int | Collection[int] = 0,
    fold_first: bool = False,
    folding: Collection[int] | None = None,
) -> str:
    """An indented table with columns of numbers right-aligned.

    Text after the first column wraps if the terminal is narrow; numbers never do. If that is not enough, every row is
    printed as a short list.

    Parameters
    ----------
    rows : iterable of sequences of str
        Cells.
    head : sequence of str
        Names of the columns.
    right : int or collection of int
        Columns of numbers: how many of the last columns, or their indices.
    fold_first : bool
        Whether the first column may wrap as well.
    folding : collection of int, optional
        Columns that may wrap, if not those of text.
    """
    cells = [list(row) for row in rows]
    if not cells:
        return ""
    columns = range(max(map(len, cells)))
    numbers = set(columns[len(columns) - right :] if isinstance(right, int) else right)
    if folding is None:
        folding = set(columns) - (numbers if fold_first else numbers | {0})
    filled = [[*row, *[""] * (len(columns) - len(row))] for row in cells]
    return "\n".join(text_table(filled, head=head, indent=INDENT, right=numbers, folding=folding, width=width()))


def column_table(result: Report) -> str:
    """The columns of one result, one per line."""
    values = {name: getattr(result, name) for name in result.columns}
    return table([(label(name), value(name, item)) for name, item in values.items() if item is not None])


def side_by_side(results: Mapping[str, Report], *, leave_out: str = "") -> str:
    """The columns of several results of one kind, side by side."""
    columns = [name for name in next(iter(results.values())).columns if name != leave_out]
    rows = []
    for name in columns:
        cells = [value(name, getattr(item, name)) for item in results.values()]
        rows.append((label(name), *cells))
    return table(rows, head=("", *results), right=len(results))


def derivations(phases: Mapping[str, Iterable[Step]]) -> str:
    """Steps by phase and operator: formula, formula with numbers, value; sources as footnotes."""
    sources = dict.fromkeys(step.source for steps in phases.values() for step in steps)
    marks = {source: f"[{at}]" for at, source in enumerate(sources, 1)}
    parts = []
    for phase, steps in phases.items():
        for name, members in groupby(steps, key=subject):
            rows = [row for step in members for row in _step_rows(step, marks[step.source])]
            parts.append(block(name if name in (phase, "") else f"{name}  {phase}", table(rows)))
    return "\n".join([*parts, block("Sources", table([(mark, source) for source, mark in marks.items()]))])


def _step_rows(step: Step, mark: str) -> list[tuple[str, ...]]:
    column = step.name.rpartition(".")[2]
    put_in = re.sub(r"[A-Za-z_]\w*", lambda word: _plain_number(step.inputs.get(word[0], word[0])), step.formula)
    rows = [(column, "=", step.formula, mark)]
    if put_in != step.formula:
        rows.append(("", "=", put_in, ""))
    return [*rows, ("", "=", value(column, step.value), "")]


def _plain_number(number: Any) -> str:
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e7:
        return str(int(number))
    return f"{number:.6g}" if isinstance(number, float) else str(number)
