"""Damaged entries are neither delivered nor acknowledged, and delay no others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from magnetar.admin.topic_service import StatsOptions
from magnetar.broker.admin.stats import topic_stats
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.sim.cluster import Cluster, Exclusive, Key_Shared, Shared, entry
from magnetar.sim.pipe import Pipe
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.base.position import Position

TEXTS = [str(number) for number in range(250)]
"""More than two reads."""


def on_disk(*damaged: str, **options: list[str]) -> tuple[Cluster, list[Position]]:
    """Return a cluster with a topic that must be read from the disk, with damaged entries."""
    cluster = Cluster(**options)  # type: ignore[arg-type]
    client = cluster.client()
    client.produce()
    client.send(*TEXTS)
    positions = [position for _, position in client.receipts()]
    cluster.store.cached = False
    cluster.store.damaged = {entry(text) for text in damaged}
    return cluster, positions


@pytest.mark.parametrize("kind", [Shared, Exclusive, Key_Shared], ids=["Shared", "Exclusive", "Key_Shared"])
@pytest.mark.parametrize(
    "damaged",
    [["0"], ["7", "8"], ["249"], TEXTS[:120], TEXTS[90:230]],
    ids=["the first", "two", "the last", "more than a read", "more than a read in the middle"],
)
def test_consumers_get_all_that_is_intact(damaged: list[str], kind: pb.CommandSubscribe.SubType.ValueType) -> None:
    cluster, positions = on_disk(*damaged)
    client = cluster.client()
    client.subscribe(kind=kind)
    assert client.messages() == [text for text in TEXTS if text not in damaged]
    assert cluster.topic().log.damaged.entries == len(damaged)
    client.ack(*positions)
    stats = topic_stats(cluster.topic(), StatsOptions())
    assert stats.damaged_entries == len(damaged)


def test_a_seek_by_time_passes_over_what_is_damaged() -> None:
    cluster, positions = on_disk("0", "3")
    log = cluster.topic().log
    task = cluster.loop.start(log.position_before_time(1_700_000_000_000))  # the publish time of all
    cluster.settle()
    assert task.result() == positions[0]
    task = cluster.loop.start(log.position_before_time(1_700_000_000_001))
    cluster.settle()
    assert task.result() == positions[-1]
    assert log.damaged.entries == 2


def test_damaged_entries_stay_unacknowledged_until_skipped() -> None:
    cluster, positions = on_disk("0", "3")
    client = cluster.client()
    client.subscribe()
    intact = [position for text, position in zip(TEXTS, positions, strict=True) if text not in ("0", "3")]
    client.ack(*intact)
    assert cluster.subscription().backlog == 2
    subscription = cluster.subscription()
    cluster.do(partial(cluster.loop.create_task, subscription.skip(1)))
    assert cluster.subscription().backlog == 1
    assert cluster.subscription().cursor.state.mark_delete_position == positions[2]


@pytest.mark.parametrize("damaged", [["0"], ["3", "4"], TEXTS[90:230]], ids=["the first", "two", "more than a read"])
def test_a_cumulative_acknowledgment_leaves_out_what_is_damaged(damaged: list[str]) -> None:
    cluster, positions = on_disk(*damaged)
    client = cluster.client()
    client.subscribe(kind=Exclusive)
    assert client.messages()[-1] == TEXTS[-1]
    client.ack(positions[-1], cumulative=True, request_id=9)
    assert cluster.subscription().backlog == len(damaged)
    cluster.crash()
    cluster.store.damaged = set()  # repaired from a copy
    again = cluster.client()
    again.subscribe(kind=Exclusive)
    assert again.messages() == damaged


def test_a_cumulative_acknowledgment_within_a_batch_leaves_out_what_is_damaged_before_it() -> None:
    cluster, _ = on_disk("3")
    producer = cluster.client()
    producer.produce()
    batch = entry("batch", num_messages_in_batch=3)
    producer.say(commands.send(producer_id=1, sequence_id=999, entry=batch, num_messages=3))
    (*_, (_, position)) = producer.receipts()
    client = cluster.client()
    client.subscribe(kind=Exclusive)
    client.messages()
    of_first_two = pb.MessageIdData(ledgerId=position.ledger_id, entryId=position.entry_id, batch_size=3, ack_set=[4])
    client.say(commands.ack(consumer_id=1, message_ids=[of_first_two], cumulative=True))
    state = cluster.subscription().cursor.state
    assert cluster.subscription().backlog == 2
    assert state.remaining(position) == 0b100
    assert state.mark_delete_position < position


def test_an_entry_that_is_to_be_sent_again_and_rotted_meanwhile_is_given_up() -> None:
    cluster, positions = on_disk()
    client = cluster.client()
    client.subscribe(permits=3)
    assert client.messages() == TEXTS[:3]
    cluster.store.damaged = {entry("1")}
    client.leave()
    again = cluster.client()
    again.subscribe()
    assert again.messages() == [text for text in TEXTS if text != "1"]
    assert positions[1] in cluster.topic().log.damaged


@pytest.mark.parametrize("rotten", [["0"], ["1", "2"], ["4"]])
def test_a_delayed_entry_that_rotted_holds_back_nobody(rotten: list[str]) -> None:
    cluster = Cluster()
    consumer = cluster.client()
    consumer.subscribe()
    producer = cluster.client()
    producer.produce()
    due_ms = int((cluster.clock.now() + 5) * 1000)
    entries = {text: entry(text, deliver_at_time=due_ms) for text in TEXTS[:5]}
    producer.say(*(commands.send(producer_id=1, sequence_id=0, entry=each) for each in entries.values()))
    cluster.store.cached = False
    cluster.store.damaged = {entries[text] for text in rotten}
    cluster.loop.advance(6)
    assert consumer.messages() == [text for text in entries if text not in rotten]
    assert cluster.topic().log.damaged.entries == len(rotten)
    assert cluster.subscription().backlog == len(entries)


def test_a_link_stops_at_what_is_damaged_and_says_so() -> None:
    source, positions = on_disk("2", targets=["jfk"])
    target = Cluster("jfk", targets=["ewr"], loop=source.loop)
    pipe = Pipe(source, target)
    pipe.attach(permits=1000)
    pipe.read()
    assert [position for position, _ in pipe.carried] == positions[:2]
    topic = source.topic()
    source.do(topic.notify)
    pipe.read()
    assert len(pipe.carried) == 2
    stats = topic_stats(source.topic(), StatsOptions())
    assert stats.replication["jfk"].damaged_at == str(positions[2])
    source.store.damaged = set()  # repaired from a copy
    pipe.attach(permits=1000)
    pipe.read()
    assert [position for position, _ in pipe.carried] == positions


def test_deduplication_learns_from_the_log_what_is_intact() -> None:
    cluster = Cluster(settings={"brokerDeduplicationEnabled": True})
    client = cluster.client()
    client.produce(name="p", user_provided_producer_name=True)
    entries = [entry(text, producer_name="p", sequence_id=number) for number, text in enumerate("abc")]
    client.say(*(commands.send(producer_id=1, sequence_id=at, entry=each) for at, each in enumerate(entries)))
    cluster.store.cached = False
    cluster.store.damaged = {entries[1]}
    cluster.crash()
    again = cluster.client()
    again.produce(name="p", user_provided_producer_name=True)
    (success,) = again.take("PRODUCER_SUCCESS")
    assert success.last_sequence_id == 2
    assert cluster.topic().log.damaged.entries == 1


def test_damage_is_forgotten_with_the_ledger_that_it_was_in() -> None:
    small = ManagedLedgerConfig(max_entries_per_ledger=10, min_rollover_ms=0)
    cluster = Cluster(ledger_config=small)
    client, consumer = cluster.client(), cluster.client()
    client.produce()
    for number, text in enumerate(TEXTS[:30]):
        client.send(text, first=number)
    positions = [position for _, position in client.receipts()]
    cluster.store.cached = False
    cluster.store.damaged = {entry("3"), entry("24")}
    consumer.subscribe()
    log = cluster.topic().log
    assert log.damaged.entries == 2
    subscription = cluster.subscription()
    cluster.do(lambda: subscription.acknowledge_through(positions[15]))
    cluster.trim()
    assert log.damaged.entries == 1
    assert positions[24] in log.damaged


@pytest.mark.parametrize("kind", [Shared, Key_Shared], ids=["Shared", "Key_Shared"])
def test_entries_that_are_damaged_before_their_redelivery_delay_no_others(
    kind: pb.CommandSubscribe.SubType.ValueType,
) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send(*TEXTS[:10])
    client.subscribe(kind=kind, permits=10)
    assert client.messages() == TEXTS[:10]
    client.say(commands.redeliver_unacknowledged_messages(consumer_id=1))
    cluster.store.cached = False
    cluster.store.damaged = {entry(text) for text in TEXTS[:5]}
    client.say(commands.flow(consumer_id=1, message_permits=2))
    assert client.messages() == TEXTS[5:7]
