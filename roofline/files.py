"""Read files as plain data, with size limits, safe loading and one-line errors.  Nothing is executed."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from .errors import SpecError

MAX_BYTES = 16 * 2**20
MAX_YAML_BYTES = 2**20

LONGEST = 200
"""Characters of a path that messages show."""


def as_path(value: object) -> Path:
    """Return a path given as text or as a `Path`.

    Raises
    ------
    SpecError
        It is neither, or holds a character that no path may have.
    """
    if not isinstance(value, str | os.PathLike) or "\0" in str(value):
        raise SpecError(f"{value!r:.80} is not a path")
    return Path(value)


def shown(path: Path) -> str:
    """A path as messages show it, without the middle of a very long one."""
    text = str(path)
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"


def read_text(path: Path, *, max_bytes: int = MAX_BYTES) -> str:
    """Read a small text file.

    Raises
    ------
    SpecError
        The path is a directory, missing, unreadable, too large or not text.
    """
    data = read_bytes(path, max_bytes=max_bytes)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise SpecError(f"{shown(path)} is not a text file")
    return text


def read_bytes(path: Path, *, max_bytes: int = MAX_BYTES, what: str = "a spec or config") -> bytes:
    """Read a regular file.  Pipes and devices, which may never end, are rejected before opening.

    Parameters
    ----------
    path : Path
        The file.
    max_bytes : int
        Largest size that is read.
    what : str
        Kind of file, for messages.

    Returns
    -------
    bytes
        The content.

    Raises
    ------
    SpecError
        The path is a directory, a pipe or a device, missing, unreadable or too large.
    """
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise SpecError(f"{shown(path)} is a directory; expected a file")
        if not stat.S_ISREG(found.st_mode):
            raise SpecError(f"{shown(path)} is not a regular file")
        if found.st_size > max_bytes:
            raise SpecError(f"{shown(path)} has {found.st_size:,} bytes; {what} has at most {max_bytes:,}")
        return path.read_bytes()
    except SpecError:
        raise
    except OSError as error:
        raise SpecError(f"{shown(path)} can't be read: {error.strerror or error}") from None
    except ValueError as error:
        raise SpecError(f"{str(path)!r} is not a path: {error}") from None


def read_json(path: Path, *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Read the object in a JSON file.

    Raises
    ------
    SpecError
        Not readable (see `read_text`), not JSON, nested too deeply, or not an object.
    """
    text = read_text(path, max_bytes=max_bytes)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise SpecError(f"{shown(path)} is not JSON: {error}") from None
    except ValueError as error:  # a number of thousands of digits
        raise SpecError(f"{shown(path)} contains a number that can't be read: {_first_sentence(error)}") from None
    except RecursionError:
        raise SpecError(f"{shown(path)} is nested too deeply") from None
    if not isinstance(data, dict):
        raise SpecError(f"{shown(path)} must contain a JSON object, not a {type(data).__name__}")
    return data


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the mapping in a YAML file safely; aliases, duplicate keys and deep nesting are rejected.

    Raises
    ------
    SpecError
        Not readable (see `read_text`), not YAML, or not a mapping.
    """
    return parse_yaml(read_spec(path), path)


def read_spec(path: Path) -> str:
    """Read the text of a YAML file.

    Raises
    ------
    SpecError
        Not readable (see `read_text`).
    """
    return read_text(path, max_bytes=MAX_YAML_BYTES)


def parse_yaml(text: str, path: Path) -> dict[str, Any]:
    """Parse the mapping in ``text`` as safely as `read_yaml`.

    Parameters
    ----------
    text : str
        A YAML document.
    path : Path
        Path shown in messages.

    Returns
    -------
    dict
        The mapping.

    Raises
    ------
    SpecError
        The text is too long, not YAML, or not a mapping.
    """
    import yaml

    from .yaml_values import read_document

    if len(text) > MAX_YAML_BYTES:
        raise SpecError(f"{shown(path)} has {len(text):,} characters of YAML; at most {MAX_YAML_BYTES:,} are read")
    try:
        data = read_document(text)
    except yaml.YAMLError as error:
        raise SpecError(f"{shown(path)} is not valid YAML: {' '.join(str(error).split())}") from None
    except SpecError as error:
        raise SpecError(f"{shown(path)} {error}") from None
    except (ValueError, OverflowError) as error:  # a number of thousands of digits, a 99th of a month
        raise SpecError(f"{shown(path)} contains a value that can't be read: {_first_sentence(error)}") from None
    if not isinstance(data, dict):
        raise SpecError(f"{shown(path)} must contain a mapping, not {type(data).__name__}")
    return data


def _first_sentence(error: Exception) -> str:
    """The first sentence of an error message."""
    return " ".join(str(error).split()).partition(";")[0]
