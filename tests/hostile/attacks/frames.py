"""Frames with false sizes, unfinished frames, and floods of small ones."""

from __future__ import annotations

import contextlib
import struct
import time
from typing import TYPE_CHECKING

from magnetar.base.limits import COMMAND_SIZE_MAX
from magnetar.wire import varint
from magnetar.wire.frame import frame_of
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.hostile.catalogue import behaviour
from tests.hostile.tools import connect, frame, hold_many, open_many, pump, pump_again, repeatedly
from tests.kit.raw import FRAME_SIZE_MAX, RawConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hostile.catalogue import Target

SIZES = (0, 1, 3, 4, FRAME_SIZE_MAX + 1, 2**31 - 1, 2**31, 2**32 - 1)
UNFINISHED = 100
"""Connections with an unfinished frame."""

ALMOST_A_FRAME = FRAME_SIZE_MAX - 100
SEND_HEAD_BYTES = 12


@behaviour("Frame sizes of 0, 1, 2^31-1 and 2^32-1.")
def false_sizes(target: Target) -> int:
    def act(count: int) -> None:
        open_one = connect if count % 2 else lambda target: RawConnection(target.service_url)
        with open_one(target) as connection:
            connection.socket.sendall(struct.pack(">II", SIZES[count // 2 % len(SIZES)], 2) + bytes(1000))
            connection.is_closed_by_peer(0.2)

    return repeatedly(target, act)


@behaviour("A command that claims to be larger than its frame.")
def command_larger_than_frame(target: Target) -> int:
    def act(count: int) -> None:
        with connect(target) as connection:
            connection.socket.sendall(struct.pack(">II", 20, SIZES[count % len(SIZES)]) + bytes(1000))
            connection.is_closed_by_peer(0.2)

    return repeatedly(target, act)


@behaviour("100 unfinished frames of 5 MB before CONNECT.", seconds=6.0)
def unfinished_before_connect(target: Target) -> int:
    def open_one() -> RawConnection:
        connection = RawConnection(target.service_url)
        connection.socket.settimeout(1)
        with contextlib.suppress(OSError):  # the broker closes the connection in the middle
            connection.socket.sendall(struct.pack(">II", ALMOST_A_FRAME, 50) + bytes(ALMOST_A_FRAME - 1000))
        return connection

    return hold_many(target, UNFINISHED, open_one)


@behaviour("100 unfinished SENDs of 5 MB on 100 connections.", seconds=8.0)
def unfinished_after_connect(target: Target) -> int:
    return _hold_unfinished(target, ALMOST_A_FRAME)


@behaviour("1,000 connections, each with an unfinished frame of 64 KiB.", seconds=8.0)
def thousand_unfinished(target: Target) -> int:
    return _hold_unfinished(target, 1 << 16, 1000)


def _hold_unfinished(target: Target, size: int, count: int = UNFINISHED) -> int:
    def open_one() -> RawConnection:
        connection = connect(target)
        connection.socket.settimeout(1)
        try:
            connection.socket.sendall(struct.pack(">II", size, SEND_HEAD_BYTES) + bytes(size - 1000))
        except TimeoutError:  # the broker does not read more
            connection.socket.settimeout(None)
        return connection

    return hold_many(target, count, open_one)


@behaviour("Frames that arrive one byte at a time, on 50 connections.", seconds=5.0)
def byte_by_byte(target: Target) -> int:
    connections = open_many(target, 50, lambda: connect(target))
    data = frame("LOOKUP", topic=target.topic(), request_id=1)
    sent = 0
    while target.is_time_left:
        for connection in connections:
            connection.socket.sendall(data[sent % len(data) : sent % len(data) + 1])
        sent += 1
        time.sleep(0.01)
    for connection in connections:
        connection.close()
    return sent


@behaviour("A flood of PINGs whose PONGs are read.")
def pings(target: Target) -> int:
    return pump_again(target, lambda: connect(target), frame("PING") * 2000)


@behaviour("A flood of PINGs whose PONGs are not read.")
def pings_unread(target: Target) -> int:
    return pump_again(target, lambda: connect(target), frame("PING") * 2000, reads=False)


@behaviour("One connection after the other is closed for an unknown command, as fast as it goes.")
def unknown_commands(target: Target) -> int:
    unknown = struct.pack(">II", 7, 3) + b"\x08\xc7\x01"

    def act(_count: int) -> None:
        with connect(target) as connection:
            connection.socket.sendall(unknown)
            connection.is_closed_by_peer(0.2)

    return repeatedly(target, act)


@behaviour("Commands of 5 MB: a LOOKUP with a million unknown fields, and with a name of 5 MB.", seconds=6.0)
def huge_commands(target: Target) -> int:
    lookup = frame("LOOKUP", topic=target.topic(), request_id=1)[8:]
    unknown_fields = lookup + b"\xf8\x7f\x01" * 1_500_000
    names = frame("LOOKUP", topic="persistent://a/b/" + "x" * 5_000_000, request_id=1)

    def frames() -> Iterator[bytes]:
        while True:
            yield struct.pack(">II", len(unknown_fields) + 4, len(unknown_fields)) + unknown_fields
            yield names

    def act(_count: int) -> None:
        with connect(target) as connection:
            pump(target, connection, frames())

    return repeatedly(target, act)


@behaviour("Commands of 2 MB and of 5 MB with as many empty, incomplete or smallest elements as fit.", seconds=6.0)
def many_elements(target: Target) -> int:
    elements = (b"\x1a\x00", b"\x1a\x02\x08\x01", b"\x1a\x04\x08\x01\x10\x01", b"\x2a\x00", b"\x2a\x04\x0a\x00\x12\x00")
    frames = [
        _ack(element * (size // len(element)))
        for element in elements
        for size in (COMMAND_SIZE_MAX - 100, ALMOST_A_FRAME - 100)
    ]

    def act(count: int) -> None:
        with connect(target) as connection:
            connection.subscribe(target.topic(), "s")
            pump(target, connection, frames[count % len(frames) :][:1])
            connection.is_closed_by_peer(0.1)

    return repeatedly(target, act)


def _ack(elements: bytes) -> bytes:
    """Return the frame of an ACK with these encoded elements."""
    body = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual).SerializeToString() + elements
    opening = pb.BaseCommand(type=pb.BaseCommand.ACK).SerializeToString()
    command = opening + b"\x52" + varint.write(len(body)) + body  # field 10 is the body of an ACK
    return frame_of(command)
