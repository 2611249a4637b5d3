"""The command ``explore``."""

from __future__ import annotations

import sys
import webbrowser
from typing import Annotated, Any
from urllib.parse import urlencode

from cyclopts import Parameter

from ..cli import options as opt
from ..cli.output import print_text
from ..cli.quantities import quantity
from ..cli.target import ModelOrTarget
from ..errors import InvalidInput
from ..specs.library import get_hardware, list_models
from .http_server import PORT, Explorer
from .state import FIELDS, START, RefusedState, read_state

Model = Annotated[
    str | None,
    Parameter(
        name="MODEL",
        help="Name of the initial model, as in `roofline list models`.",
        show_default=START["model"],
        completer=opt.completed_by(list_models),
    ),
]
Port = Annotated[
    Any,
    opt.option(
        "--port",
        "N",
        "Port to listen on (loopback interface only); 0 selects a free port.",
        parse=quantity,
        group=opt.OTHER,
    ),
]
NoBrowser = Annotated[bool, opt.switch("--no-browser", "Print the address without opening a browser.")]


def explore(
    model: Model = None,
    /,
    target: ModelOrTarget | None = None,
    *,
    port: Port = PORT,
    no_browser: NoBrowser = False,
) -> None:
    """Explore a deployment interactively in the browser."""
    if not isinstance(port, int) or not 0 <= port < 65536:
        raise InvalidInput(f"the port must be an integer from 0 to 65535: {port!r}")
    query = start_query(model, target or ModelOrTarget())
    with Explorer(port) as server:
        address = f"{server.url}{query}"
        print_text(f"{address}  (accessible from this machine only; stop with Ctrl-C)")
        sys.stdout.flush()  # where it is a pipe, the address would wait there as long as the server runs
        if not no_browser:
            webbrowser.open(address)
        server.serve_forever()


def start_query(model: str | None, target: ModelOrTarget) -> str:
    """The query string of the initial state; empty without options.

    Raises
    ------
    InvalidInput
        The page has no control for an option, or refuses the state.
    """
    single = target.single()
    if single.part or single.context is not None:
        raise InvalidInput("the page has no control for --part and --context")
    fields: dict[str, Any] = {**single.formats, **single.parallel, **single.serving, **single.load}
    given = {FIELDS.get(name, name): str(value) for name, value in fields.items()}
    if single.hardware is not None:
        found = get_hardware(single.hardware)
        given["hardware"] = found.accelerator.name
        if found.count > 1 and not single.parallel:
            given["tp"] = str(found.count)
    if model is not None:
        given["model"] = model
    if not given:
        return ""
    query = urlencode({"model": START["model"], "hardware": START["hardware"]} | given)
    try:
        read_state(query)
    except RefusedState as error:
        raise InvalidInput(error.message) from None
    return f"?{query}"
