"""Loss of power at any moment: reported entries survive in order, and no others appear."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from magnetar.base.errors import StorageError
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.sim.virtual.disk import FaultyDisk
from tests.unit.ledger.support import barrier, read_all

DIRECTORY = Path("/log")
OPTIONS = LocalStoreOptions(
    segment_bytes=1500, tail_cache_bytes=2500, table_cache_bytes=160, ledger_id_block=256, group_bytes=300
)


@dataclass
class Asked:
    """The appends to a ledger, and the number of reported ones."""

    entries: list[bytes] = field(default_factory=list)
    durable: int = 0
    trim_asked: int = 0
    delete_asked: bool = False
    delete_durable: bool = False


class CrashScenario:
    """A store under load that crashes repeatedly with the same data."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.asked: dict[int, Asked] = {}
        self.newest_id = 0

    async def run(self, crashes: int) -> None:
        disk = FaultyDisk()
        for _ in range(crashes):
            disk = await self.live_and_crash(disk)

    async def live_and_crash(self, disk: FaultyDisk) -> FaultyDisk:
        """Open the store after a crash, check it, and continue until power is lost, maybe during recovery."""
        disk.crash_in(self.chance.randint(1, 60), self.chance)
        store = LocalLedgerStore(DIRECTORY, disk, asyncio.get_running_loop(), OPTIONS)
        try:
            await store.open()
        except StorageError:
            assert disk.after_crash is not None
            return disk.after_crash
        await self.verify(store)
        while store.state.healthy:
            self.step(store)
            if self.chance.random() < 0.4:
                await asyncio.sleep(0)
            if self.chance.random() < 0.1:
                await barrier(store)
        await store.close()
        assert disk.after_crash is not None
        return disk.after_crash

    def step(self, store: LocalLedgerStore) -> None:
        existing = store.list()
        choice = self.chance.random()
        if not existing or choice < 0.1:
            ledger_id = store.create()
            assert ledger_id > self.newest_id
            self.newest_id = ledger_id
            self.asked[ledger_id] = Asked()
            self.append(store, ledger_id)
        elif choice < 0.85:
            self.append(store, self.chance.choice(existing))
        elif choice < 0.95:
            ledger_id = self.chance.choice(existing)
            asked = self.asked[ledger_id]
            asked.trim_asked = max(asked.trim_asked, self.chance.randint(0, asked.durable))
            store.trim(ledger_id, asked.trim_asked)
        else:
            self.delete(store, self.chance.choice(existing))

    def append(self, store: LocalLedgerStore, ledger_id: int) -> None:
        asked = self.asked[ledger_id]
        start = len(asked.entries)
        entries = [
            b"%d:%d" % (ledger_id, start + n) * self.chance.randint(1, 9) for n in range(self.chance.randint(1, 4))
        ]
        asked.entries += entries
        end = len(asked.entries)

        def report(error: Exception | None) -> None:
            if error is None:
                assert asked.durable == start, "in order"
                asked.durable = end

        assert store.append(ledger_id, entries, report) == start

    def delete(self, store: LocalLedgerStore, ledger_id: int) -> None:
        asked = self.asked[ledger_id]
        asked.delete_asked = True
        store.delete(ledger_id)

        def report(error: Exception | None) -> None:
            asked.delete_durable = asked.delete_durable or error is None

        store.barrier(report)

    async def verify(self, store: LocalLedgerStore) -> None:
        existing = set(store.list())
        for ledger_id, asked in list(self.asked.items()):
            if ledger_id not in existing:
                assert asked.delete_asked or asked.durable == 0
                del self.asked[ledger_id]
                continue
            assert not asked.delete_durable
            length = store.length(ledger_id)
            assert asked.durable <= length <= len(asked.entries)
            first = min(asked.trim_asked, length)
            assert await read_all(store, ledger_id, first) == asked.entries[first:length]
            asked.entries, asked.durable, asked.delete_asked = asked.entries[:length], length, False
        assert existing == set(self.asked)


@pytest.mark.parametrize("seed", range(25))
def test_reported_entries_survive_any_crash(seed: int) -> None:
    asyncio.run(CrashScenario(seed).run(crashes=8))
