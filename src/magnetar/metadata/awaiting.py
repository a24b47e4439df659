"""Commits for those who may wait: coroutines."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.base.errors import StorageError
    from magnetar.metadata.store import Delete, MetadataStore, Put


async def write(store: MetadataStore, *operations: Put | Delete) -> None:
    """Commit ``operations`` and return once they are durable; raises BadVersionError, StorageError."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    store.commit(operations, partial(_settle, future))
    await future


def _settle(future: asyncio.Future[None], error: StorageError | None) -> None:
    if future.done():  # nobody waits for it any more
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
