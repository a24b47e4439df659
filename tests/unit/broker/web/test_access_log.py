"""The log of calls of the REST API."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from magnetar.base.logs.log_limit import LINES_MAX
from magnetar.broker.web.access_log import TEXT_LENGTH_MAX, AccessLog

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from starlette.types import Message, Receive, Scope, Send


@dataclass
class HandClock:
    """A clock that a test moves."""

    time: float = 1.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def boot(self) -> str:
        return ""


class Api:
    """An application that takes an eighth of a second."""

    def __init__(self, clock: HandClock, status: int | None) -> None:
        self._clock = clock
        self._status = status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._clock.time += 0.125
        if self._status is None:
            raise ConnectionResetError
        await send({"type": "http.response.start", "status": self._status, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def called(
    method: str,
    path: bytes = b"/admin/v2/tenants/a%0Ab",
    *,
    status: int | None = 204,
    reads: bool = False,
    times: int = 1,
) -> tuple[list[MutableMapping[str, Any]], list[str]]:
    """Return the log lines of a call, and the messages that were sent."""
    clock = HandClock()
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError

    scope = {
        "type": "http",
        "method": method,
        "raw_path": path,
        "query_string": b"force=true",
        "headers": [(b"host", b"x"), (b"user-agent", b"pulsar-admin")],
        "client": ("10.0.0.1", 4000),
    }
    logged = AccessLog(Api(clock, status), clock, with_reads=reads)
    with capture_logs() as logs:
        try:
            for _ in range(times):
                asyncio.run(logged(scope, receive, send))
        except ConnectionResetError:
            assert status is None
    return logs, [message["type"] for message in sent]


def test_a_change_is_logged_with_its_client_its_result_and_its_duration() -> None:
    logs, sent = called("PUT")
    assert sent == ["http.response.start", "http.response.body"]
    assert logs == [
        {
            "event": "admin_call",
            "log_level": "info",
            "client": "10.0.0.1:4000",
            "agent": "pulsar-admin",
            "method": "PUT",
            "path": "/admin/v2/tenants/a%0Ab?force=true",
            "status": 204,
            "ms": 125.0,
        }
    ]


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_call_that_only_reads_is_logged_on_request(method: str) -> None:
    assert called(method)[0] == []
    ((line,), _) = called(method, reads=True)
    assert line["method"] == method


def test_a_call_without_an_answer_is_logged() -> None:
    ((line,), _) = called("DELETE", status=None)
    assert (line["status"], line["log_level"]) == (None, "info")


@pytest.mark.parametrize(("status", "count"), [(204, 2 * LINES_MAX), (404, LINES_MAX), (500, LINES_MAX)])
def test_the_lines_of_refused_calls_are_limited(status: int, count: int) -> None:
    assert len(called("DELETE", status=status, times=2 * LINES_MAX)[0]) == count


def test_long_paths_are_cut() -> None:
    ((line,), _) = called("PUT", b"/" + b"x" * 5000)
    assert len(line["path"]) == TEXT_LENGTH_MAX
