"""A replicated subscription of each type moves to another cluster: its remaining messages and their order."""

# ruff: noqa: ANN401 - commands have fields of every type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.sim.cluster import Exclusive, Failover, Key_Shared, Shared, entry
from magnetar.wire import commands
from magnetar.wire.entries.ack_set import int_to_words, words_to_int
from magnetar.wire.message_id import message_id
from tests.unit.broker.network import ClusterNetwork, Worker

if TYPE_CHECKING:
    from magnetar.wire.proto import pulsar_api_pb2 as pb

every_type = pytest.mark.parametrize("kind", [Exclusive, Shared, Failover, Key_Shared])
sharing_types = pytest.mark.parametrize("kind", [Shared, Key_Shared])


def publish(network: ClusterNetwork, name: str, *texts: str, **metadata: Any) -> None:
    """Publish messages with their first letters as keys and different sequence ids."""
    client = network[name].client()
    client.produce()
    made = [entry(text, partition_key=text[0], **metadata) for text in texts]
    size = metadata.get("num_messages_in_batch", 1)
    frames = [commands.send(producer_id=1, sequence_id=0, num_messages=size, entry=each) for each in made]
    client.say(*frames)
    client.leave()


def delivered(worker: Worker) -> list[tuple[str, int, int | None]]:
    """Return the messages since the last call: text, redelivery count, and remaining members of a batch."""
    frames = [frame.command.message for frame in worker.client.heard if frame.command.HasField("message")]
    remaining = [words_to_int(message.ack_set) if message.ack_set else None for message in frames]
    counts = [message.redelivery_count for message in frames]
    return list(zip(worker.read(), counts, remaining, strict=True))


def ack_of_batch(worker: Worker, text: str, remaining: int, size: int) -> None:
    """Acknowledge the members of a batch that are not in ``remaining``."""
    acked = message_id(worker.positions[text], ack_set=int_to_words(remaining), batch_size=size)
    worker.client.say(commands.ack(consumer_id=1, message_ids=[acked]))


def give_back(worker: Worker, *texts: str) -> None:
    ids = [message_id(worker.positions[text]) for text in texts]
    worker.client.say(commands.redeliver_unacknowledged_messages(consumer_id=1, message_ids=ids))


@every_type
def test_messages_acknowledged_there_are_not_delivered_here(kind: pb.CommandSubscribe.SubType.ValueType) -> None:
    network = ClusterNetwork("ewr", "jfk")
    publish(network, "ewr", "a1", "b1", "a2", "b2", "a3")
    worker = Worker(network, "ewr", kind=kind)
    assert worker.read() == ["a1", "b1", "a2", "b2", "a3"]
    worker.ack("a1", "a2", "b2")
    network.progress()
    worker.leave()
    network.carry()
    moved = Worker(network, "jfk", kind=kind)
    assert moved.read() == ["b1", "a3"]
    moved.ack("b1", "a3")
    publish(network, "jfk", "b3")
    network.carry()
    network.progress()
    assert Worker(network, "ewr", kind=kind).read() == ["b3"]


@every_type
def test_members_of_a_batch_are_acknowledged_in_both_clusters(kind: pb.CommandSubscribe.SubType.ValueType) -> None:
    network = ClusterNetwork("ewr", "jfk")
    publish(network, "ewr", "a", num_messages_in_batch=4)
    network.carry()
    there = Worker(network, "ewr", kind=kind)
    assert delivered(there) == [("a", 0, None)]
    ack_of_batch(there, "a", 0b1101, 4)
    network.progress()
    here = Worker(network, "jfk", kind=kind)
    assert delivered(here) == [("a", 0, 0b1101)]
    assert network["jfk"].subscription().consumers.dispatcher is not None
    assert here.client.session.consumers[1].permits == 1000 - 3
    ack_of_batch(there, "a", 0b1100, 4)
    ack_of_batch(here, "a", 0b0011, 4)
    network.progress()
    assert [network[name].subscription().backlog for name in ("ewr", "jfk")] == [0, 0]


@every_type
def test_redeliveries_are_counted_anew_after_a_switch(kind: pb.CommandSubscribe.SubType.ValueType) -> None:
    network = ClusterNetwork("ewr", "jfk")
    publish(network, "ewr", "a")
    network.carry()
    counted = 1 if kind in (Shared, Key_Shared) else 0
    for name in ("ewr", "jfk", "ewr"):
        worker = Worker(network, name, kind=kind)
        assert delivered(worker) == [("a", 0, None)], name
        give_back(worker, "a")
        assert delivered(worker) == [("a", counted, None)], name
        network.progress()
        worker.leave()


