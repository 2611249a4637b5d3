"""`Document`: a result file, plain or gzipped, as text and as the JSON values in it; may be truncated."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import SpecError
from ..files import as_path, read_bytes

MAX_BYTES = 256 * 2**20
"""Detailed results list every token of every request, and traces list every kernel, so tens of megabytes are common."""

MAX_VALUES = 100_000
"""JSON values read from one file."""

MAX_FAULTS = 20
"""Number of unreadable lines after which the rest of a file is skipped."""

_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


@dataclass(frozen=True)
class Document:
    """The content of a file.

    Attributes
    ----------
    path : Path
        Where it is.
    text : str
        Its content, decompressed and decoded.
    values : tuple
        ``(place, value)`` for each JSON value at the top level; empty for other texts.
    faults : tuple of str
        Lines that look like JSON but are not, one sentence each.
    """

    path: Path
    text: str
    values: tuple[tuple[str, Any], ...]
    faults: tuple[str, ...]

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return self.path.name


def read_document(path: str | Path) -> Document:
    """Read a result file.

    Parameters
    ----------
    path : str or Path
        A regular file of at most 256 MiB (decompressed), in UTF-8 or UTF-16, plain or gzipped.

    Returns
    -------
    Document
        Its text and the JSON values in it.

    Raises
    ------
    SpecError
        The file can't be read, is too large or is not a text file.
    """
    place = as_path(path)
    data = read_bytes(place, max_bytes=MAX_BYTES, what="a result file")
    text = _decode(_unpack(data, place), place)
    values, faults = _json_values(text) if text.lstrip()[:1] in ("{", "[") else ((), ())
    return Document(place, text, values, faults)


def _unpack(data: bytes, path: Path) -> bytes:
    """The decompressed content of a gzip file, up to the size limit; other data unchanged."""
    if not data.startswith(_GZIP):
        return data
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        plain = unpacker.decompress(data, MAX_BYTES + 1)
    except zlib.error:
        raise SpecError(f"{path} is a damaged gzip file") from None
    if len(plain) > MAX_BYTES:
        raise SpecError(f"{path} decompresses to more than {MAX_BYTES:,} bytes")
    if not unpacker.eof:
        raise SpecError(f"{path} is a truncated gzip file")
    return plain


def _decode(data: bytes, path: Path) -> str:
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace")
    if "\0" in text:
        raise SpecError(f"{path} is not a text file")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _json_values(text: str) -> tuple[tuple[tuple[str, Any], ...], tuple[str, ...]]:
    """The consecutive JSON values in ``text``, and a sentence for each broken line.

    Tools append objects to a file without commas, one per line or pretty-printed. Reading continues at the next line
    that starts a value.
    """
    decoder = json.JSONDecoder()
    values: list[tuple[str, Any]] = []
    faults: list[str] = []
    position, line = 0, 1
    while len(values) < MAX_VALUES and len(faults) < MAX_FAULTS:
        start = _next_value(text, position)
        if start is None:
            break
        line += text.count("\n", position, start)
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            faults.append(f"line {line} is not JSON ({_reason(error)}): left out")
            end = _end_of_line(text, start)
        else:
            values.append((f"line {line}", value))
        line += text.count("\n", start, end)
        position = end
    if len(values) == 1 and not faults:
        values = [("", values[0][1])]
    return tuple(values), tuple(faults)


def _next_value(text: str, position: int) -> int | None:
    """Position of the next value: after white space or a comma, or at the start of a later line."""
    while position < len(text):
        if text[position] in "{[":
            return position
        if text[position] in " \t\n,":
            position += 1
        else:
            position = _end_of_line(text, position)
            while position < len(text) and text[position + 1 : position + 2] not in ("{", "["):
                position = _end_of_line(text, position + 1)
    return None


def _end_of_line(text: str, position: int) -> int:
    found = text.find("\n", position)
    return len(text) if found < 0 else found


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return "a number has too many digits"
