"""Entries that a consumer has no permits for are not read from the disk again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.ledger.managed_ledger import ManagedLedger
from magnetar.sim.cluster import Cluster, Exclusive, Failover, Key_Shared, Shared, entry
from magnetar.wire import commands

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.wire.proto import pulsar_api_pb2 as pb

ENTRIES = 100
BATCH = 50
"""Messages of each entry, and permits that the client grants at a time."""


@pytest.mark.parametrize("kind", [Exclusive, Failover, Shared, Key_Shared])
def test_batches_are_read_as_permits_allow(
    monkeypatch: pytest.MonkeyPatch, kind: pb.CommandSubscribe.SubType.ValueType
) -> None:
    cluster, counts, read = Cluster(), list[int](), ManagedLedger.read
    client = cluster.client()
    client.produce()
    batch = entry("x", num_messages_in_batch=BATCH)
    client.say(*[commands.send(producer_id=1, sequence_id=n, num_messages=BATCH, entry=batch) for n in range(ENTRIES)])

    async def counted(
        ledger: ManagedLedger, first: Position, max_entries: int, max_bytes: int
    ) -> list[tuple[Position, bytes]]:
        found = await read(ledger, first, max_entries, max_bytes)
        counts.append(len(found))
        return found

    monkeypatch.setattr(ManagedLedger, "read", counted)
    cluster.store.cached = False
    client.subscribe(1, kind, permits=0)
    for _ in range(ENTRIES):
        client.say(commands.flow(consumer_id=1, message_permits=BATCH))
        assert len(client.take("MESSAGE")) == 1
    assert sum(counts) <= 2 * ENTRIES, "the first read does not know the size of the batches"
