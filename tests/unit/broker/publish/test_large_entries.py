"""Receipted entries can be replicated to a cluster with the same limit; refused ones have a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from structlog.testing import capture_logs

from magnetar.admin.topic_service import StatsOptions
from magnetar.base.limits import ENTRY_METADATA_PADDING, FRAME_SIZE_PADDING, STAMP_SIZE_MAX
from magnetar.base.position import Position
from magnetar.broker.admin.stats import topic_stats
from magnetar.sim.cluster import TOPIC, Cluster, entry
from magnetar.sim.pipe import Pipe
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire import commands
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.links import LEASE_METADATA, PARKED_AFTER_METADATA, PARKED_METADATA
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.admin.models.topics import ReplicatorStats
    from magnetar.sim.cluster import Client

MAX_MESSAGE_SIZE = 50_000


def linked() -> Pipe:
    loop = HandLoop()
    settings = {"maxMessageSize": MAX_MESSAGE_SIZE}
    source = Cluster("ewr", targets=["jfk"], loop=loop, settings=settings)
    target = Cluster("jfk", targets=["ewr"], loop=loop, settings=settings)
    return Pipe(source, target)


def entry_of(size: int) -> bytes:
    """Return an entry of ``size`` bytes, with the largest possible payload."""
    overhead = len(entry("x" * MAX_MESSAGE_SIZE, properties=[pb.KeyValue(key="k", value="x" * 5000)])) - 5000
    return entry("x" * MAX_MESSAGE_SIZE, properties=[pb.KeyValue(key="k", value="x" * (size - overhead))])


def stats(pipe: Pipe) -> ReplicatorStats:
    return topic_stats(pipe.source.topic(), StatsOptions()).replication[pipe.target.name]


def test_the_largest_entry_that_is_receipted_is_replicated() -> None:
    pipe = linked()
    publisher = pipe.source.client()
    publisher.produce()
    largest = entry_of(MAX_MESSAGE_SIZE + ENTRY_METADATA_PADDING)
    assert len(largest) == MAX_MESSAGE_SIZE + ENTRY_METADATA_PADDING
    publisher.say(commands.send(producer_id=1, sequence_id=0, entry=largest))
    publisher.say(commands.send(producer_id=1, sequence_id=1, entry=entry("behind it")))
    assert len(publisher.receipts()) == 2
    pipe.attach()
    pipe.run()
    assert (pipe.gaps, pipe.target.topic().ledger.entries) == (0, 2)


def test_a_larger_one_is_refused_when_it_is_published() -> None:
    pipe = linked()
    publisher = pipe.source.client()
    publisher.produce()
    larger = entry_of(MAX_MESSAGE_SIZE + ENTRY_METADATA_PADDING + 1)
    publisher.say(commands.send(producer_id=1, sequence_id=0, entry=larger))
    assert [error.message for error in publisher.take("SEND_ERROR")] == ["Exceed maximum message size (maxMessageSize)"]


def test_a_stamp_is_no_larger_than_what_is_left_for_it() -> None:
    largest = Position((1 << 63) - 1, (1 << 63) - 1)
    unstamped = entry("x")
    name = "c" * 500
    stamped = stamp(unstamped, Origin(name, largest, largest, largest._replace(entry_id=1), link_start=True))
    assert len(stamped) - len(unstamped) <= STAMP_SIZE_MAX
    command = commands.send(producer_id=(1 << 63) - 1, sequence_id=(1 << 63) - 1, entry=b"", marker=True)
    assert ENTRY_METADATA_PADDING + STAMP_SIZE_MAX + len(command) < FRAME_SIZE_PADDING


def attach(pipe: Pipe, reason: str | None, *, after: Position | None = None) -> None:
    """Take over the link like a pipeline that had parked it for ``reason``, after ``after``."""
    pipe.attach(seek=False, permits=0x7FFF)
    pipe.reader.leave()
    pipe.reader = pipe.source.client()
    metadata = {LEASE_METADATA: str(pipe.lease)} | ({PARKED_METADATA: reason} if reason else {})
    metadata |= {PARKED_AFTER_METADATA: str(after)} if after is not None else {}
    body = pb.CommandSubscribe(
        topic=str(TOPIC),
        subscription="pulsar.repl.jfk",
        subType=pb.CommandSubscribe.Exclusive,
        consumer_id=1,
        request_id=pipe.reader.request_id(),
        metadata=commands.key_values(metadata),
    )
    pipe.reader.say(commands.subscribe(body))
    pipe.carried.clear()
    pipe.flow(1000)


def carrying() -> tuple[Pipe, Client]:
    """Return a link that has carried an entry, and the entry's publisher."""
    pipe = linked()
    publisher = pipe.source.client()
    publisher.produce()
    publisher.send("a")
    attach(pipe, None)
    pipe.run()
    return pipe, publisher


def test_the_source_shows_why_a_link_is_parked_until_it_goes_on() -> None:
    pipe, publisher = carrying()
    assert stats(pipe).parked_reason is None
    publisher.send("b", first=1)
    reason = "entry 1:1: a frame of 60000 bytes, jfk takes 12240 (maxMessageSize)"
    with capture_logs() as logs:
        attach(pipe, reason)
        attach(pipe, reason)
    assert [each["reason"] for each in logs if each["event"] == "link_parked"] == [reason]
    pipe.send(1)
    pipe.confirm()  # the probe
    assert stats(pipe).parked_reason == reason
    assert stats(pipe).to_json()["parkedReason"] == reason
    attach(pipe, None)  # the next lease does not know it
    assert stats(pipe).parked_reason == reason
    pipe.run()
    assert stats(pipe).parked_reason is None


def test_a_link_without_a_backlog_is_not_parked_once_the_target_has_answered() -> None:
    pipe, _ = carrying()
    attach(pipe, "the target closed the producer")
    assert stats(pipe).parked_reason == "the target closed the producer"
    pipe.run()
    assert stats(pipe).parked_reason is None


def test_a_link_that_sends_again_is_not_parked_once_the_target_has_all_there_is() -> None:
    pipe, _ = carrying()
    pipe.source.crash()  # before the replication cursor was written
    topic = pipe.source.topic()
    assert topic.replicators["jfk"].lag.unconfirmed == 1
    attach(pipe, "entry 1:1 is too large", after=topic.ledger.last_confirmed_entry)
    assert stats(pipe).parked_reason == "entry 1:1 is too large"
    pipe.run()
    assert topic.replicators["jfk"].lag.unconfirmed == 0
    assert stats(pipe).parked_reason is None
