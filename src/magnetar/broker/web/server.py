"""The web server of the admin API: uvicorn in the broker's loop, with limits to what one client can take."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from dataclasses import dataclass
from http import HTTPStatus
from math import ceil
from typing import TYPE_CHECKING, Any, cast

import h11
import structlog
import uvicorn
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

import magnetar
from magnetar.admin.exchange import refusal
from magnetar.base.errors import ConfigurationError
from magnetar.base.limits import Limit
from magnetar.base.tasks import start_task
from magnetar.broker.loop.turns import Share
from magnetar.broker.web.answers import UNREAD_KEY, AnswerLimit, Answers, UnreadAnswers
from magnetar.broker.web.patience import Patience, Phase
from magnetar.wire.connection import MAGNETAR_VERSION_PREFIX

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

    from magnetar.base.world import Clock
    from magnetar.broker.loop.turns import LoopTurns
    from magnetar.broker.resources.limit_hits import LimitHits
    from magnetar.broker.resources.send_buffers import SendBuffers

log = structlog.get_logger(__name__)

HEAD_PART_BYTES = 1024
"""Bytes of what arrives that are taken at once while the head of a request is read.

Reading 10,000 headers takes 30 ms; a head is refused when it is larger than its limit, and this much on top.
"""

BODY_PART_BYTES = 65_536
"""Bytes of a body that are taken at once."""

REQUEST_S = 0.001
"""Seconds that an answer takes, about. Uvicorn and Starlette work on it after the turn in which its request is read."""

_LOOKS_EVERY_TICKS = 10
"""Ticks of uvicorn, of 0.1 s, between two looks for clients that take too long."""


@dataclass(frozen=True, slots=True)
class WebOptions:
    """Where the web server listens, and its limits."""

    host: str
    port: int
    connections_max: int
    connections_limit: Limit
    """The limit that ``connections_max`` comes from."""
    header_size_max: int
    """Bytes of the path and the headers of a request."""
    timeout_s: float
    """Seconds for a client to send a request, or to read a part of an answer."""


class WebState(ServerState):
    """What the connections of the web server share."""

    def __init__(
        self, options: WebOptions, limit_hits: LimitHits, clock: Clock, answers: SendBuffers, turns: LoopTurns
    ) -> None:
        """No connection yet."""
        super().__init__()
        self.options = options
        self.limit_hits = limit_hits
        self.clock = clock
        self.turns = turns
        self.answers = Answers(answers, limit_hits)
        self.by_last_answer: dict[WebConnection, None] = {}
        """The connections, the one that got its last answer first, or none since it was opened, first."""

    def make_room(self) -> bool:
        """Whether one more connection may stay; if there are too many, the one that waits longest is closed for it."""
        if len(self.connections) <= self.options.connections_max:
            return True
        self.limit_hits.hit(self.options.connections_limit)
        log.warning("web_connections_exceeded", limit=self.options.connections_limit.value)
        for connection in self.by_last_answer:
            if connection.phase is Phase.WAITING:
                connection.abort()
                return True
        return False

    def look(self) -> None:
        """Close the connections of clients that take too long."""
        now = self.clock.monotonic()
        is_wanted = self.answers.is_wanted(now)
        for connection in tuple(self.by_last_answer):
            connection.look(now, is_wanted=is_wanted)


class WebConnection(H11Protocol):
    """One client's connection."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Not connected yet."""
        self._state = cast("WebState", server_state)
        self._unread = UnreadAnswers(self._state.answers)
        super().__init__(config, server_state, {**app_state, UNREAD_KEY: self._unread}, _loop)
        self._requests = 0
        self._arrived = bytearray()
        """What has not been read yet."""
        self._is_waiting = False
        """Whether the connection waits for a later turn of the loop."""
        self._has_turn = False
        """Whether requests may begin now."""
        self._has_next = False
        """Whether what was read may hold another request."""
        self._share = Share()
        self._patience = Patience(self._state.options.timeout_s, self._state.clock.monotonic())

    @property
    def phase(self) -> Phase:
        """Who has to do something next."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            return Phase.READING if self.flow.write_paused else Phase.WORKING
        if self._is_waiting:
            return Phase.WORKING
        return Phase.READING if self.transport.get_write_buffer_size() else Phase.WAITING

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve the connection, or refuse it if there are too many."""
        super().connection_made(cast("asyncio.Transport", transport))
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
        """Read what this turn of the loop has room for, and the rest in later turns; no more arrives until then."""
        self._arrived += data
        if not self._is_waiting:
            if self._state.turns.begin(self._state.clock.monotonic()):
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
            size = HEAD_PART_BYTES if self.conn.their_state is h11.IDLE else BODY_PART_BYTES
            part = bytes(self._arrived[:size])
            del self._arrived[:size]
            super().data_received(part)
            if self._state.turns.is_over():
                return

    def handle_events(self) -> None:
        """Begin the request that was read; called by uvicorn, also when an answer is complete and more was read."""
        if self._has_turn:
            cycle = self.cycle
            super().handle_events()
            if self.cycle is not cycle:
                self._state.turns.charge(REQUEST_S)
        elif self.conn.trailing_data[0]:
            self._has_next = True
            if not self._is_waiting:
                self._wait()

    def _wait(self) -> None:
        self._is_waiting = True
        self.transport.pause_reading()
        self._state.turns.soon(self._go_on, self._share)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._arrived.clear()
        self._state.by_last_answer.pop(self, None)
        self._unread.closed()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """Go on: everything is sent."""
        self._unread.look()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._requests += 1
        if self in self._state.by_last_answer:  # else it is being closed
            del self._state.by_last_answer[self]
            self._state.by_last_answer[self] = None
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, or one whose headers do not end; called by uvicorn."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # the answer has been begun
            self.transport.abort()
            return
        options, limit = self._state.options, Limit.HTTP_HEADER_SIZE
        if self.conn.their_state is h11.ERROR and len(self.conn.trailing_data[0]) > options.header_size_max:
            self._state.limit_hits.hit(limit)
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, too_large_headers(options.header_size_max))
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def look(self, now: float, *, is_wanted: bool) -> None:
        """Close the connection if the client takes too long, or does not read while others want the memory for that."""
        unsent = self.transport.get_write_buffer_size()
        if self._patience.is_over(now, self.phase, self._requests, unsent):
            self._state.limit_hits.hit(Limit.HTTP_REQUEST_TIMEOUT)
            log.warning("web_client_too_slow", address=self.client, phase=self.phase.name, unsent=unsent)
            self.abort()
        elif self._unread.has_stalled(now) and is_wanted:
            log.warning("stalled_web_client_dropped", address=self.client, unsent=unsent)
            self.abort()

    def abort(self) -> None:
        """Close the connection at once; it counts no more."""
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


