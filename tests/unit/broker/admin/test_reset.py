"""Reset of a cursor to a member of a batch."""

from __future__ import annotations

from functools import partial

import pytest

from magnetar.broker.admin.subscriptions import SubscriptionOperations
from magnetar.sim.cluster import TOPIC, Cluster, Exclusive, entry
from magnetar.wire import commands
from magnetar.wire.entries.ack_set import words_to_int

BATCH = 4
"""Messages in the batch."""


@pytest.mark.parametrize(
    ("batch_index", "is_excluded", "remaining"),
    [
        (-1, False, {"batch": 0, "last": 0}),
        (0, False, {"batch": 0, "last": 0}),
        (0, True, {"batch": 0b1110, "last": 0}),
        (2, False, {"batch": 0b1100, "last": 0}),
        (2, True, {"batch": 0b1000, "last": 0}),
        (3, True, {"last": 0}),
        (-1, True, {"last": 0}),
    ],
)
def test_members_after_the_position_are_delivered(
    batch_index: int, *, is_excluded: bool, remaining: dict[str, int]
) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send("single")
    batch = entry("batch", num_messages_in_batch=BATCH)
    client.say(commands.send(producer_id=1, sequence_id=1, entry=batch, num_messages=BATCH))
    client.send("last", first=2)
    position = [place for _, place in client.receipts()][1]
    client.subscribe(kind=Exclusive, permits=0)
    operations = SubscriptionOperations(cluster.environment, cluster.topics)
    reset = operations.reset(TOPIC, "worker", position, is_excluded=is_excluded, batch_index=batch_index)
    cluster.do(partial(cluster.loop.create_task, reset))
    client.names()
    client.subscribe(kind=Exclusive)
    names = {0: "single", 1: "batch", 2: "last"}
    found = {names[each.message_id.entryId]: words_to_int(each.ack_set) for each in client.take("MESSAGE")}
    assert found == remaining
