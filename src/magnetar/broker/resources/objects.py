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

FREE_PART = 0.8
"""Fraction of the memory limit below which the process has returned memory to the system."""

CHECK_INTERVAL_S = 0.1
"""Minimum seconds between two measurements. A client can add some megabytes in this time."""

REUSED_PART = 0.9
"""Fraction of the blocks of objects at which the memory became full. Below it, clients can create objects again.

Python returns little memory to the system, because a few objects keep many pages. So a process whose topics were
unloaded stays as large as before, and uses the freed blocks for new objects.
"""

SHORT_PART = 0.6
"""Fraction of the same blocks above which objects that nobody uses should be freed."""


class ObjectMemory:
    """Rejects new objects while the process uses too much memory."""

    def __init__(
        self,
        total: int,
        clock: Clock,
        resident_bytes: Callable[[], int],
        allocated_blocks: Callable[[], int],
        blocks_at_start: int = 0,
    ) -> None:
        """``resident_bytes`` measures the memory of the process; its limit is ``total`` bytes.

        ``allocated_blocks`` counts the blocks of memory in use; it takes some milliseconds for each GB. The process
        uses ``blocks_at_start`` of them itself: with a small limit they are most blocks, and no topic can free them.
        """
        self._total = total
        self._clock = clock
        self._resident_bytes = resident_bytes
        self._allocated_blocks = allocated_blocks
        self._blocks_at_start = blocks_at_start
        self._next_check_at = 0.0
        self._when_full: tuple[int, int] | None = None
        """Bytes, and blocks of objects, when the memory became full.

        None if the process has used less than FREE_PART since.
        """
        self._is_full = self._is_short = False

    @property
    def is_full(self) -> bool:
        """Whether there is no memory for another object."""
        self._measure()
        return self._is_full

    @property
    def is_short(self) -> bool:
        """Whether the memory is used up, or nearly, so that objects that nobody uses should be freed."""
        self._measure()
        return self._is_short

    def _measure(self) -> None:
        now = self._clock.monotonic()
        if now < self._next_check_at:
            return
        self._next_check_at = now + CHECK_INTERVAL_S
        self._is_full = self._is_short = False
        resident = self._resident_bytes()
        is_above = resident > self._total * FULL_PART
        if resident < self._total * FREE_PART:
            self._when_full = None
        elif is_above or self._when_full is not None:
            blocks = self._allocated_blocks() - self._blocks_at_start
            self._when_full = bytes_then, blocks_then = self._when_full or (resident, blocks)
            has_grown = resident > max(bytes_then, self._total)
            self._is_full = is_above and (has_grown or blocks > blocks_then * REUSED_PART)
            # A request needs some memory itself, so it may be refused although the process is below the limit later.
            self._is_short = has_grown or blocks > blocks_then * SHORT_PART

    def check(self) -> None:
        """Raise RequestError with ServiceNotReady, which clients retry, if there is no memory for another object."""
        if self.is_full:
            limit = Limit.MEMORY
            message = f"The memory of the broker is used up ({limit}): delete topics or subscriptions, or increase it"
            raise RequestError(ServerError.ServiceNotReady, message, limit)
