"""Limit of the memory for unread answers to REST requests."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.admin.exchange import refusal
from magnetar.base.limits import Limit
from magnetar.broker.resources.send_buffers import RECEIVE_STALL_S, Unsent

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from magnetar.broker.resources.limit_hits import LimitHits
    from magnetar.broker.resources.send_buffers import SendBuffers

WANTED_S = 2 * RECEIVE_STALL_S
"""Seconds after a rejected answer during which stalled clients are searched: long enough to measure them."""

UNREAD_KEY = "unread_answers"
"""Key of the connection's UnreadAnswers in the state of a request's scope."""


class Answers:
    """The unread answers of all connections."""

    def __init__(self, buffers: SendBuffers, limit_hits: LimitHits) -> None:
        """Create it without answers."""
        self.buffers = buffers
        self.limit_hits = limit_hits
        self._was_refused = False
        """Whether an answer was rejected since the last search for stalled clients."""
        self._wanted_until = 0.0

    def admits(self, size: int) -> bool:
        """Return whether an answer of ``size`` bytes may be sent: it fits, or is small, or is the only unread one."""
        buffers = self.buffers
        if size <= buffers.room or not buffers.used:
            return True
        self._was_refused = True
        self.limit_hits.hit(Limit.HTTP_ANSWERS_SIZE)
        return False

    def is_wanted(self, now: float) -> bool:
        """Return whether memory of stalled clients is needed for others. Call it periodically."""
        if self._was_refused:
            self._was_refused = False
            self._wanted_until = now + WANTED_S
        return now < self._wanted_until


class UnreadAnswers:
    """The unread answers of one connection."""

    def __init__(self, answers: Answers) -> None:
        """Create it without answers."""
        self.answers = answers
        self._unsent = Unsent(answers.buffers)
        self._transport: asyncio.Transport | None = None

    def opened(self, transport: asyncio.Transport) -> None:
        """Set the transport that sends the answers."""
        self._transport = transport

    def begin(self, size: int) -> None:
        """Add ``size`` bytes that will be passed to the transport, possibly after others."""
        if self._transport is not None:
            self._unsent.write(size)

    def given(self) -> None:
        """Record that the answer was passed to the transport."""
        if self._transport is not None:
            self._unsent.flushed(self._transport.get_write_buffer_size())

    def update(self) -> None:
        """Subtract the bytes that were sent."""
        if self._transport is not None:
            self._unsent.left(self._transport.get_write_buffer_size())

    def has_stalled(self, now: float) -> bool:
        """Return whether the client holds much memory and reads nothing (``Unsent.has_stalled``)."""
        self.update()
        return self._unsent.has_stalled(now)

    def closed(self) -> None:
        """Release everything: the connection is closed."""
        self._transport = None
        self._unsent.close()


class AnswerLimit:
    """Rejects an answer that does not fit into the free memory."""

    def __init__(self, app: ASGIApp) -> None:
        """Limit the answers of ``app``."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._app(scope, receive, _LimitedAnswer(scope, receive, send))


class _LimitedAnswer:
    """Delays the head of an answer until its body is available, then sends or rejects both."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._unread: UnreadAnswers = scope["state"][UNREAD_KEY]
        self._head: Message | None = None
        self._is_refused = False

    async def __call__(self, message: Message) -> None:
        if self._is_refused:
            return
        if message["type"] == "http.response.start":
            self._head = message
            return
        size = len(message.get("body", b""))
        if self._head is not None and not self._unread.answers.admits(size):
            self._is_refused = True
            reason = "Unread answers of other requests use all memory for answers; try again in a few seconds"
            answer = refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"{reason} ({Limit.HTTP_ANSWERS_SIZE})")
            await answer(self._scope, self._receive, self._send)
            return
        self._unread.begin(size)
        if self._head is not None:
            head, self._head = self._head, None
            await self._send(head)
        await self._send(message)
        self._unread.given()
