"""Progress reports of a long start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from magnetar.base.world import Clock

log = structlog.get_logger(__name__)

INTERVAL_S = 1.0
"""Seconds between two reports; a shorter start reports nothing."""


class Starting:
    """A start in progress; begins with the creation of this object."""

    def __init__(self, clock: Clock) -> None:
        """Create it without a report."""
        self._clock = clock
        self._said_at = clock.monotonic()

    def report(self, what: str, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` segments or topics are recovered, at most once per interval."""
        now = self._clock.monotonic()
        if now - self._said_at >= INTERVAL_S:
            self._said_at = now
            log.info("broker_starting", recovered=what, done=done, total=total)
