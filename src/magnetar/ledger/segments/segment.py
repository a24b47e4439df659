"""Segments: the parts that the shared log is cut into.

A segment starts with a header::

    offset size
       0    8   magic      "MAGNETAR"
       8    2   version    2
      10    2   zero
      12    4   previous   crc of the last record of the segment before; 0 for the first segment
      16    8   sequence
      24    4   crc        CRC32C of the 24 bytes before

Records follow without gaps. A segment is sealed by its INDEX records and, when they are synced, by its FOOTER; only
after that is synced too the next segment is created. So at most the newest segment is unsealed, and only its tail can
be torn.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import google_crc32c

from magnetar.base.errors import CorruptionError, StorageError
from magnetar.ledger.segments.record import (
    FOOTER_TAIL_SIZE,
    HEADER_SIZE,
    MAGIC,
    Kind,
    Place,
    Record,
    decode_record,
    encode_header,
    footer_offset,
)
from magnetar.ledger.segments.salvage import decode_damaged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from magnetar.ledger.medium.interface import SegmentReader
    from magnetar.ledger.segments.record import Body

SEGMENT_HEADER_SIZE = 28

_MAGIC = b"MAGNETAR"
_VERSION = 2
_HEADER = Struct("<8sHHIQ")
_CRC = Struct("<I")


class SegmentHeader(NamedTuple):
    """The start of a segment; ``crc`` is what its first record repeats."""

    sequence: int
    previous: int
    crc: int

    def encode(self) -> bytes:
        """Make the bytes that a segment starts with."""
        return _encode_fields(self.sequence, self.previous) + _CRC.pack(self.crc)


def _encode_fields(sequence: int, previous: int) -> bytes:
    return _HEADER.pack(_MAGIC, _VERSION, 0, previous, sequence)


def make_segment_header(sequence: int, previous: int) -> SegmentHeader:
    """Give the header of a new segment its crc."""
    return SegmentHeader(sequence, previous, google_crc32c.value(_encode_fields(sequence, previous)))


def decode_segment_header(data: bytes, sequence: int) -> SegmentHeader | None:
    """Read the header of segment ``sequence``; None if it is not intact.

    Raises StorageError for a version of the format that this release does not know.
    """
    if len(data) < SEGMENT_HEADER_SIZE:
        return None
    magic, version, _, previous, own_sequence = _HEADER.unpack_from(data)
    header = SegmentHeader(own_sequence, previous, _CRC.unpack_from(data, _HEADER.size)[0])
    if magic != _MAGIC or own_sequence != sequence or google_crc32c.value(data[: _HEADER.size]) != header.crc:
        return None
    if version != _VERSION:
        message = f"segment {sequence} has version {version} of the format, this release knows {_VERSION}"
        raise StorageError(message)
    return header


def corruption(name: str, offset: int, what: str) -> CorruptionError:
    """Make the error for bytes that are not what was written, naming the segment and the offset."""
    return CorruptionError(f"{name}: offset {offset}: {what}")


async def read_footer(reader: SegmentReader, sequence: int) -> Record | None:
    """Read the FOOTER of a sealed segment; None if there is none, or no intact one."""
    size = await reader.size()
    (tail,) = await reader.read([(max(size - FOOTER_TAIL_SIZE, 0), FOOTER_TAIL_SIZE)])
    offset = footer_offset(tail)
    if offset is None or offset >= size:
        return None
    (data,) = await reader.read([(offset, size - offset)])
    record = decode_record(data, 0, sequence, offset)
    if record is None or record.kind is not Kind.FOOTER or record.end != size:
        return None
    return record


async def read_whole(reader: SegmentReader) -> bytes:
    """Read all of a segment."""
    (data,) = await reader.read([(0, await reader.size())])
    return data


def walk(data: bytes, header: SegmentHeader, name: str) -> Iterator[Record]:
    """Yield the records of a whole segment's bytes, in order, each checked against the one before.

    A record that had reached the disk may be damaged in the content of entries only (``decode_damaged``): it is not
    ``intact``. Ends in front of a torn tail. Raises CorruptionError where other bytes are broken that had reached the
    disk.
    """
    offset, previous = SEGMENT_HEADER_SIZE, header.crc
    while offset < len(data):
        record = decode_record(data, offset, header.sequence, offset)
        if record is None or record.place.previous != previous:
            proof = _find_later_sync(data, header.sequence, offset)
            if proof is None:
                return
            record = decode_damaged(data, offset, header.sequence, offset)
            if record is None or record.place.previous != previous:
                raise _synced_damage(name, offset, proof)
        yield record
        offset, previous = record.end, record.crc


def refuse_synced_damage(data: bytes, sequence: int, offset: int, name: str) -> None:
    """Raise CorruptionError if a record behind ``offset`` proves that what is at ``offset`` had been synced."""
    proof = _find_later_sync(data, sequence, offset)
    if proof is not None:
        raise _synced_damage(name, offset, proof)


def _synced_damage(name: str, offset: int, proof: int) -> CorruptionError:
    what = f"broken record, though the record at {proof} followed its sync; more than the content of entries is damaged"
    return corruption(name, offset, what)


def _find_later_sync(data: bytes, sequence: int, offset: int) -> int | None:
    """Return the offset of a record that proves that what is at ``offset`` had been synced; None if there is none."""
    at = data.find(MAGIC, offset + 1)
    while at >= 0:
        record = decode_record(data, at, sequence, at)
        if record is not None and record.place.synced > offset:
            return at
        at = data.find(MAGIC, at + 1)
    return None


class SegmentEnd(NamedTuple):
    """Where a segment ends, and the next record goes."""

    sequence: int
    size: int
    """Bytes before it."""
    previous: int
    """What the next record repeats: the crc of the last record, or of the segment's header."""

    @property
    def has_records(self) -> bool:
        """Whether anything was written behind the header."""
        return self.size > SEGMENT_HEADER_SIZE


def encode_records(
    records: Iterable[tuple[Kind, Body]], at: SegmentEnd, synced: int
) -> tuple[list[bytes], list[int], SegmentEnd]:
    """Encode records that are written ``at`` the end of a segment, of which ``synced`` bytes are known to be synced.

    Returns the bytes to write, the offset of each record, and where the segment ends behind them.
    """
    parts: list[bytes] = []
    offsets = []
    sequence, offset, previous = at
    for kind, body in records:
        header, previous = encode_header(kind, body, Place(sequence, offset, previous, synced))
        parts.append(header)
        parts += body.parts
        offsets.append(offset)
        offset += HEADER_SIZE + body.size
    return parts, offsets, SegmentEnd(sequence, offset, previous)
