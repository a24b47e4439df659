"""Objects and requests without end, each of them within its own limits."""

from __future__ import annotations

import itertools
import random
import socket
import zlib
from typing import TYPE_CHECKING

from magnetar.base.limits import METADATA_SIZE_MAX
from magnetar.wire.entries.batch import BatchedMessage, encode_batch
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.hostile.attacks.publishing import DEDUPLICATED, LARGEST, metadata
from tests.hostile.catalogue import behaviour
from tests.hostile.tools import connect, consuming, fill, frame, publishing, pump, pump_again, repeatedly, send_frame
from tests.kit.rest import Rest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hostile.catalogue import Target

CHANCE = random.Random(13)


@behaviour("Ever more producers on one topic, each with 16,000 characters of metadata.", seconds=10.0)
def producers_with_metadata(target: Target) -> int:
    description = [pb.KeyValue(key="k", value="x" * 16_000)]
    frames = (
        frame("PRODUCER", topic=target.topic(), producer_id=each, request_id=each, metadata=description)
        for each in itertools.count()
    )
    with connect(target) as connection:
        return pump(target, connection, frames)


@behaviour("Ever more subscriptions of one topic, each with 65,000 characters of properties.", seconds=10.0)
def subscriptions_with_properties(target: Target) -> int:
    properties = [pb.KeyValue(key="k", value="x" * 65_000)]

    def frames() -> Iterator[bytes]:
        for each in itertools.count():
            yield frame(
                "SUBSCRIBE",
                topic=target.topic(),
                subscription=f"s{each}",
                subType=pb.CommandSubscribe.Shared,
                consumer_id=each,
                request_id=each,
                subscription_properties=properties,
            )

    with connect(target) as connection:
        return pump(target, connection, frames())


@behaviour("Readers with 65,000 characters of properties come and go.", seconds=10.0)
def readers_with_properties(target: Target) -> int:
    properties = [pb.KeyValue(key="k", value="x" * 65_000)]

    def frames() -> Iterator[bytes]:
        for each in itertools.count():
            subscribe = frame(
                "SUBSCRIBE",
                topic=target.topic(),
                subscription=f"reader-{each}",
                subType=pb.CommandSubscribe.Exclusive,
                durable=False,
                consumer_id=each,
                request_id=each,
                subscription_properties=properties,
            )
            yield subscribe + frame("CLOSE_CONSUMER", consumer_id=each, request_id=each)

    with connect(target) as connection:
        return pump(target, connection, frames())


@behaviour("Ever more topics, with names of 2,000 bytes.", seconds=10.0)
def topics(target: Target) -> int:
    frames = (
        frame("PRODUCER", topic=target.topic(f"{each:x<1900}"), producer_id=each, request_id=each)
        for each in itertools.count()
    )
    with connect(target) as connection:
        return pump(target, connection, frames)


@behaviour("Seeks by time and by id that wait for each other, on connections that vanish.", seconds=8.0)
def waiting_seeks(target: Target) -> int:
    fill(target, 20_000)
    seeks = b"".join(frame("SEEK", consumer_id=1, request_id=each, message_publish_time=1) for each in range(5000))

    def act(_count: int) -> None:
        with consuming(target) as connection:
            connection.socket.settimeout(0.5)
            connection.socket.sendall(seeks * 4)

    return repeatedly(target, act)


@behaviour("GET_LAST_MESSAGE_ID without end, after a message of 5 MB that is not in the cache.", seconds=8.0)
def last_messages(target: Target) -> int:
    with publishing(target) as connection:
        connection.socket.sendall(send_frame(build_entry(metadata(), bytes(LARGEST))))
        connection.expect("SEND_RECEIPT")
    fill(target, 80, 1 << 20, topic="other")
    return pump_again(
        target, lambda: consuming(target), frame("GET_LAST_MESSAGE_ID", consumer_id=1, request_id=1) * 1000
    )


