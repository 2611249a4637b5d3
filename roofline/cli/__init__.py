"""The command line: ``roofline analyze|what-if|plan|...``, also as ``python -m roofline``."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    # Threads of linear algebra and a search for plug-ins take time to start and gain nothing here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        from .app import run
        from .terminal import accept_every_character

        accept_every_character()
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
