"""Property: no input, however close to valid frames, harms the broker or another client."""

from __future__ import annotations

import secrets
import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from magnetar.wire.frame import encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.raw import RawConnection, command, entry
from tests.robustness.conftest import Bystander

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.message import Message

    from tests.kit.broker import Broker

EXAMPLES = 400
CLIENT_COMMANDS = [
    "SUBSCRIBE",
    "PRODUCER",
    "SEND",
    "ACK",
    "FLOW",
    "UNSUBSCRIBE",
    "CLOSE_PRODUCER",
    "CLOSE_CONSUMER",
    "REDELIVER_UNACKNOWLEDGED_MESSAGES",
    "PARTITIONED_METADATA",
    "LOOKUP",
    "CONSUMER_STATS",
    "SEEK",
    "GET_LAST_MESSAGE_ID",
    "GET_TOPICS_OF_NAMESPACE",
    "GET_SCHEMA",
    "GET_OR_CREATE_SCHEMA",
    "AUTH_RESPONSE",
    "WATCH_TOPIC_LIST",
]
Field = Any
"""A FieldDescriptor of any implementation of protobuf."""

CORNER_VALUES: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=20),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_DOUBLE: st.floats(),
    FieldDescriptor.TYPE_UINT64: st.sampled_from([0, 1, 2, 3, 1, 2, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1]),
    FieldDescriptor.TYPE_UINT32: st.sampled_from([0, 1, 2, 2**31 - 1, 2**31, 2**32 - 1]),
    FieldDescriptor.TYPE_INT64: st.sampled_from([0, 1, -1, 5, 2**63 - 1, -(2**63)]),
    FieldDescriptor.TYPE_INT32: st.sampled_from([0, 1, -1, 5, 2**31 - 1, -(2**31)]),
}
"""Boundary values for each field type; ids of the conversation are frequent."""

