"""Acknowledgement state above the persistence limit: dispatch pauses, or a warning is logged (PIP-299)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from magnetar.admin.topic_service import StatsOptions
from magnetar.base.limits import Limit
from magnetar.base.position import Position
from magnetar.broker.admin.internal_stats import internal_stats
from magnetar.broker.admin.stats import topic_stats
from magnetar.broker.subscription.ack_state import ALARM_AGAIN_BELOW_PERCENTS, ALARM_PERCENTS, LimitAlarm
from magnetar.cursor.ranges import Range
from magnetar.metadata.policies import Policies
from magnetar.sim.cluster import NAMESPACE, Client, Cluster, Exclusive, Failover, Shared, entry
from magnetar.wire import commands

if TYPE_CHECKING:
    from magnetar.admin.models.subscriptions import SubscriptionStats
    from magnetar.wire.proto import pulsar_api_pb2 as pb

    Kind: TypeAlias = pb.CommandSubscribe.SubType.ValueType


RANGES_MAX = 4
PAUSING = {"dispatcherPauseOnAckStatePersistentEnabled": True}


def cluster_of(entries: int, **settings: Any) -> tuple[Cluster, Client]:  # noqa: ANN401 - settings are of every type
    """Return a cluster with a backlog, and a client without subscriptions."""
    cluster = Cluster(
        settings={
            "managedLedgerMaxUnackedRangesToPersist": RANGES_MAX,
            "managedLedgerMaxBatchDeletedIndexToPersist": 2,
            "dispatcherMaxReadBatchSize": 2,
            **settings,
        }
    )
    client = cluster.client()
    client.produce()
    client.send(*map(str, range(entries)))
    return cluster, client


def position(cluster: Cluster, entry_id: int) -> Position:
    return Position(cluster.topic().ledger.first_position.ledger_id, entry_id)


def acknowledge(cluster: Cluster, client: Client, *entry_ids: int) -> None:
    """Acknowledge, and run the flush at the end of the interval."""
    client.ack(*(position(cluster, entry_id) for entry_id in entry_ids))
    cluster.loop.advance(0.011)


def stats(cluster: Cluster) -> SubscriptionStats:
    return topic_stats(cluster.topic(), StatsOptions()).subscriptions["worker"]


def flow(client: Client, permits: int) -> None:
    client.say(commands.flow(consumer_id=1, message_permits=permits))


def test_nothing_acknowledged_comes_again_after_a_crash_in_the_pause() -> None:
    cluster, client = cluster_of(40, **PAUSING)
    client.subscribe(permits=30)
    acknowledged = range(1, 30, 2)
    acknowledge(cluster, client, *acknowledged)
    assert stats(cluster).non_contiguous_deleted_messages_ranges == len(acknowledged) > RANGES_MAX
    assert stats(cluster).unpersisted_acks == 0
    cluster.crash()
    client = cluster.client()
    client.subscribe(permits=100)
    assert client.messages() == [str(number) for number in range(30) if number not in acknowledged]
    assert stats(cluster).is_blocked_on_ack_state_persistent
    acknowledge(cluster, client, *range(0, 30, 2))
    assert client.messages() == [str(number) for number in range(30, 40)]


def test_stats_say_what_the_holes_take() -> None:
    cluster, client = cluster_of(20)
    client.subscribe(permits=20)
    assert stats(cluster).non_contiguous_deleted_messages_ranges_serialized_size == 0
    acknowledge(cluster, client, 3)
    one = stats(cluster).non_contiguous_deleted_messages_ranges_serialized_size
    acknowledge(cluster, client, *range(5, 20, 2))
    many = topic_stats(cluster.topic(), StatsOptions()).non_contiguous_deleted_messages_ranges_serialized_size
    assert 0 < one < many < 100


@pytest.mark.parametrize("permits", [1, 1000])
def test_delayed_messages_wait_for_the_end_of_the_pause(permits: int) -> None:
    cluster, client = cluster_of(11, **PAUSING)
    due_ms = int((cluster.clock.now() + 5) * 1000)
    frames = [
        commands.send(producer_id=1, sequence_id=20 + number, entry=entry(f"late-{number}", deliver_at_time=due_ms))
        for number in range(6)
    ]
    client.say(*frames)
    client.subscribe(permits=11)
    client.messages()
    acknowledge(cluster, client, 1, 3, 5, 7, 9)
    assert stats(cluster).is_blocked_on_ack_state_persistent
    cluster.loop.advance(6)
    flow(client, permits)
    assert client.messages() == []
    acknowledge(cluster, client, 0, 2)
    flow(client, 6)
    assert sorted(client.messages()) == [f"late-{number}" for number in range(6)]


def test_delivered_messages_are_redelivered_during_the_pause() -> None:
    cluster, client = cluster_of(40, **PAUSING)
    client.subscribe(permits=12)
    acknowledge(cluster, client, *range(1, 12, 2))
    client.leave()
    other = cluster.client()
    other.subscribe(permits=100)
    assert other.messages() == [str(number) for number in range(0, 12, 2)]


@pytest.mark.parametrize("how", ["skip", "through", "seek", "broker", "namespace"])
def test_all_that_makes_room_ends_the_pause(how: str) -> None:
    cluster, client = cluster_of(40, **PAUSING)
    client.subscribe(permits=12)
    acknowledge(cluster, client, *range(1, 12, 2))
    flow(client, 100)
    client.heard.clear()
    subscription, eighth = cluster.subscription(), position(cluster, 7)
    if how == "skip":
        cluster.do(partial(cluster.loop.create_task, subscription.skip(4)))
    elif how == "through":
        cluster.do(lambda: subscription.acknowledge_through(eighth))
    elif how == "seek":
        cluster.do(lambda: cluster.loop.create_task(subscription.reset(eighth)))
        client.subscribe(permits=100)
    elif how == "namespace":
        changed = Policies(replication_clusters=["ewr"], dispatcherPauseOnAckStatePersistentEnabled=False)
        cluster.do(lambda: cluster.resources.namespaces.update(NAMESPACE, lambda _: changed))
    else:
        cluster.settings["managedLedgerMaxUnackedRangesToPersist"] = 100
        cluster.crash()
        client = cluster.client()
        client.subscribe(permits=100)
    assert client.messages()[-1] == "39"


def test_partly_acknowledged_batches_count_as_well() -> None:
    cluster, client = cluster_of(40, **PAUSING)
    client.subscribe(permits=12)
    cursor = cluster.subscription().cursor
    for each in [position(cluster, entry_id) for entry_id in (1, 2, 3)]:
        cluster.do(partial(cursor.acknowledge_batch, each, 0b01, 2))
    flow(client, 100)
    client.heard.clear()
    assert stats(cluster).is_blocked_on_ack_state_persistent
    acknowledge(cluster, client, 2)
    assert client.messages()[-1] == "39"


def test_without_the_pause_exactly_what_is_announced_comes_again() -> None:
    cluster, client = cluster_of(40)
    client.subscribe(permits=100)
    acknowledged = range(1, 40, 2)
    for entry_id in acknowledged:
        acknowledge(cluster, client, entry_id)
    assert not stats(cluster).is_blocked_on_ack_state_persistent
    announced = stats(cluster).unpersisted_acks
    assert announced == len(acknowledged) - RANGES_MAX
    cluster.crash()
    client = cluster.client()
    client.subscribe(permits=100)
    again = set(map(int, client.messages()))
    assert len(again & set(acknowledged)) == announced


def test_switching_the_pause_on_persists_what_was_not() -> None:
    cluster, client = cluster_of(40)
    client.subscribe(permits=100)
    acknowledge(cluster, client, *range(1, 40, 2))
    assert stats(cluster).unpersisted_acks > 0
    changed = Policies(replication_clusters=["ewr"], dispatcherPauseOnAckStatePersistentEnabled=True)
    cluster.do(lambda: cluster.resources.namespaces.update(NAMESPACE, lambda _: changed))
    cluster.loop.advance(0.011)
    assert stats(cluster).unpersisted_acks == 0
    cluster.crash()
    client = cluster.client()
    client.subscribe(permits=100)
    assert [int(number) % 2 for number in client.messages()] == [0] * 20


SINGLE = pytest.mark.parametrize("kind", [Exclusive, Failover], ids=["Exclusive", "Failover"])


@pytest.mark.parametrize("kind", [Shared, Exclusive, Failover], ids=["Shared", "Exclusive", "Failover"])
def test_dispatch_pauses_beyond_the_limit_and_goes_on_when_holes_are_filled(kind: Kind) -> None:
    cluster, client = cluster_of(40, **PAUSING)
    client.subscribe(kind=kind, permits=12)
    assert len(client.messages()) == 12
    acknowledge(cluster, client, *range(1, 12, 2))
    assert stats(cluster).is_blocked_on_ack_state_persistent
    flow(client, 6)
    assert client.messages() == []
    acknowledge(cluster, client, 2)
    assert client.messages() == []
    acknowledge(cluster, client, 4)
    assert client.messages() == [str(number) for number in range(12, 18)]
    assert not stats(cluster).is_blocked_on_ack_state_persistent
    assert cluster.loop.problems == []


@SINGLE
def test_a_cumulative_acknowledgement_ends_the_pause(kind: Kind) -> None:
    """It fills holes and creates none, so one beyond the holes is accepted during the pause as well."""
    cluster, client = cluster_of(40, **PAUSING)
    client.subscribe(kind=kind, permits=30)
    acknowledge(cluster, client, *range(1, 12, 2))
    flow(client, 100)
    client.messages()
    client.ack(position(cluster, 20), cumulative=True)
    cluster.loop.advance(0.011)
    assert client.messages() == [str(number) for number in range(30, 40)]
    assert stats(cluster).non_contiguous_deleted_messages_ranges == 0


@SINGLE
@pytest.mark.parametrize("how", ["redeliver", "another consumer", "crash"])
def test_a_single_active_consumer_gets_again_what_ends_the_pause(kind: Kind, how: str) -> None:
    cluster, client = cluster_of(40, **PAUSING)
    client.subscribe(kind=kind, permits=12)
    acknowledge(cluster, client, *range(1, 12, 2))
    client.heard.clear()
    if how == "redeliver":
        client.say(commands.redeliver_unacknowledged_messages(consumer_id=1))
        flow(client, 100)
    else:
        client.leave()
        if how == "crash":
            cluster.crash()
        client = cluster.client()
        client.subscribe(kind=kind, permits=100)
    assert client.messages() == [str(number) for number in range(0, 12, 2)]
    assert stats(cluster).is_blocked_on_ack_state_persistent
    assert stats(cluster).unpersisted_acks == 0
    acknowledge(cluster, client, *range(0, 12, 2))
    assert client.messages() == [str(number) for number in range(12, 40)]


def test_a_subscription_without_consumers_tells_that_it_would_pause() -> None:
    cluster, client = cluster_of(40, **PAUSING)
    client.subscribe(kind=Exclusive, permits=12)
    acknowledge(cluster, client, *range(1, 12, 2))
    client.leave()
    assert stats(cluster).is_blocked_on_ack_state_persistent
    cluster.crash()
    assert stats(cluster).is_blocked_on_ack_state_persistent


def test_a_reader_does_not_pause() -> None:
    """Its state is not persisted."""
    cluster, client = cluster_of(40, **PAUSING)
    client.subscribe(kind=Exclusive, permits=30, durable=False)
    acknowledge(cluster, client, *range(1, 30, 2))
    flow(client, 100)
    assert client.messages()[-1] == "39"
    assert not stats(cluster).is_blocked_on_ack_state_persistent


def test_the_oldest_holes_are_told_with_who_holds_them() -> None:
    cluster, first = cluster_of(6, dispatcherMaxRoundRobinBatchSize=1)
    first.subscribe(consumer_id=1, permits=3)
    second = cluster.client()
    second.subscribe(consumer_id=2, permits=3)
    held = [int(number) for number in second.messages()]
    assert held == [3, 4, 5]
    acknowledge(cluster, first, 1)
    second.ack(position(cluster, 5), consumer_id=2)
    found = [(hole.entries, hole.consumers) for hole in stats(cluster).oldest_holes or []]
    ledger_id = position(cluster, 0).ledger_id
    assert found == [
        (f"({ledger_id}:-1..{ledger_id}:0]", ["consumer-1"]),
        (f"({ledger_id}:1..{ledger_id}:4]", ["consumer-1", "consumer-2"]),
    ]


@SINGLE
def test_the_active_consumer_holds_what_it_was_sent(kind: Kind) -> None:
    cluster, client = cluster_of(40, **PAUSING)
    client.subscribe(kind=kind, permits=12)
    acknowledge(cluster, client, 1, 3)
    assert [hole.consumers for hole in stats(cluster).oldest_holes or []] == [["consumer-1"]] * 2
    client.leave()
    other = cluster.client()
    other.subscribe(kind=kind, consumer_id=2, permits=0)
    assert [hole.consumers for hole in stats(cluster).oldest_holes or []] == [[]] * 2, "they wait to be sent"


def test_each_share_of_the_limit_is_told_once() -> None:
    cluster, client = cluster_of(40)
    client.subscribe(permits=100)
    with capture_logs() as logs:
        for entry_id in range(1, 30, 2):
            acknowledge(cluster, client, entry_id)
    told = [each for each in logs if each["event"] == "ack_state_limit"]
    assert [each["percent"] for each in told] == [50, 100]  # 80 % of 4 ranges is more than 3
    assert told[0]["subscription"] == "worker"
    assert told[0]["oldest_holes"][0].endswith("consumer-1")
    assert [each["event"] for each in logs].count("acknowledgements_unpersisted") == 1
    counts = cluster.environment.limit_hits.counts()
    assert [counts[limit.value] for limit in (Limit.UNACKED_RANGES, Limit.BATCH_DELETED)] == [1, 0]


@given(st.lists(st.integers(0, 130), max_size=60))
def test_an_alarm_is_repeated_only_after_the_state_was_well_below(percents: list[int]) -> None:
    alarm, told = LimitAlarm(), 0
    for percent in percents:
        reached = alarm.reached(percent)
        highest = max((share for share in ALARM_PERCENTS if share <= percent), default=0)
        assert reached == (highest if highest > told else None)
        if highest > told or percent < told - ALARM_AGAIN_BELOW_PERCENTS:
            told = highest


def test_internal_statistics_show_the_first_ranges_and_how_many_more_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magnetar.broker.admin.internal_stats.DELETED_RANGES_SHOWN_MAX", 2)
    cluster, client = cluster_of(12)
    client.subscribe(permits=100)
    acknowledge(cluster, client, 1, 3, 4, 6)
    found = internal_stats(cluster.topic()).cursors["worker"]
    ledger_id = position(cluster, 0).ledger_id
    assert found.individually_deleted_messages == f"[({ledger_id}:0..{ledger_id}:1],({ledger_id}:2..{ledger_id}:4]]"
    assert found.individually_deleted_messages_omitted == 1
    assert found.total_non_contiguous_deleted_messages_range == 3
    assert str(Range(Position(3, 4), Position(3, 6))) == "(3:3..3:6]"
