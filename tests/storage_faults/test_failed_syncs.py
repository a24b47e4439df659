"""Linux marks pages clean after a failed fsync: data in the page cache only must not count as durable."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from magnetar.base.durable import COPY_SUFFIX
from magnetar.base.errors import DiskFullError, StorageError
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.sim.virtual.disk import FaultyDisk
from tests.unit.ledger.support import append, opened, read_all

if TYPE_CHECKING:
    from collections.abc import Coroutine

DIRECTORY = Path("/log")
OPTIONS = LocalStoreOptions(segment_bytes=4000)
LATER = [b"later %d" % number for number in range(5)]


def entry(number: int) -> bytes:
    return b"entry %d" % number


async def fail_a_sync(disk: FaultyDisk, options: LocalStoreOptions = OPTIONS) -> int:
    """Create a log whose last entry was written but not synced, as by a process that ends right after."""
    store = LocalLedgerStore(DIRECTORY, disk, asyncio.get_running_loop(), options)
    await store.open()
    ledger_id = store.create()
    await append(store, ledger_id, [entry(0)])
    disk.fail_syncs = True
    with pytest.raises(StorageError, match="cannot sync"):
        await append(store, ledger_id, [entry(1)])
    disk.fail_syncs = False
    await store.close()
    return ledger_id


def run(scenario: Coroutine[None, None, None]) -> None:
    asyncio.run(scenario)


@pytest.mark.parametrize("seed", range(10))
def test_entries_found_after_a_failed_sync_are_synced_before_they_are_served(seed: int) -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        ledger_id = await fail_a_sync(disk)
        async with opened(DIRECTORY, OPTIONS, disk) as store:
            served = await read_all(store, ledger_id)
            later = store.create()
            for each in LATER:
                await append(store, later, [each])
            after = disk.crash(random.Random(seed))
        async with opened(DIRECTORY, OPTIONS, after) as store:
            assert await read_all(store, ledger_id) == served == [entry(0), entry(1)]
            assert await read_all(store, later) == LATER

    run(scenario())


@pytest.mark.parametrize("seed", range(10))
def test_a_segment_whose_sealing_failed_is_sealed_again_before_the_next_one_begins(seed: int) -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        store = LocalLedgerStore(DIRECTORY, disk, asyncio.get_running_loop(), OPTIONS)
        await store.open()
        ledger_id = store.create()
        await append(store, ledger_id, [entry(0)])
        disk.fail_syncs_after = 1  # the INDEX records are synced, the FOOTER is not
        await store.close()
        disk.fail_syncs_after = None
        disk.fail_syncs = False
        async with opened(DIRECTORY, OPTIONS, disk) as store:
            later = store.create()
            for each in LATER:
                await append(store, later, [each])
            after = disk.crash(random.Random(seed))
        async with opened(DIRECTORY, OPTIONS, after) as store:
            assert await read_all(store, ledger_id) == [entry(0)]
            assert await read_all(store, later) == LATER

    run(scenario())


@pytest.mark.parametrize("step", range(1, 12))
def test_power_may_fail_at_any_step_of_recovery(step: int) -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        options = LocalStoreOptions(segment_bytes=4000)
        store = LocalLedgerStore(DIRECTORY, disk, asyncio.get_running_loop(), options)
        await store.open()
        ledger_id = store.create()
        for number in range(20):
            await append(store, ledger_id, [entry(number)])
        disk = disk.crash(random.Random(step))
        await store.close()
        disk.crash_in(step, random.Random(step))
        again = LocalLedgerStore(DIRECTORY, disk, asyncio.get_running_loop(), options)
        try:
            await again.open()
        except StorageError:
            assert disk.after_crash is not None
        else:
            await again.close()
        found = disk.after_crash or disk.crash(random.Random(step))
        async with opened(DIRECTORY, options, found) as store:
            assert await read_all(store, ledger_id) == [entry(number) for number in range(20)]
        assert not [path for path in found.nodes if path.suffix == COPY_SUFFIX]

    run(scenario())


@pytest.mark.parametrize("fault", ["fail_renames", "fail_syncs", "fail_directory_syncs", "fail_writes"])
def test_a_log_that_cannot_be_written_again_is_not_served(fault: str) -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        ledger_id = await fail_a_sync(disk)
        setattr(disk, fault, True)
        store = LocalLedgerStore(DIRECTORY, disk, asyncio.get_running_loop(), OPTIONS)
        with pytest.raises(StorageError):
            await store.open()
        setattr(disk, fault, False)
        async with opened(DIRECTORY, OPTIONS, disk) as store:
            assert await read_all(store, ledger_id) == [entry(0), entry(1)]

    run(scenario())


def test_on_a_full_disk_the_copy_is_made_in_the_room_that_was_held_back() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        options = LocalStoreOptions(segment_bytes=4000, reserve_bytes=2000, low_water_bytes=3000)
        ledger_id = await fail_a_sync(disk, options)
        disk.room = 0
        async with opened(DIRECTORY, options, disk) as store:
            assert await read_all(store, ledger_id) == [entry(0), entry(1)]

    run(scenario())


def test_without_room_for_the_copy_the_log_stays_as_it_is() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        ledger_id = await fail_a_sync(disk)
        disk.room = 10
        store = LocalLedgerStore(DIRECTORY, disk, asyncio.get_running_loop(), OPTIONS)
        with pytest.raises(DiskFullError, match="No space left"):
            await store.open()
        disk.room = None
        async with opened(DIRECTORY, OPTIONS, disk) as store:
            assert await read_all(store, ledger_id) == [entry(0), entry(1)]

    run(scenario())
