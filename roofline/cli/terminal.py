"""The terminal: how wide it is, and which characters it takes."""

from __future__ import annotations

import codecs
import io
import shutil
import sys

NARROWEST = 24
"""A terminal is never taken to be narrower."""

LOOKALIKES = str.maketrans({"–": "-", "—": "-", "…": "...", "µ": "u", "×": "x", "→": "->", "≤": "<=", "≥": ">="})
"""What stands for a character where the encoding has none for it."""


def columns() -> int:
    """Columns of the terminal, 80 where there is none."""
    return max(shutil.get_terminal_size().columns, NARROWEST)


def accept_every_character() -> None:
    """Let output in an encoding such as ASCII replace what it cannot write, in place of failing."""
    codecs.register_error("lookalike", _lookalike)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="lookalike")


def _lookalike(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(LOOKALIKES)
    return text.encode("ascii", "replace").decode(), error.end
