"""Bytes and commands without sense."""

from __future__ import annotations

import random
import socket
import struct
from typing import TYPE_CHECKING

from magnetar.wire.frame import encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.hostile.catalogue import behaviour
from tests.hostile.tools import connect, frame, repeatedly
from tests.kit.raw import RawConnection, command, entry

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from tests.hostile.catalogue import Target

CHANCE = random.Random(13)
TLS_CLIENT_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(500)
HTTP_REQUEST = b"GET /admin/v2/clusters HTTP/1.1\r\nHost: broker\r\n\r\n"
CORNERS = (0, 1, 2, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, -1, -(2**31), -(2**63))
TEXTS = ("", "s", "\x00", "x" * 1000, ".*(", "1:2", "persistent://a/b/c", "../../etc", "\u202e\U0001f4a5")
CLIENT_COMMANDS = [
    name
    for name, number in pb.BaseCommand.Type.items()
    if name not in ("CONNECT", "CONNECTED", "PING", "PONG") and number < pb.BaseCommand.NEW_TXN
]


@behaviour("Random bytes in place of CONNECT.")
def random_bytes(target: Target) -> int:
    def act(_count: int) -> None:
        with RawConnection(target.service_url) as connection:
            connection.socket.sendall(CHANCE.randbytes(CHANCE.randrange(1, 4000)))
            connection.is_closed_by_peer(0.05)

    return repeatedly(target, act)


@behaviour("Random bytes after CONNECT.")
def random_bytes_after_connect(target: Target) -> int:
    def act(_count: int) -> None:
        with connect(target) as connection:
            connection.socket.sendall(CHANCE.randbytes(CHANCE.randrange(1, 100_000)))
            connection.is_closed_by_peer(0.05)

    return repeatedly(target, act)


@behaviour("Well-formed frames whose commands are random bytes.")
def random_commands(target: Target) -> int:
    def act(_count: int) -> None:
        bodies = [CHANCE.randbytes(CHANCE.randrange(1, 200)) for _ in range(50)]
        with connect(target) as connection:
            connection.socket.sendall(b"".join(struct.pack(">II", len(body) + 4, len(body)) + body for body in bodies))
            connection.is_closed_by_peer(0.05)

    return repeatedly(target, act)


@behaviour("Valid commands whose fields hold the extremes of their types.", seconds=6.0)
def extreme_fields(target: Target) -> int:
    def act(_count: int) -> None:
        with connect(target) as connection:
            connection.create_producer(target.topic())
            connection.subscribe(target.topic(), "s")
            for _ in range(20):
                connection.socket.sendall(_extreme(target, CHANCE.choice(CLIENT_COMMANDS)))
            connection.is_closed_by_peer(0.05)

    return repeatedly(target, act)


def _extreme(target: Target, name: str) -> bytes:
    number = pb.BaseCommand.Type.Value(name)
    built = pb.BaseCommand(type=number)
    _fill(getattr(built, pb.BaseCommand.DESCRIPTOR.fields_by_number[number].name), target)
    return encode_command(built, entry(b"extreme") if name == "SEND" else b"")


def _fill(message: Message, target: Target, depth: int = 0) -> None:
    """Set required fields, and others by chance, to extremes of their types."""
    message.SetInParent()
    for field in message.DESCRIPTOR.fields:
        if field.number >= 1000 or not (field.is_required or CHANCE.random() < 0.5):
            continue
        if field.message_type is not None:
            if depth < 2:
                part = getattr(message, field.name)
                _fill(part.add() if field.is_repeated else part, target, depth + 1)
            continue
        try:
            value = _corner(field.type, field.enum_type, target)
            if field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
        except ValueError:  # beyond the range of this field: the next one may take it
            if field.is_required:
                setattr(message, field.name, 1)


def _corner(kind: int, enum: object, target: Target) -> object:
    if enum is not None:
        return CHANCE.choice([value.number for value in enum.values])  # type: ignore[attr-defined]
    if kind == 9:  # TYPE_STRING
        return CHANCE.choice((target.topic(), *TEXTS))
    if kind == 12:  # TYPE_BYTES
        return CHANCE.randbytes(20)
    if kind == 8:  # TYPE_BOOL
        return CHANCE.random() < 0.5
    return CHANCE.choice(CORNERS)


@behaviour("HTTP and TLS to the binary port, binary frames to the REST port.")
def other_protocols(target: Target) -> int:
    def act(count: int) -> None:
        addresses = (target.address, target.address, target.web_address)
        openings = (HTTP_REQUEST, TLS_CLIENT_HELLO, frame("CONNECT", client_version="lost"))
        with socket.create_connection(addresses[count % 3], timeout=2) as connection:
            connection.sendall(openings[count % 3] * 10)
            connection.recv(1000)

    return repeatedly(target, act)


@behaviour("CONNECT twice on one connection.")
def connect_twice(target: Target) -> int:
    def act(_count: int) -> None:
        with connect(target) as connection:
            connection.send("CONNECT", client_version="twice")
            connection.is_closed_by_peer(0.2)

    return repeatedly(target, act)


@behaviour("Each command of the protocol before CONNECT.")
def commands_before_connect(target: Target) -> int:
    def act(count: int) -> None:
        with RawConnection(target.service_url) as connection:
            connection.socket.sendall(_extreme(target, CLIENT_COMMANDS[count % len(CLIENT_COMMANDS)]))
            connection.is_closed_by_peer(0.2)

    return repeatedly(target, act)


@behaviour("Commands that only brokers send: MESSAGE, SEND_RECEIPT, SUCCESS and the like.")
def commands_of_brokers(target: Target) -> int:
    frames = [
        encode_command(
            command("MESSAGE", consumer_id=1, message_id=pb.MessageIdData(ledgerId=1, entryId=1)), entry(b"")
        ),
        frame("SEND_RECEIPT", producer_id=1, sequence_id=1),
        frame("SUCCESS", request_id=1),
        frame("PRODUCER_SUCCESS", request_id=1, producer_name="p"),
        frame("CONNECTED", server_version="false"),
        frame("PONG"),
        frame("CLOSE_CONSUMER", consumer_id=1, request_id=1),
        frame("REACHED_END_OF_TOPIC", consumer_id=1),
        frame("ACTIVE_CONSUMER_CHANGE", consumer_id=1, is_active=True),
    ]

    def act(count: int) -> None:
        with connect(target) as connection:
            connection.subscribe(target.topic(), "s")
            connection.socket.sendall(frames[count % len(frames)] * 3)
            connection.is_closed_by_peer(0.1)

    return repeatedly(target, act)
