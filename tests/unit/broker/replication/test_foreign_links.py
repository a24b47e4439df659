"""Apache Pulsar's own replicator as the sender, which sends an entry's source position only."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.errors import ServerError
from magnetar.base.position import EARLIEST, Position
from magnetar.cursor.ranges import Range
from magnetar.geo.origins.index import Claim
from magnetar.sim.cluster import Client, Cluster, entry
from magnetar.sim.pipe import read_all
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire import commands
from magnetar.wire.entries import markers
from magnetar.wire.entries.entry import assemble
from magnetar.wire.entries.origin import SOURCE_POSITION
from magnetar.wire.proto import pulsar_api_pb2 as pb

LEDGER = 5


def foreign(text: str, number: int, **metadata: Any) -> bytes:  # noqa: ANN401 - fields of every type
    """Return entry 5:``number`` in the form of the replicator of ``apache``."""
    source = pb.KeyValue(key=SOURCE_POSITION, value=f"{LEDGER}:{number}")
    return entry(text, replicated_from="apache", properties=[source], **metadata)


def send_all(writer: Client, *entries: bytes, first: int = 0) -> None:
    """Send entries in one read of the socket."""
    writer.say(
        *(commands.send(producer_id=1, sequence_id=first + index, entry=body) for index, body in enumerate(entries))
    )


def linked(name: str = "pulsar.repl.apache-->jfk") -> tuple[Cluster, Client]:
    target = Cluster("jfk", targets=["apache", "ewr"])
    writer = target.client()
    writer.produce(name=name)
    return target, writer


def test_entries_are_stored_as_they_came_and_go_no_further() -> None:
    target, writer = linked()
    body = foreign("a", 0)
    send_all(writer, body, foreign("b", 1))
    assert [sequence_id for sequence_id, _ in writer.receipts()] == [0, 1]
    assert read_all(target) == ["a", "b"]
    first = target.topic().ledger.first_position
    assert target.topic().ledger.read_cached(first, 1, 1) == [(first, body)]
    assert [replicator.lag.backlog for replicator in target.topic().replicators.values()] == [0, 0]


def test_the_older_form_of_the_name_does_as_well() -> None:
    target, writer = linked("pulsar.repl.apache")
    send_all(writer, foreign("a", 0))
    assert read_all(target) == ["a"]


def test_held_entries_are_receipted_and_not_stored_again() -> None:
    target, writer = linked()
    send_all(writer, foreign("a", 0), foreign("b", 1))
    target.crash()
    again = target.client()
    again.produce(name="pulsar.repl.apache-->jfk", epoch=1)
    send_all(again, foreign("a", 0), foreign("b", 1), foreign("c", 2))
    receipts = again.receipts()
    assert [sequence_id for sequence_id, _ in receipts] == [0, 1, 2]
    assert [position == EARLIEST for _, position in receipts] == [True, True, False]
    assert read_all(target) == ["a", "b", "c"]


def test_receipts_around_a_duplicate_name_the_positions_of_their_entries() -> None:
    target, writer = linked()
    send_all(writer, *(foreign(str(number), number) for number in (0, 1, 1, 0, 2, 3)))
    receipts = writer.receipts()
    assert [sequence_id for sequence_id, _ in receipts] == [0, 1, 2, 3, 4, 5]
    first = target.topic().ledger.first_position
    stored = [first._replace(entry_id=first.entry_id + index) for index in range(4)]
    assert [position for _, position in receipts] == [*stored[:2], EARLIEST, EARLIEST, *stored[2:]]


@pytest.mark.parametrize("fault", ["metadata", "checksum"])
def test_an_entry_that_nobody_could_read_ends_the_link_where_it_stands(fault: str) -> None:
    target, writer = linked()
    send_all(writer, foreign("a", 0))
    damaged = bytearray(foreign("c", 2))
    damaged[-1] ^= 1
    unreadable = assemble(b"\xff\xff", b"c") if fault == "metadata" else bytes(damaged)
    writer.heard.clear()
    send_all(writer, foreign("a", 0), foreign("b", 1), unreadable, foreign("d", 3))
    assert [(sequence_id, position == EARLIEST) for sequence_id, position in writer.receipts()] == [
        (0, True),
        (1, False),
    ]
    errors = writer.take("SEND_ERROR")
    assert [(error.sequence_id, error.error) for error in errors] == [
        (2, ServerError.PersistenceError),
        (3, ServerError.PersistenceError),
    ]
    assert read_all(target) == ["a", "b"]


def test_receipts_echo_the_sequence_ids_of_whoever_published() -> None:
    _, writer = linked()
    for number, sequence_id in enumerate([7, 0, 8, 0]):
        body = foreign("x", number, sequence_id=sequence_id)
        writer.say(commands.send(producer_id=1, sequence_id=sequence_id, entry=body))
    assert [sequence_id for sequence_id, _ in writer.receipts()] == [7, 0, 8, 0]


def test_markers_of_replicated_subscriptions_are_receipted_and_reach_no_consumer() -> None:
    target, writer = linked()
    marker = foreign("snapshot request", 1, marker_type=markers.SNAPSHOT_REQUEST)
    send_all(writer, foreign("a", 0), marker, foreign("b", 2))
    assert [sequence_id for sequence_id, _ in writer.receipts()] == [0, 1, 2]
    assert read_all(target) == ["a", "b"]


def test_nothing_overtakes_what_was_refused() -> None:
    target, writer = linked()
    damaged = foreign("b", 1)[:-1] + b"?"
    send_all(writer, foreign("a", 0), damaged, foreign("c", 2))
    send_all(writer, foreign("d", 3), first=3)
    assert [sequence_id for sequence_id, _ in writer.receipts()] == [0]
    errors = writer.take("SEND_ERROR")
    assert [error.sequence_id for error in errors] == [1, 2, 3]
    assert {error.error for error in errors} == {ServerError.PersistenceError}
    again = target.client()
    again.produce(name="pulsar.repl.apache-->jfk", epoch=1)
    send_all(again, *(foreign(text, number) for number, text in enumerate("abcd")))
    assert read_all(target) == ["a", "b", "c", "d"]


def test_an_entry_without_its_source_position_is_refused() -> None:
    target, writer = linked()
    send_all(writer, entry("a", replicated_from="apache"))
    (error,) = writer.take("SEND_ERROR")
    assert error.error == ServerError.PersistenceError
    assert "has no __MSG_PROP_REPL_SOURCE_POSITION" in error.message
    assert read_all(target) == []


def test_nothing_is_claimed_but_what_is_here() -> None:
    target, writer = linked()
    send_all(writer, foreign("a", 3), foreign("b", 4), foreign("c", 8))
    index, first = target.topic().log.index, target.topic().ledger.first_position
    last = first._replace(entry_id=first.entry_id + 2)
    assert index.claims([Range(first, last)]) == [
        Claim("apache", Position(LEDGER, 2), Position(LEDGER, 4)),
        Claim("apache", Position(LEDGER, 7), Position(LEDGER, 8)),
    ]


class Sender:
    """A model of Apache Pulsar's replicator: its log, and the number of receipted entries."""

    def __init__(self) -> None:
        self.target = Cluster("jfk", targets=["apache"])
        self.log: list[bytes] = []
        self.published: list[str] = []
        self.confirmed = 0
        self._sent: list[int] = []
        self._epoch = 0
        self.connect()

    def connect(self) -> None:
        """Reconnect, and start at the first entry without a receipt."""
        self._epoch += 1
        self._writer = self.target.client()
        self._writer.produce(name="pulsar.repl.apache-->jfk", epoch=self._epoch)
        self._next = self.confirmed
        self._sent.clear()

    def send(self, count: int, *, damaged: bool = False) -> None:
        """Send the next entries, the first of them optionally ``damaged`` in transit, and handle the responses."""
        entries = self.log[self._next : self._next + count]
        self._sent += range(self._next, self._next + len(entries))
        self._next += len(entries)
        if damaged and entries:
            entries[0] = entries[0][:-1] + b"?"
        send_all(self._writer, *entries)
        for _ in self._writer.receipts():
            self.confirmed = max(self.confirmed, self._sent.pop(0) + 1)
        if self._writer.take("SEND_ERROR"):
            self.connect()

    def move(self, move: str, number: int) -> None:
        match move:
            case "publish":
                self.published.append(f"{len(self.log)}")
                self.log.append(foreign(self.published[-1], len(self.log)))
            case "marker":
                self.log.append(foreign("marker", len(self.log), marker_type=markers.UPDATE))
            case "send" | "damage":
                self.send(number, damaged=move == "damage")
            case "rewind":
                self._next = max(0, self.confirmed - number)
            case "reconnect":
                self.connect()
            case _:
                self.target.prompt = False
                self.send(number)
                if move == "crash":
                    self.target.crash()
                else:
                    self.target.fail()
                self.target.prompt = True
                self.target.settle()
                self.connect()


MOVES = st.sampled_from(
    ["publish", "publish", "publish", "marker", "send", "send", "damage", "rewind", "reconnect", "crash", "disk full"]
)


@given(st.lists(st.tuples(MOVES, st.integers(1, 4)), max_size=40))
@settings(max_examples=60, deadline=None)
def test_whatever_is_sent_again_nothing_is_lost_and_nothing_comes_twice(moves: list[tuple[str, int]]) -> None:
    sender = Sender()
    for move, number in moves:
        sender.move(move, number)
    sender.connect()
    sender.send(len(sender.log))
    assert read_all(sender.target) == sender.published
    assert sender.target.loop.problems == []
    HandLoop.close_all()
