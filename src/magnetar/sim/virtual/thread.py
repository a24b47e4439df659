"""The store of delayed entries without a thread: requests run at once, and their results arrive in the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from magnetar.base.errors import DiskFullError
from magnetar.broker.delayed.thread import StoreThread

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from magnetar.base.errors import StorageError
    from magnetar.broker.delayed.store import DelayedStore

T = TypeVar("T")


class HandThread(StoreThread):
    """See StoreThread. Requests can be held back until ``answer``, or fail."""

    def __init__(self, store: DelayedStore, loop: asyncio.AbstractEventLoop) -> None:
        """Use ``store``, and pass results to ``loop``."""
        super().__init__(store, loop)
        self.prompt = True
        """Whether requests run at once."""
        self.disk_full = False
        self.waiting: list[Callable[[], None]] = []
        self.asked = 0
        self.crashed = False

    def do(self, work: Callable[[DelayedStore], T], done: Callable[[T | None, StorageError | None], None]) -> None:
        """See StoreThread."""
        if self.crashed:
            return
        self.asked += 1
        losses_known = self._losses_told
        self.waiting.append(lambda: self._do(self._or_full(work), done, losses_known))
        if self.prompt:
            self.answer()

    def answer(self, count: int | None = None) -> None:
        """Run the oldest ``count`` requests, by default all."""
        due, self.waiting = self.waiting[:count], self.waiting[len(self.waiting[:count]) :]
        for each in due:
            each()

    def crash(self) -> None:
        """Drop all pending requests and ignore later ones."""
        self.waiting.clear()
        self.crashed = True

    def close(self) -> None:
        """See StoreThread; closes at once."""
        self.store.close()

    def _or_full(self, work: Callable[[DelayedStore], T]) -> Callable[[DelayedStore], T]:
        def full(_: DelayedStore) -> T:
            message = "no space left on device"
            raise DiskFullError(message)

        return full if self.disk_full else work
