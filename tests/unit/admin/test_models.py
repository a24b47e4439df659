"""Statistics have the fields of Apache Pulsar 4.0.7, and Magnetar's own."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from magnetar.admin.models.clients import ConsumerStats, PublisherStats
from magnetar.admin.models.encoding import NAMES_AT_ONCE, encoding, encoding_names
from magnetar.admin.models.internal import CursorStats, LedgerInfo, PersistentTopicInternalStats
from magnetar.admin.models.model import iso_time
from magnetar.admin.models.subscriptions import SubscriptionStats
from magnetar.admin.models.topics import NonPersistentTopicStats, ReplicatorStats, SnapshotStats, TopicStats
from magnetar.admin.partitioned import PartitionedNonPersistentTopicStats, PartitionedTopicStats
from magnetar.base.position import Position
from magnetar.broker.loop.slices import at_once

OBSERVED = json.loads(Path(__file__).with_name("observed_stats.json").read_text())
OBS = "persistent://nyc/flights/obs"


def kinds(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the JSON value with each number, text and boolean replaced by the name of its type."""
    if isinstance(value, dict):
        return {key: kinds(each) for key, each in value.items()}
    return [kinds(each) for each in value] if isinstance(value, list) else type(value).__name__


def test_topic_stats_as_observed() -> None:
    now = iso_time(1)
    consumer = ConsumerStats(consumer_name="c", address="/127.0.0.1:1", connected_since=now, client_version="v")
    publisher = PublisherStats(producer_name="p1", address="/127.0.0.1:1", connected_since=now, client_version="v")
    publisher.metadata["a"] = "b"
    replicator = ReplicatorStats(
        inbound_connection="i", inbound_connected_since="s", outbound_connection="o", outbound_connected_since="s"
    )
    stats = TopicStats(
        publishers=[publisher],
        subscriptions={"sub": SubscriptionStats(consumers=[consumer])},
        replication={"B": replicator},
        owner_broker="127.0.0.1:18080",
    )
    found = stats.to_json()
    assert found["replication"]["B"].pop("handovers") == 0
    ours = ("isBlockedOnAckStatePersistent", "ackStateUsed", "unpersistedAcks", "unpersistedBatchAcks")
    assert not any(found["subscriptions"]["sub"].pop(name) for name in ours)
    assert kinds(found) == kinds(OBSERVED["stats"])
    assert list(found) == list(OBSERVED["stats"])


def test_internal_stats_as_observed() -> None:
    sub = CursorStats(
        mark_delete_position=Position(3, 2),
        read_position=Position(3, 25),
        last_ledger_switch_timestamp=iso_time(1),
        properties={"pulsar.replicated.subscription": 1},
    )
    replication = CursorStats(
        mark_delete_position=Position(3, 24), read_position=Position(3, 25), last_ledger_switch_timestamp=iso_time(1)
    )
    stats = PersistentTopicInternalStats(
        last_ledger_created_timestamp=iso_time(1),
        last_confirmed_entry=Position(3, 24),
        ledgers=[LedgerInfo(ledger_id=3, entries=0, size=0)],
        cursors={"sub": sub, "pulsar.repl.B": replication},
    )
    found = stats.to_json()
    assert kinds(found) == kinds(OBSERVED["internalStats"])
    assert found["lastConfirmedEntry"] == "3:24"
    assert found["compactedLedger"] == OBSERVED["internalStats"]["compactedLedger"]


def test_unknown_figures_are_left_out() -> None:
    assert "ownerBroker" not in TopicStats().to_json()
    assert SubscriptionStats(is_replicated=True).to_json()["replicated"] is True


def test_a_large_answer_is_encoded_in_steps_as_the_whole_is() -> None:
    consumers = [ConsumerStats(consumer_name=f"cö{number}") for number in range(20)]
    subscriptions = {"a": SubscriptionStats(consumers=consumers), "b": SubscriptionStats()}
    stats = TopicStats(msg_rate_in=0.5, subscriptions=subscriptions, publishers=[PublisherStats(producer_id=1)])
    steps = encoding({"topics": {OBS: stats}, "none": [], "position": Position(1, 2)})
    taken = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            text = end.value
            break
        taken += 1
    assert text == json.dumps(
        {"topics": {OBS: stats.to_json()}, "none": [], "position": "1:2"}, ensure_ascii=False, separators=(",", ":")
    )
    assert taken == 20 + 2 + 1 + 2, "each consumer, subscription and producer, the topic and its compaction"


