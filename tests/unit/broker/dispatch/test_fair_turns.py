"""Dispatchers take turns: a backlog of one does not delay the others."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pytest

from magnetar.sim.cluster import Cluster, Exclusive, Shared

if TYPE_CHECKING:
    from magnetar.wire.proto import pulsar_api_pb2 as pb

READ_BATCH = 100
"""Entries per read, and so per turn (``dispatcherMaxReadBatchSize``)."""


@pytest.mark.parametrize("kind", [Shared, Exclusive], ids=["Shared", "Exclusive"])
def test_one_read_a_turn_for_each_subscription(kind: pb.CommandSubscribe.SubType.ValueType) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send(*map(str, range(3 * READ_BATCH)))
    for consumer_id in (1, 2):
        client.subscribe(consumer_id=consumer_id, subscription=f"s{consumer_id}", kind=kind, permits=0)
    client.names()
    for consumer in client.session.consumers.values():
        consumer.permits = 1000
    cluster.do(cluster.topic().notify)
    taken_by = [message.consumer_id for message in client.take("MESSAGE")]
    assert len(taken_by) == 6 * READ_BATCH
    assert max(len(list(run)) for _, run in groupby(taken_by)) == READ_BATCH
