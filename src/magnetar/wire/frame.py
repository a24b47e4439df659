"""Frames: the delimiting of commands and their payloads in the byte stream.

A frame is ``u32 totalSize, u32 commandSize, BaseCommand`` and, for SEND and MESSAGE, an entry (*headersAndPayload*).
``totalSize`` counts all bytes after itself; all integers are big-endian (Pulsar's ``Commands.java``).
"""

from __future__ import annotations

import struct
import sys
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.limits import FRAME_SIZE_PADDING, MAX_MESSAGE_SIZE, Limit
from magnetar.wire.long_lists import LONG_FROM_BYTES, LongList, read_long
from magnetar.wire.proto import pulsar_api_pb2 as pb
from magnetar.wire.runs import Acks, Recent, Runs, Sends

if TYPE_CHECKING:
    from collections.abc import Iterable

FRAMES_AT_ONCE_MAX = 100
"""Maximum number of frames, besides runs, that ``feed_gathering`` returns at once."""

PEER_FRAMES_AT_ONCE_MAX = 300
"""Maximum number of frames that ``feed_some`` returns at once, some 6 ms of work: all of a read with entries of 1 KiB.

The pipeline sends on together what it receives together.
"""

FRAME_SIZE_MAX = MAX_MESSAGE_SIZE + FRAME_SIZE_PADDING
"""Maximum bytes of a frame, with its size fields, unless the peers agreed on another limit."""

SERIALIZED_SIZE_MAX = 4096
"""Maximum bytes of a command whose missing required fields are all listed."""

_SIZE_LENGTH = 4
_HEADER_LENGTH = 2 * _SIZE_LENGTH
_PIECE_BYTES = 16 * 1024
_UNLIMITED = 2**32
_HEADER = struct.Struct(">II")
_read_header = _HEADER.unpack_from
_pack_header = _HEADER.pack

# The field that holds the body of a command has the number of the command's type.
_BODY_FIELDS = {field.number: field.name for field in pb.BaseCommand.DESCRIPTOR.fields if field.name != "type"}

# Commands of the hot path, which have no string fields.
_TEXTLESS = frozenset(
    {pb.BaseCommand.SEND, pb.BaseCommand.SEND_RECEIPT, pb.BaseCommand.MESSAGE, pb.BaseCommand.FLOW},
)


class Frame(NamedTuple):
    """One command; ``body`` is the entry of a SEND or MESSAGE, and empty for every other command."""

    command: pb.BaseCommand
    body: bytes


Received = Frame | LongList | Sends | Acks


def encode_command(command: pb.BaseCommand, body: bytes = b"") -> bytes:
    """Encode ``command`` and its entry as one frame."""
    return frame_of(command.SerializeToString(), body)


def frame_of(command: bytes, body: bytes = b"") -> bytes:
    """Encode a serialized command and its entry as one frame."""
    return b"".join((frame_opening(len(command), len(body)), command, body))


def frame_opening(command_size: int, body_size: int = 0) -> bytes:
    """Encode the beginning of a frame: its size and that of its command."""
    return _pack_header(_SIZE_LENGTH + command_size + body_size, command_size)


