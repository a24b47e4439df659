"""One client connection of the admin API, with limits of size and time."""

from __future__ import annotations

import json
import string
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, cast

import h11
import structlog
from uvicorn.protocols.http.flow_control import CLOSE_HEADER, HIGH_WATER_LIMIT
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from magnetar.base.limits import Limit
from magnetar.broker.loop.turns import Share
from magnetar.broker.web.answers import UNREAD_KEY, Answers, UnreadAnswers
from magnetar.broker.web.patience import Patience, Phase
from magnetar.security.peer_certificate import STATE_KEY, peer_certificate

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    import uvicorn
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

    from magnetar.base.world import Clock
    from magnetar.broker.authentication.authentication import Authentication
    from magnetar.broker.loop.turns import LoopTurns
    from magnetar.broker.resources.limit_hits import LimitHits
    from magnetar.broker.resources.send_buffers import SendBuffers
    from magnetar.security.audit import AuditEvent

log = structlog.get_logger(__name__)

PART_BYTES = 1024
"""Maximum bytes that are parsed at once.

A body may come in chunks of one byte: a part has at most 170 of them, which take 2 ms. Parsing 10,000 headers takes
30 ms. A head is rejected when it exceeds its limit by this size.
"""

REQUEST_S = 0.001
"""Estimated seconds of work for an answer. Uvicorn and Starlette do it after the turn that reads the request."""

