"""Runs have the meaning of their single commands, and include all encodings of clients."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.position import Position
from magnetar.wire import commands
from magnetar.wire.frame import Frame, FrameDecoder, Received
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb
from magnetar.wire.runs import Acks, Sends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ids = st.integers(0, 300) | st.sampled_from([2**21 - 1, 2**21, 2**63 - 1, 2**64 - 1])
partitions = st.none() | st.integers(0, 3)


def ack(consumer_id: int, ledger_id: int, entry_id: int, **fields: object) -> bytes:
    place = pb.MessageIdData(ledgerId=ledger_id, entryId=entry_id, **fields)  # type: ignore[arg-type]
    return commands.ack(consumer_id=consumer_id, message_ids=[place])


sends = st.builds(
    commands.send,
    producer_id=st.integers(0, 2),
    sequence_id=ids,
    entry=st.binary(max_size=8),
    num_messages=st.integers(1, 2),
)
single_acks = st.builds(ack, st.integers(0, 2), st.sampled_from([5, 2**63, 300]), ids)
unusual_acks = st.builds(
    ack, st.integers(0, 2), ids, ids, partition=partitions, ack_set=st.lists(st.integers(-1, 9), max_size=1)
) | (
    st.builds(
        commands.ack,
        consumer_id=st.integers(0, 2),
        message_ids=st.lists(st.builds(lambda entry_id: message_id(Position(5, entry_id)), st.integers(0, 9))),
        cumulative=st.booleans(),
        request_id=st.none() | ids,
    )
)
others = st.sampled_from([commands.ping(), commands.flow(consumer_id=1, message_permits=7)])


def runs_of(kind: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(kind, max_size=6).map(b"".join)


def counted(first: int, count: int) -> bytes:
    """Return the most frequent input: consecutive numbers."""
    return b"".join(commands.send(producer_id=1, sequence_id=first + n, entry=b"e" * (n % 3)) for n in range(count)) + (
        b"".join(ack(1, 5, first + n) for n in range(count))
    )


streams = st.lists(
    runs_of(sends)
    | runs_of(single_acks)
    | unusual_acks
    | others
    | st.builds(counted, st.integers(0, 2**62), st.integers(1, 9)),
    max_size=8,
).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(streams))
    for _ in range(draw(st.integers(0, 3))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


Segment = Frame | dict[object, list[object]]


def meaning(received: Iterable[Received]) -> list[Segment]:
    """Return, per producer its SENDs, per consumer and ledger its single ACKs, in order, and their places."""
    found: list[Segment] = []
    for each in received:
        items: list[tuple[object, object]]
        if isinstance(each, Sends):
            items = [(each.producer_id, (*head, body)) for head, body in zip(each.heads, each.entries, strict=True)]
        elif isinstance(each, Acks):
            items = [((each.consumer_id, each.ledger_id), entry_id) for entry_id in each.entry_ids]
        else:
            assert isinstance(each, Frame)
            items = list(single(each.command, each.body))
        if not items:
            assert isinstance(each, Frame)
            found.append(each)
            continue
        if not found or isinstance(found[-1], Frame):
            found.append({})
        segment = found[-1]
        assert isinstance(segment, dict)
        for key, item in items:
            segment.setdefault(key, []).append(item)
    return found


def single(command: pb.BaseCommand, body: bytes) -> Iterable[tuple[object, object]]:
    if command.type == pb.BaseCommand.SEND:
        send = command.send
        yield send.producer_id, (send.sequence_id, send.highest_sequence_id, send.num_messages, body)
    elif command.type == pb.BaseCommand.ACK and len(command.ack.message_id) == 1:
        (place,) = command.ack.message_id
        bare = pb.MessageIdData(ledgerId=place.ledgerId, entryId=place.entryId)
        plain = pb.CommandAck(consumer_id=command.ack.consumer_id, ack_type=pb.CommandAck.Individual, message_id=[bare])
        if command.ack == plain:
            yield (command.ack.consumer_id, place.ledgerId), place.entryId


@settings(max_examples=400, deadline=None)
@given(mutated(), st.integers(1, 200))
def test_runs_mean_what_their_commands_mean(stream: bytes, piece: int) -> None:
    pieces = [stream[start : start + piece] for start in range(0, len(stream), piece)]
    gathering, plain = FrameDecoder(1000), FrameDecoder(1000)
    try:
        gathered = [received for each in pieces for received in gathering.feed_gathering(each)]
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            [frame for each in pieces for frame in plain.feed(each)]
    else:
        assert meaning(gathered) == meaning(frame for each in pieces for frame in plain.feed(each))


@settings(max_examples=200, deadline=None)
@given(st.lists(mutated(), max_size=12))
def test_runs_that_arrive_in_whole_reads_mean_the_same(reads: list[bytes]) -> None:
    gathering, plain = FrameDecoder(1000), FrameDecoder(1000)
    try:
        gathered = [meaning(gathering.feed_gathering(each)) for each in reads]
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            [plain.feed(each) for each in reads]
    else:
        assert gathered == [meaning(plain.feed(each)) for each in reads]


@pytest.mark.parametrize("first", [0, 100, 120, 127, 128, 16_300, 2**40 - 3])
def test_a_send_is_compared_with_that_of_the_read_before(first: int) -> None:
    decoder = FrameDecoder(100)
    for number in range(first, first + 20):
        for producer_id, messages in ((1, 1), (1, 1), (1, 1), (2, 1), (1, 1), (1, 7), (1, 7), (2, 7)):
            frame = commands.send(producer_id=producer_id, sequence_id=number, num_messages=messages, entry=b"e")
            assert decoder.feed_gathering(frame) == [Sends(producer_id, [(number, 0, messages)], [b"e"])]
    large = commands.send(producer_id=2, sequence_id=number, num_messages=7, entry=bytes(100))
    with pytest.raises(RemoteProtocolError, match="maxMessageSize"):
        decoder.feed_gathering(large)


@pytest.mark.parametrize("first", [0, 100, 120, 127, 128, 16_300, 2**40 - 3])
def test_an_ack_is_compared_with_that_of_the_read_before(first: int) -> None:
    decoder = FrameDecoder()
    for number in range(first, first + 20):
        for consumer_id, ledger_id in ((1, 5), (1, 5), (1, 5), (2, 5), (1, 5), (1, 6), (1, 6), (2, 6)):
            assert decoder.feed_gathering(ack(consumer_id, ledger_id, number)) == [
                Acks(consumer_id, ledger_id, [number])
            ]
            assert decoder.feed_gathering(commands.send(producer_id=1, sequence_id=number, entry=b"e")) == [
                Sends(1, [(number, 0, 1)], [b"e"])
            ]


@pytest.mark.parametrize("first", [0, 100, 127, 128, 16_300, 2**40 - 3])
def test_the_encodings_of_clients_are_gathered(first: int) -> None:
    sent, acknowledged = FrameDecoder().feed_gathering(counted(first, 300))
    assert sent == Sends(1, [(first + n, 0, 1) for n in range(300)], [b"e" * (n % 3) for n in range(300)])
    assert acknowledged == Acks(1, 5, [first + n for n in range(300)])


def test_runs_of_producers_and_consumers_grow_side_by_side() -> None:
    frames = [
        frame
        for n in range(4)
        for frame in (commands.send(producer_id=n % 2, sequence_id=n, entry=b""), ack(n % 2, 5, n), ack(1, 6, n))
    ]
    received = FrameDecoder().feed_gathering(b"".join([*frames, commands.ping(), *frames]))
    kinds = [type(each) for each in received]
    assert kinds == [Sends, Acks, Acks, Sends, Acks, Frame, Sends, Acks, Acks, Sends, Acks]


@pytest.mark.parametrize(
    "frame",
    [
        ack(1, 5, 6, partition=0),
        ack(1, 5, 6, ack_set=[1]),
        ack(1, 5, 2**64 - 1),
        ack(1, 2**64 - 1, 6),
        commands.ack(consumer_id=1, message_ids=[message_id(Position(5, 6))], cumulative=True),
        commands.ack(consumer_id=1, message_ids=[message_id(Position(5, 6))], request_id=1),
        commands.ack(consumer_id=1, message_ids=[message_id(Position(5, 6))] * 2),
        struct.pack(">II", 16, 12) + ack(1, 5, 6)[8:][:12],
    ],
)
def test_other_acknowledgements_are_left_to_protobuf(frame: bytes) -> None:
    try:
        (received,) = FrameDecoder().feed_gathering(frame)
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            FrameDecoder().feed(frame)
    else:
        assert [received] == FrameDecoder().feed(frame)


def test_a_number_that_never_ends_is_given_up() -> None:
    command = b"\x08\x06\x32\x06\x08\x01\x10\xff\xff\xff"
    frame = struct.pack(">II", 4 + len(command) + 900_000, len(command)) + command + b"\xff" * 900_000
    with pytest.raises(RemoteProtocolError, match="cannot be parsed"):
        FrameDecoder().feed_gathering(frame)


def test_the_limit_of_a_frame_holds_within_a_run() -> None:
    first, large = (commands.send(producer_id=1, sequence_id=n, entry=b"e" * (10 + n)) for n in range(2))
    assert len(FrameDecoder(len(large)).feed_gathering(first + large)) == 1
    with pytest.raises(RemoteProtocolError, match="exceeds the limit"):
        FrameDecoder(len(first)).feed_gathering(first + large)


def test_a_frame_within_a_run_that_is_smaller_than_its_command_is_refused() -> None:
    first, second = (commands.send(producer_id=1, sequence_id=n, entry=b"entry") for n in range(2))
    cut = struct.pack(">I", 4) + second[4:]
    with pytest.raises(RemoteProtocolError, match="exceeds its frame"):
        FrameDecoder().feed_gathering(first + cut)


def send_of(number: bytes) -> bytes:
    """Return a SEND of producer 1 with ``number`` as its sequence id, and one message."""
    body = b"\x08\x01\x10" + number + b"\x18\x01"
    command = b"\x08\x06\x32" + bytes([len(body)]) + body
    return struct.pack(">II", 4 + len(command), len(command)) + command


def ack_of(number: bytes) -> bytes:
    """Return an ACK by consumer 1 with ``number`` as its entry id."""
    place = b"\x08\x05\x10" + number
    body = b"\x08\x01\x10\x00\x1a" + bytes([len(place)]) + place
    command = b"\x08\x0a\x52" + bytes([len(body)]) + body
    return struct.pack(">II", 4 + len(command), len(command)) + command


@pytest.mark.parametrize("rest", [b"\x38\x01", b"\x10\x00", b"\x10\x09", b"\x08\x01", b"\x20\x00", b"\x28\x00"])
def test_a_send_with_a_chunk_a_repeated_number_or_a_transaction_is_left_to_protobuf(rest: bytes) -> None:
    frame = send_of(b"\x05\x18\x01" + rest)
    (received,) = FrameDecoder().feed_gathering(frame)
    assert [received] == FrameDecoder().feed(frame)


@pytest.mark.parametrize("frame_of", [send_of, ack_of])
@pytest.mark.parametrize(("number", "stranger"), [(b"\x05", b"\x85"), (b"\x85\x01", b"\x05\x01")])
def test_a_number_that_ends_elsewhere_is_not_taken_for_one_alike(
    frame_of: Callable[[bytes], bytes], number: bytes, stranger: bytes
) -> None:
    """The low bits are equal; the continuation bits are not."""
    assert len(FrameDecoder().feed_gathering(frame_of(number) * 2)) == 1
    with pytest.raises(RemoteProtocolError):
        FrameDecoder().feed(frame_of(stranger))
    with pytest.raises(RemoteProtocolError):
        FrameDecoder().feed_gathering(frame_of(number) + frame_of(stranger))


def test_an_acknowledgement_that_ends_behind_its_command_is_refused() -> None:
    total_size, command_size = struct.unpack_from(">II", frame := ack(1, 5, 6))
    with pytest.raises(RemoteProtocolError):
        FrameDecoder().feed_gathering(struct.pack(">II", total_size, command_size - 1) + frame[8:])