class FrameDecoder:
    """Splits a byte stream into frames, independent of the boundaries of the reads.

    Each byte is copied a bounded number of times: once into its frame and, if a frame arrives in pieces, once more when
    the pieces are joined. Pieces smaller than _PIECE_BYTES are joined early, each byte as often as its piece doubles: a
    frame that arrives byte by byte takes no more memory than its size.
    """

    __slots__ = (
        "_command_size_max",
        "_lists_are_checked",
        "_missing",
        "_name",
        "_pieces",
        "_recent",
        "_total_size_max",
        "has_more",
        "held",
    )

    def __init__(
        self,
        frame_size_max: int = FRAME_SIZE_MAX,
        name: Limit = Limit.MESSAGE_SIZE,
        *,
        command_size_max: int | None = None,
        lists_are_checked: bool = True,
    ) -> None:
        """Refuse frames of more than ``frame_size_max`` bytes, size fields included; errors call the limit ``name``.

        Refuse commands of more than ``command_size_max`` bytes, by default only those that exceed the frame.

        Unless ``lists_are_checked``, repeated fields are not checked for UTF-8, because a frame may hold a million
        values. Code that reads them then has to call ``texts``.
        """
        self._command_size_max = _UNLIMITED if command_size_max is None else command_size_max
        self._lists_are_checked = lists_are_checked
        self._name = name
        self._total_size_max = frame_size_max - _SIZE_LENGTH
        self._pieces: list[bytes] = []
        self._recent = Recent()
        self.held = 0
        """Number of received bytes that belong to no returned frame."""
        self.has_more = False
        """Whether these bytes may contain complete frames."""
        # Bytes that must arrive before the pieces are joined: the rest of the two sizes, or of a frame.
        self._missing = 0

    def limit(self, frame_size_max: int, name: Limit = Limit.MESSAGE_SIZE) -> None:
        """From the next frame on, refuse frames of more than ``frame_size_max`` bytes, size fields included."""
        self._name = name
        self._total_size_max = frame_size_max - _SIZE_LENGTH

    @property
    def unfinished(self) -> tuple[int, int]:
        """Return the received and the missing bytes of the unfinished frame; 0 and 0 between two frames.

        The number of missing bytes is too low until the size of the frame has arrived.
        """
        return (self.held, self._missing) if self.held and self._missing > 0 else (0, 0)

    def feed(self, data: bytes) -> list[Frame]:
        """Process the next bytes of the stream and return the frames that they complete, in order.

        Raises RemoteProtocolError for a frame that is too large or malformed. The stream ends then: frames completed by
        the same ``data`` are lost, and the decoder must not be fed again.
        """
        return cast("list[Frame]", self._feed(data, gather=False, frames_max=sys.maxsize))

    def feed_some(self, data: bytes) -> list[Frame]:
        """Like ``feed``, but return at most PEER_FRAMES_AT_ONCE_MAX frames.

        If ``has_more`` is true afterwards, the next call returns more of them, also without new bytes.
        """
        return cast("list[Frame]", self._feed(data, gather=False, frames_max=PEER_FRAMES_AT_ONCE_MAX))

    def feed_one(self, data: bytes) -> list[Frame]:
        """Like ``feed_some``, but return at most one frame."""
        return cast("list[Frame]", self._feed(data, gather=False, frames_max=1))

    def feed_gathering(self, data: bytes) -> list[Received]:
        """Like ``feed``, but return SENDs and ACKs in runs if they have the usual form of clients (``wire.runs``).

        Long lists of message ids are not parsed yet (``wire.long_lists``).

        Returns at most FRAMES_AT_ONCE_MAX other frames. If ``has_more`` is true afterwards, the next call returns more
        of them, also without new bytes.
        """
        return self._feed(data, gather=True, frames_max=FRAMES_AT_ONCE_MAX)

    def _feed(self, data: bytes, *, gather: bool, frames_max: int) -> list[Received]:
        if self._pieces:
            self._keep(data)
            if self._missing > 0:
                return []
            data = b"".join(self._pieces)
            self._pieces.clear()
        frames, end = self._cut(data, gather=gather, frames_max=frames_max)
        self.held = held = len(data) - end
        self.has_more = held > 0 and self._missing <= 0
        if held:
            self._pieces.append(data[end:] if end else data)
        return frames

    def _keep(self, piece: bytes) -> None:
        """Keep a piece of a frame; join it with the small pieces before it that are no larger."""
        size = len(piece)
        self.held += size
        self._missing -= size
        pieces = self._pieces
        first = len(pieces)
        while first and len(pieces[first - 1]) < min(size + 1, _PIECE_BYTES):
            first -= 1
            size += len(pieces[first])
        pieces.append(piece)
        if first < len(pieces) - 1:
            pieces[first:] = [b"".join(pieces[first:])]

    def _cut(self, data: bytes, *, gather: bool, frames_max: int) -> tuple[list[Received], int]:
        """Return the complete frames in ``data`` and the start of the rest; update the number of missing bytes."""
        frames: list[Received] = []
        runs, start, length, parsed = None, 0, len(data), 0
        if gather:
            runs = Runs(data, self._total_size_max, frames.append, self._recent)
            start = runs.take_like_recent()
        while length - start >= _HEADER_LENGTH:
            total_size, command_size = _read_header(data, start)
            end = start + _SIZE_LENGTH + total_size
            if (
                total_size > self._total_size_max
                or command_size + _SIZE_LENGTH > total_size
                or command_size > self._command_size_max
            ):
                raise self._misfit(total_size, command_size)
            if end > length:
                self._missing = end - length
                return frames, start
            command_end = start + _HEADER_LENGTH + command_size
            after_run = runs.take(start, command_end, end) if runs is not None else None
            if after_run is not None:
                start = after_run
                continue
            if runs is not None:
                runs.interrupt()
            serialized = data[start + _HEADER_LENGTH : command_end]
            long_list = read_long(serialized) if gather and command_size > LONG_FROM_BYTES else None
            if long_list is None:
                command = _parse(serialized, lists_are_checked=self._lists_are_checked)
                frames.append(Frame(command, data[command_end:end]))
            else:
                frames.append(long_list)
            start = end
            parsed += 1
            if parsed == frames_max:
                self._missing = 0
                return frames, start
        self._missing = start + _HEADER_LENGTH - length
        return frames, start

    def _misfit(self, total_size: int, command_size: int) -> RemoteProtocolError:
        frame_size, frame_size_max = total_size + _SIZE_LENGTH, self._total_size_max + _SIZE_LENGTH
        if frame_size > frame_size_max:
            text = f"frame of {frame_size} bytes exceeds the limit of {frame_size_max} ({self._name})"
            return RemoteProtocolError(text, self._name)
        if _SIZE_LENGTH + command_size <= total_size:
            limit = Limit.COMMAND_SIZE
            text = f"command of {command_size} bytes exceeds the limit of {self._command_size_max} ({limit})"
            return RemoteProtocolError(text, limit)
        return RemoteProtocolError(f"command of {command_size} bytes exceeds its frame of {frame_size}")


