"""Search of a topic's log for delayed entries that its index lacks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.errors import StorageError
from magnetar.base.tasks import start_task
from magnetar.broker.delayed.window import Delayed
from magnetar.wire.entries import entry as wire_entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.position import Position
    from magnetar.base.world import Clock
    from magnetar.broker.delayed.unwritten import UnwrittenEntries
    from magnetar.ledger.managed_ledger import ManagedLedger

log = structlog.get_logger(__name__)

SCAN_ENTRIES = 1000
SCAN_BYTES = 4 << 20
"""Bytes of the log that are read at once."""

PROGRESS_LOG_S = 10.0
"""Seconds between two progress reports in the log of the process."""


class SearchingIndex(Protocol):
    """The index that the search completes."""

    def found(self, entries: Sequence[Delayed]) -> None:
        """Add entries with a ``deliver_at_time``."""
        ...

    async def room(self) -> None:
        """Return when the index has room for more entries."""
        ...

    def searched(self) -> None:
        """Handle the end of the search."""
        ...


class LogSearch:
    """A search in progress. Used on the event loop's thread."""

    def __init__(
        self, index: SearchingIndex, unwritten: UnwrittenEntries, ledger: ManagedLedger, clock: Clock, after: Position
    ) -> None:
        """Search the present entries after ``after``; the index is informed of later entries when they are appended.

        The search ends when unwritten entries are dropped (``unwritten``), and must then be started again.
        """
        self._index = index
        self._unwritten = unwritten
        self._ledger = ledger
        self._clock = clock
        self.through = after
        """Position up to which the log is searched."""
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
            delayed: list[Delayed] = []
            for found, entry in await self._read(position):
                if found <= through:
                    _, deliver_at_ms = wire_entry.messages_and_delivery(entry)
                    if deliver_at_ms:
                        delayed.append(Delayed(deliver_at_ms, found))
                    position = found
            self._index.found(delayed)
            self.through = position
            position = self._ledger.next_position(position)
            await self._index.room()
            if self._clock.monotonic() - reported_at > PROGRESS_LOG_S:
                reported_at = self._clock.monotonic()
                left = self._ledger.count(position, through)
                log.info("delayed_index_recovering", topic=self._ledger.name, entries=total, entries_left=left)
        self._index.searched()

    async def _read(self, position: Position) -> list[tuple[Position, bytes]]:
        """Return entries from ``position`` on; none if they are unreadable, since they cannot be delivered then."""
        await asyncio.sleep(0)  # within the limits for reads in flight
        try:
            cached = self._ledger.read_cached(position, SCAN_ENTRIES, SCAN_BYTES)
            return cached or await self._ledger.read(position, SCAN_ENTRIES, SCAN_BYTES)
        except StorageError as error:
            log.warning("delayed_index_skips", topic=self._ledger.name, position=str(position), error=str(error))
            return []
