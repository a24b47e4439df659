"""Runs: consecutive SENDs of a producer or ACKs of a consumer in one read of the socket, parsed together.

These commands arrive once per message. Protobuf needs more time to parse one than the broker needs for all other work
on it. They are parsed by hand if they have the usual form of clients, and by protobuf otherwise. A client numbers its
SENDs consecutively and acknowledges the entries of one ledger in order, so a frame mostly differs from the one before
only in the low bits of one number. Most frames are therefore only compared with the bytes that they share (``_Alike``).
A client that waits for each answer sends one command at a time, so frames are compared across reads (``Recent``).
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from magnetar.wire import varint
from magnetar.wire.proto import pulsar_api_pb2 as pb
from magnetar.wire.transactions import has_transaction
from magnetar.wire.varint import MORE

if TYPE_CHECKING:
    from collections.abc import Callable

_SIZE_LENGTH = 4
_HEADER_LENGTH = 2 * _SIZE_LENGTH
_read_size = struct.Struct(">I").unpack_from

# The first bytes of the commands: their type, and the tag of the field with the same number. The length and the fields
# of the body follow.
_SEND = b"\x08\x06\x32"
_ACK = b"\x08\x0a\x52"

# Field tags of SEND, of ACK with the type Individual, and of the message id in ACK.
_PRODUCER_ID, _SEQUENCE_ID = 0x08, 0x10
_CONSUMER_ID, _INDIVIDUAL_MESSAGE_ID = 0x08, b"\x10\x00\x1a"
_LEDGER_ID, _ENTRY_ID = 0x08, 0x10

_ID_MAX = 2**63 - 1
"""Greater ids are negative as int64, and name no entry."""


class Sends(NamedTuple):
    """SENDs of one producer from one read of the socket, without other commands than runs in between."""

    producer_id: int
    heads: list[tuple[int, int, int]]
    """``sequence_id``, ``highest_sequence_id`` (0 for none) and ``num_messages`` of each SEND; no chunks."""
    entries: list[bytes]


class Acks(NamedTuple):
    """ACKs of single, whole entries of one ledger by one consumer, without request ids, from one read of the socket."""

    consumer_id: int
    ledger_id: int
    entry_ids: list[int]


class _Alike(NamedTuple):
    """The common bytes of frames that differ only in the low bits of one number (and in their entries)."""

    before: bytes
    """The bytes before the number."""
    after: bytes
    """The bytes from the second byte of the number to the end of the command."""
    more: int
    """MORE if the number has a second byte, else 0."""
    high: int
    """The number with its low bits cleared."""


def _alike(before: bytes, rest: bytes, number: int) -> _Alike:
    """Return the pattern of the frames like a command whose last part ``rest`` begins with ``number``."""
    first = rest[0]
    return _Alike(before, rest[1:], first & MORE, number - first % MORE)


class Recent:
    """The newest SEND and the newest ACK of a connection, for the recognition of those like them in another read."""

    __slots__ = ("ack", "acks_alike", "highest", "num_messages", "producer_id", "sends_alike")

    def __init__(self) -> None:
        """Start without commands."""
        self.producer_id = -1
        self.sends_alike: _Alike | None = None
        """Common bytes of the SENDs like it; None unless two of the producer came in succession."""
        self.highest = self.num_messages = 0
        self.ack = (-1, -1)
        """The ids of its consumer and ledger."""
        self.acks_alike: _Alike | None = None
        """Common bytes of the ACKs like it; None unless two of the consumer and the ledger came in succession."""


class Runs:
    """The runs in the bytes of one read.

    SENDs and single ACKs do not depend on each other. Runs of both kinds, of any producer and consumer, therefore grow
    side by side until another command follows. A run has the place of its first command.
    """

    __slots__ = ("_acks", "_begin", "_data", "_recent", "_sends", "_total_size_max")

    def __init__(self, data: bytes, total_size_max: int, begin: Callable[[Sends | Acks], None], recent: Recent) -> None:
        """Find runs in ``data``; frames may not exceed ``total_size_max``; ``begin`` is called with each new run.

        ``recent`` has the newest commands of earlier reads, and then those of this one.
        """
        self._data = data
        self._recent = recent
        self._total_size_max = total_size_max
        self._begin = begin
        self._sends: dict[int, Sends] = {}
        self._acks: dict[tuple[int, int], Acks] = {}

    def interrupt(self) -> None:
        """End all runs: another command stands here, and the commands after it must not be handled before it."""
        self._sends.clear()
        self._acks.clear()

    def take_like_recent(self) -> int:
        """Add the first frames if they are like the newest SEND or ACK; return the start of the next frame."""
        recent, start = self._recent, 0
        if recent.sends_alike is not None:
            sends = Sends(recent.producer_id, [], [])
            start = self._more_sends(sends, recent.sends_alike, recent.highest, recent.num_messages, 0)
            if start:
                self._sends[recent.producer_id] = sends
                self._begin(sends)
                return start
        if recent.acks_alike is not None:
            acks = Acks(*recent.ack, [])
            start = self._more_acks(acks, recent.acks_alike, 0)
            if start:
                self._acks[recent.ack] = acks
                self._begin(acks)
        return start

    def take(self, start: int, command_end: int, end: int) -> int | None:
        """Add the frame at ``start`` and the frames like it after it; return the start of the first frame that differs.

        Returns None if the (complete) frame does not have the usual form: protobuf has to parse it.
        """
        command_start = start + _HEADER_LENGTH
        try:
            if self._data.startswith(_SEND, command_start):
                return self._take_send(start, command_end, end)
            if self._data.startswith(_ACK, command_start) and command_end == end:
                return self._take_ack(start, end)
        except (IndexError, OverflowError):
            pass  # not a valid number
        return None

    def _take_send(self, start: int, command_end: int, end: int) -> int | None:
        data, body_start = self._data, start + _HEADER_LENGTH + len(_SEND)
        if data[body_start] != command_end - body_start - 1 or data[body_start + 1] != _PRODUCER_ID:
            return None
        producer_id, place = varint.read(data, body_start + 2)
        if data[place] != _SEQUENCE_ID:
            return None
        sequence_id, place = varint.read(data, number_place := place + 1)
        rest = _send_rest(data[place:command_end]) if place <= command_end else None
        if rest is None:
            return None
        run = self._sends.get(producer_id)
        if run is None:
            run = self._sends[producer_id] = Sends(producer_id, [], [])
            self._begin(run)
        highest, num_messages = rest
        run.heads.append((sequence_id, highest, num_messages))
        run.entries.append(data[command_end:end])
        before, recent = data[start + _SIZE_LENGTH : number_place], self._recent
        goes_on = data.startswith(before, end + _SIZE_LENGTH)
        if not goes_on and producer_id != recent.producer_id:
            recent.producer_id, recent.sends_alike = producer_id, None
            return end
        alike = _alike(before, data[number_place:command_end], sequence_id)
        recent.producer_id, recent.sends_alike = producer_id, alike
        recent.highest, recent.num_messages = highest, num_messages
        return self._more_sends(run, alike, highest, num_messages, end) if goes_on else end

    def _more_sends(self, run: Sends, alike: _Alike, highest: int, num_messages: int, start: int) -> int:
        """Add the SENDs from ``start`` on that differ from ``alike`` only in low bits of the sequence id."""
        data, size_max, length = self._data, self._total_size_max + _SIZE_LENGTH, len(self._data)
        starts_with, add_head, add_entry = data.startswith, run.heads.append, run.entries.append
        before, after, more, high = alike
        to_number = _SIZE_LENGTH + len(before)
        to_entry = to_number + 1 + len(after)
        while starts_with(before, start + _SIZE_LENGTH):
            number_at = start + to_number
            if not starts_with(after, number_at + 1):
                break
            low, size = data[number_at] ^ more, _SIZE_LENGTH + _read_size(data, start)[0]
            end = start + size
            if low >= MORE or size < to_entry or end > length or size > size_max:
                break
            add_head((high + low, highest, num_messages))
            add_entry(data[start + to_entry : end])
            start = end
        return start

    def _take_ack(self, start: int, end: int) -> int | None:
        data, body_start = self._data, start + _HEADER_LENGTH + len(_ACK)
        if data[body_start] != end - body_start - 1 or data[body_start + 1] != _CONSUMER_ID:
            return None
        consumer_id, place = varint.read(data, body_start + 2)
        id_start = place + len(_INDIVIDUAL_MESSAGE_ID)
        if not data.startswith(_INDIVIDUAL_MESSAGE_ID, place) or data[id_start] != end - id_start - 1:
            return None
        ledger_id, place = varint.read(data, id_start + 2)
        if data[id_start + 1] != _LEDGER_ID or data[place] != _ENTRY_ID:
            return None
        entry_id, id_end = varint.read(data, place + 1)
        if id_end != end or ledger_id > _ID_MAX or entry_id > _ID_MAX:
            return None
        key = consumer_id, ledger_id
        run = self._acks.get(key)
        if run is None:
            run = self._acks[key] = Acks(consumer_id, ledger_id, [])
            self._begin(run)
        run.entry_ids.append(entry_id)
        before, recent = data[start : place + 1], self._recent
        goes_on = data.startswith(before, end)
        if not goes_on and key != recent.ack:
            recent.ack, recent.acks_alike = key, None
            return end
        alike = _alike(before, data[place + 1 : end], entry_id)
        recent.ack, recent.acks_alike = key, alike
        return self._more_acks(run, alike, end) if goes_on else end

    def _more_acks(self, run: Acks, alike: _Alike, start: int) -> int:
        """Add the ACKs from ``start`` on that differ from ``alike`` only in low bits of the entry id."""
        data, (before, after, more, high) = self._data, alike
        number_at = len(before)
        size = number_at + 1 + len(after)
        while data.startswith(before, start) and data.startswith(after, start + number_at + 1):
            low = data[start + number_at] ^ more
            if low >= MORE:
                break
            run.entry_ids.append(high + low)
            start += size
        return start


@lru_cache(maxsize=1024)
def _send_rest(rest: bytes) -> tuple[int, int] | None:
    """Return ``highest_sequence_id`` and ``num_messages`` of a SEND; None if it has other optional fields."""
    try:
        send = pb.CommandSend.FromString(rest)
    except DecodeError:
        return None
    repeated = send.HasField("producer_id") or send.HasField("sequence_id")
    if repeated or send.is_chunk or send.HasField("message_id") or has_transaction(send) or send.entry_sizes:
        return None
    return send.highest_sequence_id, send.num_messages