_METHOD_BYTES = frozenset(f"!#$%&'*+-.^_`|~{string.digits}{string.ascii_letters}".encode())
"""The bytes of a method (RFC 9110, token)."""


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Limits of the web server."""

    connections_max: int
    connections_limit: Limit
    """The limit that determines ``connections_max``."""
    header_size_max: int
    """Maximum bytes of the path and the headers of a request."""
    timeout_s: float
    """Seconds within which a client must send a request, or read a part of an answer."""
    logged_calls: Literal["none", "changes", "all"] = "none"
    authentication: Authentication | None = None
    """Authentication of requests; None if each is answered."""
    authenticates_metrics: bool = False
    """Whether requests for metrics are authenticated, too."""
    record: Callable[[AuditEvent], None] | None = None
    """Gets the events of requests that may change something; None: there is no audit log."""


class WebState(ServerState):
    """State that all connections of the web server share."""

    def __init__(
        self, options: WebOptions, limit_hits: LimitHits, clock: Clock, answers: SendBuffers, turns: LoopTurns
    ) -> None:
        """Create it without connections."""
        super().__init__()
        self.options = options
        self.limit_hits = limit_hits
        self.clock = clock
        self.turns = turns
        self.answers = Answers(answers, limit_hits)
        self.by_last_answer: dict[WebConnection, None] = {}
        """The connections, ordered by the time of the last answer, or of the opening before the first answer."""

    def make_room(self) -> bool:
        """Return whether one more connection is allowed; at the limit, the longest idle connection is closed for it."""
        if len(self.connections) <= self.options.connections_max:
            return True
        self.limit_hits.hit(self.options.connections_limit)
        log.warning("web_connections_exceeded", limit=self.options.connections_limit.value)
        for connection in self.by_last_answer:
            if connection.phase is Phase.WAITING:
                connection.abort()
                return True
        return False

    def check(self) -> None:
        """Close the connections of slow clients."""
        now = self.clock.monotonic()
        is_wanted = self.answers.is_wanted(now)
        for connection in tuple(self.by_last_answer):
            connection.check(now, is_wanted=is_wanted)


class WebConnection(H11Protocol):
    """The connection of one client."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Create it before the connection is made."""
        self._state = cast("WebState", server_state)
        self._unread = UnreadAnswers(self._state.answers)
        super().__init__(config, server_state, {**app_state, UNREAD_KEY: self._unread}, _loop)
        self._requests = 0
        self._arrived = bytearray()
        """Received bytes that are not parsed yet."""
        self._is_waiting = False
        """Whether the connection waits for a later turn of the loop."""
        self._has_turn = False
        """Whether requests may start now."""
        self._has_next = False
        """Whether the parsed bytes may contain another request."""
        self._share = Share()
        self._patience = Patience(self._state.options.timeout_s, self._state.clock.monotonic())

    @property
    def phase(self) -> Phase:
        """The side that must act next."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            return Phase.READING if self.flow.write_paused else Phase.WORKING
        if self._is_waiting:
            return Phase.WORKING
        return Phase.READING if self.transport.get_write_buffer_size() else Phase.WAITING

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve the connection, or reject it at the limit of connections."""
        super().connection_made(cast("asyncio.Transport", transport))
        self.app_state[STATE_KEY] = peer_certificate(transport)
        self.transport.set_write_buffer_limits(high=HIGH_WATER_LIMIT, low=0)
        self._unread.opened(self.transport)
        if self._state.make_room():
            self._state.by_last_answer[self] = None
        else:
            options = self._state.options
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE, f"There are too many connections ({options.connections_limit})"
            )

    def data_received(self, data: bytes) -> None:
        """Parse as much as this turn of the loop allows, and the rest in later turns; reading pauses until then."""
        self._arrived += data
        if self._is_waiting:
            self.transport.pause_reading()  # uvicorn resumed it, because the application read the body
        elif self._state.turns.begin(self._state.clock.monotonic()):
            self._go_on()
        else:
            self._wait()

    def _go_on(self) -> None:
        was_waiting, self._is_waiting = self._is_waiting, False
        self._has_turn = True
        try:
            self._read()
        finally:
            self._has_turn = False
        if self.transport.is_closing():
            self._arrived.clear()
        elif self._arrived:
            self._wait()
        elif was_waiting and not self.flow.read_paused:
            self.transport.resume_reading()

    def _read(self) -> None:
        if self._has_next and not self.transport.is_closing():
            self._has_next = False
            self.handle_events()
            if self._state.turns.is_over():
                return
        while self._arrived and not self.transport.is_closing():
            part = bytes(self._arrived[:PART_BYTES])
            del self._arrived[:PART_BYTES]
            super().data_received(part)
            if self._state.turns.is_over():
                return

    def handle_events(self) -> None:
        """Start the parsed request; uvicorn also calls it when an answer is complete and more bytes were parsed."""
        if self._has_turn:
            cycle = self.cycle
            super().handle_events()
            if self.cycle is not cycle:
                self._state.turns.charge(REQUEST_S)
            self._check_rest()
        elif self.conn.trailing_data[0]:
            self._has_next = True
            if not self._is_waiting:
                self._wait()

    def _check_rest(self) -> None:
        """End the connection, after the answer in progress, if the next bytes cannot begin a request.

        Node.js sends the body of a GET or DELETE without a length. Its next request would follow the rest.
        """
        state = self.conn.their_state
        rest = self.conn.trailing_data[0] if state in (h11.IDLE, h11.DONE) else b""
        if not rest or rest[0] in _METHOD_BYTES:
            return
        if state is h11.IDLE:
            self.send_400_response("Invalid HTTP request received.")
        elif CLOSE_HEADER not in self.cycle.scope["headers"]:
            cast("list[tuple[bytes, bytes]]", self.cycle.scope["headers"]).append(CLOSE_HEADER)

    def _wait(self) -> None:
        self._is_waiting = True
        self.transport.pause_reading()
        self._state.turns.soon(self._go_on, self._share)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._arrived.clear()
        self._state.by_last_answer.pop(self, None)
        self._unread.closed()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """Continue after everything was sent."""
        self._unread.update()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._requests += 1
        if self in self._state.by_last_answer:  # otherwise it is being closed
            del self._state.by_last_answer[self]
            self._state.by_last_answer[self] = None
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, but not while a request is in progress or received bytes wait; called by uvicorn.

        Uvicorn starts the timer with each answer, and stops it when further bytes are parsed.
        """
        if self.phase is not Phase.WORKING:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        """Reject invalid requests and endless headers; called by uvicorn."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # the answer has started
            self.transport.abort()
            return
        options, limit = self._state.options, Limit.HTTP_HEADER_SIZE
        if self.conn.their_state is h11.ERROR and len(self.conn.trailing_data[0]) > options.header_size_max:
            self._state.limit_hits.hit(limit)
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, too_large_headers(options.header_size_max))
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def check(self, now: float, *, is_wanted: bool) -> None:
        """Close the connection of a client that is slow, or that holds unread answers while others need the memory."""
        unsent = self.transport.get_write_buffer_size()
        if self._patience.is_over(now, self.phase, self._requests, unsent):
            self._state.limit_hits.hit(Limit.HTTP_REQUEST_TIMEOUT)
            log.warning("web_client_too_slow", address=self.client, phase=self.phase.name, unsent=unsent)
            self.abort()
        elif self._unread.has_stalled(now) and is_wanted:
            log.warning("stalled_web_client_dropped", address=self.client, unsent=unsent)
            self.abort()

    def abort(self) -> None:
        """Close the connection at once; it no longer counts."""
        self.connections.discard(self)
        self._state.by_last_answer.pop(self, None)
        self._unread.closed()
        self.transport.abort()

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        body = json.dumps({"reason": reason}).encode()
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        answer = h11.Response(status_code=status, headers=headers, reason=status.phrase.encode())
        for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def too_large_headers(size_max: int) -> str:
    """Return the reason of a rejection."""
    return f"The path and the headers of a request may have {size_max} bytes ({Limit.HTTP_HEADER_SIZE})"
