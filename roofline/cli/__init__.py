"""The command line: ``roofline analyze|what-if|explain|plot|list|check``, also as ``python -m roofline``."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command that the arguments name; exit 0, or 2 for bad input.

    Most of a run is the import of numpy and pydantic, so they start without what a calculation of this size can't use:
    threads for linear algebra, plug-ins, and the search for garbage that a short process never has to collect.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()
    try:
        from .commands import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)