class WebServer(uvicorn.Server):
    """Uvicorn inside the broker's loop: signals are the broker's, and so is the end of the process."""

    failure: BaseException | None = None
    """Why it does not listen."""

    def __init__(
        self,
        app: ASGIApp,
        options: WebOptions,
        limit_hits: LimitHits,
        clock: Clock,
        answers: SendBuffers,
        turns: LoopTurns,
    ) -> None:
        """Not listening yet; ``answers`` is the memory for answers that clients have not read."""
        config = uvicorn.Config(
            AnswerLimit(_HeaderLimit(app, options.header_size_max, limit_hits)),
            host=options.host,
            port=options.port,
            http=WebConnection,
            h11_max_incomplete_event_size=options.header_size_max,
            timeout_keep_alive=ceil(options.timeout_s),
            ws="none",
            log_config=_LOGGING,
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
            server_header=False,
            headers=[("Server", f"{MAGNETAR_VERSION_PREFIX}/{magnetar.__version__}")],
        )
        super().__init__(config)
        self._options = options
        self._state = self.server_state = WebState(options, limit_hits, clock, answers, turns)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen; raises ConfigurationError, naming the setting, if the port cannot be had."""
        self._task = start_task(asyncio.get_running_loop(), self.serve(), "web server")
        while not self.started:
            if self._task.done():
                where = f"webServicePort {self._options.port} of {self._options.host}"
                message = f"cannot listen on {where}: {self.failure}"
                raise ConfigurationError(message) from self.failure
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Close the listener and every connection. Requests that are under way have a second to end."""
        self.should_exit = True
        if self._task is not None:
            await self._task
        for connection in tuple(self._state.by_last_answer):
            connection.abort()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; if that fails, note why and end the server. Uvicorn ends the process."""
        try:
            await super().startup(sockets)
        except SystemExit as error:
            self.failure = error.__context__
            self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listener and the connections; the broker ends what it is at work for first."""
        for connection in tuple(self._state.by_last_answer):
            if connection.phase is not Phase.WORKING:
                connection.abort()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Look for clients that take too long; called by uvicorn ten times a second."""
        if counter % _LOOKS_EVERY_TICKS == 0:
            self._state.look()
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them alone."""
        yield


class _HeaderLimit:
    """Refuses requests whose headers are too large, also where they arrived at once."""

    def __init__(self, app: ASGIApp, size_max: int, limit_hits: LimitHits) -> None:
        self._app = app
        self._size_max = size_max
        self._limit_hits = limit_hits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = len(scope["raw_path"]) + len(scope["query_string"]) + sum(map(_length, scope["headers"]))
        if size <= self._size_max:
            await self._app(scope, receive, send)
            return
        self._limit_hits.hit(Limit.HTTP_HEADER_SIZE)
        answer = refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, too_large_headers(self._size_max))
        await answer(scope, receive, send)


def too_large_headers(size_max: int) -> str:
    """Return the reason for a refusal."""
    return f"The path and the headers of a request may have {size_max} bytes ({Limit.HTTP_HEADER_SIZE})"


def _length(header: tuple[bytes, bytes]) -> int:
    """Return the bytes of a header's line: its name, its value, a colon, a space and the end of the line."""
    return len(header[0]) + len(header[1]) + 4


class _ToLog(logging.Handler):
    """Hands the lines of uvicorn to the broker's log, and so under its limit."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            log.error("web_server_error", message=record.getMessage(), exc_info=record.exc_info)
        else:
            log.warning("web_server_warning", message=record.getMessage())


_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"log": {"()": _ToLog}},
    "loggers": {"uvicorn": {"handlers": ["log"], "level": "WARNING", "propagate": False}},
}
