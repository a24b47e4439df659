"""Searching the log of a topic for delayed entries that its index does not have."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.errors import StorageError
from magnetar.base.tasks import start_task
from magnetar.broker.delayed.window import Delayed
from magnetar.wire.entries import entry as wire_entry

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.base.world import Clock
    from magnetar.broker.delayed.unwritten import UnwrittenEntries
    from magnetar.ledger.managed_ledger import ManagedLedger

log = structlog.get_logger(__name__)

SCAN_ENTRIES = 1000
SCAN_BYTES = 4 << 20
"""How much of the log is gone through at once."""

PROGRESS_LOG_S = 10.0
"""Seconds between two reports of how far going through the log has come."""


class SearchingIndex(Protocol):
    """The index that has to learn what is in the log."""

    def found(self, entry: Delayed) -> None:
        """The log has an entry with a ``deliver_at_time``."""
        ...

    async def room(self) -> None:
        """Return when more can be found."""
        ...

    def searched(self) -> None:
        """The search has ended."""
        ...


class LogSearch:
    """A search that goes on. Used on the event loop's thread."""

    def __init__(
        self, index: SearchingIndex, unwritten: UnwrittenEntries, ledger: ManagedLedger, clock: Clock, after: Position
    ) -> None:
        """Find what is behind ``after`` now; the index is told of what comes later as it comes.

        The search ends when entries are given up that are to be written (``unwritten``): it has to begin again.
        """
        self._index = index
        self._unwritten = unwritten
        self._ledger = ledger
        self._clock = clock
        self.through = after
        """How far the log has been gone through."""
        name = f"search for delayed entries of {ledger.name}"
        run = self._run(after, ledger.last_confirmed_entry)
        self._task = start_task(asyncio.get_running_loop(), run, name)

    def cancel(self) -> None:
        """End the search."""
        self._task.cancel()

    async def _run(self, after: Position, through: Position) -> None:
        total, reported_at = self._ledger.count(after, through), self._clock.monotonic()
        position = self._ledger.next_position(after)
        while position <= through and not self._unwritten.has_gap:
            for found, entry in await self._read(position):
                if found <= through:
                    _, deliver_at_ms = wire_entry.messages_and_delivery(entry)
                    if deliver_at_ms:
                        self._index.found(Delayed(deliver_at_ms, found))
                    position = found
            self.through = position
            position = self._ledger.next_position(position)
            await self._index.room()
            if self._clock.monotonic() - reported_at > PROGRESS_LOG_S:
                reported_at = self._clock.monotonic()
                left = self._ledger.count(position, through)
                log.info("delayed_index_recovering", topic=self._ledger.name, entries=total, entries_left=left)
        self._index.searched()

    async def _read(self, position: Position) -> list[tuple[Position, bytes]]:
        """Entries from ``position`` on; none where they cannot be read, for then they cannot be delivered either."""
        await asyncio.sleep(0)  # in turn with everybody else
        try:
            cached = self._ledger.read_cached(position, SCAN_ENTRIES, SCAN_BYTES)
            return cached or await self._ledger.read(position, SCAN_ENTRIES, SCAN_BYTES)
        except StorageError as error:
            log.warning("delayed_index_skips", topic=self._ledger.name, position=str(position), error=str(error))
            return []
