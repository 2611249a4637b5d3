"""Results of many rows that people read as a table."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from ..report import Report, plain
from ..units import humanize

SHOWN = 12
"""Rows that a printed table shows."""


class Rows(Report):
    """A `Report` whose columns are arrays of one length; ``printed`` names those that people see, with their heads."""

    printed: ClassVar[dict[str, str]] = {}

    def rows(self) -> list[dict[str, Any]]:
        """One dict a row, of plain JSON types; None for what is not known."""
        columns = {name: plain(getattr(self, name)) for name in self.columns}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def __len__(self) -> int:
        return len(getattr(self, self.columns[0]))

    def cells(self, most: int = SHOWN, printed: Mapping[str, str] | None = None) -> Iterator[list[str]]:
        """The first rows as people read them, the heads first."""
        shown = printed or self.printed
        yield list(shown.values())
        columns = [getattr(self, name)[:most] for name in shown]
        for row in zip(*columns, strict=True):
            yield [_cell(name, value) for name, value in zip(shown, row, strict=True)]

    def __repr__(self) -> str:
        lines = list(self.cells())
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        return "\n".join((*text, *self._notes()))

    def _repr_html_(self) -> str:
        head, *body = ["".join(f"<td>{html.escape(cell)}</td>" for cell in line) for line in self.cells()]
        rows = "".join(f"<tr>{row}</tr>" for row in body)
        notes = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in self._notes())
        return f"<table><thead><tr>{head.replace('td>', 'th>')}</tr></thead><tbody>{rows}</tbody></table>{notes}"

    def _notes(self) -> list[str]:
        more = [f"... and {len(self) - SHOWN:,} more rows"] if len(self) > SHOWN else []
        return [*more, *(f"note: {note}" for note in self.assumptions)]


def _cell(name: str, value: Any) -> str:
    if isinstance(value, float) and np.isnan(value):
        return "–"
    if "usd" in name:
        return f"{value:,.2f}"
    return f"{value:.0%}" if name in ("headroom", "utilization") else humanize(name, value)
