"""The unconfirmed progress of a peer: correct during its absence, and never zero while unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.partitioned import PartitionedTopicStats
from magnetar.admin.topic_service import StatsOptions
from magnetar.base.errors import DiskFullError
from magnetar.broker.admin.stats import topic_stats
from magnetar.broker.loop.slices import at_once
from magnetar.sim.cluster import entry
from magnetar.wire import commands
from magnetar.wire.message_id import message_id
from tests.unit.broker.hand_peer import linked_cluster

if TYPE_CHECKING:
    import pytest

    from magnetar.admin.models.subscriptions import SubscriptionStats
    from magnetar.base.position import Position
    from magnetar.sim.cluster import Client, Cluster


def consuming(cluster: Cluster, messages: int) -> tuple[Client, list[Position]]:
    """Create a consumer of a replicated subscription; return it with the positions of its messages."""
    publisher, consumer = cluster.client(), cluster.client()
    publisher.produce()
    publisher.send(*map(str, range(messages)))
    positions = [position for _, position in publisher.receipts()]
    consumer.subscribe(replicate_subscription_state=True)
    pass_time(cluster, 1)
    return consumer, positions


def pass_time(cluster: Cluster, seconds: float) -> None:
    """Advance the time in small steps, so that timers run in order."""
    for _ in range(10):
        cluster.loop.advance(seconds / 10)
        cluster.settle()


def stats(cluster: Cluster) -> SubscriptionStats:
    return topic_stats(cluster.topic(), StatsOptions()).subscriptions["worker"]


def shown(cluster: Cluster) -> tuple[float | None, int | None]:
    """Return the age and the number of entries that jfk has not confirmed."""
    found = stats(cluster)
    assert found.progress_age_seconds is not None
    assert found.progress_unconfirmed is not None
    age = found.progress_age_seconds["jfk"]
    return None if age is None else round(age, 3), found.progress_unconfirmed["jfk"]


def test_it_is_unknown_until_the_peer_has_confirmed_the_full_state() -> None:
    cluster, peer = linked_cluster()
    peer.prompt = False
    consumer, positions = consuming(cluster, 3)
    consumer.ack(*positions)
    assert shown(cluster) == (None, None)
    peer.answer()
    assert shown(cluster)[1] == 3, "acknowledged after the full state was taken"
    peer.prompt = True
    peer.answer()
    pass_time(cluster, 1)
    assert shown(cluster) == (0.0, 0)


def test_a_write_that_outlives_its_subscription_does_not_count_for_the_next_one_of_its_name() -> None:
    cluster, _peer = linked_cluster()
    consumer, positions = consuming(cluster, 5)
    cluster.prompt = False
    consumer.ack(*positions, request_id=consumer.request_id())
    consumer.say(commands.unsubscribe(consumer_id=1, request_id=consumer.request_id()))
    assert cluster.store.pending, "the acknowledgements are being written"
    cluster.client().subscribe(replicate_subscription_state=True)
    cluster.prompt = True
    pass_time(cluster, 1)
    assert shown(cluster) == (0.0, 0)


def test_it_grows_while_the_peer_is_away_and_is_gone_when_it_has_caught_up() -> None:
    cluster, peer = linked_cluster()
    consumer, positions = consuming(cluster, 5)
    assert shown(cluster) == (0.0, 0)
    peer.go()
    consumer.ack(positions[1], positions[3])
    pass_time(cluster, 100)
    assert shown(cluster) == (100.0, 2)
    consumer.ack(positions[0])
    consumer.ack(positions[1])  # again: nothing new
    pass_time(cluster, 100)
    assert shown(cluster) == (200.0, 3)
    peer.come()
    assert shown(cluster) == (0.0, 0)


def test_a_message_of_a_batch_that_is_acknowledged_again_is_nothing_to_confirm() -> None:
    cluster, _peer = linked_cluster()
    publisher, (consumer, _) = cluster.client(), consuming(cluster, 0)
    publisher.produce()
    batch = entry("batch", num_messages_in_batch=4)
    publisher.say(commands.send(producer_id=1, sequence_id=0, num_messages=4, entry=batch))
    ((_, position),) = publisher.receipts()
    for remaining in (0b1110, 0b1110, 0b1111):
        consumer.say(commands.ack(consumer_id=1, message_ids=[message_id(position, ack_set=[remaining])]))
        pass_time(cluster, 10)
        assert shown(cluster) == (0.0, 0)


def test_an_answer_that_is_outstanding_counts_from_the_acknowledgement_on() -> None:
    cluster, peer = linked_cluster()
    consumer, positions = consuming(cluster, 5)
    peer.prompt = False
    consumer.ack(positions[0])
    pass_time(cluster, 2)
    consumer.ack(positions[1])
    pass_time(cluster, 2)
    assert shown(cluster) == (4.0, 2)
    peer.answer()
    assert shown(cluster) == (2.0, 1)


def test_after_a_crash_it_is_unknown_and_not_zero() -> None:
    cluster, peer = linked_cluster()
    consumer, positions = consuming(cluster, 3)
    peer.go()
    consumer.ack(positions[0])
    pass_time(cluster, 1)
    cluster.crash()
    assert shown(cluster) == (None, None)
    cluster.client().subscribe()
    assert shown(cluster) == (None, None)
    peer.come()
    assert shown(cluster) == (0.0, 0)


def test_unwritten_acknowledgements_are_not_confirmed_and_are_in_the_next_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, peer = linked_cluster()
    consumer, positions = consuming(cluster, 3)
    with monkeypatch.context() as broken:
        broken.setattr(cluster.subscription().cursor, "flush", lambda done: done(DiskFullError("no space left")))
        consumer.ack(positions[0])
        pass_time(cluster, 0.1)
    assert shown(cluster) == (0.1, 1)
    received = len(peer.received)
    consumer.ack(positions[1])
    pass_time(cluster, 1)
    assert shown(cluster) == (0.0, 0)
    (marker,) = peer.received[received:]
    (state,) = marker.states
    assert [(claim.lower.entry_id, claim.upper) for claim in state.covered()] == [(-1, positions[1])], "of both"


def test_a_cluster_that_is_added_has_confirmed_nothing() -> None:
    cluster, peer = linked_cluster()
    consumer, positions = consuming(cluster, 3)
    consumer.ack(positions[0])
    pass_time(cluster, 1)
    peer.prompt = False
    cluster.replicate_to("jfk", "lga")
    found = stats(cluster).progress_unconfirmed
    assert found == {"jfk": 0, "lga": None}
    peer.prompt = True
    peer.answer()
    pass_time(cluster, 1)
    assert stats(cluster).progress_unconfirmed == {"jfk": 0, "lga": 0}


def test_of_a_partitioned_topic_it_is_known_where_it_is_known_of_all_partitions() -> None:
    cluster, _ = linked_cluster()
    consuming(cluster, 1)
    known = topic_stats(cluster.topic(), StatsOptions())
    unknown = topic_stats(cluster.topic(), StatsOptions())
    unknown.subscriptions["worker"].progress_age_seconds = {"jfk": None, "lga": 2.0}
    unknown.subscriptions["worker"].progress_unconfirmed = {"jfk": None, "lga": 4}
    for parts in ([known, unknown], [unknown, known]):
        total = at_once(PartitionedTopicStats.steps(parts)).subscriptions["worker"]
        assert total.progress_age_seconds == {"jfk": None, "lga": 2.0}
        assert total.progress_unconfirmed == {"jfk": None, "lga": 4}
