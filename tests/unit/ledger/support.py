"""A store in a directory, opened and closed around a test, with functions that wait for it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from magnetar.base.real import SystemFiles
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.ledger.medium.local import LocalMedium
from magnetar.ledger.segments.check import check

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence
    from pathlib import Path

    from magnetar.base.errors import StorageError
    from magnetar.base.world import Files
    from magnetar.ledger.store import LedgerStore, Run

SMALL = LocalStoreOptions(segment_bytes=2000, tail_cache_bytes=3000, table_cache_bytes=320, ledger_id_block=8)
"""Small, so that a few entries fill segments and caches."""


@asynccontextmanager
async def opened(
    directory: Path, options: LocalStoreOptions = SMALL, files: Files | None = None
) -> AsyncIterator[LocalLedgerStore]:
    """Open a store, close it, and check its directory."""
    files = files or SystemFiles()
    store = LocalLedgerStore(directory, files, asyncio.get_running_loop(), options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
    assert check(LocalMedium(directory, files)).problems == ()


async def barrier(store: LedgerStore) -> StorageError | None:
    """Wait until all earlier requests have been reported."""
    reported: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
    store.barrier(reported.set_result)
    return await reported


@asynccontextmanager
async def runs_held(store: LedgerStore, ledger_ids: Collection[int]) -> AsyncIterator[None]:
    """Hold the runs of ledgers, from the disk where they are not in memory."""
    reading = store.hold_runs(ledger_ids)
    if reading is not None:
        await reading
    try:
        yield
    finally:
        store.release_runs(ledger_ids)


async def runs_of(store: LedgerStore, ledger_id: int) -> list[Run]:
    """Return the runs of a ledger."""
    async with runs_held(store, [ledger_id]):
        return list(store.runs(ledger_id))


async def append(store: LedgerStore, ledger_id: int, entries: Sequence[bytes], annotation: bytes = b"") -> int:
    """Append a run, wait until it is durable, and return its first entry id; raises the reported error."""
    reported: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
    first = store.append(ledger_id, entries, reported.set_result, annotation)
    error = await reported
    if error is not None:
        raise error
    return first


async def read_all(
    store: LedgerStore, ledger_id: int, first: int = 0, *, max_entries: int = 3, max_bytes: int = 100
) -> list[bytes]:
    """Return all entries from ``first``, in small reads."""
    entries: list[bytes] = []
    while found := await store.read(ledger_id, first + len(entries), max_entries, max_bytes):
        entries += found
    return entries
