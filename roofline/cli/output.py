"""Output: text, JSON or CSV on standard output, and picture files."""

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
    """Print blocks of text one below the other, without empty ones."""
    print("\n".join(part for part in parts if part))


def print_json(data: Any) -> None:
    """Print plain JSON types, in ASCII, so that any terminal and file can take them."""
    print(json.dumps(data, indent=2, allow_nan=False))


def print_csv(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print every row as CSV, with a header; unknown values are empty."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(row.values() for row in rows)


def print_note(text: str) -> None:
    """Print a note to standard error, so that redirected output stays clean."""
    print(f"roofline: note: {text}", file=sys.stderr)


def check_picture(file: Path) -> None:
    """Refuse a file name with an unsupported extension, before anything is computed.

    Raises
    ------
    InvalidInput
        The extension is not supported.
    """
    if file.suffix.lower() not in ENDINGS:
        endings = f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        raise InvalidInput(f"the file name of a plot must end in {endings}: {str(file)!r}")


def save_picture(file: Path, draw: Callable[[Any], Any], *, dark: bool = False, width: float = 7.0) -> None:
    """Call ``draw`` with new axes and write the figure to ``file``, without opening a window.

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