def _parse(data: bytes, *, lists_are_checked: bool) -> pb.BaseCommand:
    """Parse a command; refuse unknown types, missing required fields, and strings that are not UTF-8."""
    try:
        command = pb.BaseCommand.FromString(data)
        if len(data) <= SERIALIZED_SIZE_MAX:
            # Parsing does not detect missing required fields. This is the fastest check; its error lists all of them.
            command.SerializeToString()
    except (DecodeError, EncodeError) as error:
        message = f"command cannot be parsed: {error}"
        raise RemoteProtocolError(message) from error
    if len(data) > SERIALIZED_SIZE_MAX and not _is_complete(command, len(data)):
        message = f"command of {len(data)} bytes cannot be parsed: it lacks required fields"
        raise RemoteProtocolError(message)
    # An unknown type reads as a missing one, because enums are closed in proto2, so it is refused above.
    kind = command.type
    if not command.HasField(_BODY_FIELDS[kind]):  # type: ignore[arg-type]  # a field by name
        message = f"{pb.BaseCommand.Type.Name(kind)} without its body"
        raise RemoteProtocolError(message)
    textless = kind in _TEXTLESS or (kind == pb.BaseCommand.ACK and not command.ack.properties)
    if not textless and not is_text(command, lists=lists_are_checked):
        message = f"{pb.BaseCommand.Type.Name(kind)} with a string that is not UTF-8"
        raise RemoteProtocolError(message)
    return command


def _is_complete(command: pb.BaseCommand, size: int) -> bool:
    """Whether a large command of ``size`` bytes has all required fields; most that lack many are found at once."""
    for field, body in command.ListFields():
        if field.message_type is None:
            continue
        for part, values in body.ListFields():
            if part.is_repeated and part.message_type and len(values) * _size_min(part.message_type) > size:
                return False
    return command.IsInitialized()


@cache
def _size_min(descriptor: Descriptor) -> int:
    """Return the size of the smallest complete element of this type: tag and length, and so for each required field."""
    return 2 + 2 * sum(field.is_required for field in descriptor.fields)


def texts(values: Iterable[str]) -> list[str]:
    """Return strings that were read from a message; raises RemoteProtocolError if one is not UTF-8."""
    found = list(values)
    if not all(isinstance(each, str) for each in found):
        message = "a string that is not UTF-8"
        raise RemoteProtocolError(message)
    return found


def is_text(message: Message, *, lists: bool = True) -> bool:
    """Whether all string fields are UTF-8: proto2 accepts any bytes in them, and returns them as bytes.

    Unless ``lists``, repeated fields are not checked.
    """
    holding_text = _fields_holding_text(message.DESCRIPTOR)
    for field, value in message.ListFields():
        if field.number not in holding_text or (field.is_repeated and not lists):
            continue
        values = value if field.is_repeated else (value,)
        if field.type == FieldDescriptor.TYPE_STRING and not all(isinstance(item, str) for item in values):
            return False
        if field.type == FieldDescriptor.TYPE_MESSAGE and not all(is_text(each, lists=lists) for each in values):
            return False
    return True


@cache
def _fields_holding_text(descriptor: Descriptor) -> frozenset[int]:
    """Return the numbers of the fields that are strings, or messages with strings at any depth."""
    return frozenset(
        field.number
        for field in descriptor.fields
        if field.type == FieldDescriptor.TYPE_STRING
        or (field.type == FieldDescriptor.TYPE_MESSAGE and _may_hold_text(field.message_type))
    )


@cache
def _may_hold_text(descriptor: Descriptor) -> bool:
    """Whether a message of this type can contain a string, at any depth; types may contain themselves."""
    seen, waiting = {descriptor}, [descriptor]
    while waiting:
        for field in waiting.pop().fields:
            if field.type == FieldDescriptor.TYPE_STRING:
                return True
            if field.message_type is not None and field.message_type not in seen:
                seen.add(field.message_type)
                waiting.append(field.message_type)
    return False
