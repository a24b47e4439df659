"""Floods of messages, and false values in what is published."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from magnetar.base.limits import METADATA_SIZE_MAX
from magnetar.wire.entries.entry import assemble, build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.hostile.catalogue import behaviour
from tests.hostile.tools import connect, publishing, pump, pump_again, repeatedly, send_frame, sends
from tests.kit.raw import entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hostile.catalogue import Target
    from tests.kit.raw import RawConnection

EXTREMES = (0, 1, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
LARGEST = 5 * 1024 * 1024
DEDUPLICATED = {"deduplication": True}


def metadata(**fields: object) -> pb.MessageMetadata:
    """Return the metadata of a message that was published now, with further ``fields``."""
    required = {"producer_name": "hostile", "sequence_id": 0, "publish_time": time.time_ns() // 1_000_000}
    return pb.MessageMetadata(**{**required, **fields})  # type: ignore[arg-type]


@behaviour("A flood of small SENDs whose receipts are read.", seconds=6.0)
def flood(target: Target) -> int:
    return pump_again(target, lambda: publishing(target), sends(1000))


@behaviour("A flood of small SENDs whose receipts are not read.", seconds=6.0)
def flood_unread(target: Target) -> int:
    return pump_again(target, lambda: publishing(target), sends(1000), reads=False)


@behaviour("Floods of small SENDs on two connections from each of two processes.", seconds=6.0, processes=2)
def flood_from_many(target: Target) -> int:
    return pump_again(target, lambda: publishing(target), sends(1000))


@behaviour("SENDs of 5 MB over 4 connections, receipts read.", seconds=6.0)
def large_flood(target: Target) -> int:
    return _large_flood(target, reads=True)


@behaviour("SENDs of 5 MB over 20 connections, receipts not read.", seconds=6.0)
def large_flood_unread(target: Target) -> int:
    return _large_flood(target, reads=False, connections=20)


def _large_flood(target: Target, *, reads: bool, connections: int = 4) -> int:
    """Send the largest messages on several connections in turn, as much as each takes."""
    opened = [publishing(target, f"t{each}") for each in range(connections)]
    data = memoryview(send_frame(entry(bytes(LARGEST))))
    offsets = [0] * connections
    for connection in opened:
        connection.socket.setblocking(False)
    turns = 0
    while target.is_time_left:
        moved = False
        for each, connection in enumerate(opened):
            try:
                if reads:
                    _discard(connection)
                offsets[each] = (offsets[each] + connection.socket.send(data[offsets[each] :])) % len(data)
                turns, moved = turns + 1, True
            except BlockingIOError:
                continue
            except OSError:
                return turns
        if not moved:
            time.sleep(0.002)
    for connection in opened:
        connection.close()
    return turns


def _discard(connection: RawConnection) -> None:
    try:
        connection.socket.recv(1 << 16)
    except BlockingIOError:
        return


@behaviour("SENDs for producers that do not exist.")
def unknown_producers(target: Target) -> int:
    def act(count: int) -> None:
        with connect(target) as connection:
            connection.socket.sendall(b"".join(send_frame(entry(b"x"), 0, each) for each in range(1000)))
            connection.is_closed_by_peer(0.2)

    return repeatedly(target, act)


@behaviour("SENDs whose checksums are wrong.")
def wrong_checksums(target: Target) -> int:
    good = entry(bytes(100))
    bad = send_frame(good[:2] + bytes(4) + good[6:])
    return pump_again(target, lambda: publishing(target), bad * 500)


@behaviour("SENDs whose entries are cut off at every length.")
def cut_off_entries(target: Target) -> int:
    whole = entry(bytes(20))
    cut = b"".join(send_frame(whole[:size]) for size in range(len(whole)))
    return pump_again(target, lambda: publishing(target), cut * 20)


@behaviour("SENDs larger than maxMessageSize.")
def too_large(target: Target) -> int:
    data = send_frame(entry(bytes(LARGEST + 9000)))
    return pump_again(target, lambda: publishing(target), data)


@behaviour("Sequence ids at the ends of their range, with deduplication.", policies=DEDUPLICATED)
def extreme_sequence_ids(target: Target) -> int:
    pairs = list(itertools.product(EXTREMES, EXTREMES))
    frames = b"".join(
        send_frame(
            build_entry(metadata(sequence_id=low, highest_sequence_id=high), b"x"), low, highest_sequence_id=high
        )
        for low, high in pairs
    )
    return pump_again(target, lambda: publishing(target, producer_name="p"), frames * 5)


@behaviour("Event times and publish times at the ends of their range, and reads by them over REST and SEEK.")
def extreme_times(target: Target) -> int:
    frames = [
        send_frame(build_entry(metadata(publish_time=published, event_time=event), b"x"))
        for published, event in itertools.product(EXTREMES, EXTREMES)
    ]

    def act(count: int) -> None:
        with publishing(target) as connection:
            connection.socket.sendall(b"".join(frames))
            connection.subscribe(target.topic(), "s")
            connection.request("SEEK", "SUCCESS", consumer_id=1, message_publish_time=EXTREMES[count % len(EXTREMES)])

    return repeatedly(target, act)


@behaviour("deliver_at_time at the ends of its range, and a Shared subscription.")
def extreme_delays(target: Target) -> int:
    now_ms = time.time_ns() // 1_000_000
    times = (-(2**63), -1, 0, 1, now_ms + 1, now_ms + 1000, now_ms + 10**12, 2**62, 2**63 - 1)
    frames = b"".join(send_frame(build_entry(metadata(deliver_at_time=each), b"x")) for each in times)

    def open_one() -> RawConnection:
        connection = publishing(target)
        connection.subscribe(target.topic(), "s")
        connection.flow(1000)
        return connection

    return pump_again(target, open_one, frames * 50)


@behaviour("First chunks of messages whose other chunks never come.")
def unfinished_chunks(target: Target) -> int:
    def frames() -> Iterator[bytes]:
        for number in itertools.count():
            head = metadata(uuid=f"u{number}", num_chunks_from_msg=1000, chunk_id=0, total_chunk_msg_size=2**31 - 1)
            yield send_frame(build_entry(head, bytes(1000)), number, is_chunk=True)

    with publishing(target) as connection:
        return pump(target, connection, frames())


@behaviour("Chunks whose ids, counts and sizes lie: 2^31-1, negative, in disorder.", policies=DEDUPLICATED)
def false_chunks(target: Target) -> int:
    values = (0, 1, -1, 2**31 - 1, -(2**31))
    frames = b"".join(
        send_frame(
            build_entry(metadata(uuid="u", chunk_id=each, num_chunks_from_msg=count, total_chunk_msg_size=size), b"x"),
            is_chunk=True,
        )
        for each, count, size in itertools.product(values, repeat=3)
    )
    return pump_again(target, lambda: publishing(target), frames)


@behaviour("Messages with 250 KB and 1 MB of properties and keys, 20,000 and 100,000 properties.", seconds=6.0)
def large_metadata(target: Target) -> int:
    heads = [
        head
        for scale in (1, 4)
        for head in (
            metadata(properties=[pb.KeyValue(key="k", value="x" * scale * 250_000)]),
            metadata(partition_key="x" * scale * 250_000),
            metadata(properties=[pb.KeyValue(key=str(each), value="x") for each in range(scale * 20_000)]),
            metadata(ordering_key=bytes(scale * 250_000)),
            metadata(producer_name="x" * scale * 250_000),
            metadata(replicate_to=["x" * 250] * scale * 1000),
            metadata(encryption_keys=[pb.EncryptionKeys(key="k" * 1000, value=bytes(1000))] * scale * 120),
        )
    ]
    frames = [send_frame(build_entry(head, b"x")) for head in heads]

    def open_one() -> RawConnection:
        connection = publishing(target)
        connection.subscribe(target.topic(), "s", subType=pb.CommandSubscribe.Key_Shared)
        connection.flow(1000)
        return connection

    def act(count: int) -> None:
        with open_one() as connection:
            pump(target, connection, frames[count % len(frames) :] + frames)

    return repeatedly(target, act)


@behaviour("Metadata of 250 KB and of 5 MB with as many empty or smallest elements as fit, and consumers.", seconds=8.0)
def many_elements(target: Target) -> int:
    elements = (
        b"\x22\x00",
        b"\x22\x04\x0a\x00\x12\x00",
        b"\x3a\x00",
        b"\x6a\x00",
        b"\x6a\x04\x0a\x00\x12\x00",
        b"\xf8\x7f\x01",
    )
    head = metadata().SerializeToString()
    frames = [
        send_frame(assemble(head + element * (size // len(element)), b"x"))
        for element in elements
        for size in (METADATA_SIZE_MAX - 100, LARGEST - 100)
    ]

    def act(count: int) -> None:
        with publishing(target) as connection:
            for each, kind in enumerate((pb.CommandSubscribe.Key_Shared, pb.CommandSubscribe.Failover)):
                connection.subscribe(target.topic(), f"s{each}", consumer_id=each, subType=kind)
                connection.flow(1000, consumer_id=each)
            pump(target, connection, frames[count % len(frames) :] + frames)

    return repeatedly(target, act)


@behaviour("Each SEND under another producer name in its metadata, with deduplication.", policies=DEDUPLICATED)
def names_in_metadata(target: Target) -> int:
    def frames() -> Iterator[bytes]:
        for start in itertools.count(step=100):
            yield b"".join(
                send_frame(build_entry(metadata(producer_name=f"p{each}", sequence_id=each), b"x"), each)
                for each in range(start, start + 100)
            )

    with publishing(target) as connection:
        return 100 * pump(target, connection, frames())


@behaviour("Messages to clusters that do not exist, and to 1,000 clusters each.")
def unknown_clusters(target: Target) -> int:
    frames = b"".join(
        send_frame(build_entry(metadata(replicate_to=names), b"x"))
        for names in (["nowhere"], ["__local__"], [""], ["x\x00"], [f"c{each}" for each in range(1000)])
    )
    return pump_again(target, lambda: publishing(target), frames * 20)
