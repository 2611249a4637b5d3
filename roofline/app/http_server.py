"""The HTTP server of the page: loopback interface and GET requests only.

``/`` is the page, ``/choices`` the contents of its lists, ``/api`` the numbers and ``/plot.svg`` a plot of the state in
the query string.  Since any web page can send requests to this address, the server checks the Host header (against DNS
rebinding), the origin of the request, and that it contains only numbers and names from the lists.  The page itself
cannot load anything from other hosts.
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
from .state import LISTED, START, RefusedState, read_state
from .svg_plots import draw

ADDRESS = "127.0.0.1"
"""The loopback interface, which other machines cannot reach."""

PORT = 8421
"""Default port, fixed so that bookmarks keep working."""

FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""URL path -> file of the package and its content type."""

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""Policy for a plot that is opened on its own: inline styles, nothing else."""


class Explorer(ThreadingHTTPServer):
    """The server of the page.

    Parameters
    ----------
    port : int
        Port on the loopback interface; 0 selects a free port.

    Raises
    ------
    InvalidInput
        The port is not available.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int = PORT) -> None:
        try:
            super().__init__((ADDRESS, port), Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidInput(f"cannot listen on port {port}: {reason}; --port 0 selects a free port") from None

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{ADDRESS}:{self.server_port}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names that a browser on this machine may use."""
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
        """Answer with the page, its numbers, or a plot."""
        url = urlsplit(self.path)
        routes: Mapping[str, Callable[[str], None]] = {
            "/api": self._send_numbers,
            "/choices": self._send_choices,
            "/plot.svg": self._send_picture,
        }
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "unknown host")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and url.path != "/":
            return self._refuse(HTTPStatus.FORBIDDEN, "requests from other sites are refused")
        if url.path in FILES:
            return self._send_file(url.path)
        if url.path not in routes:
            return self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
        try:
            return routes[url.path](url.query)
        except RefusedState as error:
            return self._send_error(error.message, error.control)
        except RooflineError as error:
            return self._send_error(str(error), None)
        except OverflowError:
            return self._send_error("one of the numbers is too large to compute with", None)
        except ConnectionError:
            self.close_connection = True  # the browser has moved on
        except Exception as error:
            # The page shows a message and the terminal a traceback, so that a bug does not look like a dead server.
            traceback.print_exc()
            return self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"internal error: {error}")

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
        """Whether the browser still waits; if not, it has closed the connection."""
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
        """Answer an unreadable request or unknown method with one line and the same headers."""
        self.close_connection = True
        self._send(HTTPStatus(code), f"{message or HTTPStatus(code).phrase}\n".encode(), "text/plain; charset=utf-8")

    def log_message(self, *_: Any) -> None:
        """Log nothing; the terminal shows only the address."""


@lru_cache(maxsize=len(FILES))
def _file(name: str) -> bytes:
    return files(__package__).joinpath("page", name).read_bytes()


@lru_cache(maxsize=1)
def _choices() -> dict[str, Any]:
    """The contents of the page's lists, and the initial state."""
    return {"start": START, **{name: list(known()) for name, known in LISTED.items()}}