@sharing_types
def test_a_delayed_message_acknowledged_elsewhere_never_comes(
    kind: pb.CommandSubscribe.SubType.ValueType,
) -> None:
    network = ClusterNetwork("ewr", "jfk")
    at = int(network["ewr"].clock.now() * 1000) + 60_000
    publish(network, "ewr", "a1", "a2", deliver_at_time=at)
    network.carry()
    here = Worker(network, "jfk", kind=kind)
    there = Worker(network, "ewr", kind=Exclusive)  # an Exclusive consumer does not wait for the delivery time
    assert there.read() == ["a1", "a2"]
    there.ack("a1")
    network.progress()
    assert here.read() == []
    network.progress(70.0)
    assert here.read() == ["a2"]


@sharing_types
def test_a_delayed_message_comes_once_in_its_time(
    kind: pb.CommandSubscribe.SubType.ValueType,
) -> None:
    network = ClusterNetwork("ewr", "jfk")
    at = int(network["ewr"].clock.now() * 1000) + 30_000
    publish(network, "ewr", "a1", "a2", deliver_at_time=at)
    publish(network, "ewr", "a3")
    there = Worker(network, "ewr", kind=kind)
    assert there.read() == ["a3"]
    there.ack("a3")
    network.progress()
    there.leave()
    network.carry()
    here = Worker(network, "jfk", kind=kind)
    network.progress(28.0)
    assert here.read() == []
    network.progress(5.0)
    assert here.read() == ["a1", "a2"]
    here.ack("a1", "a2")
    network.progress()
    here.leave()
    back = Worker(network, "ewr", kind=kind)
    network.progress(5.0)
    assert back.read() == []


def test_an_acknowledgement_from_elsewhere_ends_the_wait_for_the_one_that_holds_a_key() -> None:
    network = ClusterNetwork("ewr", "jfk")
    publish(network, "ewr", "a1")
    network.carry()
    there = Worker(network, "ewr", kind=Key_Shared)
    old = Worker(network, "jfk", kind=Key_Shared, consumer_name="old")
    assert (there.read(), old.read()) == (["a1"], ["a1"])
    new = [Worker(network, "jfk", kind=Key_Shared, consumer_name=f"new {number}") for number in range(20)]
    publish(network, "ewr", "a2")
    network.carry()
    assert [worker.read() for worker in (old, *new)] == [[]] * 21
    there.ack("a1")
    network.progress()
    assert sorted(text for worker in new for text in worker.read()) == ["a2"]


texts = st.lists(st.sampled_from("abcd"), min_size=1, max_size=12).map(
    lambda keys: [f"{key}{number:02}" for number, key in enumerate(keys)]
)


@settings(max_examples=40, deadline=None)
@given(texts, st.data())
def test_keys_are_in_order_wherever_the_subscription_is(published: list[str], data: st.DataObject) -> None:
    network = ClusterNetwork("ewr", "jfk")
    publish(network, "ewr", *published)
    acknowledged: set[str] = set()
    Worker(network, "ewr", kind=Key_Shared).leave()
    for name in data.draw(st.lists(st.sampled_from(["ewr", "jfk"]), min_size=1, max_size=3)):
        carried_first: bool = data.draw(st.booleans())
        if carried_first:
            network.carry()
        network.progress(0.2)
        workers = [
            Worker(network, name, kind=Key_Shared, consumer_name=who, permits=0)
            for who in data.draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3))
        ]
        for worker in workers:
            worker.client.say(commands.flow(consumer_id=1, message_permits=100))
        if not carried_first:
            network.carry()
        came = [text for worker in workers for text in worker.read()]
        assert sorted(came) == sorted(set(published) - acknowledged)
        for worker in workers:
            mine = list(worker.positions)
            for key in "abcd":
                assert [text for text in mine if text[0] == key] == sorted(text for text in mine if text[0] == key)
            wanted = data.draw(st.lists(st.sampled_from(mine), unique=True)) if mine else []
            worker.ack(*wanted)
            acknowledged.update(wanted)
        keys = [key for worker in workers for key in {text[0] for text in worker.positions}]
        assert len(keys) == len(set(keys)), "two have one key"
        network.progress(0.2)
        for worker in workers:
            worker.leave()
