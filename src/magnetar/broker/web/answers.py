"""Answers to REST requests: how much memory those may take that clients do not read."""

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
"""Seconds for which clients that do not read are looked for after an answer was refused: long enough to time them."""

UNREAD_KEY = "unread_answers"
"""Where the state of a request's scope has the UnreadAnswers of its connection."""


class Answers:
    """What the answers of all connections share."""

    def __init__(self, buffers: SendBuffers, limit_hits: LimitHits) -> None:
        """Hold nothing."""
        self.buffers = buffers
        self.limit_hits = limit_hits
        self._was_refused = False
        """Whether an answer was refused since clients that do not read were last looked for."""
        self._wanted_until = 0.0

    def admits(self, size: int) -> bool:
        """Whether an answer of ``size`` bytes may be sent: it fits, or is small, or no other one is unread."""
        buffers = self.buffers
        if size <= buffers.room or not buffers.used:
            return True
        self._was_refused = True
        self.limit_hits.hit(Limit.HTTP_ANSWERS_SIZE)
        return False

    def is_wanted(self, now: float) -> bool:
        """Whether memory of clients that do not read is wanted for others. To be asked regularly."""
        if self._was_refused:
            self._was_refused = False
            self._wanted_until = now + WANTED_S
        return now < self._wanted_until


class UnreadAnswers:
    """Those of one connection."""

    def __init__(self, answers: Answers) -> None:
        """None yet."""
        self.answers = answers
        self._unsent = Unsent(answers.buffers)
        self._transport: asyncio.Transport | None = None

    def opened(self, transport: asyncio.Transport) -> None:
        """Note the transport that answers are given to."""
        self._transport = transport

    def begin(self, size: int) -> None:
        """Count ``size`` bytes in that are about to be given to the transport, which may have to send others first."""
        if self._transport is not None:
            self._unsent.write(size)

    def given(self) -> None:
        """Note that what was begun was given to the transport."""
        if self._transport is not None:
            self._unsent.flushed(self._transport.get_write_buffer_size())

    def look(self) -> None:
        """Count out what was sent."""
        if self._transport is not None:
            self._unsent.left(self._transport.get_write_buffer_size())

    def has_stalled(self, now: float) -> bool:
        """Whether the client holds much and reads nothing (``Unsent.has_stalled``)."""
        self.look()
        return self._unsent.has_stalled(now)

    def closed(self) -> None:
        """Forget everything: the connection is gone."""
        self._transport = None
        self._unsent.close()


class AnswerLimit:
    """Refuses an answer that does not fit into the memory which the unread ones leave."""

    def __init__(self, app: ASGIApp) -> None:
        """Limit the answers of ``app``."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._app(scope, receive, _LimitedAnswer(scope, receive, send))


class _LimitedAnswer:
    """Keeps the head of an answer back until its body is there, then sends both or refuses."""

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
            reason = "Answers that clients have not read take the memory that there is; try again in some seconds"
            answer = refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"{reason} ({Limit.HTTP_ANSWERS_SIZE})")
            await answer(self._scope, self._receive, self._send)
            return
        self._unread.begin(size)
        if self._head is not None:
            head, self._head = self._head, None
            await self._send(head)
        await self._send(message)
        self._unread.given()
