"""Loss of power or a full disk at any moment: a cursor has one of its earlier states, at or after the confirmed one."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import DiskFullError, StorageError
from magnetar.base.position import Position
from magnetar.base.real import SystemClock
from magnetar.cursor.limits import CursorLimits
from magnetar.cursor.store import CursorStore
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.sim.virtual.disk import FaultyDisk
from tests.storage_faults.data_directory import TOPIC, open_cursor
from tests.unit.cursor.fakes import Log, singly
from tests.unit.ledger.support import barrier

if TYPE_CHECKING:
    from magnetar.cursor.cursor import Cursor
    from magnetar.metadata.cached import Transaction

DIRECTORY = Path("/log")
OPTIONS = LocalStoreOptions(segment_bytes=4000, tail_cache_bytes=2500, table_cache_bytes=160, ledger_id_block=256)
LIMITS = CursorLimits(record_bytes_max=80)
"""Low limits, so that most records are written in pieces."""

Standing = tuple[object, ...]


class MetadataOnDisk(MemoryMetadataStore):
    """A metadata store that refuses writes while its disk is full or without power."""

    disk: FaultyDisk

    def _submit(self, transaction: Transaction) -> None:
        if self.disk.after_crash is not None or self.disk.room == 0:
            self._failed(DiskFullError("no space"))
        else:
            super()._submit(transaction)


def standing(cursor: Cursor) -> Standing:
    state = cursor.state
    return state.mark_delete_position, *state.deleted_ranges(), *state.partial_batches(), *cursor.properties.items()


class CursorCrashScenario:
    """A cursor that changes on a disk that is sometimes full and loses power repeatedly."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.metadata = MetadataOnDisk(SystemClock())
        self.log = Log()
        self.positions = [self.log.append() for _ in range(200)]
        self.standings: list[Standing] = []
        """All states that the cursor may have after a recovery."""
        self.confirmed = 0
        """The index of the oldest allowed state."""

    async def run(self, crashes: int) -> None:
        disk = FaultyDisk()
        for _ in range(crashes):
            disk = await self.live_and_crash(disk)

    async def live_and_crash(self, disk: FaultyDisk) -> FaultyDisk:
        """Open the cursor after a crash, check its state, and continue until power is lost."""
        self.metadata.disk = disk
        disk.crash_in(self.chance.randint(10, 90), self.chance)
        store = LocalLedgerStore(DIRECTORY, disk, asyncio.get_running_loop(), OPTIONS)
        try:
            await store.open()
            cursor = await self.cursor(store)
        except StorageError:
            assert disk.after_crash is not None
            return disk.after_crash
        while store.state.healthy:
            self.step(cursor)
            if self.chance.random() < 0.5:
                self.flush(cursor)
            if self.chance.random() < 0.1:
                disk.room = self.chance.choice([None, 0, 100, 500, 1000])
                await barrier(store)
            if self.chance.random() < 0.2:
                await barrier(store)
        await store.close()
        assert disk.after_crash is not None
        return disk.after_crash

    async def cursor(self, store: LocalLedgerStore) -> Cursor:
        cursors = CursorStore(store, self.metadata, str(TOPIC), self.log, LIMITS)
        cursor = await open_cursor(cursors, store, self.metadata, TOPIC, "s")
        if cursor is None:
            assert not self.standings
            cursor = cursors.create("s", Position(self.log.ledger_id, -1))
        else:
            assert standing(cursor) in self.standings[self.confirmed :]
        self.standings, self.confirmed = [standing(cursor)], 0
        return cursor

    def step(self, cursor: Cursor) -> None:
        position = self.chance.choice(self.positions)
        match self.chance.choice(["one", "many", "many", "batch", "through", "reset", "property"]):
            case "one":
                cursor.acknowledge_ranges(singly([position]))
            case "many":
                cursor.acknowledge_ranges(singly(self.chance.sample(self.positions, 40)))
            case "batch":
                cursor.acknowledge_batch(position, self.chance.randint(1, 30), 5)
            case "through":
                cursor.acknowledge_cumulative(self.positions[self.chance.randint(0, 30)])
            case "reset":
                cursor.reset(self.positions[self.chance.randint(0, 30)])
            case "property":
                cursor.set_property("p", self.chance.randint(0, 9))

    def flush(self, cursor: Cursor) -> None:
        number = len(self.standings)
        self.standings.append(standing(cursor))

        def reported(error: StorageError | None) -> None:
            self.standings.append(standing(cursor))  # the metadata store may have accepted it
            if error is None:
                self.confirmed = max(self.confirmed, number)

        cursor.flush(reported)


@pytest.mark.parametrize("seed", range(25))
def test_a_cursor_is_never_before_what_it_confirmed(seed: int) -> None:
    asyncio.run(CursorCrashScenario(seed).run(crashes=12))
