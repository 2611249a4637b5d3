"""The command line: ``roofline analyze|what-if|explain|plot|list``, also as ``python -m roofline``."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command that the arguments name; exit 0, or 2 for bad input.

    Most of a run is spent on imports, so they start without what a calculation of this size can't use: threads for
    linear algebra and plug-ins.  Garbage is not searched for, neither on the way nor at the end: the process is short.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()
    try:
        from .commands import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        gc.freeze()
