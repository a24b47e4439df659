"""The rate limit of log lines for each event."""

from __future__ import annotations

import pytest
import structlog

from magnetar.base.logs.log_limit import EVENTS_MAX, LINES_MAX, PERIOD_S, LogLimit


class Log:
    """A clock, a limit, and the passed lines."""

    def __init__(self) -> None:
        self.now = 0.0
        self.limit = LogLimit(lambda: self.now)

    def say(self, event: str, times: int = 1, level: str = "warning") -> list[int | None]:
        """Log an event; return, for each passed line, the number of lines dropped before it."""
        passed: list[int | None] = []
        for _ in range(times):
            try:
                passed.append(self.limit(None, level, {"event": event}).get("dropped"))
            except structlog.DropEvent:
                continue
        return passed


def test_a_flood_is_cut_and_the_next_period_says_how_much() -> None:
    log = Log()
    assert log.say("protocol_error", 5 * LINES_MAX) == [None] * LINES_MAX
    log.now += PERIOD_S
    assert log.say("protocol_error", 2) == [4 * LINES_MAX, None]
    assert log.limit.dropped == 4 * LINES_MAX


def test_events_do_not_hide_each_other() -> None:
    log = Log()
    log.say("protocol_error", 2 * LINES_MAX)
    assert log.say("link_parked") == [None]


@pytest.mark.parametrize("between_s", [1.01 * PERIOD_S / LINES_MAX, PERIOD_S])
def test_rare_events_always_pass(between_s: float) -> None:
    log = Log()
    for _ in range(3 * LINES_MAX):
        assert log.say("link_parked") == [None]
        log.now += between_s


def test_the_number_of_counted_events_is_limited() -> None:
    log = Log()
    for number in range(3 * EVENTS_MAX):
        log.say(str(number))
    assert len(log.limit._counts) == EVENTS_MAX


def test_lines_below_warning_always_pass() -> None:
    log = Log()
    assert log.say("topic_created", 2 * LINES_MAX, "info") == [None] * 2 * LINES_MAX
