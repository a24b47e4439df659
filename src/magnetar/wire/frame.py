"""Frames: how commands and their payloads are delimited in the byte stream.

A frame is ``u32 totalSize, u32 commandSize, BaseCommand`` and, for SEND and MESSAGE, an entry (*headersAndPayload*).
``totalSize`` counts everything after itself; all integers are big-endian (Pulsar's ``Commands.java``).
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.limits import FRAME_SIZE_PADDING, MAX_MESSAGE_SIZE
from magnetar.wire.proto import pulsar_api_pb2 as pb

FRAME_SIZE_MAX = MAX_MESSAGE_SIZE + FRAME_SIZE_PADDING
"""Bytes of the largest frame, its size fields included, where nothing else was agreed."""

_SIZE_LENGTH = 4
_HEADER_LENGTH = 2 * _SIZE_LENGTH
_HEADER = struct.Struct(">II")
_read_header = _HEADER.unpack_from
_pack_header = _HEADER.pack

# What a SEND of the usual form begins with: type 6, field 6. A length, the producer's id and the sequence id follow.
_SEND = b"\x08\x06\x32"
_PRODUCER_ID = 0x08
_SEQUENCE_ID = 0x10
_REQUIRED_OF_SEND = b"\x08\x00\x10\x00"
_MORE = 0x80
_UNSIGNED_MAX = 2**64 - 1

# The field that holds the body of a command has the number of the command's type.
_BODY_FIELDS = {field.number: field.name for field in pb.BaseCommand.DESCRIPTOR.fields if field.name != "type"}

# Commands of the hot path, which hold no text.
_TEXTLESS = frozenset(
    {pb.BaseCommand.SEND, pb.BaseCommand.SEND_RECEIPT, pb.BaseCommand.MESSAGE, pb.BaseCommand.FLOW},
)


class Frame(NamedTuple):
    """One command; ``body`` is the entry of a SEND or MESSAGE, and empty for every other command."""

    command: pb.BaseCommand
    body: bytes


class Sends(NamedTuple):
    """The SENDs of one producer that one read of the socket brought, with at most SENDs of others in between.

    A broker's work per read is worth sharing; so is what it costs to read a command that comes once per message.
    """

    producer_id: int
    heads: list[tuple[int, int, int]]
    """``sequence_id``, ``highest_sequence_id`` (0 when there is none) and ``num_messages`` of each."""
    entries: list[bytes]


Received = Frame | Sends


def encode_command(command: pb.BaseCommand, body: bytes = b"") -> bytes:
    """Put ``command``, and the entry that goes with it, into one frame."""
    return frame_of(command.SerializeToString(), body)


def frame_of(command: bytes, body: bytes = b"") -> bytes:
    """Put a serialized command, and the entry that goes with it, into one frame."""
    header = _pack_header(_SIZE_LENGTH + len(command) + len(body), len(command))
    return b"".join((header, command, body))


class FrameDecoder:
    """Cuts a stream of bytes into frames, however the stream was split on the way.

    Each byte is copied a bounded number of times: once into its frame and, where a frame arrives in pieces, once more
    when the pieces are joined.
    """

    __slots__ = ("_missing", "_pieces", "_total_size_max")

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX) -> None:
        """Refuse frames of more than ``frame_size_max`` bytes, size fields included."""
        self._total_size_max = frame_size_max - _SIZE_LENGTH
        self._pieces: list[bytes] = []
        # Bytes still to come before the pieces are worth joining: the rest of the two sizes, or of a frame.
        self._missing = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes of the stream and return the frames that they complete, in order.

        Raises RemoteProtocolError for a frame that is too large or cannot be read. The stream cannot go on then:
        frames completed by the same ``data`` are lost with it, and the decoder must not be fed again.
        """
        return cast("list[Frame]", self._feed(data, gather=False))

    def feed_gathering(self, data: bytes) -> list[Received]:
        """As ``feed``, but with SENDs gathered by producer where they are of the form that every client writes."""
        return self._feed(data, gather=True)

    def _feed(self, data: bytes, *, gather: bool) -> list[Received]:
        if self._pieces:
            self._pieces.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return []
            data = b"".join(self._pieces)
            self._pieces.clear()
        frames, end = self._cut(data, gather=gather)
        if end < len(data):
            self._pieces.append(data[end:] if end else data)
        return frames

    def _cut(self, data: bytes, *, gather: bool) -> tuple[list[Received], int]:
        """Return the whole frames in ``data`` and where the rest begins; note how much the rest misses."""
        frames: list[Received] = []
        runs: dict[int, Sends] = {}
        start, length = 0, len(data)
        while length - start >= _HEADER_LENGTH:
            total_size, command_size = _read_header(data, start)
            end = start + _SIZE_LENGTH + total_size
            if total_size > self._total_size_max or command_size + _SIZE_LENGTH > total_size:
                raise self._misfit(total_size, command_size)
            if end > length:
                self._missing = end - length
                return frames, start
            command_start = start + _HEADER_LENGTH
            command_end = command_start + command_size
            head = None
            if gather and data.startswith(_SEND, command_start):
                head = _send_head(data, command_start, command_end)
            if head is None:
                runs.clear()
                frames.append(Frame(_parse(data[command_start:command_end]), data[command_end:end]))
            else:
                producer_id, numbers = head
                run = runs.get(producer_id)
                if run is None:
                    run = runs[producer_id] = Sends(producer_id, [], [])
                    frames.append(run)
                run.heads.append(numbers)
                run.entries.append(data[command_end:end])
            start = end
        self._missing = start + _HEADER_LENGTH - length
        return frames, start

    def _misfit(self, total_size: int, command_size: int) -> RemoteProtocolError:
        frame_size, frame_size_max = total_size + _SIZE_LENGTH, self._total_size_max + _SIZE_LENGTH
        if frame_size > frame_size_max:
            return RemoteProtocolError(f"frame of {frame_size} bytes exceeds the limit of {frame_size_max}")
        return RemoteProtocolError(f"command of {command_size} bytes exceeds its frame of {frame_size}")


