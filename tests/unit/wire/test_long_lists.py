"""Long lists of message ids, in parts; other large commands, with a limit of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.limits import PLAIN_COMMAND_SIZE_MAX, Limit
from magnetar.wire.frame import FrameDecoder, encode_command
from magnetar.wire.long_lists import IDS_MAX, LONG_FROM_BYTES, PART_BYTES, LongList, read_long
from magnetar.wire.proto import pulsar_api_pb2 as pb

message_ids = st.builds(
    pb.MessageIdData,
    ledgerId=st.integers(0, 2**64 - 1),
    entryId=st.integers(0, 2**64 - 1),
    partition=st.none() | st.integers(-1, 9),
    ack_set=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
)
numbers = st.none() | st.integers(0, 2**64 - 1)
acks = st.builds(
    lambda **fields: pb.BaseCommand(type=pb.BaseCommand.ACK, ack=pb.CommandAck(**fields)),
    consumer_id=st.integers(0, 2**64 - 1),
    ack_type=st.sampled_from([pb.CommandAck.Individual, pb.CommandAck.Cumulative]),
    message_id=st.lists(message_ids, max_size=20),
    txnid_least_bits=numbers,
    txnid_most_bits=numbers,
    request_id=numbers,
)
redeliveries = st.builds(
    lambda **fields: pb.BaseCommand(
        type=pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES,
        redeliverUnacknowledgedMessages=pb.CommandRedeliverUnacknowledgedMessages(**fields),
    ),
    consumer_id=st.integers(0, 2**64 - 1),
    message_ids=st.lists(message_ids, max_size=20),
    consumer_epoch=numbers,
)


def taken(command: LongList) -> list[list[pb.MessageIdData]]:
    parts = []
    while not command.is_over:
        parts.append(command.take())
    return parts


def long_ack(count: int, **fields: object) -> LongList:
    ids = [pb.MessageIdData(ledgerId=1, entryId=each, **fields) for each in range(count)]  # type: ignore[arg-type]
    ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=ids, request_id=3)
    command = read_long(pb.BaseCommand(type=pb.BaseCommand.ACK, ack=ack).SerializeToString())
    assert command is not None
    return command


@given(acks | redeliveries)
def test_the_parts_are_the_whole(command: pb.BaseCommand) -> None:
    long_list = read_long(command.SerializeToString())
    assert long_list is not None
    ids = [each for part in taken(long_list) for each in part]
    whole = long_list.head
    if command.type == pb.BaseCommand.ACK:
        whole.ack.message_id.extend(ids)
    else:
        whole.redeliverUnacknowledgedMessages.message_ids.extend(ids)
    assert whole == command


def test_parts_are_bounded() -> None:
    assert max(map(len, taken(long_ack(10_000)))) == IDS_MAX
    assert [len(part) for part in taken(long_ack(4, ack_set=[1] * PART_BYTES))] == [1, 1, 1, 1]


def test_the_rest_can_be_dropped() -> None:
    command = long_ack(10_000)
    command.take()
    command.drop()
    assert command.is_over


@pytest.mark.parametrize(
    "tail",
    [b"\x1a\x02\x08\x01", b"\x1a\x05\x08", b"\x1a", b"\x0b", b"\xff" * 11, b"\x1a\x00", b"\x1a\x01\xff"],
)
def test_a_list_that_is_not_valid_is_refused(tail: bytes) -> None:
    body = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual).SerializeToString() + tail
    data = pb.BaseCommand(type=pb.BaseCommand.ACK).SerializeToString() + b"\x52%c" % len(body) + body
    with pytest.raises(RemoteProtocolError, match="command cannot be parsed"):
        taken(read_long(data) or long_ack(0))


def test_a_head_without_required_fields_is_refused() -> None:
    for name, kind in (("ack", pb.BaseCommand.ACK), ("redeliverUnacknowledgedMessages", 20)):
        command = pb.BaseCommand(type=kind)  # type: ignore[arg-type]
        getattr(command, name).SetInParent()
        with pytest.raises(RemoteProtocolError, match="lacks required fields"):
            read_long(command.SerializePartialToString())


def producer(schema: int = 0, metadata: int = 0) -> pb.BaseCommand:
    body = pb.CommandProducer(
        topic="t",
        producer_id=1,
        request_id=1,
        metadata=[pb.KeyValue(key="k", value="v" * metadata)],
        schema=pb.Schema(name="s", schema_data=bytes(schema), type=pb.Schema.Avro),
    )
    return pb.BaseCommand(type=pb.BaseCommand.PRODUCER, producer=body)


def test_schemas_do_not_count() -> None:
    assert read_long(producer(schema=2 * PLAIN_COMMAND_SIZE_MAX).SerializeToString()) is None
    with pytest.raises(RemoteProtocolError, match=r"exceeds the limit of 262144 \(maxCommandSize\)") as raised:
        read_long(producer(metadata=PLAIN_COMMAND_SIZE_MAX).SerializeToString())
    assert raised.value.limit is Limit.COMMAND_SIZE


def test_a_decoder_that_gathers_returns_long_lists() -> None:
    ids = [pb.MessageIdData(ledgerId=1, entryId=each) for each in range(LONG_FROM_BYTES)]
    ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=ids)
    data = encode_command(pb.BaseCommand(type=pb.BaseCommand.ACK, ack=ack))
    (found,) = FrameDecoder().feed_gathering(data)
    assert isinstance(found, LongList)
    assert sum(map(len, taken(found))) == LONG_FROM_BYTES
    ((command, _),) = FrameDecoder().feed(data)
    assert command.ack == ack
