"""Width and character set of the terminal."""

from __future__ import annotations

import codecs
import io
import shutil
import sys

NARROWEST = 24
"""Smallest width that is assumed."""

LOOKALIKES = str.maketrans(
    {"–": "-", "—": "-", "…": "...", "µ": "u", "×": "x", "→": "->", "≤": "<=", "≥": ">=", "∞": "inf"}
)
"""Replacements for characters that an encoding lacks."""


def width() -> int:
    """Columns of the terminal; 80 if output is not a terminal."""
    return max(shutil.get_terminal_size().columns, NARROWEST)


def accept_every_character() -> None:
    """Make output replace characters that its encoding lacks, instead of failing."""
    codecs.register_error("lookalike", _lookalike)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="lookalike")


def _lookalike(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(LOOKALIKES)
    return text.encode("ascii", "replace").decode(), error.end
