"""Telling how far a start has come, when it takes long enough for somebody to wonder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from magnetar.base.world import Clock

log = structlog.get_logger(__name__)

INTERVAL_S = 1.0
"""Seconds between two words; a start that takes less says nothing."""


class Starting:
    """A start that began when this was made."""

    def __init__(self, clock: Clock) -> None:
        """Nothing has been said yet."""
        self._clock = clock
        self._said_at = clock.monotonic()

    def told(self, what: str, done: int, total: int) -> None:
        """Of ``total`` segments or topics, ``done`` have been recovered."""
        now = self._clock.monotonic()
        if now - self._said_at >= INTERVAL_S:
            self._said_at = now
            log.info("broker_starting", recovered=what, done=done, total=total)
