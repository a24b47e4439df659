"""Background reads from the disk for dispatch, within their share of memory."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from magnetar.base.errors import DamagedEntriesError, StorageError
from magnetar.base.parts import Part
from magnetar.base.tasks import start_task
from magnetar.broker.resources.reads_in_flight import Read
from magnetar.broker.resources.send_buffers import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sized

    from magnetar.base.position import Position
    from magnetar.broker.resources.memory import MemoryBudget
    from magnetar.ledger.managed_ledger import ManagedLedger

    FetchedT = TypeVar("FetchedT", bound=Sized)
else:
    FetchedT = TypeVar("FetchedT")

WantedT = TypeVar("WantedT")

log = structlog.get_logger(__name__)

RETRY_DELAY_S = 1.0
"""Seconds after which a failed read is retried."""


class BackgroundReader(Part, ABC, Generic[WantedT, FetchedT]):
    """Runs one read at a time: of a ``WantedT``, into a ``FetchedT``, which it keeps.

    A read starts when the share of reads has room. When others wait for room, the fetched entries that have been unsent
    for longest are dropped. Entries are returned as far as the send buffers have room.
    """

    def __init__(
        self,
        ledger: ManagedLedger,
        ready: Callable[[], None],
        damaged: Callable[[DamagedEntriesError], None],
        memory: MemoryBudget,
    ) -> None:
        """Create an idle reader. ``ready`` is called when the next request may succeed.

        ``damaged`` is called with entries that can never be read; the next request must omit them.
        """
        self._ledger = ledger
        self._ready = ready
        self._damaged = damaged
        self._task: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._fetched: FetchedT = self._nothing()
        self._sending = memory.sending
        self._waiting = Waiting(memory.sending, self._ask_soon)
        self._read = Read(memory.reads, self._may_read, self._forget)
        self._has_read_room = False
        """Whether there is room for a read that waited for it."""

    def close(self) -> None:
        """Cancel the read in progress, and drop fetched entries."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self._forget()
        self._has_read_room = False
        self._read.close()
        self._waiting.close()

    @abstractmethod
    async def _load(self, wanted: WantedT) -> FetchedT:
        """Read from the disk. Raises StorageError."""

    @abstractmethod
    def _nothing(self) -> FetchedT:
        """Return an empty result."""

    @abstractmethod
    def _entries_of(self, fetched: FetchedT) -> Iterable[bytes]:
        """Return the fetched entries."""

    @property
    def _is_busy(self) -> bool:
        """Return whether requests must wait until ``ready`` is called."""
        return (
            self._task is not None
            or self._retry is not None
            or self._read.is_waiting
            or (self._sending.has_waiting and self._waiting.is_waiting)
        )

    def _fitting(self, entries: list[tuple[Position, bytes]]) -> list[tuple[Position, bytes]] | None:
        """Return the first of ``entries``, as many as may be sent now; None: ``ready`` is called later."""
        if self._sending.used > self._sending.limit // 2:
            return entries[: self._waiting.fitting([entry for _, entry in entries])] or None
        self._waiting.sent(len(entries[0][1]))
        return entries

    def _begin(self, wanted: WantedT, first: Position) -> None:
        """Start a read, or wait for room; ``first`` names the read in the log."""
        if not self._has_read_room:
            if self._fetched:
                self._keep(self._nothing())
            if not self._read.ask():
                return
        self._has_read_room = False
        name = f"read of {self._ledger.name} at {first}"
        self._task = start_task(asyncio.get_running_loop(), self._fetch(wanted, first), name)

    def _keep(self, fetched: FetchedT) -> None:
        self._fetched = fetched
        self._read.keep(sum(map(len, self._entries_of(fetched))))

    def _forget(self) -> None:
        self._fetched = self._nothing()

    def _may_read(self) -> None:
        self._has_read_room = True
        self._ask_soon()

    def _ask_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._ask)

    def _ask(self) -> None:
        """Call ``ready``; unused room goes to others."""
        self._ready()
        if self._has_read_room:
            self._has_read_room = False
            self._read.keep(0)
        if self._task is None and not self._read.is_waiting:
            self._waiting.end_turn()

    async def _fetch(self, wanted: WantedT, first: Position) -> None:
        fetched = self._nothing()
        try:
            fetched = await self._load(wanted)
        except asyncio.CancelledError:
            raise  # ``close`` has released everything
        except DamagedEntriesError as error:
            self._end()
            self._damaged(error)
        except StorageError as error:
            log.warning("read_failed", topic=self._ledger.name, position=str(first), error=str(error))
            self._end_and_retry()
            return
        except Exception:
            self._end_and_retry()  # a bug is reported with the task; the requester must continue
            raise
        else:
            if not fetched:  # the log was trimmed: an immediate request would only repeat the read
                self._end_and_retry()
                return
            self._task = None
            self._fetched = fetched
            self._ledger.statistics.cache_misses += len(fetched)
        self._ask()
        if self._fetched:  # from now on it may be dropped for others
            self._keep(self._fetched)

    def _end(self) -> None:
        """Record that a read returned nothing."""
        self._task = None
        self._read.keep(0)

    def _end_and_retry(self) -> None:
        self._end()
        self._retry = asyncio.get_running_loop().call_later(RETRY_DELAY_S, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._ready()
