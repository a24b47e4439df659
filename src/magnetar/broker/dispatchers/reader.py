"""Reading a topic's entries for dispatch: at once from the tail cache, else in the background."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import DamagedEntriesError, StorageError
from magnetar.base.tasks import start_task
from magnetar.broker.reads_in_flight import Read
from magnetar.broker.send_buffers import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.base.position import Position
    from magnetar.broker.memory import MemoryBudget
    from magnetar.cursor.ranges import Range
    from magnetar.ledger.managed_ledger import ManagedLedger

log = structlog.get_logger(__name__)

RETRY_DELAY_S = 1.0
"""Seconds after which a failed read is tried again."""


class EntryReader:
    """Answers a read at once, or says "ask again" and calls ``ready`` when asking makes sense.

    A finished background read is handed out only to the one who asks for something in it, so a read that a rewind has
    made stale is dropped by itself.
    """

    def __init__(
        self,
        ledger: ManagedLedger,
        ready: Callable[[], None],
        damaged: Callable[[DamagedEntriesError], None],
        memory: MemoryBudget,
        *,
        max_entries: int,
        max_bytes: int,
    ) -> None:
        """Reads of at most ``max_entries`` entries and about ``max_bytes`` bytes, as far as ``memory`` has room.

        ``damaged`` is told of entries that will never be read; whoever asks again leaves them out.
        """
        self._ledger = ledger
        self._ready = ready
        self._damaged = damaged
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._task: asyncio.Task[None] | None = None
        self._fetched: list[tuple[Position, bytes]] = []
        self._retry: asyncio.TimerHandle | None = None
        self._sending = memory.sending
        self._waiting = Waiting(memory.sending, self._ask_soon)
        self._read = Read(memory.reads, self._may_read, self._forget)
        self._has_read_room = False
        """Whether there is room for a read that had to wait for it."""

    def read(self, first: Position, last: Position, limit: int) -> list[tuple[Position, bytes]] | None:
        """Entries from ``first``, at least one, at most ``limit``, none after ``last``; None: ask again when ready."""
        if (
            self._task is not None
            or self._retry is not None
            or self._read.is_waiting
            or (self._sending.is_waited_for and self._waiting.is_waiting)
        ):
            return None
        limit = min(limit, self._max_entries)
        entries: list[tuple[Position, bytes]] | None
        skipped = first.entry_id - self._fetched[0][0].entry_id if self._fetched else -1
        is_fetched = 0 <= skipped < len(self._fetched) and self._fetched[skipped][0] == first
        if is_fetched:
            entries = self._fetched[skipped : skipped + limit]
        else:
            entries = self._ledger.read_cached(first, limit, self._max_bytes)
        if entries is None:
            self._begin(first)
            return None
        if entries and entries[-1][0] > last:
            entries = [entry for entry in entries if entry[0] <= last]
        if entries and self._sending.used > self._sending.limit // 2:
            entries = entries[: self._waiting.fitting([entry for _, entry in entries])] or None
        elif entries:
            self._waiting.sent(len(entries[0][1]))
        if entries and is_fetched:
            self._keep(self._fetched[skipped + len(entries) :])
        return entries

    def read_ranges(self, ranges: Sequence[Range], limit: int) -> list[tuple[Position, bytes]] | None:
        """As ``read``, of all ``ranges``, ascending, that one read reaches: entries between two of them are dropped."""
        first = ranges[0].first
        end = first.entry_id + self._max_entries
        near = [each for each in ranges if each.first.ledger_id == first.ledger_id and each.first.entry_id < end]
        if len(near) == 1:
            return self.read(first, near[0].last, limit)
        entries = self.read(first, near[-1].last, self._max_entries)
        if entries is None:
            return None
        wanted = {entry_id for each in near for entry_id in range(each.first.entry_id, each.last.entry_id + 1)}
        return [entry for entry in entries if entry[0].entry_id in wanted][:limit]

    def close(self) -> None:
        """Give up what is under way."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._retry is not None:
            self._retry.cancel()
        self._read.close()
        self._waiting.close()

    def _begin(self, first: Position) -> None:
        """Read from the disk, or wait for room to do so."""
        if not self._has_read_room:
            if self._fetched:
                self._keep([])
            if not self._read.ask():
                return
        self._has_read_room = False
        name = f"read of {self._ledger.name} at {first}"
        self._task = start_task(asyncio.get_running_loop(), self._fetch(first), name)

    def _keep(self, fetched: list[tuple[Position, bytes]]) -> None:
        self._fetched = fetched
        self._read.keep(sum([len(entry) for _, entry in fetched]))

    def _forget(self) -> None:
        self._fetched = []

    def _may_read(self) -> None:
        self._has_read_room = True
        self._ask_soon()

    def _ask_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._ask)

    def _ask(self) -> None:
        """Have whoever waits ask again; room that was found, and is not needed any more, goes to others."""
        self._ready()
        if self._has_read_room:
            self._has_read_room = False
            self._read.keep(0)
        if self._task is None and not self._read.is_waiting:
            self._waiting.end_turn()

    async def _fetch(self, first: Position) -> None:
        try:
            self._fetched = await self._ledger.read(first, self._max_entries, self._max_bytes)
            if not self._fetched:  # the log has become shorter: to ask at once would only ask again
                self._retry_later()
                return
        except DamagedEntriesError as error:
            self._damaged(error)
        except StorageError as error:
            log.warning("read_failed", topic=self._ledger.name, position=str(first), error=str(error))
            self._retry_later()
            return
        except Exception:
            self._retry_later()  # an error of ours is reported with the task; whoever waits for entries has to go on
            raise
        finally:
            self._task = None
            if not self._fetched:
                self._read.keep(0)
        self._ask()
        if self._fetched:  # it may be forgotten for others from now on
            self._keep(self._fetched)

    def _retry_later(self) -> None:
        self._retry = asyncio.get_running_loop().call_later(RETRY_DELAY_S, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._ready()
