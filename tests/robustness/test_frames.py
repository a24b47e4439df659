"""Malformed, oversize and misplaced frames: the right error or a closed connection, and no other effect."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from magnetar.base.limits import ENTRY_METADATA_PADDING, MAX_MESSAGE_SIZE
from magnetar.wire.frame import encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.messages import connect, publish, read_log
from tests.kit.raw import FRAME_SIZE_MAX, RawConnection, command, entry
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.broker import Broker

pytestmark = pytest.mark.usefixtures("bystander")

CONNECT = encode_command(command("CONNECT", client_version="raw", protocol_version=20))
PRODUCER = encode_command(command("PRODUCER", topic="persistent://public/default/t", producer_id=1, request_id=1))


def frame(body: bytes) -> bytes:
    """Return a frame with arbitrary bytes as its command."""
    return struct.pack(">II", len(body) + 4, len(body)) + body


MALFORMED = {
    "text of another protocol": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "frame above the limit": struct.pack(">II", FRAME_SIZE_MAX + 1, 10),
    "frame of four gigabytes": struct.pack(">II", 0xFFFF_FFFF, 0xFFFF_FFFF),
    "frame too short for a command": struct.pack(">I", 0) + bytes(8),
    "command longer than its frame": struct.pack(">II", 8, 100) + bytes(4),
    "empty command": frame(b""),
    "bytes that are no command": frame(b"\xff" * 30),
    "type without its body": frame(pb.BaseCommand(type=pb.BaseCommand.LOOKUP).SerializeToString()),
    "body without required fields": frame(b"\x08\x05\x2a\x00"),
    "unknown type": frame(b"\x08\x63"),
    "command of a broker": encode_command(command("SUCCESS", request_id=1)),
    "second connect": CONNECT,
    "send to an unknown producer": encode_command(command("SEND", producer_id=9, sequence_id=0), entry(b"x")),
}


@pytest.fixture
def raw(broker: Broker) -> Iterator[RawConnection]:
    """A connection after the handshake."""
    with RawConnection.connected(broker.service_url) as connection:
        yield connection


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_malformed_input_closes_the_connection(raw: RawConnection, data: bytes) -> None:
    raw.socket.sendall(data)
    assert raw.is_closed_by_peer()


@pytest.mark.parametrize("data", [PRODUCER, MALFORMED["text of another protocol"]], ids=["PRODUCER", "text"])
def test_nothing_is_accepted_before_connect(broker: Broker, data: bytes) -> None:
    with RawConnection(broker.service_url) as connection:
        connection.socket.sendall(data)
        assert connection.is_closed_by_peer()


def test_commands_before_the_malformed_frame_are_executed(raw: RawConnection, broker: Broker, topic: str) -> None:
    raw.create_producer(topic)
    send = encode_command(command("SEND", producer_id=1, sequence_id=0), entry(b"kept"))
    raw.socket.sendall(send + MALFORMED["unknown type"])
    assert raw.is_closed_by_peer()
    client = connect(broker.service_url)
    publish(client, topic, [b"next"])
    assert [message.data() for message in read_log(client, topic)][-1] == b"next"
    client.close()


def test_wrong_checksum_is_named_and_the_producer_goes_on(raw: RawConnection, topic: str) -> None:
    raw.create_producer(topic)
    broken = bytearray(entry(b"payload"))
    broken[-1] ^= 1
    raw.send("SEND", bytes(broken), producer_id=1, sequence_id=0)
    error = raw.expect("SEND_ERROR")
    assert (error.error, error.producer_id, error.sequence_id) == (pb.ChecksumError, 1, 0)
    assert raw.publish(b"good", sequence_id=1).message_id.entryId == 0


def test_entry_without_a_checksum_is_taken(raw: RawConnection, broker: Broker, topic: str) -> None:
    magic_and_checksum = 6
    raw.create_producer(topic)
    raw.send("SEND", entry(b"plain")[magic_and_checksum:], producer_id=1, sequence_id=0)
    raw.expect("SEND_RECEIPT")
    client = connect(broker.service_url)
    assert [message.data() for message in read_log(client, topic)] == [b"plain"]
    client.close()


@pytest.mark.parametrize(
    "body", [b"", b"\x0e", b"\x0e\x01\x00", struct.pack(">I", 1_000_000) + b"short"], ids=["none", "1", "3", "cut"]
)
def test_entry_that_cannot_be_parsed_is_never_stored(
    raw: RawConnection, broker: Broker, topic: str, body: bytes
) -> None:
    raw.create_producer(topic)
    raw.send("SEND", body, producer_id=1, sequence_id=0)

    def stored() -> int:
        return int(broker.rest.internal_stats(topic)["numberOfEntries"])

    wait_until(lambda: raw.is_closed_by_peer(within_s=0.1) or raw.received("SEND_ERROR") or stored())
    assert stored() == 0


@pytest.mark.parametrize("metadata_size", [100, 8_000])
def test_message_of_the_largest_size_passes_whatever_its_metadata(
    raw: RawConnection, topic: str, metadata_size: int
) -> None:
    """Clients split payloads by ``maxMessageSize`` without the metadata; the frame limit leaves room for it."""
    raw.subscribe(topic, "s")
    raw.flow(1)
    raw.create_producer(topic)
    largest = entry(bytes(MAX_MESSAGE_SIZE), producer_name="p" * metadata_size)
    raw.send("SEND", largest, producer_id=1, sequence_id=0)
    assert raw.expect("SEND_RECEIPT").message_id.entryId == 0
    assert raw.expect_frame("MESSAGE").body == largest


def test_entry_that_leaves_no_room_for_its_way_is_refused_and_the_producer_goes_on(
    raw: RawConnection, topic: str
) -> None:
    raw.create_producer(topic)
    raw.send("SEND", entry(bytes(MAX_MESSAGE_SIZE + ENTRY_METADATA_PADDING)), producer_id=1, sequence_id=0)
    assert raw.expect("SEND_ERROR").error == pb.NotAllowedError
    assert raw.publish(b"smaller", sequence_id=1).message_id.entryId == 0


def test_message_above_the_limit_closes_the_connection(raw: RawConnection, topic: str) -> None:
    raw.create_producer(topic)
    try:
        raw.send("SEND", entry(bytes(FRAME_SIZE_MAX)), producer_id=1, sequence_id=0)
    except ConnectionError:
        return
    assert raw.is_closed_by_peer()


def test_flow_of_no_permits_closes_the_connection(raw: RawConnection, topic: str) -> None:
    raw.subscribe(topic, "s")
    raw.flow(0)
    assert raw.is_closed_by_peer()


@pytest.mark.parametrize("permits", [2**31 - 1, 2**32 - 1])
def test_endless_permits_do_no_harm(raw: RawConnection, topic: str, permits: int) -> None:
    raw.subscribe(topic, "s")
    for _ in range(10):
        raw.flow(permits)
    with_room = raw.is_answering if permits < 2**31 else lambda: True
    assert with_room()


def test_commands_for_consumers_that_are_not_there_are_ignored(raw: RawConnection) -> None:
    nowhere = pb.MessageIdData(ledgerId=1, entryId=1)
    raw.flow(10, consumer_id=55)
    raw.send("ACK", consumer_id=55, ack_type=pb.CommandAck.Individual, message_id=[nowhere])
    raw.send("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=55, message_ids=[nowhere])
    assert raw.is_answering()


def test_negative_and_enormous_positions_do_no_harm(raw: RawConnection, broker: Broker, topic: str) -> None:
    raw.create_producer(topic)
    raw.publish(b"x")
    raw.subscribe(topic, "s")
    raw.flow(1)
    raw.expect("MESSAGE")
    for ledger, number in [(2**64 - 1, 2**64 - 1), (2**63 - 1, 2**63 - 1), (0, 0), (2**64 - 1, 5), (2**40, 2**40)]:
        strange = pb.MessageIdData(ledgerId=ledger, entryId=number, batch_index=-7, batch_size=2**31 - 1)
        raw.send("ACK", consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[strange])
        raw.send("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1, message_ids=[strange])
    assert raw.is_answering()
    assert broker.rest.backlog(topic, "s") == 1


def test_ack_set_that_fits_no_batch_does_no_harm(raw: RawConnection, broker: Broker, topic: str) -> None:
    raw.create_producer(topic)
    raw.publish(b"x")
    raw.subscribe(topic, "s")
    raw.flow(1)
    message_id = raw.expect("MESSAGE").message_id
    strange = pb.MessageIdData(
        ledgerId=message_id.ledgerId, entryId=message_id.entryId, ack_set=[-1] * 1_000, batch_size=5
    )
    raw.send("ACK", consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[strange])
    assert raw.is_answering()
    assert broker.rest.backlog(topic, "s") in {0, 1}


@pytest.mark.parametrize(
    "topic_name", ["", "persistent://", "persistent://a/b/c/d/e", "x://y/z/w", "persistent://a/b/"]
)
def test_bad_topic_names_are_refused(raw: RawConnection, topic_name: str) -> None:
    assert raw.request("PRODUCER", "ERROR", topic=topic_name, producer_id=1).HasField("error")
    assert raw.is_answering()
