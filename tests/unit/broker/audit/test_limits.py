from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.audit import limits
from magnetar.broker.audit.limits import (
    ALL_AT_ONCE,
    ALL_PER_SECOND,
    EVENTS_AT_ONCE,
    EVENTS_PER_SECOND,
    REPORTED_MAX,
    AuditLimits,
)

if TYPE_CHECKING:
    import pytest


def admitted(found: AuditLimits, source: str, count: int, now: float) -> int:
    return sum(found.admits(source, now) for _ in range(count))


def test_a_source_has_a_rate_and_others_are_not_affected() -> None:
    found = AuditLimits(0.0)
    assert admitted(found, "a", 10 * EVENTS_AT_ONCE, 0.0) == EVENTS_AT_ONCE
    assert admitted(found, "b", EVENTS_AT_ONCE, 0.0) == EVENTS_AT_ONCE
    assert admitted(found, "a", 100, 10.0) == 10 * EVENTS_PER_SECOND
    assert found.suppressed == 9 * EVENTS_AT_ONCE + 90
    assert admitted(found, "a", 1000, 10_000.0) == EVENTS_AT_ONCE


def test_all_sources_together_have_a_rate() -> None:
    found = AuditLimits(0.0)
    assert sum(found.admits(str(number), 0.0) for number in range(3 * ALL_AT_ONCE)) == ALL_AT_ONCE
    assert sum(found.admits(f"later-{number}", 2.0) for number in range(3 * ALL_AT_ONCE)) == 2 * ALL_PER_SECOND


def test_a_report_names_the_busiest_sources_and_adds_up_the_others() -> None:
    found = AuditLimits(0.0)
    assert found.report() == []
    for number in range(REPORTED_MAX + 3):
        admitted(found, f"source-{number:02}", EVENTS_AT_ONCE + number + 1, 0.0)
    others = 1 + 2 + 3
    named = [(f"source-{number:02}", number + 1) for number in range(REPORTED_MAX + 2, 2, -1)]
    assert found.report() == [*named, ("", others)]
    assert found.report() == []


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SOURCES_MAX", 5)
    found = AuditLimits(0.0)
    found._all.take(limits.ALL_AT_ONCE, 0.0)
    for number in range(100):
        assert not found.admits(f"source-{number}", 0.0)
    assert (len(found._sources), len(found._suppressed)) == (5, 6)
    assert sum(count for _, count in found.report()) == found.suppressed == 100
