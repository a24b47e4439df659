"""Audit events of requests that may change something."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from magnetar.admin.identity import is_denied, principal_of
from magnetar.broker.web.answered import READS, address_of, answer
from magnetar.security.audit import AuditEvent, Kind, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

_DENIALS: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class AuditedChanges:
    """Records each request that may change something, when it is answered.

    Requests without a proved role, and those without permission, are recorded where they are refused.
    """

    def __init__(self, app: ASGIApp, record: Callable[[AuditEvent], None]) -> None:
        """Record requests to ``app``."""
        self._app = app
        self._record = record

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["method"] in READS:
            await self._app(scope, receive, send)
            return

        def answered(status: int | None) -> None:
            if not is_denied(scope):
                self._record(_event(scope, status))

        await answer(self._app, scope, receive, send, answered)


def _event(scope: Scope, status: int | None) -> AuditEvent:
    """Return the event of a request; its query and its body are left out, because they may contain secrets."""
    return AuditEvent(
        Kind.ADMIN,
        result_of(status),
        scope["method"],
        scope["raw_path"].decode("latin-1"),
        principal_of(scope),
        address_of(scope),
        status=status,
    )


def result_of(status: int | None) -> Result:
    """Return the result of a request by the status of its answer; None: it was not answered."""
    if status is None or status >= HTTPStatus.BAD_REQUEST:
        return Result.DENIED if status in _DENIALS else Result.FAILED
    return Result.ALLOWED
