"""Large commands: lists of message ids are parsed in parts, and schemas are exempt from the size limit.

A client may acknowledge 50,000 entries with one command. Its parsing takes tens of milliseconds, during which a broker
can do nothing else. A list is therefore split between two message ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.limits import PLAIN_COMMAND_SIZE_MAX, Limit
from magnetar.wire import varint
from magnetar.wire.proto import partial_pb2 as partial
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

LONG_FROM_BYTES = 16 * 1024
"""Minimum size of a command with message ids that is parsed in parts: over a thousand ids of the usual size."""

IDS_MAX = 1000
"""Maximum number of message ids of a part: some milliseconds of work for a broker."""

PART_BYTES = 32 * 1024
"""Bytes at which a part is complete. A single message id may be larger, because of its ack set."""

# Tags of the lists in ACK and in REDELIVER_UNACKNOWLEDGED_MESSAGES.
_ID_OF_ACK: Final = 0x1A
_ID_OF_REDELIVER: Final = 0x12

# Protobuf's types of fields: the low bits of a tag.
_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5
_TYPES = 8

_INCOMPLETE: Final = "command cannot be parsed: it lacks required fields"


class LongList:
    """An ACK or a REDELIVER_UNACKNOWLEDGED_MESSAGES whose message ids are parsed in parts."""

    __slots__ = ("_body", "_id", "_place", "head")

    def __init__(self, head: pb.BaseCommand, body: bytes) -> None:
        """``head`` is the command without its lists, ``body`` the serialized body."""
        self.head = head
        self._body = body
        self._id = _ID_OF_ACK if head.type == pb.BaseCommand.ACK else _ID_OF_REDELIVER
        self._place = 0

    @property
    def is_over(self) -> bool:
        """Whether all message ids were taken."""
        return self._place >= len(self._body)

    def drop(self) -> None:
        """Skip the remaining message ids."""
        self._place = len(self._body)

    def take(self) -> list[pb.MessageIdData]:
        """Return the next message ids; a part may have none.

        Raises RemoteProtocolError if the list cannot be parsed, or an id lacks required fields.
        """
        try:
            data = self._cut()
            if self._id == _ID_OF_ACK:
                return _complete(pb.CommandAck.FromString(data).message_id)
            return _complete(pb.CommandRedeliverUnacknowledgedMessages.FromString(data).message_ids)
        except (DecodeError, IndexError, OverflowError) as error:
            message = f"command cannot be parsed: {error}"
            raise RemoteProtocolError(message) from error

    def _cut(self) -> bytes:
        """Return the bytes of the next message ids, with their tags; skip all other fields."""
        body, place, parts, size = self._body, self._place, list[bytes](), 0
        end = len(body)
        for _ in range(IDS_MAX):
            if place >= end or (body[place] == self._id and size >= PART_BYTES):
                break
            start = place
            place = _end_of_field(body, place)
            if body[start] == self._id:
                parts.append(body[start:place])
                size += place - start
        self._place = place
        return b"".join(parts)


def read_long(data: bytes) -> LongList | None:
    """Return a serialized command as a LongList; None if it has no list of message ids.

    Raises RemoteProtocolError if it is not valid, or larger than PLAIN_COMMAND_SIZE_MAX without lists and schemas.
    """
    try:
        command = partial.LargeCommand.FromString(data)
        if command.type == pb.BaseCommand.ACK and command.HasField("ack"):
            return LongList(_head(command.type, partial.AckWithoutLists.FromString(command.ack)), command.ack)
        if command.type == pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES and command.HasField("redeliver"):
            part = partial.RedeliverWithoutLists.FromString(command.redeliver)
            return LongList(_head(command.type, part), command.redeliver)
    except DecodeError as error:
        message = f"command cannot be parsed: {error}"
        raise RemoteProtocolError(message) from error
    schemas = (each.schema.schema_data for each in (command.subscribe, command.producer, command.get_or_create_schema))
    size = len(data) - sum(map(len, schemas))
    if size > PLAIN_COMMAND_SIZE_MAX:
        limit = Limit.COMMAND_SIZE
        message = f"command of {size} bytes exceeds the limit of {PLAIN_COMMAND_SIZE_MAX} ({limit})"
        raise RemoteProtocolError(message, limit)
    return None


def _head(
    kind: pb.BaseCommand.Type.ValueType, part: partial.AckWithoutLists | partial.RedeliverWithoutLists
) -> pb.BaseCommand:
    """Return a command with the fields of ``part``; raises RemoteProtocolError if required ones are missing."""
    if not part.IsInitialized():
        raise RemoteProtocolError(_INCOMPLETE)
    head = pb.BaseCommand(type=kind)
    body = head.ack if kind == pb.BaseCommand.ACK else head.redeliverUnacknowledgedMessages
    for field, value in part.ListFields():
        setattr(body, field.name, value)
    return head


def _complete(ids: Iterable[pb.MessageIdData]) -> list[pb.MessageIdData]:
    found = list(ids)
    if not all(each.IsInitialized() for each in found):
        raise RemoteProtocolError(_INCOMPLETE)
    return found


def _end_of_field(data: bytes, place: int) -> int:
    """Return the end of the field at ``place``; raises IndexError, OverflowError or RemoteProtocolError."""
    tag, place = varint.read(data, place)
    kind = tag % _TYPES
    if kind == _VARINT:
        return varint.read(data, place)[1]
    if kind == _SIZED:
        size, place = varint.read(data, place)
        return place + size
    if kind in (_FIXED64, _FIXED32):
        return place + (8 if kind == _FIXED64 else 4)
    message = f"command cannot be parsed: a field of type {kind}"
    raise RemoteProtocolError(message)
