"""Prebuilt frames of the raw load, and a minimal parser of a broker's responses. Pure.

The entries equal those of the official client for an unbatched message: producer name, sequence id and publish time in
the metadata, and a checksum. Responses are split by their sizes, and only the necessary fields are parsed.
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

from magnetar.wire.entries.entry import build_entry
from magnetar.wire.frame import encode_command, frame_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCER_ID = 1
CONSUMER_ID = 1
PRODUCER_NAME = "bench"

PONG = encode_command(pb.BaseCommand(type=pb.BaseCommand.PONG, pong=pb.CommandPong()))

_read_sizes = struct.Struct(">II").unpack_from
_SIZES_LENGTH = 8
_KIND_PLACE = 1
"""A command begins with the tag of its type; the type, below 128, is the byte after it."""

_MESSAGE_ID_TAG = b"\x12"
_AFTER_MESSAGE_HEADER = 4
"""The offset of the body of a MESSAGE below 128 bytes: after the type and its tag, and the body's tag and length."""

_ACK_HEAD = bytes((0x08, CONSUMER_ID, 0x10, pb.CommandAck.Individual, 0x1A))
"""Consumer, type of acknowledgement, and the tag of the message id, whose length follows."""

_COMMAND_ACK = bytes((0x08, pb.BaseCommand.ACK, 0x52))
_SHORT = 0x80
"""Lengths below this number take one byte."""


def payload(size: int) -> bytes:
    """Return ``size`` incompressible bytes, always the same."""
    return random.Random(size).randbytes(size)


def publish_frames(count: int, size: int, publish_time_ms: int) -> list[bytes]:
    """Return ``count`` SENDs of one unbatched message of ``size`` bytes each, in the order of sequence ids."""
    content = payload(size)
    command = pb.BaseCommand(type=pb.BaseCommand.SEND)
    send = command.send
    send.producer_id = PRODUCER_ID
    metadata = pb.MessageMetadata(producer_name=PRODUCER_NAME, publish_time=publish_time_ms, sequence_id=0)
    frames = []
    for sequence_id in range(count):
        send.sequence_id = metadata.sequence_id = sequence_id
        frames.append(frame_of(command.SerializeToString(), build_entry(metadata, content)))
    return frames


def acknowledgement(message_command: bytes) -> bytes:
    """Return the ACK without a receipt for a serialized MESSAGE of consumer 1.

    Raises ValueError for a MESSAGE in an unusual encoding.
    """
    place = message_command.index(_MESSAGE_ID_TAG, _AFTER_MESSAGE_HEADER) + 1
    length = message_command[place]
    if length >= _SHORT:
        text = f"message id of {length} bytes or more"
        raise ValueError(text)
    body = _ACK_HEAD + message_command[place : place + 1 + length]
    return frame_of(_COMMAND_ACK + bytes((len(body),)) + body)


def flow(permits: int) -> bytes:
    """Return FLOW with ``permits``."""
    body = pb.CommandFlow(consumer_id=CONSUMER_ID, messagePermits=permits)
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.FLOW, flow=body))


class AnswerError(Exception):
    """An unexpected response of a broker."""


class Answers:
    """Splits a broker's output into frames of one expected type."""

    def __init__(self, expected: pb.BaseCommand.Type.ValueType) -> None:
        """Expect frames of one type, and PINGs."""
        self._expected = expected
        self._rest = b""
        self.pings = 0
        """Number of unanswered PINGs; the caller answers them and resets it."""

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes; return the completed serialized commands of the expected type, in order.

        Raises AnswerError for any other type, such as SEND_ERROR.
        """
        commands = []
        for command in self._cut(data):
            kind = command[_KIND_PLACE]
            if kind == self._expected:
                commands.append(command)
            elif kind == pb.BaseCommand.PING:
                self.pings += 1
            else:
                text = f"instead of {pb.BaseCommand.Type.Name(self._expected)}: {pb.BaseCommand.FromString(command)}"
                raise AnswerError(text)
        return commands

    def _cut(self, data: bytes) -> Iterator[bytes]:
        if self._rest:
            data = self._rest + data
        start, length = 0, len(data)
        while length - start >= _SIZES_LENGTH:
            total_size, command_size = _read_sizes(data, start)
            end = start + 4 + total_size
            if end > length:
                break
            yield data[start + _SIZES_LENGTH : start + _SIZES_LENGTH + command_size]
            start = end
        self._rest = data[start:]
