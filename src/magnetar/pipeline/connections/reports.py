"""The reports of a writer to its reader over the back-channel, and their framing.

A frame is ``u32 length, u8 kind, body``; the length counts kind and body. Integers are big-endian. The bodies:

    READY        empty                            TARGET_DOWN  UTF-8 reason
    TARGET_UP    UTF-8 state and custody          TARGET_LOST  UTF-8 state and topics; separated by zero bytes
    RECEIPTS     u32 attachment, i64 ledger, i64 entry, repeated
    REFUSED      u32 attachment, u8 gap, i64 ledger, i64 entry, UTF-8 origin, a zero byte, UTF-8 reason
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from magnetar.base.position import EARLIEST, Position
from magnetar.wire.links import LinkEnd

_HEADER = struct.Struct(">IB")
_RECEIPT = struct.Struct(">Iqq")
_REFUSAL = struct.Struct(">IBqq")


@dataclass(frozen=True, slots=True)
class Ready:
    """The writer is warmed up: its modules are imported, and its loop runs."""


@dataclass(frozen=True, slots=True)
class TargetUp:
    """The target is connected."""

    state: str = ""
    """Its state according to its first report of losses; empty if it reports none."""
    custody: str = ""
    """How it takes entries of other clusters that are in the custody of a source, see CUSTODY_METADATA; empty: not."""


@dataclass(frozen=True, slots=True)
class TargetLost:
    """The target lost topics, or any of its data if there are none; ``state`` is the one after that."""

    state: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TargetDown:
    """The target is not connected; all entries in flight to it are dropped."""

    reason: str


@dataclass(frozen=True, slots=True)
class Receipts:
    """By attachment, the newest position up to which, inclusive, all its entries are durable at the target.

    An entry and the markers that follow it have the same position, and each is confirmed separately.
    """

    confirmed: tuple[tuple[int, Position], ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """An attachment that the target refused; its entries in flight are dropped.

    ``end`` is set for a gap: where the entries that the target holds end.
    """

    attachment: int
    reason: str
    end: LinkEnd | None = None


Report = Ready | TargetUp | TargetLost | TargetDown | Receipts | Refused


class _Kind(IntEnum):
    READY = 1
    TARGET_UP = 2
    TARGET_DOWN = 3
    RECEIPTS = 4
    REFUSED = 5
    TARGET_LOST = 6


def encode_report(report: Report) -> bytes:
    """Encode a report as one frame."""
    match report:
        case Ready():
            return _frame(_Kind.READY, b"")
        case TargetUp(state, custody):
            return _frame(_Kind.TARGET_UP, f"{state}\0{custody}".encode())
        case TargetLost(state, topics):
            return _frame(_Kind.TARGET_LOST, "\0".join((state, *topics)).encode())
        case TargetDown(reason):
            return _frame(_Kind.TARGET_DOWN, reason.encode())
        case Receipts(confirmed):
            return _frame(_Kind.RECEIPTS, b"".join(_RECEIPT.pack(number, *position) for number, position in confirmed))
        case Refused(attachment, reason, end):
            origin, last = end or LinkEnd("", EARLIEST)
            head = _REFUSAL.pack(attachment, end is not None, *last)
            return _frame(_Kind.REFUSED, head + f"{origin}\0{reason}".encode())


class ReportDecoder:
    """Splits a byte stream into reports."""

    def __init__(self) -> None:
        """Begin at the start of a frame."""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Report]:
        """Add ``data``; return the complete reports. Raises ValueError for an unknown kind."""
        self._buffer += data
        reports = []
        offset = 0
        while len(self._buffer) - offset >= _HEADER.size:
            length, kind = _HEADER.unpack_from(self._buffer, offset)
            end = offset + _HEADER.size - 1 + length
            if end > len(self._buffer):
                break
            reports.append(_decode(_Kind(kind), bytes(self._buffer[offset + _HEADER.size : end])))
            offset = end
        del self._buffer[:offset]
        return reports


def _frame(kind: _Kind, body: bytes) -> bytes:
    return _HEADER.pack(1 + len(body), kind) + body


def _decode(kind: _Kind, body: bytes) -> Report:
    match kind:
        case _Kind.READY:
            return Ready()
        case _Kind.TARGET_UP:
            state, custody = body.decode().split("\0")
            return TargetUp(state, custody)
        case _Kind.TARGET_LOST:
            state, *topics = body.decode().split("\0")
            return TargetLost(state, tuple(topics))
        case _Kind.TARGET_DOWN:
            return TargetDown(body.decode())
        case _Kind.RECEIPTS:
            receipts = _RECEIPT.iter_unpack(body)
            return Receipts(tuple((number, Position(ledger, entry)) for number, ledger, entry in receipts))
        case _Kind.REFUSED:
            number, gap, ledger, entry = _REFUSAL.unpack_from(body)
            origin, _, reason = body[_REFUSAL.size :].decode().partition("\0")
            return Refused(number, reason, LinkEnd(origin, Position(ledger, entry)) if gap else None)
