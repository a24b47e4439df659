"""Cumulative acknowledgements of entries that the log does not have."""

from __future__ import annotations

import pytest

from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.sim.cluster import Cluster, Failover
from magnetar.wire import commands
from magnetar.wire.message_id import message_id


@pytest.mark.parametrize("entry_id", [4, 2**40, 2**63 - 1])
@pytest.mark.parametrize("has_hole", [True, False])
@pytest.mark.parametrize("ack_set", [(), (1,)])
def test_an_entry_behind_the_end_of_a_ledger_stands_for_the_last_one(
    entry_id: int, ack_set: tuple[int, ...], *, has_hole: bool
) -> None:
    cluster = Cluster(ledger_config=ManagedLedgerConfig(max_entries_per_ledger=4, min_rollover_ms=0))
    client = cluster.client()
    client.subscribe(kind=Failover)
    client.produce()
    for number in range(6):
        client.send(str(number), first=number)
    positions = [position for _, position in client.receipts()]
    if has_hole:
        client.ack(positions[1])
    far = message_id(positions[0]._replace(entry_id=entry_id), ack_set=ack_set)
    client.say(commands.ack(consumer_id=1, message_ids=[far], cumulative=True))
    for _ in range(2):
        state = cluster.subscription().cursor.state
        assert (state.mark_delete_position, state.partial_batches_count) == (positions[3], 0)
        assert cluster.subscription().backlog == 2
        cluster.loop.advance(5)
        cluster.settle()
        cluster.crash()
