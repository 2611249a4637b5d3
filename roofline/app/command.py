"""The command that opens the page: ``explore``."""

from __future__ import annotations

import webbrowser
from typing import Annotated, Any

from ..cli import options as opt
from ..cli.output import print_text
from ..cli.quantities import quantity
from ..errors import InvalidInput
from .server import PORT, Explorer

Port = Annotated[
    Any,
    opt.option("--port", "N", "Where to listen on this machine; 0 takes a free port.", parse=quantity, group=opt.OTHER),
]
NoBrowser = Annotated[bool, opt.switch("--no-browser", "Print the address and open no browser.")]


def explore(*, port: Port = PORT, no_browser: NoBrowser = False) -> None:
    """A page whose controls change a deployment, and whose numbers follow."""
    if not isinstance(port, int) or not 0 <= port < 65536:
        raise InvalidInput(f"a port is a whole number from 0 to 65535: {port!r}")
    with Explorer(port) as server:
        print_text(f"{server.url}  (to this machine alone; Ctrl-C ends it)")
        if not no_browser:
            webbrowser.open(server.url)
        server.serve_forever()
