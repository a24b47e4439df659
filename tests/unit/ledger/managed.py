"""A managed ledger with its store, metadata and clock."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.names import TopicName
from magnetar.ledger.managed_ledger import ManagedLedger
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.sim.virtual.metadata import FaultyMetadataStore
from tests.unit.ledger.support import barrier, opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from magnetar.base.errors import StorageError
    from magnetar.base.position import Position
    from magnetar.ledger.local import LocalLedgerStore

TOPIC = TopicName.parse("persistent://nyc/flights/departures 2013")
MINUTE_MS = 60_000
CONFIG = ManagedLedgerConfig(
    max_entries_per_ledger=4, max_size_per_ledger_bytes=100, min_rollover_ms=0, max_rollover_ms=10 * MINUTE_MS
)


@dataclass
class FakeClock:
    seconds: float = 1000.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def boot(self) -> str:
        return ""


class LedgerEnvironment:
    """A managed ledger's environment: a store, metadata and a clock."""

    def __init__(self, store: LocalLedgerStore, metadata: MemoryMetadataStore, clock: FakeClock) -> None:
        self.store = store
        self.metadata = metadata
        self.clock = clock

    @property
    def now_ms(self) -> int:
        return int(self.clock.seconds * 1000)

    def open(self, config: ManagedLedgerConfig = CONFIG) -> ManagedLedger:
        return ManagedLedger.open(self.store, self.metadata, TOPIC, config, self.clock)

    async def reopen(self, ledger: ManagedLedger) -> ManagedLedger:
        ledger.close()
        await barrier(self.store)
        return self.open()

    async def append(self, ledger: ManagedLedger, entries: Sequence[bytes], annotation: bytes = b"") -> Position:
        reports: list[tuple[Position, StorageError | None]] = []
        first = ledger.append(entries, lambda *report: reports.append(report), annotation)
        await barrier(self.store)
        assert reports == [(first, None)]
        return first


@asynccontextmanager
async def ledger_environment(
    directory: Path, metadata: MemoryMetadataStore | None = None
) -> AsyncIterator[LedgerEnvironment]:
    clock = FakeClock()
    async with opened(directory) as store:
        yield LedgerEnvironment(store, metadata or MemoryMetadataStore(clock), clock)


def serving() -> FaultyMetadataStore:
    """Return a metadata store that reports in later turns of the running loop."""
    metadata = FaultyMetadataStore(FakeClock())
    metadata.commit_s = 0.05
    metadata.serve(asyncio.get_running_loop())
    return metadata
