"""Records of a replicated subscription: each acknowledgement in them is claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.sim.cluster import Client, Cluster
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    from magnetar.base.position import Position


def consumed() -> tuple[Cluster, Client, list[Position]]:
    """Return a cluster whose consumer has received three messages, whose positions are the last value."""
    cluster = Cluster(targets=["jfk"])
    client = cluster.client()
    client.produce()
    client.subscribe(replicate_subscription_state=True)
    client.send("a", "b", "c")
    return cluster, client, [position_of(message.message_id) for message in client.take("MESSAGE")]


def claimed_after_crash(cluster: Cluster) -> list[int]:
    """Return the numbers of the acknowledged entries after a restart; all of them must be claimed, and no others."""
    cluster.crash()
    cluster.prompt = True
    cluster.settle()
    subscription = cluster.subscription()
    assert subscription.shared_progress is not None
    state = subscription.shared_progress.state.origins["ewr"]
    positions = [cluster.topic().ledger.last_confirmed_entry._replace(entry_id=each) for each in range(3)]
    acknowledged = [each.entry_id for each in positions if subscription.cursor.state.is_deleted(each)]
    assert acknowledged == [each.entry_id for each in positions if each in state.acknowledged]
    return acknowledged


@pytest.mark.parametrize("syncs", [True, False])
def test_what_the_metadata_store_takes_over_from_a_full_disk_is_claimed(*, syncs: bool) -> None:
    cluster, client, (first, second, third) = consumed()
    cluster.store.syncs = syncs
    cluster.prompt = False
    client.ack(first)
    client.ack(third)
    cluster.loop.advance(1.0)  # the flush of these is under way
    client.ack(second)
    cluster.fail()
    assert claimed_after_crash(cluster) == [0, 1, 2]


def test_a_checkpoint_between_two_flushes_is_claimed() -> None:
    cluster, client, (first, second, _) = consumed()
    client.ack(first)
    cluster.loop.advance(1.0)
    client.ack(first)
    client.ack(second)
    cursor = cluster.subscription().cursor
    assert cursor.changed, "the next flush is due later"
    cluster.do(lambda: cursor.checkpoint(lambda _: None))
    assert claimed_after_crash(cluster) == [0, 1]
