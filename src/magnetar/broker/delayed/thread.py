"""The thread that uses the file of delayed entries, so that the event loop never waits for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

import structlog

from magnetar.base.errors import CorruptionError, StorageError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from magnetar.broker.delayed.store import DelayedStore

log = structlog.get_logger(__name__)

T = TypeVar("T")


class StoreUser(Protocol):
    """Who keeps something in the store."""

    def store_lost(self) -> None:
        """The file was damaged and thrown away: nothing that was written is there any more."""
        ...


class StoreThread:
    """Does work on the store, in the order in which it was asked for. Used on the event loop's thread."""

    def __init__(self, store: DelayedStore, loop: asyncio.AbstractEventLoop) -> None:
        """The thread begins with the first work."""
        self.store = store
        self.users: dict[StoreUser, None] = {}
        """Who is told when everything was lost."""
        self._losses_told = 0
        """How often they were told."""
        self._losses = 0
        """How often the file was thrown away; the thread's own."""
        self._loop = loop
        self._executor = ThreadPoolExecutor(1, "magnetar-delayed")

    def do(self, work: Callable[[DelayedStore], T], done: Callable[[T | None, StorageError | None], None]) -> None:
        """Do ``work`` on the thread, then ``done`` with what it returned or raised on the loop.

        Work that was asked for before it was known that the file was thrown away fails: it may rest on what it held.
        """
        self._executor.submit(self._do, work, done, self._losses_told)

    def close(self) -> None:
        """Return when all work is done and the file closed; called on any thread but the loop's own."""
        self._executor.submit(self.store.close)
        self._executor.shutdown()

    def _do(
        self,
        work: Callable[[DelayedStore], T],
        done: Callable[[T | None, StorageError | None], None],
        losses_known: int,
    ) -> None:
        try:
            if losses_known != self._losses:
                message = f"index of delayed messages {self.store.path}: was thrown away since this was asked for"
                raise StorageError(message)  # noqa: TRY301 - it fails like any other work
            result = work(self.store)
        except StorageError as error:
            self._failed(error, done)
        except Exception as error:  # noqa: BLE001 - the thread's root: who waits must learn that nothing comes
            self._failed(StorageError(f"the index of delayed messages failed: {error!r}"), done)
        else:
            self._loop.call_soon_threadsafe(done, result, None)

    def _failed(self, error: StorageError, done: Callable[[None, StorageError], None]) -> None:
        if isinstance(error, CorruptionError):
            log.error("delayed_index_damaged", error=str(error), remedy="thrown away, made again from the log")
            try:
                self.store.discard()
            except StorageError as stuck:
                error = stuck
            self._losses += 1
            self._loop.call_soon_threadsafe(self._lost)
        self._loop.call_soon_threadsafe(done, None, error)

    def _lost(self) -> None:
        self._losses_told += 1
        for user in tuple(self.users):
            user.store_lost()
