"""Memory for topics, subscriptions, producers, consumers and waiting requests, which belong to no share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.world import Clock

FULL_PART = 0.9
"""Part of the memory of the process above which clients cannot make the broker keep more objects."""

LOOK_S = 0.1
"""Seconds between two measurements. In this time a client can add some megabytes."""


class ObjectMemory:
    """Whether there is memory for further objects."""

    def __init__(self, total: int, clock: Clock, resident_bytes: Callable[[], int]) -> None:
        """``resident_bytes`` measures the memory of the process, which should not exceed ``total`` bytes."""
        self._bytes_max = int(total * FULL_PART)
        self._clock = clock
        self._resident_bytes = resident_bytes
        self._look_at = 0.0
        self._is_full = False

    def check(self) -> None:
        """Raise RequestError with ServiceNotReady, which clients repeat, if there is none."""
        now = self._clock.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self._is_full = self._resident_bytes() > self._bytes_max
        if self._is_full:
            limit = Limit.MEMORY
            message = f"The memory of the broker is used up ({limit}): delete topics or subscriptions, or increase it"
            raise RequestError(ServerError.ServiceNotReady, message, limit)
