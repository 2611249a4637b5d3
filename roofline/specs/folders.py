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
        folder = Path(entry)
        if not folder.is_dir():
            raise SpecError(f"ROOFLINE_SPECS names {entry!r}, which is not a directory")
        yield folder / kind if (folder / kind).is_dir() else folder
