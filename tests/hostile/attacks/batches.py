"""Batches whose counts and sizes lie, and compressed bombs."""

from __future__ import annotations

import itertools
import struct
import zlib
from typing import TYPE_CHECKING

from magnetar.wire.entries.batch import BatchedMessage, compress, encode_batch
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.hostile.attacks.publishing import DEDUPLICATED, metadata
from tests.hostile.catalogue import behaviour
from tests.hostile.tools import publishing, pump, pump_again, send_frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hostile.catalogue import Target
    from tests.kit.raw import RawConnection

COUNTS = (2**31 - 1, -1, -(2**31), 0, 1_000_000, 999)
BOMB_BYTES = 5 * 1024 * 1024
"""Size of a bomb after decompression: the largest message that the broker accepts."""


def _batch(messages: int, size: int = 0) -> bytes:
    return encode_batch(
        BatchedMessage(pb.SingleMessageMetadata(payload_size=size), bytes(size)) for _ in range(messages)
    )


def _consumed(target: Target) -> RawConnection:
    """Return a connection with a named producer and a Shared consumer on the same topic."""
    connection = publishing(target, producer_name="p")
    connection.subscribe(target.topic(), "s")
    connection.flow(1000)
    return connection


@behaviour("num_messages_in_batch of 2^31-1, negative and 0.")
def false_counts(target: Target) -> int:
    return pump_again(target, lambda: _consumed(target), _false_counts() * 20)


@behaviour("num_messages_in_batch of 2^31-1, negative and 0, with deduplication.", policies=DEDUPLICATED)
def false_counts_deduplicated(target: Target) -> int:
    return pump_again(target, lambda: _consumed(target), _false_counts() * 20)


def _false_counts() -> bytes:
    """Return SENDs whose command and metadata claim other counts than the payload holds, plain and compressed."""
    frames = []
    for count, compression in itertools.product(COUNTS, (pb.NONE, pb.ZLIB)):
        payload = _batch(10)
        head = metadata(num_messages_in_batch=count, compression=compression, uncompressed_size=len(payload))
        body = build_entry(head, compress(payload, compression))
        frames += [send_frame(body, num_messages=count), send_frame(body, num_messages=1)]
    return b"".join(frames)


@behaviour("Members of a batch whose sizes lie.", policies=DEDUPLICATED)
def false_member_sizes(target: Target) -> int:
    sizes = (0, 1, 2**31 - 1, -1, -(2**31))
    frames = []
    for size, prefix in itertools.product(sizes, (0, 1, 2, 2**31 - 1, 2**32 - 1)):
        member = pb.SingleMessageMetadata(payload_size=size, sequence_id=2**64 - 1).SerializeToString()
        payload = (struct.pack(">I", prefix) + member + b"x") * 3
        frames.append(send_frame(build_entry(metadata(num_messages_in_batch=3), payload), num_messages=3))
    return pump_again(target, lambda: _consumed(target), b"".join(frames) * 10)


@behaviour("uncompressed_size lies: 0, too small, too large, 2^32-1, for each compression.", policies=DEDUPLICATED)
def false_uncompressed_sizes(target: Target) -> int:
    payload = _batch(10, 100)
    frames = [
        send_frame(
            build_entry(
                metadata(num_messages_in_batch=10, compression=compression, uncompressed_size=size),
                compress(payload, compression),
            ),
            num_messages=10,
        )
        for compression, size in itertools.product(
            (pb.ZLIB, pb.LZ4, pb.ZSTD, pb.SNAPPY), (0, 1, len(payload) - 1, len(payload) + 1, BOMB_BYTES, 2**32 - 1)
        )
    ]
    return pump_again(target, lambda: _consumed(target), b"".join(frames) * 5)


@behaviour("Batches of 5 KB that inflate to 5 MB: zlib, lz4, zstd and snappy.", seconds=6.0)
def bombs(target: Target) -> int:
    return _throw(target, _bombs())


@behaviour("The same bombs with deduplication, which looks into batches.", seconds=6.0, policies=DEDUPLICATED)
def bombs_deduplicated(target: Target) -> int:
    return _throw(target, _bombs())


@behaviour("Batches of 50,000 empty messages, compressed, with deduplication.", seconds=6.0, policies=DEDUPLICATED)
def many_members(target: Target) -> int:
    payload = _batch(50_000)
    head = metadata(num_messages_in_batch=50_000, compression=pb.ZLIB, uncompressed_size=len(payload))
    return _throw(target, [(head, zlib.compress(payload))])


def _throw(target: Target, batches: list[tuple[pb.MessageMetadata, bytes]]) -> int:
    """Send batches in turn, each under a sequence id of its own: deduplication has to look into every one."""

    def frames() -> Iterator[bytes]:
        for each in itertools.count(step=100_000):
            head, payload = batches[each // 100_000 % len(batches)]
            head.sequence_id = each
            yield send_frame(build_entry(head, payload), each, num_messages=head.num_messages_in_batch)

    with _consumed(target) as connection:
        return pump(target, connection, frames())


def _bombs() -> list[tuple[pb.MessageMetadata, bytes]]:
    """Return one batch for each compression, of almost nothing but zeros, in one message and in many."""
    bombs = []
    for members in (1, 40_000):
        payload = _batch(members, (BOMB_BYTES - 1000) // members - 10)
        for compression in (pb.ZLIB, pb.LZ4, pb.ZSTD, pb.SNAPPY):
            head = metadata(num_messages_in_batch=members, compression=compression, uncompressed_size=len(payload))
            bombs.append((head, compress(payload, compression)))
    return bombs
