"""Runs: consecutive entries of a link in one command, from the source and to the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import RemoteProtocolError, ServerError
from magnetar.base.position import EARLIEST, Position
from magnetar.sim.cluster import TOPIC, Client, Cluster, entry
from magnetar.sim.pipe import read_all
from magnetar.wire import commands
from magnetar.wire.entries.entry import messages_in
from magnetar.wire.entries.origin import Origin, read_origin, stamp
from magnetar.wire.links import (
    LEASE_METADATA,
    RUN_BYTES_MAX,
    RUN_ENTRIES_MAX,
    RUNS_METADATA,
    link_producer,
    link_subscription,
)
from magnetar.wire.message_id import Link, LinkRun, link_of, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

NOWHERE = Link(EARLIEST, EARLIEST)
BEGINNING = Link(EARLIEST, Position(2, -1))
"""The place of the first entry of a topic."""


class Source:
    """A cluster with a producer and the holder of its link."""

    def __init__(self, *, takes_runs: bool = True) -> None:
        self.cluster = Cluster("ewr", targets=["jfk"])
        self.publisher = self.cluster.client()
        self.publisher.produce()
        self.holder = self.cluster.client()
        metadata = {LEASE_METADATA: "1"} | ({RUNS_METADATA: "true"} if takes_runs else {})
        body = pb.CommandSubscribe(
            topic=str(TOPIC),
            subscription=link_subscription("jfk"),
            subType=pb.CommandSubscribe.Exclusive,
            consumer_id=1,
            request_id=self.holder.request_id(),
            metadata=commands.key_values(metadata),
        )
        self.holder.say(commands.subscribe(body))
        self._sequence_id = 0

    def publish(self, *entries: bytes) -> None:
        """Publish entries in one read of the socket."""
        frames = []
        for each in entries:
            self._sequence_id += 1
            frames.append(commands.send(producer_id=1, sequence_id=self._sequence_id, entry=each))
        self.publisher.say(*frames)

    def carried(self, permits: int = 1000) -> list[tuple[str, Link, list[int], bytes]]:
        """Return the position, the link and the sizes of each MESSAGE, and the schema version of its entries."""
        self.holder.heard.clear()
        self.holder.say(commands.flow(consumer_id=1, message_permits=permits))
        found = []
        for message in self.holder.take("MESSAGE"):
            sizes = list(message.entry_sizes)
            found.append((str(position_of(message.message_id)), link_of(message), sizes, message.schema_version))
        return found


def sizes_of(entries: Sequence[bytes]) -> list[int]:
    return list(map(len, entries))


def test_consecutive_entries_are_sent_in_one_message() -> None:
    source, entries = Source(), [entry("a"), entry("bb"), entry("ccc")]
    source.publish(*entries)
    ((position, link, sizes, version),) = source.carried()
    assert (position, link, sizes, version) == ("2:0", BEGINNING, sizes_of(entries), b"")
    assert source.cluster.topic().replicators["jfk"].own.entries_out == 3


def test_a_holder_that_does_not_take_runs_gets_each_entry() -> None:
    source = Source(takes_runs=False)
    source.publish(entry("a"), entry("b"))
    first = Position(2, 0)
    assert source.carried() == [("2:0", BEGINNING, [], b""), ("2:1", Link(first, first), [], b"")]


def test_a_run_ends_at_permits_and_goes_on_after_them() -> None:
    source, entries = Source(), [entry(str(number)) for number in range(5)]
    source.publish(*entries)
    assert [sizes for _, _, sizes, _ in source.carried(permits=2)] == [sizes_of(entries[:2])]
    last = Position(2, 1)
    assert source.carried(permits=9) == [("2:2", Link(last, last), sizes_of(entries[2:]), b"")]


def test_a_run_ends_at_an_entry_that_is_for_others() -> None:
    source = Source()
    source.publish(entry("a"), entry("b"), entry("here", replicate_to=["__local__"]), entry("c"), entry("d"))
    (first, second) = source.carried()
    assert (first[0], len(first[2])) == ("2:0", 2)
    assert second[:2] == ("2:3", Link(Position(2, 1), Position(2, 2)))
    assert len(second[2]) == 2


def test_the_entries_of_a_run_have_the_same_schema() -> None:
    source, versions = Source(), [b"", b"", b"\x00" * 8, b"\x00" * 8, b"\x00" * 7 + b"\x01"]
    source.publish(*(entry("x", **({"schema_version": version} if version else {})) for version in versions))
    assert [(len(sizes), version) for _, _, sizes, version in source.carried()] == [
        (2, b""),
        (2, versions[2]),
        (0, b""),
    ]


def test_a_run_has_a_limited_number_of_bytes() -> None:
    source, size = Source(), RUN_BYTES_MAX // 2
    source.publish(entry("x" * (size - 1000)), entry("y" * (size - 1000)), entry("z"), entry("x" * (2 * size)))
    assert [len(sizes) for _, _, sizes, _ in source.carried()] == [3, 0]


class Target:
    """A cluster with the producer of a link from ewr."""

    def __init__(self, **settings: object) -> None:
        self.cluster = Cluster("jfk", targets=["ewr"], settings=settings)
        self.writer: Client = self.cluster.client()
        self.writer.produce(name=link_producer("ewr", "jfk"))

    def send(
        self, sequence_id: int, first: int, entries: Sequence[bytes], link: Link | None = None, version: bytes = b""
    ) -> None:
        """Send a run from the position 3:``first`` on."""
        before = Position(3, first - 1) if first else EARLIEST
        sizes, body = sizes_of(entries), b"".join(entries)
        run = LinkRun(Position(3, first), link or Link(before, before), sizes, version, body)
        self.writer.say(commands.send_run(producer_id=1, sequence_id=sequence_id, run=run))

    def answers(self) -> list[tuple[int, str]]:
        """Return the sequence id and the position of each receipt, or the text of an error."""
        found = [(each.sequence_id, str(position_of(each.message_id))) for each in self.writer.take("SEND_RECEIPT")]
        return found + [(each.sequence_id, each.message) for each in self.writer.take("SEND_ERROR")]

    def stored(self) -> list[bytes]:
        """Return the entries of the topic."""
        reader = self.cluster.client()
        reader.subscribe(subscription="all", permits=10_000)
        return [frame.body for frame in reader.heard if frame.command.type == pb.BaseCommand.MESSAGE]


def test_a_run_is_stored_with_stamps_and_has_one_receipt() -> None:
    target = Target()
    target.send(5, 0, [entry("a"), entry("b"), entry("c")])
    target.send(6, 3, [entry("d"), entry("e")])
    assert target.answers() == [(5, "2:0"), (6, "2:3")]
    assert read_all(target.cluster) == ["a", "b", "c", "d", "e"]
    origins = [read_origin(each) for each in target.stored()]
    assert [(str(each.position), str(each.previous)) for each in origins if each is not None] == [
        ("3:0", "-1:-1"),
        ("3:1", "3:0"),
        ("3:2", "3:1"),
        ("3:3", "3:2"),
        ("3:4", "3:3"),
    ]
    index = target.cluster.topic().log.index
    assert index.last_position("ewr") == Position(3, 4)


@pytest.mark.parametrize("deduplication", [False, True])
def test_repeated_entries_of_a_run_are_dropped(*, deduplication: bool) -> None:
    target = Target(brokerDeduplicationEnabled=deduplication)
    target.send(1, 0, [entry("a"), entry("b", sequence_id=1)])
    target.send(2, 0, [entry("a"), entry("b", sequence_id=1), entry("c", sequence_id=2), entry("d", sequence_id=3)])
    target.send(3, 1, [entry("b", sequence_id=1), entry("c", sequence_id=2)])
    ledger = 2 + deduplication  # the cursor of deduplication is in an earlier one
    assert target.answers() == [(1, f"{ledger}:0"), (2, f"{ledger}:2"), (3, "-1:-1")]
    assert read_all(target.cluster) == ["a", "b", "c", "d"]


def test_a_run_behind_a_gap_is_refused_and_all_after_it() -> None:
    target = Target()
    target.send(1, 0, [entry("a"), entry("b")])
    target.send(2, 3, [entry("d"), entry("e")])
    target.send(3, 2, [entry("c")])
    gap = "gap: previous=3:2 last=3:1"
    assert target.answers() == [(1, "2:0"), (2, gap), (3, gap)]
    assert read_all(target.cluster) == ["a", "b"]


def test_the_entries_before_a_damaged_one_are_stored() -> None:
    target = Target()
    damaged = entry("damaged")[:-1] + b"D"
    target.send(1, 0, [entry("a"), entry("b"), damaged, entry("c")])
    (answer,) = target.answers()
    assert answer == (1, "entry 3:2: checksum of the entry at 3:2 does not match")
    assert read_all(target.cluster) == ["a", "b"]
    target.writer.session.producers.pop(1)
    target.writer.produce(name=link_producer("ewr", "jfk"))
    target.send(1, 2, [entry("c")])
    assert target.answers() == [(1, "2:2")]


def test_unusual_entries_of_a_run_are_handled_one_by_one() -> None:
    target = Target()
    batch = entry("bb", num_messages_in_batch=2)
    target.send(1, 0, [entry("a"), entry("later", deliver_at_time=1), batch], version=b"\x00" * 8)
    assert target.answers() == [(1, "2:0")]
    assert [messages_in(each) for each in target.stored()] == [1, 1, 2]
    assert target.cluster.topic().arrivals.messages_in == 4


def test_an_entry_of_a_run_with_another_stamp_is_refused() -> None:
    target, forged = Target(), stamp(entry("forged"), Origin("ewr", Position(9, 9)))
    target.send(1, 0, [entry("a"), forged])
    assert target.answers() == [(1, "entry 3:1 of a run has the stamp of another one")]
    assert read_all(target.cluster) == ["a"]


def test_an_entry_that_is_too_large_is_refused_with_all_after_it() -> None:
    target = Target(maxMessageSize=1000)
    target.send(1, 0, [entry("a"), entry("x" * 11_000 * 2), entry("c")])
    ((_, error),) = target.answers()
    assert error == "Exceed maximum message size (maxMessageSize)"
    assert read_all(target.cluster) == ["a"]


def test_the_start_of_a_link_is_kept() -> None:
    target = Target()
    target.send(1, 7, [entry("a"), entry("b")], Link(Position(3, 6), Position(3, 6), link_start=True))
    assert target.answers() == [(1, "2:0")]
    first = read_origin(target.stored()[0])
    assert first is not None
    assert first.link_start


@pytest.mark.parametrize(
    ("sizes", "first"),
    [([3], 0), ([1] * (RUN_ENTRIES_MAX + 1), 0), ([2, 2], -5), ([2, 2], 2**63 - 2)],
)
def test_a_run_that_does_not_describe_its_entries_ends_the_connection(sizes: list[int], first: int) -> None:
    target = Target()
    body = b"x" * (4 if sum(sizes) == 3 else sum(sizes))
    run = LinkRun(Position(3, first), NOWHERE, sizes, b"", body)
    with pytest.raises(AssertionError):
        target.writer.say(commands.send_run(producer_id=1, sequence_id=1, run=run))
    error = target.cluster.loop.problems.pop()["exception"]
    assert isinstance(error, RemoteProtocolError)
    assert str(error).startswith(f"a run of {len(sizes)} entries")
    assert read_all(target.cluster) == []


def test_only_producers_of_links_may_send_runs() -> None:
    cluster = Cluster("jfk", targets=["ewr"])
    client = cluster.client()
    client.produce()
    a, b = entry("a"), entry("b")
    run = LinkRun(Position(3, 0), NOWHERE, [len(a), len(b)], b"", a + b)
    client.say(commands.send_run(producer_id=1, sequence_id=1, run=run))
    (error,) = client.take("SEND_ERROR")
    assert (error.error, error.message) == (
        ServerError.NotAllowedError,
        "a run of entries is for producers of links only",
    )
    assert read_all(cluster) == []
