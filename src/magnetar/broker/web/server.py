"""The web server of the admin API: uvicorn in the broker's event loop, with limits for each client."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from http import HTTPStatus
from math import ceil
from typing import TYPE_CHECKING

import structlog
import uvicorn
from starlette.concurrency import run_in_threadpool

import magnetar
from magnetar.admin.exchange import refusal
from magnetar.base.errors import ConfigurationError
from magnetar.base.limits import Limit
from magnetar.base.tasks import start_task
from magnetar.broker.web.access_log import AccessLog
from magnetar.broker.web.answers import AnswerLimit
from magnetar.broker.web.authentication import RequestAuthentication
from magnetar.broker.web.changes import AuditedChanges
from magnetar.broker.web.connection import WebConnection, WebOptions, WebState, too_large_headers
from magnetar.broker.web.patience import Phase
from magnetar.wire.connection import MAGNETAR_VERSION_PREFIX

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from starlette.types import ASGIApp, Receive, Scope, Send

    from magnetar.base.world import Clock
    from magnetar.broker.loop.turns import LoopTurns
    from magnetar.broker.resources.limit_hits import LimitHits
    from magnetar.broker.resources.send_buffers import SendBuffers
    from magnetar.broker.web.listening import WebSockets

log = structlog.get_logger(__name__)

_CHECK_EVERY_TICKS = 10
"""Ticks of uvicorn (0.1 s each) between two checks for slow clients."""


class WebServer(uvicorn.Server):
    """Uvicorn in the broker's event loop; the broker handles signals and the end of the process."""

    _failure: ConfigurationError | None = None
    """The error that prevented listening."""

    def __init__(
        self,
        app: ASGIApp,
        options: WebOptions,
        limit_hits: LimitHits,
        clock: Clock,
        answers: SendBuffers,
        turns: LoopTurns,
    ) -> None:
        """Create a stopped server; ``answers`` is the memory for unread answers."""
        if options.record is not None:
            app = AuditedChanges(app, options.record)
        if options.authentication is not None:
            app = RequestAuthentication(app, options.authentication, with_metrics=options.authenticates_metrics)
        handled: ASGIApp = AnswerLimit(_HeaderLimit(app, options.header_size_max, limit_hits))
        if options.logged_calls != "none":
            handled = AccessLog(handled, clock, with_reads=options.logged_calls == "all")
        config = uvicorn.Config(
            handled,
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
        self._ports: tuple[WebSockets, ...] = ()
        self._has_started_up = asyncio.Event()

    async def start(self, *ports: WebSockets) -> None:
        """Listen. Raises ConfigurationError with the name of the setting if that is not possible."""
        loop = asyncio.get_running_loop()
        self._ports = ports
        self._task = start_task(loop, self.serve([]), "web server")
        await self._has_started_up.wait()
        if self._failure is not None:
            raise self._failure
        loop.run_in_executor(None, _import_early)

    async def stop(self) -> None:
        """Close the listener and all connections. Requests in progress have one second to finish."""
        self.should_exit = True
        if self._task is not None:
            await self._task
        for connection in tuple(self._state.by_last_answer):
            connection.abort()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; on failure, keep the error and stop the server: a port may be taken after it was bound."""
        await super().startup(sockets)
        try:
            for port in self._ports:
                await self._listen(port)
        except ConfigurationError as error:
            self._failure = error
            self.should_exit = True
        self._has_started_up.set()

    async def _listen(self, port: WebSockets) -> None:
        """Listen on the sockets of a port, which uvicorn closes at the end; its own way has one kind of connections."""
        loop = asyncio.get_running_loop()
        make = self._connection if port.secure is None else partial(port.secure.protocol, self._connection)
        for each in port.sockets:
            try:
                self.servers.append(await loop.create_server(make, sock=each, backlog=self.config.backlog))
            except OSError as error:
                raise port.refusal(error) from error

    def _connection(self) -> WebConnection:
        return WebConnection(self.config, self._state, self.lifespan.state)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listener and the connections; requests in progress finish first."""
        for connection in tuple(self._state.by_last_answer):
            if connection.phase is not Phase.WORKING:
                connection.abort()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Check for slow clients; called by uvicorn ten times per second."""
        if counter % _CHECK_EVERY_TICKS == 0:
            self._state.check()
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the broker."""
        yield


def _import_early() -> None:
    """Import the modules that Starlette would import at the first streamed answer, which takes 15 ms."""
    asyncio.run(run_in_threadpool(int))


class _HeaderLimit:
    """Rejects requests with too large headers, including those that arrived at once."""

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


def _length(header: tuple[bytes, bytes]) -> int:
    """Return the size of a header line: name, value, colon, space and line end."""
    return len(header[0]) + len(header[1]) + 4


class _ToLog(logging.Handler):
    """Passes log lines of uvicorn to the broker's log, which limits them."""

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
