"""Commits that coroutines can await."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.metadata.store import Delete, MetadataStore, Put


class Commit:
    """A commit in progress. ``await`` returns when it is durable, and raises StorageError if it failed."""

    def __init__(self, store: MetadataStore, operations: Sequence[Put | Delete]) -> None:
        """Commit ``operations``; raises BadVersionError."""
        self._is_reported = False
        self._error: StorageError | None = None
        self._waiting: list[asyncio.Future[None]] = []
        store.commit(operations, self._report)

    def __await__(self) -> Generator[object, None, None]:
        """Wait for the result."""
        if not self._is_reported:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            yield from future
        if self._error is not None:
            raise self._error

    def _report(self, error: StorageError | None) -> None:
        self._is_reported, self._error = True, error
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
