"""Directories of specs: in the package, beside it in a checkout, and the user's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import SpecError

_HERE = Path(__file__).parent.parent


def spec_folders(kind: str) -> Iterator[Path]:
    """Directories of a kind of spec: in an installed package or beside it in a checkout, then the user's own."""
    yield next(folder for folder in (_HERE / kind, _HERE.parent / kind) if folder.is_dir())
    for entry in filter(None, os.environ.get("ROOFLINE_SPECS", "").split(os.pathsep)):
        yield _own_folder(entry, kind)


def _own_folder(entry: str, kind: str) -> Path:
    """A directory of ``ROOFLINE_SPECS``, or the part of it for one kind.

    Raises
    ------
    SpecError
        It is not a directory, or cannot be read.
    """
    folder = Path(entry)
    try:
        found = folder.is_dir()
        if found:
            next(folder.iterdir(), None)  # a directory that may be seen and not listed fails here
        inner = folder / kind
        part = inner if inner.is_dir() else folder
    except OSError as error:
        raise SpecError(f"ROOFLINE_SPECS names {entry!r}, which can't be read: {error.strerror or error}") from None
    if not found:
        raise SpecError(f"ROOFLINE_SPECS names {entry!r}, which is not a directory")
    return part