def _send_head(data: bytes, start: int, end: int) -> tuple[int, tuple[int, int, int]] | None:
    """Read a SEND as every client writes it; None for any other form, which protobuf has to read."""
    place = start + len(_SEND)
    try:
        if data[place] != end - place - 1 or data[place + 1] != _PRODUCER_ID:
            return None
        producer_id, place = _varint(data, place + 2)
        if data[place] != _SEQUENCE_ID:
            return None
        sequence_id, place = _varint(data, place + 1)
    except IndexError:
        return None
    if producer_id > _UNSIGNED_MAX or sequence_id > _UNSIGNED_MAX:
        return None
    if place == end:
        return producer_id, (sequence_id, 0, 1)
    rest = _send_rest(data[place:end]) if place < end else None
    return None if rest is None else (producer_id, (sequence_id, *rest))


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """Read an unsigned number; return it and where it ends. Raises IndexError at the end of the data."""
    value = data[start]
    if value < _MORE:
        return value, start + 1
    value -= _MORE
    shift = 7
    while True:
        start += 1
        byte = data[start]
        if byte < _MORE:
            return value + (byte << shift), start + 1
        value += (byte - _MORE) << shift
        shift += 7


@lru_cache(maxsize=1024)
def _send_rest(rest: bytes) -> tuple[int, int] | None:
    """Read the optional fields of a SEND: ``highest_sequence_id`` and ``num_messages``. None if there are others."""
    try:
        send = pb.CommandSend.FromString(_REQUIRED_OF_SEND + rest)
    except DecodeError:
        return None
    if send.producer_id or send.sequence_id or send.HasField("message_id"):
        return None
    return send.highest_sequence_id, send.num_messages


def _parse(data: bytes) -> pb.BaseCommand:
    """Read a command, of a type known here, with every required field and with text where text belongs."""
    try:
        command = pb.BaseCommand.FromString(data)
        command.SerializeToString()  # parsing does not miss required fields; this is the quickest way to
    except (DecodeError, EncodeError) as error:
        message = f"command cannot be parsed: {error}"
        raise RemoteProtocolError(message) from error
    # An unknown type reads as an absent one, as enums are closed in proto2, so it is refused above.
    kind = command.type
    if not command.HasField(_BODY_FIELDS[kind]):  # type: ignore[arg-type]  # a field by name
        message = f"{pb.BaseCommand.Type.Name(kind)} without its body"
        raise RemoteProtocolError(message)
    textless = kind in _TEXTLESS or (kind == pb.BaseCommand.ACK and not command.ack.properties)
    if not textless and not _is_text(command):
        message = f"{pb.BaseCommand.Type.Name(kind)} with a string that is not UTF-8"
        raise RemoteProtocolError(message)
    return command


def _is_text(message: Message) -> bool:
    """Whether all strings are text: proto2 reads any bytes into a string field, and hands them out as bytes."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else (value,)
        if field.type == FieldDescriptor.TYPE_STRING and not all(isinstance(item, str) for item in values):
            return False
        if field.type == FieldDescriptor.TYPE_MESSAGE and not all(map(_is_text, values)):
            return False
    return True
