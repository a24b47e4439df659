"""The thread that uses the file of delayed entries, so that the event loop does not wait for it."""

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
    """A user of the store."""

    def store_lost(self) -> None:
        """Handle that the file was damaged and deleted, with all entries."""
        ...


class StoreThread:
    """Executes work on the store, in the order of the calls. Used on the event loop's thread."""

    def __init__(self, store: DelayedStore, loop: asyncio.AbstractEventLoop) -> None:
        """Create it; the thread starts with the first work."""
        self.store = store
        self.users: dict[StoreUser, None] = {}
        """Users that are informed when the file was deleted."""
        self._losses_told = 0
        """Number of times that they were informed."""
        self._losses = 0
        """Number of times that the file was deleted; used by the thread only."""
        self._loop = loop
        self._executor = ThreadPoolExecutor(1, "magnetar-delayed")

    def do(self, work: Callable[[DelayedStore], T], done: Callable[[T | None, StorageError | None], None]) -> None:
        """Run ``work`` on the thread, then ``done`` on the loop, with its result or error.

        Work that was requested before the deletion of the file was known fails, since it may depend on the old content.
        """
        self._executor.submit(self._do, work, done, self._losses_told)

    def close(self) -> None:
        """Return when all work is done and the file is closed; must not be called on the loop's thread."""
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
                message = f"index of delayed messages {self.store.path}: was deleted after this request"
                raise StorageError(message)  # noqa: TRY301 - it fails like any other work
            result = work(self.store)
        except StorageError as error:
            self._failed(error, done)
        except Exception as error:  # noqa: BLE001 - the thread's root: waiting callers must get an error
            self._failed(StorageError(f"the index of delayed messages failed: {error!r}"), done)
        else:
            self._loop.call_soon_threadsafe(done, result, None)

    def _failed(self, error: StorageError, done: Callable[[None, StorageError], None]) -> None:
        if isinstance(error, CorruptionError):
            log.error("delayed_index_damaged", error=str(error), remedy="deleted, rebuilt from the log")
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
