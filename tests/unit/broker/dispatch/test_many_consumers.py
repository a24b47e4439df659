"""Many consumers of one subscription join and leave: the work grows linearly with their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.dispatch.selectors import ConsistentHashingSelector
from magnetar.broker.loop import slices
from magnetar.sim.cluster import TOPIC, Cluster, Failover, Key_Shared, Shared, entry
from magnetar.wire import commands
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.work import lines_run
from tests.unit.broker.dispatch.test_selectors import Person

if TYPE_CHECKING:
    from magnetar.base.names import TopicName

FEW, MANY = 20, 120
GROWTH_MAX = 2 * MANY / FEW
"""Twice the linear growth; quadratic work would exceed it three times."""


def work_to_leave(kind: pb.CommandSubscribe.SubType.ValueType, count: int) -> int:
    """Return the work when ``count`` consumers leave that hold ten entries each."""
    cluster = Cluster()
    publisher, staying, leaving = cluster.client(), cluster.client(), cluster.client()
    publisher.produce()
    staying.subscribe(count + 1, kind, 0, consumer_name="zz")
    for number in range(count):
        leaving.subscribe(number + 1, kind, 100, consumer_name=f"{number:04d}")
    for number in range(10):
        keyed = [entry(f"{number}", partition_key=f"key-{key}") for key in range(count)]
        publisher.say(*[commands.send(producer_id=1, sequence_id=0, entry=each) for each in keyed])
    assert len(leaving.messages()) > 9 * count if kind != Failover else True
    work = lines_run(leaving.leave)
    assert [consumer.name for consumer in cluster.subscription().consumers] == ["zz"]
    return work


@pytest.mark.parametrize("kind", [Key_Shared, Shared, Failover], ids=["Key_Shared", "Shared", "Failover"])
def test_the_work_of_leaving_together_is_in_proportion(kind: pb.CommandSubscribe.SubType.ValueType) -> None:
    few = work_to_leave(kind, FEW)
    assert work_to_leave(kind, MANY) < GROWTH_MAX * few


def work_to_acknowledge(kind: pb.CommandSubscribe.SubType.ValueType, count: int, *, held: bool) -> int:
    """Return the work when a consumer acknowledges scattered messages that other consumers hold, or none."""
    cluster = Cluster()
    publisher, others, hasty = cluster.client(), cluster.client(), cluster.client()
    publisher.produce()
    for number in range(count):
        others.subscribe(number + 1, kind, 10 if held else 0, consumer_name=f"{number:04d}")
    hasty.subscribe(1, kind, 0, consumer_name="zz")
    keyed = [entry(f"{number}", partition_key=f"key-{number}") for number in range(10 * count)]
    publisher.say(*[commands.send(producer_id=1, sequence_id=0, entry=each) for each in keyed])
    last = cluster.topic().ledger.last_confirmed_entry
    ids = [message_id(last._replace(entry_id=each)) for each in range(0, 10 * count, 2)]
    work = lines_run(lambda: hasty.say(commands.ack(consumer_id=1, message_ids=ids)))
    assert cluster.subscription().backlog == 5 * count
    pending = sum(consumer.unacked_messages for consumer in cluster.subscription().consumers)
    assert pending <= 5 * count
    return work


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("kind", [Key_Shared, Shared], ids=["Key_Shared", "Shared"])
def test_the_work_to_acknowledge_for_others_is_in_proportion(
    kind: pb.CommandSubscribe.SubType.ValueType, *, held: bool
) -> None:
    few = work_to_acknowledge(kind, FEW, held=held)
    assert work_to_acknowledge(kind, MANY, held=held) < GROWTH_MAX * few


def work_to_join(kind: pb.CommandSubscribe.SubType.ValueType, count: int, topic: TopicName) -> int:
    """Return the work when ``count`` consumers subscribe in one read of the socket, each with permits."""
    cluster = Cluster()
    publisher, joining = cluster.client(), cluster.client()
    publisher.topic = joining.topic = topic
    publisher.produce()
    frames = [entry(f"{number}", partition_key=f"key-{number}") for number in range(100)]
    publisher.say(*[commands.send(producer_id=1, sequence_id=0, entry=each) for each in frames])
    joins: list[bytes] = []
    for number in range(1, count + 1):
        # Names are descending, so each new consumer becomes the active one of a partition.
        body = pb.CommandSubscribe(
            topic=str(topic),
            subscription="worker",
            subType=kind,
            consumer_id=number,
            request_id=number,
            consumer_name=f"{count - number:04d}",
            initialPosition=pb.CommandSubscribe.Earliest,
        )
        joins += [commands.subscribe(body), commands.flow(consumer_id=number, message_permits=1)]
    work = lines_run(lambda: joining.say(*joins))
    assert len(joining.take("SUCCESS")) == count
    if kind == Failover:
        last_told = {each.consumer_id: each.is_active for each in joining.take("ACTIVE_CONSUMER_CHANGE")}
        assert len(last_told) == count
        assert sum(last_told.values()) == 1
    return work


@pytest.mark.parametrize(
    ("kind", "topic"),
    [(Key_Shared, TOPIC), (Shared, TOPIC), (Failover, TOPIC), (Failover, TOPIC.partition(0))],
    ids=["Key_Shared", "Shared", "Failover", "Failover of a partition"],
)
def test_the_work_of_joining_is_in_proportion(
    monkeypatch: pytest.MonkeyPatch, kind: pb.CommandSubscribe.SubType.ValueType, topic: TopicName
) -> None:
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 4)
    few = work_to_join(kind, FEW, topic)
    assert work_to_join(kind, MANY, topic) < GROWTH_MAX * few


def work_of_one_more(keys: int) -> int:
    """Return the work when a consumer joins a hundred that hold an entry of each key, and leaves again."""
    cluster = Cluster()
    publisher, client, guest = cluster.client(), cluster.client(), cluster.client()
    publisher.produce()
    for number in range(100):
        client.subscribe(number, Key_Shared, 1000)
    frames = [entry(f"{number}", partition_key=f"key-{number}") for number in range(keys)]
    publisher.say(*[commands.send(producer_id=1, sequence_id=0, entry=each) for each in frames])
    assert len(client.messages()) == keys

    def join_and_leave() -> None:
        guest.subscribe(1, Key_Shared, 1000)
        guest.leave()

    return lines_run(join_and_leave)


def test_one_consumer_more_does_not_look_at_all_hashes_that_are_held() -> None:
    assert work_of_one_more(4000) < 1.5 * work_of_one_more(1)


def test_entries_of_leaving_consumers_go_to_the_others_once() -> None:
    cluster = Cluster()
    publisher, staying, leaving = cluster.client(), cluster.client(), cluster.client()
    publisher.produce()
    for number in range(10):
        leaving.subscribe(number + 1, Key_Shared, 100, consumer_name=f"{number}")
    keys = [f"key-{number}" for number in range(50)]
    frames = [entry(key, partition_key=key) for key in keys]
    publisher.say(*[commands.send(producer_id=1, sequence_id=0, entry=each) for each in frames])
    assert sorted(leaving.messages()) == sorted(keys)
    staying.subscribe(1, Key_Shared, 100, consumer_name="zz")
    leaving.leave()
    assert staying.messages() == keys


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 99)), max_size=30))
def test_a_ring_that_changes_is_the_ring_made_at_once(steps: list[tuple[str, bool, int]]) -> None:
    selector: ConsistentHashingSelector[Person] = ConsistentHashingSelector(5)
    there: list[Person] = []
    for name, leaves, which in steps:
        if leaves and there:
            selector.remove(there.pop(which % len(there)))
        else:
            there.append(Person(name))
            selector.add(there[-1])
        points = {
            at: next(person for person in there if at in selector._points_of(person, selector._numbers[person]))
            for at in sorted(selector._ring)
        }
        assert list(selector._places) == list(points)
        assert {at: here[0] for at, here in selector._ring.items()} == points
