"""Requests of the REST API, and the status of their answers, for those that write about them afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""


async def answer(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, answered: Callable[[int | None], None]
) -> None:
    """Let ``app`` answer a request; ``answered`` gets the status at the end, None if there was no answer."""
    status: int | None = None

    async def note(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = int(message["status"])
        await send(message)

    try:
        await app(scope, receive, note)
    finally:
        answered(status)


def address_of(scope: Scope) -> str:
    """Return the address and the port of the client."""
    host, port = scope["client"] or ("", 0)
    return f"{host}:{port}"
