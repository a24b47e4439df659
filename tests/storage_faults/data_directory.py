"""A broker's data directory with metadata, for tests of ``magnetar check``."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from magnetar.base.names import TopicName
from magnetar.base.real import SystemClock, SystemFiles
from magnetar.broker.settings.data_directory import LEDGERS, METADATA
from magnetar.cursor.ranges import Range
from magnetar.cursor.store import CursorStore, cursor_ledgers
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.ledger.managed_ledger import ManagedLedger
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.local import LocalMetadataStore
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.stored import put
from tests.unit.ledger.support import barrier, runs_held

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.cursor.cursor import Cursor
    from magnetar.metadata.store import MetadataStore

TOPIC = TopicName.parse("persistent://public/default/orders")
CURSOR = "a/b c"
"""A subscription name that must be encoded."""

ENTRIES = [
    build_entry(pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1), b"%d" % number)
    for number in range(10)
]


async def write(directory: Path) -> None:
    """Create the data of a killed broker: a topic of ten entries in two ledgers, and a cursor with a hole."""
    clock = SystemClock()
    metadata = LocalMetadataStore(directory / METADATA, clock)
    options = LocalStoreOptions(segment_bytes=600)
    store = LocalLedgerStore(directory / LEDGERS, SystemFiles(), asyncio.get_running_loop(), options)
    await store.open()
    log = ManagedLedger.open(store, metadata, TOPIC, ManagedLedgerConfig(6, 1 << 30, 0, 1 << 40), clock)
    for start in range(0, 10, 2):
        log.append(ENTRIES[start : start + 2], lambda _position, _error: None)
        await barrier(store)
    cursor = CursorStore(store, metadata, str(TOPIC), log).create(CURSOR, log.previous_position(log.first_position))
    second = log.position_at(log.first_position, 1)
    cursor.acknowledge_ranges([Range(second, second)])
    cursor.flush(lambda _: None)
    await barrier(store)
    log.close()
    await store.close()
    metadata.close()


async def open_cursor(
    cursors: CursorStore, store: LocalLedgerStore, metadata: MetadataStore, topic: TopicName, name: str
) -> Cursor | None:
    """Open a cursor as the load of its topic does: its index records are read first."""
    ledgers = [ledger for _, ledger in cursor_ledgers(metadata, topic) if ledger is not None]
    async with runs_held(store, ledgers):
        return cursors.open(name)


def change_metadata(directory: Path, path: str, value: object) -> None:
    metadata = LocalMetadataStore(directory / METADATA, SystemClock())
    put(metadata, path, json.dumps(value).encode())
    metadata.close()


def metadata_at(directory: Path, path: str) -> Any:  # noqa: ANN401 - any JSON value
    metadata = LocalMetadataStore(directory / METADATA, SystemClock(), read_only=True)
    stored = metadata.get(path)
    metadata.close()
    assert stored is not None
    return json.loads(stored.value)
