"""Memory for topics, clients, waiting requests and metadata, which belong to no share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.world import Clock

FULL_PART = 0.9
"""Fraction of the memory limit above which clients cannot create objects."""

CHECK_INTERVAL_S = 0.1
"""Minimum seconds between two measurements. A client can add some megabytes in this time."""


class ObjectMemory:
    """Rejects new objects while the process uses too much memory."""

    def __init__(self, total: int, clock: Clock, resident_bytes: Callable[[], int]) -> None:
        """``resident_bytes`` measures the memory of the process; its limit is ``total`` bytes."""
        self._bytes_max = int(total * FULL_PART)
        self._clock = clock
        self._resident_bytes = resident_bytes
        self._next_check_at = 0.0
        self._is_full = False

    @property
    def is_full(self) -> bool:
        """Whether there is no memory for another object."""
        now = self._clock.monotonic()
        if now >= self._next_check_at:
            self._next_check_at = now + CHECK_INTERVAL_S
            self._is_full = self._resident_bytes() > self._bytes_max
        return self._is_full

    def check(self) -> None:
        """Raise RequestError with ServiceNotReady, which clients retry, if there is no memory for another object."""
        if self.is_full:
            limit = Limit.MEMORY
            message = f"The memory of the broker is used up ({limit}): delete topics or subscriptions, or increase it"
            raise RequestError(ServerError.ServiceNotReady, message, limit)
