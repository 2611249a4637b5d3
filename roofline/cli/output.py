"""Where answers go: standard output, in text, JSON or CSV, and picture files."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import InvalidInput

ENDINGS = (".png", ".svg", ".pdf")


def print_text(*parts: str) -> None:
    """Print blocks of text below each other; empty ones are left out."""
    print("\n".join(part for part in parts if part))


def print_json(data: Any) -> None:
    """Print plain JSON types; ASCII alone, so that any terminal and any file takes it."""
    print(json.dumps(data, indent=2, allow_nan=False))


def print_csv(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print every row, the names of the columns first; nothing for what is not known."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(row.values() for row in rows)


def print_note(text: str) -> None:
    """Say something beside the answer, where it does not end up in a file."""
    print(f"roofline: note: {text}", file=sys.stderr)


def check_picture(file: Path) -> None:
    """Refuse a file whose ending names no format that can be drawn, before anything is computed.

    Raises
    ------
    InvalidInput
        Another ending.
    """
    if file.suffix.lower() not in ENDINGS:
        endings = f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        raise InvalidInput(f"a plot's file name must end in {endings}: {str(file)!r}")


def save_picture(file: Path, draw: Callable[[Any], Any], *, dark: bool = False, width: float = 7.0) -> None:
    """Let ``draw`` draw on new axes and write them to ``file``, without any window.

    Raises
    ------
    InvalidInput
        The file cannot be written.
    """
    from ..plot import DARK, LIGHT, new_axes

    ax = new_axes(style=DARK if dark else LIGHT, width=width)
    draw(ax)
    figure: Any = ax.figure
    try:
        figure.savefig(file, dpi=200)
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror or error}") from None
