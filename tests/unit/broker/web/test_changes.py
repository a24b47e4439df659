"""Audit events of REST requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from magnetar.admin.identity import note_denial, set_principal
from magnetar.broker.web.changes import AuditedChanges
from magnetar.security.audit import AuditEvent, Kind, Result
from magnetar.security.principal import Principal

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

ALICE = Principal("alice", "token")


def recorded(method: str, status: int | None, *, is_denied: bool = False) -> list[AuditEvent]:
    """Return the events of a request that is answered with a status."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if is_denied:
            note_denial({**scope})  # a handler has a copy of the scope
        if status is None:
            raise ConnectionResetError
        await send({"type": "http.response.start", "status": status, "headers": []})

    async def receive() -> Message:
        raise AssertionError

    async def send(_: Message) -> None: ...

    events: list[AuditEvent] = []
    scope = {
        "method": method,
        "raw_path": b"/admin/v2/tenants/a%2Fb",
        "query_string": b"token=canary",
        "client": ("10.0.0.1", 4000),
        "headers": [(b"authorization", b"Bearer canary")],
        "state": {},
    }
    set_principal(scope, ALICE)
    try:
        asyncio.run(AuditedChanges(app, events.append)(scope, receive, send))
    except ConnectionResetError:
        assert status is None
    return events


@pytest.mark.parametrize(
    ("status", "result"),
    [
        (204, Result.ALLOWED),
        (307, Result.ALLOWED),
        (401, Result.DENIED),
        (403, Result.DENIED),
        (404, Result.FAILED),
        (500, Result.FAILED),
        (None, Result.FAILED),
    ],
)
def test_a_change_is_recorded_with_its_result_and_without_its_query(status: int | None, result: Result) -> None:
    path, address = "/admin/v2/tenants/a%2Fb", "10.0.0.1:4000"
    assert recorded("PUT", status) == [AuditEvent(Kind.ADMIN, result, "PUT", path, ALICE, address, status=status)]


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_request_that_reads_is_not_recorded(method: str) -> None:
    assert recorded(method, 200) == []


def test_a_refusal_that_was_recorded_is_not_recorded_again() -> None:
    assert recorded("DELETE", 404, is_denied=True) == []