@pytest.mark.parametrize("count", [0, 1, 2 * NAMES_AT_ONCE, 2 * NAMES_AT_ONCE + 1])
def test_names_are_encoded_in_steps_as_the_whole_is(count: int) -> None:
    names = tuple(f"persistent://public/default/ö{number}" for number in range(count))
    assert at_once(encoding_names(names)) == json.dumps(names, ensure_ascii=False, separators=(",", ":"))
    assert sum(1 for _ in encoding_names(names)) == -(-count // NAMES_AT_ONCE)


def test_moments() -> None:
    assert iso_time(1795256276405) == "2026-11-21T10:17:56.405Z"


def test_partitions_sum_up() -> None:
    parts = [
        TopicStats(
            msg_rate_in=rate,
            msg_throughput_in=rate * 10,
            average_msg_size=10.0,
            oldest_backlog_message_age_seconds=age,
            publishers=[PublisherStats(producer_id=index)],
            subscriptions={
                "sub": SubscriptionStats(msg_backlog=backlog, is_replicated=index == 1, last_acked_timestamp=index)
            },
            owner_broker="h:1",
        )
        for index, (rate, age, backlog) in enumerate([(1.0, -1, 3), (2.0, 60, 4)])
    ]
    total = at_once(PartitionedTopicStats.steps(parts))
    assert (total.msg_rate_in, total.average_msg_size, total.backlog_quota_limit_size) == (3.0, 10.0, -1)
    assert total.oldest_backlog_message_age_seconds == 60
    assert [each.producer_id for each in total.publishers] == [0, 1]
    sub = total.subscriptions["sub"]
    assert (sub.msg_backlog, sub.is_replicated, sub.last_acked_timestamp, sub.type) == (7, True, 1, "None")
    found = total.to_json()
    assert found["metadata"] == {"partitions": 2, "deleted": False}
    assert "ownerBroker" not in found


def test_figures_of_partitions_that_do_not_add_up() -> None:
    parts = [
        TopicStats(
            earliest_msg_publish_time_in_backlogs=earliest,
            clusters_not_counted=["jfk"],
            replicated_subscription_snapshots=SnapshotStats(completed=1, age_seconds=age),
            subscriptions={
                "sub": SubscriptionStats(
                    earliest_msg_publish_time_in_backlog=earliest,
                    ack_state_used=used,
                    progress_applied={"jfk": {"count": 2, "p50": used}},
                )
            },
            replication={"jfk": ReplicatorStats(connected=connected)},
        )
        for earliest, age, used, connected in [(0, 1.0, 0.5, True), (70, 4.0, 0.25, False), (50, 2.0, 0.75, True)]
    ]
    total = at_once(PartitionedTopicStats.steps(parts))
    sub, snapshots = total.subscriptions["sub"], total.replicated_subscription_snapshots
    assert total.earliest_msg_publish_time_in_backlogs == sub.earliest_msg_publish_time_in_backlog == 50
    assert sub.ack_state_used == 0.75
    assert sub.progress_applied == {"jfk": {"count": 6, "p50": 0.75}}
    assert snapshots is not None
    assert (snapshots.completed, snapshots.age_seconds) == (3, 4.0)
    assert total.clusters_not_counted == ["jfk"]
    assert not total.replication["jfk"].connected


def test_a_backlog_that_is_unknown_for_one_partition_is_unknown_for_the_topic() -> None:
    known = ReplicatorStats(replication_backlog=5, replication_delay_in_seconds=1)
    unknown = ReplicatorStats(
        replication_backlog=None, replication_delay_in_seconds=None, replication_backlog_at_least=3
    )
    for links in permutations([known, known, unknown]):
        total = at_once(PartitionedTopicStats.steps([TopicStats(replication={"jfk": link}) for link in links]))
        link = total.replication["jfk"]
        assert (link.replication_backlog, link.replication_delay_in_seconds) == (None, None)
        assert link.replication_backlog_at_least == 13


def test_drops_of_partitions_add_up() -> None:
    parts = [NonPersistentTopicStats(msg_drop_rate=rate) for rate in (1.5, 2.0)]
    found = at_once(PartitionedNonPersistentTopicStats.steps(parts)).to_json()
    assert found["msgDropRate"] == 3.5
