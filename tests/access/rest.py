"""One request of one client, and the answer."""

from __future__ import annotations

import itertools
import json
from contextlib import closing
from http.client import HTTPConnection, HTTPSConnection
from typing import TYPE_CHECKING, Final, NamedTuple, Self
from urllib.parse import urlsplit

from magnetar.authorization.decisions import refusal
from magnetar.security.principal import Principal
from tests.access.roles import RULES, STATE, UNPROVED, permitted, token_of
from tests.kit.addresses import loopback_addresses

if TYPE_CHECKING:
    from tests.access.binary import Port
    from tests.access.bodies import Request

OPEN: Final = ("/status.html", "/metrics", "/metrics/")
"""Paths that need no credentials."""

_FAILURES_MAX: Final = 8
"""Refused credentials after which a client takes another address, because the broker slows the old one down."""

_ADDRESSES: Final = loopback_addresses()


class Answer(NamedTuple):
    """A refusal by the check of the role, or none."""

    status: int = 0
    reason: str = ""


PERMITTED: Final = Answer()
"""Any other answer: the check let the request pass."""

UNAUTHENTICATED: Final = Answer(401, "Authentication required")


def expected(request: Request, client: str) -> Answer:
    """Return the answer that a client must get."""
    if client in UNPROVED:
        return PERMITTED if request.route in OPEN else UNAUTHENTICATED
    if client in permitted(request.need):
        return PERMITTED
    refused = refusal(request.need, request.resource, Principal(client, "token"), STATE, RULES)
    assert refused is not None
    return Answer(refused.status, refused.reason)


class WebClient:
    """A client with one connection at a time."""

    def __init__(self, port: Port, client: str) -> None:
        """Connect with the first request."""
        self._port = port
        token = token_of(client)
        self._headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        self._is_unproved = client in UNPROVED
        self._sent = itertools.count(1)
        self._http: HTTPConnection | None = None

    def __enter__(self) -> Self:
        """Return itself; the connection is closed at exit."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the connection."""
        if self._http is not None:
            self._http.close()

    def ask(self, request: Request) -> Answer:
        """Send a request, and return the answer."""
        number = next(self._sent)
        if self._http is None or (self._is_unproved and number % _FAILURES_MAX == 0):
            if self._http is not None:
                self._http.close()
            self._http = self._open()
        self._http.request(request.method, request.url, request.content, self._headers)
        with closing(self._http.getresponse()) as response:
            content, status = response.read(), response.status
        return _answer(status, content)

    def _open(self) -> HTTPConnection:
        address, source = urlsplit(self._port.url), (next(_ADDRESSES), 0) if self._is_unproved else None
        host, port = address.hostname or "", address.port
        if self._port.tls is None:
            return HTTPConnection(host, port, timeout=30, source_address=source)
        return HTTPSConnection(host, port, timeout=30, source_address=source, context=self._port.tls)


def _answer(status: int, content: bytes) -> Answer:
    """Return the refusal of a role; a handler answers with other statuses, or with another text."""
    if status not in (401, 403):
        return PERMITTED
    reason = json.loads(content)["reason"]
    is_of_a_handler = status == 403 and not reason.startswith("Unauthorized to validate")
    return PERMITTED if is_of_a_handler else Answer(status, reason)
