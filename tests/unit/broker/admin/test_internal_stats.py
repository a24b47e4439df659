"""The ``internalStats`` of a topic's log."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.broker.admin.internal_stats import internal_stats
from magnetar.ledger.agreement import LOST_PROPERTY
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.sim.cluster import Cluster, Failover, Shared
from magnetar.wire import commands


def test_an_entry_counts_once_it_is_durable() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send("a", "b")
    cluster.prompt = False
    client.send("c", first=2)

    def counts() -> tuple[int, int, list[int]]:
        stats = internal_stats(cluster.topic())
        return stats.number_of_entries, stats.current_ledger_entries, [each.entries for each in stats.ledgers]

    assert counts() == (2, 2, [2])
    cluster.commit()
    assert counts() == (3, 3, [3])


@pytest.mark.parametrize("kind", [Shared, Failover])
def test_a_cursor_waits_while_a_consumer_could_get_an_entry_and_there_is_none(kind: Any) -> None:  # noqa: ANN401
    cluster = Cluster()
    producer = cluster.client()
    producer.produce()
    topic = cluster.topic()

    def waiting() -> int:
        return internal_stats(topic).waiting_cursors_count

    assert waiting() == 0
    consumer = cluster.client()
    consumer.subscribe(kind=kind, permits=2)
    consumer.subscribe(consumer_id=2, kind=Shared, permits=0, subscription="without permits")
    assert waiting() == 1
    producer.send("a")
    assert waiting() == 1, "unacknowledged, but sent"
    producer.send("b", "c", first=1)
    assert waiting() == 0, "c waits for a permit"
    consumer.say(commands.flow(consumer_id=1, message_permits=2))
    assert waiting() == 1
    consumer.say(commands.close_consumer(consumer_id=1, request_id=99))
    assert waiting() == 0


def test_the_cursor_of_deduplication_shows_the_producers_of_its_last_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(settings={"brokerDeduplicationEnabled": True})
    for name in ("a", "b", "c"):
        client = cluster.client()
        client.produce(name=name)
        client.send("first", "second")

    def shown() -> tuple[dict[str, int], int | None]:
        cursor = internal_stats(cluster.topic()).cursors["pulsar.dedup"]
        return cursor.properties, cursor.properties_omitted

    assert shown() == ({}, None)
    cluster.do(cluster.topic().deduplication.snapshot)
    assert shown() == ({"a": 1, "b": 1, "c": 1}, None)
    client.send("third", first=2)
    assert shown() == ({"a": 1, "b": 1, "c": 1}, None), "as of the last snapshot"
    monkeypatch.setattr("magnetar.broker.admin.internal_stats.PRODUCERS_SHOWN_MAX", 2)
    assert shown() == ({"a": 1, "b": 1}, 1)


@pytest.mark.parametrize(("noted", "shown"), [(None, {}), ("0", {"mayLackEntries": True})])
def test_a_topic_that_may_lack_entries_says_so_and_never_that_it_lost_none(
    noted: str | None, shown: dict[str, object]
) -> None:
    cluster = Cluster()
    topic = cluster.topic()
    if noted is not None:
        cluster.do(lambda: topic.ledger.set_property(LOST_PROPERTY, noted))
    found = internal_stats(topic).to_json()
    assert {key: found[key] for key in ("mayLackEntries", "entriesKnownLost") if key in found} == shown


def test_a_topic_shows_how_many_entries_are_known_to_be_lost() -> None:
    cluster = Cluster()
    topic = cluster.topic()
    cluster.do(lambda: topic.ledger.set_property(LOST_PROPERTY, "3"))
    stats = internal_stats(topic)
    assert (stats.may_lack_entries, stats.entries_known_lost) == (True, 3)


def test_trimmed_entries_are_named_by_origin() -> None:
    cluster = Cluster(ledger_config=ManagedLedgerConfig(max_entries_per_ledger=1, min_rollover_ms=0))
    client = cluster.client()
    client.produce()
    client.send("a")
    first = cluster.topic().ledger.last_confirmed_entry
    client.send("b", first=1)
    assert internal_stats(cluster.topic()).trimmed_origins is None
    cluster.trim()
    assert len(internal_stats(cluster.topic()).ledgers) == 1
    assert internal_stats(cluster.topic()).trimmed_origins == {cluster.environment.cluster: first}
