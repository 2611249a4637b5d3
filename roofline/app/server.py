"""The page over HTTP: to this machine alone, by GET alone.

``/`` is the page, ``/choices`` what its lists offer, ``/api`` the numbers and ``/plot.svg`` a picture of the state that
the query string describes.  Any page in a browser can send requests to this address, so three things are checked: the
host that the browser believes to talk to (a name that another site points here is refused), where the request comes
from, and that it asks for nothing but names from lists and numbers.  The page itself may load nothing from elsewhere.
"""

from __future__ import annotations

import json
import select
import socket
import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from ..errors import InvalidInput, RooflineError
from .numbers import numbers
from .pictures import draw
from .state import LISTED, START, Refused, read_state

ADDRESS = "127.0.0.1"
"""Nothing outside of this machine reaches it."""

PORT = 8421
"""Where the page is unless asked otherwise, so that bookmarks last."""

FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""Address -> file of the package and its type."""

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""A picture opened by itself has its styles inside, and loads nothing."""


class Explorer(ThreadingHTTPServer):
    """The server of the page.

    Parameters
    ----------
    port : int
        Where to listen on the loopback interface; 0 takes any free port.

    Raises
    ------
    InvalidInput
        The port is not to be had.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int = PORT) -> None:
        try:
            super().__init__((ADDRESS, port), Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidInput(f"cannot listen on port {port}: {reason}; --port 0 takes a free one") from None

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{ADDRESS}:{self.server_port}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names under which a browser on this machine may know it."""
        names = (ADDRESS, "localhost")
        return tuple(f"{name}:{self.server_port}" for name in names) + (names if self.server_port == 80 else ())


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server_version = "roofline"
    sys_version = ""
    timeout = 60  # a connection that is kept open and silent ends
    server: Explorer

    def do_GET(self) -> None:
        """Answer with the page, its numbers, or a picture."""
        url = urlsplit(self.path)
        routes: Mapping[str, Callable[[str], None]] = {
            "/api": self._send_numbers,
            "/choices": self._send_choices,
            "/plot.svg": self._send_picture,
        }
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this address serves no such host")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and url.path != "/":
            return self._refuse(HTTPStatus.FORBIDDEN, "other sites may not ask")
        if url.path in FILES:
            return self._send_file(url.path)
        if url.path not in routes:
            return self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
        try:
            return routes[url.path](url.query)
        except Refused as error:
            return self._send_error(error.message, error.control)
        except RooflineError as error:
            return self._send_error(str(error), None)
        except OverflowError:
            return self._send_error("one of the numbers is too large to compute with", None)
        except ConnectionError:
            self.close_connection = True  # the browser has moved on
        except Exception as error:
            # The page says so, and the terminal where: a fault of the program must not look like a dead server.
            traceback.print_exc()
            return self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"a fault of the program: {error}")

    def _refuse_method(self) -> None:
        self.close_connection = True  # a body that nobody reads would be taken for the next request
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET\n", "text/plain", {"Allow": "GET"})

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse_method  # noqa: N815

    def _send_file(self, path: str) -> None:
        name, kind = FILES[path]
        self._send(HTTPStatus.OK, _file(name), kind)

    def _send_choices(self, _: str) -> None:
        self._send_json(HTTPStatus.OK, _choices())

    def _send_numbers(self, query: str) -> None:
        self._send_json(HTTPStatus.OK, numbers(read_state(query)))

    def _send_picture(self, query: str) -> None:
        fields = parse_qsl(query, keep_blank_values=True)
        how = {name: value for name, value in fields if name in ("kind", "theme")}
        state = read_state(urlencode([(name, value) for name, value in fields if name not in how]))
        kind, theme = how.get("kind", "roofline"), how.get("theme", "light")
        drawn = draw(state, kind, theme=theme, wanted=self._is_wanted)
        if drawn:
            policy = {"Content-Security-Policy": PICTURE_POLICY}
            self._send(HTTPStatus.OK, drawn, "image/svg+xml; charset=utf-8", policy)
        else:
            self.close_connection = True

    def _is_wanted(self) -> bool:
        """Whether the browser still waits: one that has moved on has closed the connection."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return not readable or bool(self.connection.recv(1, socket.MSG_PEEK))

    def _send_error(self, message: str, control: str | None) -> None:
        self._send_json(HTTPStatus.BAD_REQUEST, {"error": message, "control": control})

    def _send_json(self, status: HTTPStatus, data: Any) -> None:
        body = json.dumps(data, allow_nan=False, separators=(",", ":")).encode()
        self._send(status, body, "application/json; charset=utf-8")

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True
        self._send(status, f"{why}\n".encode(), "text/plain; charset=utf-8")

    def _send(self, status: HTTPStatus, body: bytes, kind: str, more: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        headers = HEADERS | {"Content-Type": kind, "Content-Length": str(len(body))} | dict(more or {})
        if self.close_connection:
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """A request that cannot be read, or a method that nothing is called: one line and the same headers."""
        self.close_connection = True
        self._send(HTTPStatus(code), f"{message or HTTPStatus(code).phrase}\n".encode(), "text/plain; charset=utf-8")

    def log_message(self, *_: Any) -> None:
        """Say nothing: the terminal shows the address alone."""


@lru_cache(maxsize=len(FILES))
def _file(name: str) -> bytes:
    return files(__package__).joinpath("page", name).read_bytes()


@lru_cache(maxsize=1)
def _choices() -> dict[str, Any]:
    """What the lists of the page offer, and the state to start from."""
    return {"start": START, **{name: list(known()) for name, known in LISTED.items()}}
