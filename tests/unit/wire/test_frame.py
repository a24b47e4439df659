"""Frames are found for any split of the stream, and nothing else is returned."""

from __future__ import annotations

import struct
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.position import Position
from magnetar.wire import commands, varint
from magnetar.wire import frame as frames_of_wire
from magnetar.wire.frame import FRAME_SIZE_MAX, Frame, FrameDecoder, Received, encode_command
from magnetar.wire.long_lists import LongList
from magnetar.wire.proto import pulsar_api_pb2 as pb
from magnetar.wire.runs import Acks, Sends

FRAMES = [
    commands.ping(),
    commands.connect(client_version="test", auth_data=b"\x00\xff"),
    commands.send(producer_id=1, sequence_id=2, entry=b"entry"),
    commands.send(producer_id=1, sequence_id=2**64 - 1, entry=b""),
    commands.message(consumer_id=3, position=Position(4, 5), entry=b"x" * 300),
    commands.producer(topic="t", producer_id=1, request_id=1, metadata={"key": "value"}),
]

streams = st.lists(st.sampled_from(FRAMES), max_size=8).map(b"".join)


@st.composite
def split(draw: st.DrawFn, data: bytes) -> list[bytes]:
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(streams))
    for _ in range(draw(st.integers(1, 4))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


def decode(pieces: list[bytes], frame_size_max: int = FRAME_SIZE_MAX) -> list[Frame]:
    decoder = FrameDecoder(frame_size_max)
    return [frame for piece in pieces for frame in decoder.feed(piece)]


@given(st.data())
def test_splitting_changes_nothing(data: st.DataObject) -> None:
    stream = data.draw(streams)
    assert decode(data.draw(split(stream))) == decode([stream])


def test_one_byte_at_a_time() -> None:
    stream = b"".join(FRAMES)
    assert decode([bytes((byte,)) for byte in stream]) == decode([stream])
    assert b"".join(encode_command(frame.command, frame.body) for frame in decode([stream])) == stream


@given(st.data())
def test_any_bytes_give_frames_or_a_protocol_error(data: st.DataObject) -> None:
    stream = data.draw(st.one_of(st.binary(max_size=200), mutated()))
    try:
        frames = decode(data.draw(split(stream)), 1000)
    except RemoteProtocolError:
        return
    for frame in frames:
        assert frame.command.IsInitialized()
        assert isinstance(frame.body, bytes)


Segment = Frame | dict[int, list[tuple[int, int, int, bytes]]]


def segments(received: list[Received]) -> list[Segment]:
    """Return the meaning of a stream: per producer its SENDs in order, and all other commands at their places."""
    found: list[Segment] = []
    for each in received:
        if isinstance(each, Frame) and each.command.type != pb.BaseCommand.SEND:
            found.append(each)
            continue
        if not found or isinstance(found[-1], Frame):
            found.append({})
        runs = found[-1]
        assert isinstance(runs, dict)
        assert not isinstance(each, Acks | LongList), "these streams hold none"
        if isinstance(each, Sends):
            bodies = [(*head, body) for head, body in zip(each.heads, each.entries, strict=True)]
            runs.setdefault(each.producer_id, []).extend(bodies)
        else:
            send = each.command.send
            one = (send.sequence_id, send.highest_sequence_id, send.num_messages, each.body)
            runs.setdefault(send.producer_id, []).append(one)
    return found


sends = st.builds(
    commands.send,
    producer_id=st.integers(0, 3) | st.sampled_from([127, 128, 2**64 - 1]),
    sequence_id=st.integers(0, 2**64 - 1) | st.integers(0, 300),
    entry=st.binary(max_size=8),
    num_messages=st.integers(1, 300),
    is_chunk=st.booleans(),
)


@given(st.data())
def test_gathering_changes_the_shape_and_nothing_else(data: st.DataObject) -> None:
    stream = data.draw(st.one_of(st.lists(sends | st.sampled_from(FRAMES)).map(b"".join), mutated()))
    pieces = data.draw(split(stream))
    decoder = FrameDecoder(1000)
    try:
        gathered = [received for piece in pieces for received in decoder.feed_gathering(piece)]
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            decode(pieces, 1000)
    else:
        assert segments(gathered) == segments(list(decode(pieces, 1000)))


def test_sends_of_the_usual_form_are_gathered_by_producer() -> None:
    stream = b"".join(commands.send(producer_id=n % 2, sequence_id=n, entry=b"%d" % n) for n in range(5))
    (even, odd, ping, last) = FrameDecoder().feed_gathering(stream + commands.ping() + stream[: len(stream) // 5])
    assert even == Sends(0, [(0, 0, 1), (2, 0, 1), (4, 0, 1)], [b"0", b"2", b"4"])
    assert odd == Sends(1, [(1, 0, 1), (3, 0, 1)], [b"1", b"3"])
    assert isinstance(ping, Frame)
    assert last == Sends(0, [(0, 0, 1)], [b"0"])


def test_the_largest_frame_passes_and_one_byte_more_does_not() -> None:
    frame = commands.send(producer_id=1, sequence_id=1, entry=b"x" * 100)
    assert len(decode([frame], len(frame))) == 1
    with pytest.raises(RemoteProtocolError, match="exceeds the limit"):
        decode([frame], len(frame) - 1)


def test_a_broker_leaves_the_text_of_lists_to_those_who_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    is_text = frames_of_wire.is_text

    def counted(message: pb.BaseCommand, *, lists: bool = True) -> bool:
        looked_at.append(message.DESCRIPTOR.name)
        return is_text(message, lists=lists)

    monkeypatch.setattr(frames_of_wire, "is_text", counted)
    metadata = [pb.KeyValue(key="k", value="v")] * 1000
    body = pb.CommandProducer(topic="t", producer_id=1, request_id=1, metadata=metadata)
    body.schema.CopyFrom(pb.Schema(name="s", schema_data=b"", type=pb.Schema.String, properties=metadata))
    frame = commands.encode(body)
    FrameDecoder(lists_are_checked=False).feed(frame)
    assert looked_at == ["BaseCommand", "CommandProducer", "Schema"]
    FrameDecoder(lists_are_checked=False).feed(frame.replace(b"\x12\x01v", b"\x12\x01\xff"))
    with pytest.raises(RemoteProtocolError, match="not UTF-8"):
        FrameDecoder(lists_are_checked=False).feed(frame.replace(b"\x0a\x01t", b"\x0a\x01\xff", 1))


def test_a_large_frame_is_refused_before_it_has_come() -> None:
    with pytest.raises(RemoteProtocolError, match="exceeds the limit"):
        FrameDecoder().feed(struct.pack(">II", FRAME_SIZE_MAX, 10))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (struct.pack(">II", 4, 1), "exceeds its frame"),
        (struct.pack(">II", 0, 0), "exceeds its frame"),
        (struct.pack(">II", 7, 3) + b"\xff\xff\xff", "cannot be parsed"),
        (struct.pack(">II", 4, 0), "cannot be parsed"),
        (struct.pack(">II", 6, 2) + b"\x08\x63", "cannot be parsed"),
        (struct.pack(">II", 6, 2) + b"\x08\x12", "PING without its body"),
        (encode_command(pb.BaseCommand(type=pb.BaseCommand.PING, pong=pb.CommandPong())), "PING without its body"),
        (struct.pack(">II", 8, 4) + b"\x08\x06\x32\x00", "missing required fields"),
        (struct.pack(">II", 15, 11) + b"\x08\x05\x2a\x07\x0a\x01\xff\x10\x01\x18\x01", "not UTF-8"),
    ],
)
def test_unreadable_input_is_refused(frame: bytes, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        FrameDecoder().feed(frame)


def test_unknown_fields_are_skipped() -> None:
    command = pb.BaseCommand(type=pb.BaseCommand.PING, ping=pb.CommandPing()).SerializeToString() + b"\xf8\x3f\x01"
    (frame,) = FrameDecoder().feed(struct.pack(">II", 4 + len(command), len(command)) + command)
    assert frame.command.type == pb.BaseCommand.PING


@pytest.mark.parametrize("piece_size", [1, 7, 1000, 100_000])
def test_fragments_take_no_more_memory_than_they_have_bytes(piece_size: int) -> None:
    body = b"x" * min(4000 * piece_size, 4_000_000)
    frame = commands.send(producer_id=1, sequence_id=1, entry=body)
    decoder = FrameDecoder()
    pieces = [frame[start : start + piece_size] for start in range(0, len(frame), piece_size)]
    assert [frame for piece in pieces[:-1] for frame in decoder.feed(piece)] == []
    assert decoder.unfinished == (len(frame) - len(pieces[-1]), len(pieces[-1]))
    assert sum(map(sys.getsizeof, decoder._pieces)) < 1.1 * len(frame) + 1000
    ((_, received),) = decoder.feed(pieces[-1])
    assert received == body
    assert decoder._pieces == []
    assert decoder.unfinished == (0, 0)


def test_large_fragments_are_joined_once() -> None:
    frame = commands.send(producer_id=1, sequence_id=1, entry=b"x" * 4_000_000)
    decoder = FrameDecoder()
    pieces = [frame[start : start + 20_000] for start in range(0, len(frame), 20_000)]
    assert [frame for piece in pieces[:-1] for frame in decoder.feed(piece)] == []
    assert list(map(id, decoder._pieces)) == list(map(id, pieces[:-1]))


def test_a_small_fragment_between_large_ones_is_joined_with_the_next() -> None:
    frame = commands.send(producer_id=1, sequence_id=1, entry=b"x" * 1_000_000)
    decoder = FrameDecoder()
    ends = [0, *(end for start in range(20_000, 900_000, 20_001) for end in (start, start + 1))]
    for start, end in pairwise(ends):
        decoder.feed(frame[start:end])
    assert len(decoder._pieces) <= len(ends) // 2 + 1


def test_the_start_of_the_next_frame_is_what_is_unfinished() -> None:
    frame = commands.send(producer_id=1, sequence_id=1, entry=b"x" * 1000)
    decoder = FrameDecoder()
    assert len(decoder.feed(frame + frame[:100])) == 1
    assert decoder.unfinished == (100, len(frame) - 100)
    assert len(decoder.feed(frame[100:])) == 1
    assert decoder.unfinished == (0, 0)


@given(st.lists(st.sampled_from([*FRAMES, commands.flow(consumer_id=1, message_permits=1)]), max_size=12), st.data())
def test_deferred_frames_follow_in_order(stream: list[bytes], data: st.DataObject) -> None:
    whole = FrameDecoder()
    expected = segments(whole.feed_gathering(b"".join(stream)))
    assert not whole.has_more
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames_of_wire, "FRAMES_AT_ONCE_MAX", 2)
        decoder = FrameDecoder()
        received: list[Received] = []
        for piece in data.draw(split(b"".join(stream))):
            some = decoder.feed_gathering(piece)
            received += some
            while decoder.has_more and data.draw(st.booleans()):
                received += decoder.feed_gathering(b"")
            assert sum(isinstance(each, Frame) for each in some) <= 2
        while decoder.has_more:
            received += decoder.feed_gathering(b"")
    assert segments(received) == expected


def test_text_is_looked_for_where_there_may_be_some() -> None:
    command = pb.BaseCommand(type=pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES)
    command.redeliverUnacknowledgedMessages.consumer_id = 1
    command.redeliverUnacknowledgedMessages.message_ids.add(ledgerId=1, entryId=1)
    assert frames_of_wire._fields_holding_text(command.redeliverUnacknowledgedMessages.DESCRIPTOR) == frozenset()
    body = pb.CommandProducer(topic="t", producer_id=1, request_id=1, metadata=[pb.KeyValue(key="k", value="v")])
    wrong = commands.encode(body).replace(b"\x12\x01v", b"\x12\x01\xff")
    with pytest.raises(RemoteProtocolError, match="not UTF-8"):
        decode([wrong])


def ids(elements: bytes) -> bytes:
    """Return an ACK with these encoded elements of ``message_id``."""
    command = commands.encode(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual))[8:]
    kind, body = command[:2], command[4:]
    size = varint.write(len(body + elements))
    return frames_of_wire.frame_of(kind + command[2:3] + size + body + elements)


@pytest.mark.parametrize("count", [1, frames_of_wire.SERIALIZED_SIZE_MAX, 100_000])
@pytest.mark.parametrize("element", [b"\x1a\x00", b"\x1a\x02\x08\x01", b"\x1a\x06\x08\x01\x28\x00\x28\x00"])
def test_the_refusal_of_a_command_does_not_grow_with_it(count: int, element: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="required") as refused:
        decode([ids(element * count)])
    assert len(str(refused.value)) < 300


def test_a_large_command_with_the_smallest_complete_elements_is_accepted() -> None:
    (frame,) = decode([ids(b"\x1a\x04\x08\x00\x10\x00" * 100_000)])
    assert len(frame.command.ack.message_id) == 100_000