run_against_broker = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def conversation(topic: str) -> list[bytes]:
    """Return the frames of a complete valid conversation after CONNECT."""
    shared = pb.CommandSubscribe.Shared
    first = pb.MessageIdData(ledgerId=1, entryId=0)
    return [
        encode_command(command("PARTITIONED_METADATA", topic=topic, request_id=1)),
        encode_command(command("LOOKUP", topic=topic, request_id=2)),
        encode_command(command("PRODUCER", topic=topic, producer_id=1, request_id=3)),
        encode_command(command("SEND", producer_id=1, sequence_id=0), entry(b"first")),
        encode_command(
            command("SUBSCRIBE", topic=topic, subscription="s", subType=shared, consumer_id=1, request_id=4)
        ),
        encode_command(command("FLOW", consumer_id=1, messagePermits=10)),
        encode_command(command("SEND", producer_id=1, sequence_id=1), entry(b"second", 1)),
        encode_command(
            command("ACK", consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[first], request_id=5)
        ),
        encode_command(command("GET_LAST_MESSAGE_ID", consumer_id=1, request_id=6)),
        encode_command(command("SEEK", consumer_id=1, request_id=7, message_id=first)),
        encode_command(command("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1, message_ids=[first])),
        encode_command(command("CLOSE_PRODUCER", producer_id=1, request_id=8)),
        encode_command(command("UNSUBSCRIBE", consumer_id=1, request_id=9)),
    ]


@pytest.fixture(scope="module")
def bystander(broker: Broker) -> Iterator[Bystander]:
    """One bystander for all examples."""
    present = Bystander(broker)
    try:
        yield present
        assert present.lost_nothing()
    finally:
        present.close()


@pytest.fixture(scope="module")
def fuzzed_topic() -> str:
    """The topic of the fuzzed clients."""
    return f"persistent://public/default/fuzzed-{secrets.token_hex(4)}"


def throw(broker: Broker, data: bytes, *, after_connect: bool) -> None:
    """Send bytes on a separate connection, and wait until the broker has responded or closed it."""
    connection = RawConnection.connected(broker.service_url) if after_connect else RawConnection(broker.service_url)
    with connection:
        try:
            connection.socket.sendall(data)
            connection.socket.shutdown(socket.SHUT_WR)
        except ConnectionError:
            return
        assert connection.is_closed_by_peer()


@run_against_broker
@given(data=st.binary(max_size=2_000), after_connect=st.booleans())
def test_random_bytes(broker: Broker, bystander: Bystander, data: bytes, after_connect: bool) -> None:
    throw(broker, data, after_connect=after_connect)
    assert bystander.goes_on()


@run_against_broker
@given(bodies=st.lists(st.binary(max_size=200), max_size=10))
def test_random_commands_in_well_formed_frames(broker: Broker, bystander: Bystander, bodies: list[bytes]) -> None:
    data = b"".join(struct.pack(">II", len(body) + 4, len(body)) + body for body in bodies)
    throw(broker, data, after_connect=True)
    assert bystander.goes_on()


@run_against_broker
@given(draw=st.data())
def test_mutated_conversation(broker: Broker, bystander: Bystander, fuzzed_topic: str, draw: st.DataObject) -> None:
    data = bytearray(b"".join(conversation(fuzzed_topic)))
    for _ in range(draw.draw(st.integers(1, 6), "mutations")):
        at = draw.draw(st.integers(0, len(data) - 1), "at")
        kind = draw.draw(st.sampled_from(["flip", "insert", "delete", "repeat"]), "kind")
        if kind == "flip":
            data[at] ^= 1 << draw.draw(st.integers(0, 7), "bit")
        elif kind == "insert":
            data[at:at] = draw.draw(st.binary(min_size=1, max_size=8), "inserted")
        elif kind == "delete":
            del data[at : at + draw.draw(st.integers(1, 20), "length")]
        else:
            data[at:at] = data[at : at + 40]
        if not data:
            break
    throw(broker, bytes(data), after_connect=draw.draw(st.booleans(), "after_connect"))
    assert bystander.goes_on()


@run_against_broker
@given(draw=st.data())
def test_conversation_out_of_order(
    broker: Broker, bystander: Bystander, fuzzed_topic: str, draw: st.DataObject
) -> None:
    frames = conversation(fuzzed_topic)
    chosen = draw.draw(st.lists(st.sampled_from(frames), max_size=30), "frames")
    throw(broker, b"".join(chosen), after_connect=True)
    assert bystander.goes_on()


@run_against_broker
@given(draw=st.data())
def test_valid_commands_with_strange_values(
    broker: Broker, bystander: Bystander, fuzzed_topic: str, draw: st.DataObject
) -> None:
    frames = conversation(fuzzed_topic)[2:6]
    for _ in range(draw.draw(st.integers(1, 8), "commands")):
        name = draw.draw(st.sampled_from(CLIENT_COMMANDS), "name")
        number = pb.BaseCommand.Type.Value(name)
        built = pb.BaseCommand(type=number)
        field = pb.BaseCommand.DESCRIPTOR.fields_by_number[number]
        part = getattr(built, field.name)
        part.SetInParent()
        fill(part, fuzzed_topic, draw)
        frames.append(encode_command(built, entry(b"strange") if name == "SEND" else b""))
    throw(broker, b"".join(frames), after_connect=True)
    assert bystander.goes_on()


def fill(message: Message, topic: str, draw: st.DataObject, depth: int = 0) -> None:
    """Fill every required field, and some others, with boundary values of their types."""
    for field in message.DESCRIPTOR.fields:
        if field.number >= 1000 or not (field.is_required or draw.draw(st.booleans(), field.name)):
            continue
        if field.message_type is not None:
            if depth < 2:
                part = getattr(message, field.name)
                fill(part.add() if field.is_repeated else part, topic, draw, depth + 1)
                if not field.is_repeated:
                    part.SetInParent()
            continue
        value = draw.draw(values_of(field, topic), field.name)
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)


def values_of(field: Field, topic: str) -> st.SearchStrategy[Any]:
    """Return the boundary values of a scalar field."""
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type == field.TYPE_STRING:
        return st.sampled_from([topic, topic, "", "s", "public/default", "\x00", "x" * 1_000, ".*(", "1:2"])
    return CORNER_VALUES[field.type]