@behaviour("SEEK to messages of a batch of 5 MB that is not in the cache, with ack sets.", seconds=8.0)
def seeks_into_batches(target: Target) -> int:
    with publishing(target) as connection:
        head = metadata(num_messages_in_batch=100_000)
        connection.socket.sendall(send_frame(build_entry(head, bytes(LARGEST)), num_messages=100_000))
        connection.expect("SEND_RECEIPT")
        place = connection.publish(b"x").message_id
    fill(target, 80, 1 << 20, topic="other")
    batch = pb.MessageIdData(ledgerId=place.ledgerId, entryId=place.entryId - 1, ack_set=[-1] * 2000)
    seek = frame("SEEK", consumer_id=1, request_id=1, message_id=batch)
    return pump_again(target, lambda: consuming(target), seek * 200)


@behaviour("Compressed batches of 5 MB, half of whose messages are known, with deduplication.", policies=DEDUPLICATED)
def half_known_batches(target: Target) -> int:
    payload = encode_batch(BatchedMessage(pb.SingleMessageMetadata(), CHANCE.randbytes(50_000)) for _ in range(100))
    compressed = zlib.compress(payload)

    def frames() -> Iterator[bytes]:
        for start in itertools.count(step=50):
            head = metadata(
                sequence_id=start,
                num_messages_in_batch=100,
                compression=pb.ZLIB,
                uncompressed_size=len(payload),
                highest_sequence_id=start + 99,
            )
            yield send_frame(build_entry(head, compressed), start, num_messages=100, highest_sequence_id=start + 99)

    with publishing(target, producer_name="p") as connection:
        return pump(target, connection, frames())


@behaviour("Batches whose messages have as many properties as fit, with deduplication.", policies=DEDUPLICATED)
def metadata_in_batches(target: Target) -> int:
    element = b"\x0a\x00"
    own = element * ((LARGEST - 1000) // 2) + pb.SingleMessageMetadata(payload_size=0).SerializeToString()
    payload = len(own).to_bytes(4, "big") + own
    small = pb.SingleMessageMetadata(payload_size=0).SerializeToString()
    payload = len(small).to_bytes(4, "big") + small + payload

    def frames() -> Iterator[bytes]:
        for each in itertools.count():
            head = metadata(sequence_id=2 * each, num_messages_in_batch=2)
            yield send_frame(build_entry(head, payload), 2 * each, num_messages=2)

    with publishing(target, producer_name="p") as connection:
        return pump(target, connection, frames())


@behaviour("A topic with batches that inflate to 5 MB is loaded again and again.", seconds=10.0, policies=DEDUPLICATED)
def batches_loaded_again(target: Target) -> int:
    payload = encode_batch(
        BatchedMessage(pb.SingleMessageMetadata(sequence_id=each), bytes(500)) for each in range(9000)
    )
    compressed = zlib.compress(payload)
    with publishing(target, producer_name="p") as connection:
        for each in range(60):
            head = metadata(
                sequence_id=each * 9000,
                num_messages_in_batch=9000,
                compression=pb.ZLIB,
                uncompressed_size=len(payload),
            )
            data = send_frame(build_entry(head, compressed), each * 9000, num_messages=9000)
            connection.socket.sendall(data)
            connection.expect("SEND_RECEIPT")

    def act(_count: int) -> None:
        rest.request("PUT", f"persistent/{target.namespace}/t/unload")
        with publishing(target, producer_name="p"):
            pass

    with Rest(target.admin_url) as rest:
        return repeatedly(target, act)


@behaviour("REST reads messages of 5 MB, and with 256 KB of properties, one by one.", seconds=6.0)
def peeks_of_large_messages(target: Target) -> int:
    properties = [pb.KeyValue(key=str(each), value="x") for each in range(METADATA_SIZE_MAX // 14)]
    with consuming(target), publishing(target) as connection:
        for entry in (build_entry(metadata(), bytes(LARGEST)), build_entry(metadata(properties=properties), b"x")):
            connection.socket.sendall(send_frame(entry))
            connection.expect("SEND_RECEIPT")

    def act(count: int) -> None:
        path = f"persistent/{target.namespace}/t/subscription/s/position/{1 + count % 2}"
        with socket.create_connection(target.web_address, timeout=2.0) as connection:
            connection.sendall(f"GET /admin/v2/{path} HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n".encode())
            while connection.recv(1 << 18):
                pass

    return repeatedly(target, act)
