"""A proxy between a client of an admin API and a broker, which records the requests."""

from __future__ import annotations

import http.client
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import urlsplit

from tests.kit.child import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S = 60.0

_OF_THE_CONNECTION = {"connection", "content-length", "keep-alive", "transfer-encoding"}
"""Headers that each of the two connections has for itself."""


class Request(NamedTuple):
    """A request of the client, and the answer to it."""

    method: str
    path: str
    """Without the query."""
    status: int
    reason: str
    """The body of an answer above 399."""


class Recorder:
    """A proxy for one broker; its context manager stops it."""

    def __init__(self, admin_url: str) -> None:
        """Start it in front of ``admin_url``."""
        self.requests: list[Request] = []
        self._broker = urlsplit(admin_url).netloc
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://{LOOPBACK}:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, name="recorder")
        self._thread.start()

    def __enter__(self) -> Self:
        """Return the object."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop the proxy."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self) -> list[Request]:
        """Return the requests since the last call."""
        taken, self.requests = self.requests, []
        return taken

    def forward(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Send a request to the broker, and record it; return status, headers and body of the answer."""
        connection = http.client.HTTPConnection(self._broker, timeout=TIMEOUT_S)
        try:
            connection.request(method, target, body or None, dict(headers))
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        reason = content.decode(errors="replace") if answer.status >= http.HTTPStatus.BAD_REQUEST else ""
        self.requests.append(Request(method, urlsplit(target).path, answer.status, reason))
        kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _OF_THE_CONNECTION]
        return answer.status, kept, content


def _handler(recorder: Recorder) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_arguments: object) -> None:  # the default writes to standard error
            pass

        def _forward(self) -> None:
            body = self._body()
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_THE_CONNECTION}
            status, answered, content = recorder.forward(self.command, self.path, body, headers)
            self.send_response_only(status)
            for name, value in answered:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        do_GET = do_PUT = do_POST = do_DELETE = _forward  # noqa: N815 - names of the base class

    return Handler
