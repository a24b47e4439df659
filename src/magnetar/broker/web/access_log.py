"""The log of calls of the REST API."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import structlog

from magnetar.admin.identity import principal_of
from magnetar.base.logs.log_limit import LogLimit
from magnetar.broker.web.answered import READS, address_of, answer

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from magnetar.base.world import Clock

log = structlog.get_logger(__name__)

TEXT_LENGTH_MAX = 1000
"""Characters of the path, and of the name of the client, that are logged."""


class AccessLog:
    """Logs each call: the client and its role, the request, the status of the answer, and the duration.

    Refused calls cost a client little, so the number of their lines is limited.
    """

    def __init__(self, app: ASGIApp, clock: Clock, *, with_reads: bool) -> None:
        """Log calls of ``app``; those that only read are logged if ``with_reads``."""
        self._app = app
        self._clock = clock
        self._with_reads = with_reads
        self._limit = LogLimit(clock.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call."""
        if not self._with_reads and scope["method"] in READS:
            await self._app(scope, receive, send)
            return
        began = self._clock.monotonic()

        def answered(status: int | None) -> None:
            self._log(scope, status, self._clock.monotonic() - began)

        await answer(self._app, scope, receive, send, answered)

    def _log(self, scope: Scope, status: int | None, seconds: float) -> None:
        facts: MutableMapping[str, Any] = {
            "event": "admin_call",
            "client": address_of(scope),
            "agent": _agent(scope),
            "method": scope["method"],
            "path": _path(scope),
            "status": status,
            "ms": round(seconds * 1000, 1),
        }
        principal = principal_of(scope)
        if principal.is_authenticated:
            facts["role"] = principal.acting_role
        if status is None or status >= HTTPStatus.BAD_REQUEST:
            try:
                facts = self._limit(log, "refused", facts)
            except structlog.DropEvent:
                return
        log.info(**facts)


def _agent(scope: Scope) -> str:
    agents = (value for name, value in scope["headers"] if name == b"user-agent")
    return str(next(agents, b"").decode("latin-1")[:TEXT_LENGTH_MAX])


def _path(scope: Scope) -> str:
    query = scope["query_string"]
    return str((scope["raw_path"] + (b"?" + query if query else b"")).decode("latin-1")[:TEXT_LENGTH_MAX])
