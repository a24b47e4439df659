from __future__ import annotations

import json
from typing import Any

from magnetar.base.limits import Limit
from magnetar.broker.audit.limits import EVENTS_AT_ONCE
from magnetar.broker.audit.log import AuditLog
from magnetar.broker.resources.limit_hits import LimitHits
from magnetar.security.audit import AuditEvent, Kind, Result


class HandClock:
    def now(self) -> float:
        return 1000.0

    def monotonic(self) -> float:
        return 5.0

    def boot(self) -> str:
        return ""


class Writer:
    """Keeps lines, as long as there is room."""

    lost, is_failing = 3, True

    def __init__(self, room: int = 1000) -> None:
        self._room = room
        self.lines: list[dict[str, Any]] = []

    def write(self, line: str) -> bool:
        if len(self.lines) == self._room:
            return False
        self.lines.append(json.loads(line))
        return True


def refusal(address: str) -> AuditEvent:
    return AuditEvent(Kind.AUTHENTICATION, Result.DENIED, "token", address=address)


def test_a_flood_of_refusals_is_suppressed_by_source_and_changes_are_not() -> None:
    writer, hits = Writer(), LimitHits()
    log = AuditLog("ewr", HandClock(), hits, writer)
    for number in range(EVENTS_AT_ONCE + 7):
        log.record(refusal(f"/10.0.0.1:{number + 1024}"))  # each attempt has a connection of its own
    for number in range(2 * EVENTS_AT_ONCE):
        log.record(AuditEvent(Kind.ADMIN, Result.ALLOWED, "PUT", f"/{number}", address="10.0.0.1:80"))
    log.record(refusal("/10.0.0.2:1024"))
    assert len(writer.lines) == 3 * EVENTS_AT_ONCE + 1
    assert hits.counts()[Limit.AUDIT_EVENTS.value] == 7
    log.report()
    log.report()
    (report,) = writer.lines[3 * EVENTS_AT_ONCE + 1 :]
    assert (report["event"], report["address"], report["count"]) == ("suppressed", "10.0.0.1", 7)
    totals = log.totals()
    assert totals.events == {"allowed": 2 * EVENTS_AT_ONCE, "denied": EVENTS_AT_ONCE + 8, "failed": 0}
    assert (totals.suppressed, totals.lost, totals.is_failing) == (7, 3, True)


def test_events_that_do_not_wait_are_a_hit_of_a_limit() -> None:
    hits = LimitHits()
    log = AuditLog("ewr", HandClock(), hits, Writer(room=0))
    log.record(refusal("/[::1]:5"))
    assert hits.counts()[Limit.WAITING_AUDIT_EVENTS.value] == 1
