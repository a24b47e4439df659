"""The records of the shared log: format, writer and reader in one place.

All numbers are little-endian. A record is a header and a body::

    offset size
       0    4   magic      "MgRc"
       4    4   crc        CRC32C of the body and then of the header's fields behind this one
       8    4   previous   crc of the record before it; of the segment's header for the first record
      12    4   segment    sequence of the segment, modulo 2^32
      16    4   offset     where the record starts in its segment
      20    4   synced     bytes of the segment that were known to be on the disk when the record was written
      24    1   kind
      25    3   zero
      28    4   length     of the body

``segment`` and ``offset`` make a record recognizable where no length leads to it, and keep bytes that merely look like
one from passing. ``synced`` tells a torn tail from damage: broken bytes below what a later record calls synced had
reached the disk, so no crash of ours broke them.

Bodies, by kind::

    RUN      ledger u64, first entry u64, count u32, annotation length u32, annotation, lengths u32[count], entries
    SEAL     ledger u64, 0 u64                      the ledger takes no more entries
    DELETE   ledger u64, 0 u64                      the ledger is gone
    TRIM     ledger u64, entry u64                  the ledger's entries below `entry` are gone
    RESERVE  ledger u64, 0 u64                      every id below `ledger` may have been given to a ledger
    INDEX    see Table: the runs of one ledger in this segment; it counts if the FOOTER names it
    FOOTER   see Footer: the last record of a sealed segment
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate, pairwise
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Self

import google_crc32c

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAGIC = b"MgRc"
HEADER_SIZE = 32

_HEADER = Struct("<4sIIIIIB3xI")
_CHECKED = Struct("<IIIIB3xI")
_UNCHECKED = Struct("<4sI")
_RUN = Struct("<QQII")
_CONTROL = Struct("<QQ")
_TABLE = Struct("<QI")
_FOOTER = Struct("<QII")
_LEDGER = Struct("<QQQB")
_EXTENT = Struct("<QQQQII")
_FOOTER_TAIL = Struct("<I4s")
_FOOTER_MAGIC = b"MgFt"
_RUN_MEMORY_BYTES = 32
_ANNOTATION_MEMORY_BYTES = 48

_LARGE_ENTRY_BYTES = 16 * 1024
"""A larger entry costs more to copy than to handle by itself."""

FOOTER_TAIL_SIZE = _FOOTER_TAIL.size


class Kind(IntEnum):
    """What a record says; the values are on disk."""

    RUN = 1
    SEAL = 2
    DELETE = 3
    TRIM = 4
    RESERVE = 5
    INDEX = 6
    FOOTER = 7


class Place(NamedTuple):
    """Where a record is written, which its header repeats."""

    segment: int
    offset: int
    previous: int
    synced: int


class Record(NamedTuple):
    """A record that was read: intact, or a RUN of which only the content of entries is damaged."""

    kind: Kind
    place: Place
    crc: int
    body: bytes
    intact: bool = True

    @property
    def end(self) -> int:
        """Offset of the first byte behind the record."""
        return self.place.offset + HEADER_SIZE + len(self.body)


class Body(NamedTuple):
    """A record's body, and what can be said of it before it is known where the record will lie."""

    parts: Sequence[bytes]
    size: int
    crc: int
    """CRC32C of the body alone."""


def body_of(*parts: bytes) -> Body:
    """Make a body of parts, which are not copied."""
    crc = 0
    for part in parts:
        crc = google_crc32c.extend(crc, part)
    return Body(parts, sum(map(len, parts)), crc)


def encode_header(kind: Kind, body: Body, place: Place) -> tuple[bytes, int]:
    """Make the header of ``body`` at ``place``; also the record's crc, which the next record repeats."""
    segment, offset, previous, synced = place
    checked = _CHECKED.pack(previous, segment & 0xFFFFFFFF, offset, synced, kind, body.size)
    crc = google_crc32c.extend(body.crc, checked)
    return _UNCHECKED.pack(MAGIC, crc) + checked, crc


def decode_record(
    data: bytes, at: int, segment: int, offset: int, crc_of: Callable[[bytes], int] = google_crc32c.value
) -> Record | None:
    """Read the record that starts at ``data[at]`` and claims to lie at ``offset``; None if it is not intact.

    ``crc_of`` returns the CRC32C that the body had when it was written.
    """
    if len(data) - at < HEADER_SIZE:
        return None
    magic, crc, previous, own_segment, own_offset, synced, kind, length = _HEADER.unpack_from(data, at)
    end = at + HEADER_SIZE + length
    if magic != MAGIC or own_segment != segment & 0xFFFFFFFF or own_offset != offset or end > len(data):
        return None
    body_at = at + HEADER_SIZE
    body = data[body_at:end]
    if google_crc32c.extend(crc_of(body), data[at + _UNCHECKED.size : body_at]) != crc:
        return None
    return Record(Kind(kind), Place(segment, offset, previous, synced), crc, body)


def _pack(words: array[int]) -> bytes:
    if sys.byteorder == "big":
        words = words[:]
        words.byteswap()
    return words.tobytes()


_COUNT_MAX = 2**32 - 1
"""More entries than a run can hold."""


def _unpack(typecode: str, data: bytes) -> array[int]:
    words = array(typecode)
    words.frombytes(data)
    if sys.byteorder == "big":
        words.byteswap()
    return words


class RunHead(NamedTuple):
    """What a RUN says besides its entries."""

    ledger_id: int
    first_entry_id: int
    entries: int
    annotation: bytes
    entries_bytes: int


def encode_run(ledger_id: int, first_entry_id: int, entries: Sequence[bytes], annotation: bytes) -> Body:
    """Make the body of a RUN; large entries are not copied before they are written."""
    head, lengths = _RUN.pack(ledger_id, first_entry_id, len(entries), len(annotation)), array("I", map(len, entries))
    parts = (head, annotation, _pack(lengths), *entries)
    if sum(lengths) > _LARGE_ENTRY_BYTES * len(entries):
        return body_of(*parts)
    data = b"".join(parts)
    return Body((data,), len(data), google_crc32c.value(data))


def decode_run_head(body: bytes) -> RunHead:
    """Read the body of a RUN, leaving the entries alone."""
    ledger_id, first_entry_id, count, annotation_size = _RUN.unpack_from(body)
    entries_at = _RUN.size + annotation_size + 4 * count
    annotation = body[_RUN.size : _RUN.size + annotation_size]
    return RunHead(ledger_id, first_entry_id, count, annotation, len(body) - entries_at)


def decode_run_entries(body: bytes, skip: int = 0, count_max: int = _COUNT_MAX) -> list[bytes]:
    """Read the entries of a RUN from the one with index ``skip`` on, at most ``count_max``."""
    _, _, count, annotation_size = _RUN.unpack_from(body)
    lengths_at = _RUN.size + annotation_size
    entries_at = lengths_at + 4 * count
    lengths = _unpack("I", body[lengths_at:entries_at])
    ends = accumulate(lengths[skip : skip + count_max], initial=entries_at + sum(lengths[:skip]))
    return [body[start:end] for start, end in pairwise(ends)]


def decode_run_counts(body: bytes) -> tuple[int, int]:
    """Read how many entries a RUN's body claims to have, and the size of its annotation; zeros if it is too short."""
    if len(body) < _RUN.size:
        return 0, 0
    _, _, count, annotation_size = _RUN.unpack_from(body)
    return count, annotation_size


def run_lengths(body: bytes, count: int, annotation_size: int) -> tuple[Sequence[int], bytes]:
    """Read the lengths of a RUN's ``count`` entries, and the bytes of all of them, trusting nothing in ``body``.

    Nothing of either if the body is too short for the lengths.
    """
    lengths_at = _RUN.size + annotation_size
    entries_at = lengths_at + 4 * count
    if len(body) < entries_at:
        return (), b""
    return _unpack("I", body[lengths_at:entries_at]), body[entries_at:]


def encode_control(ledger_id: int, argument: int) -> bytes:
    """Make the body of a SEAL, DELETE, TRIM or RESERVE."""
    return _CONTROL.pack(ledger_id, argument)


def decode_control(body: bytes) -> tuple[int, int]:
    """Read what encode_control made."""
    ledger_id, argument = _CONTROL.unpack(body)
    return ledger_id, argument


@dataclass(slots=True)
class Table:
    """The runs of one ledger in one segment, in order, in compact columns.

    On disk, as the body of an INDEX: ledger u64, runs u32, then the columns first entry u64[], count u32[],
    record offset u32[], record size u32[], annotation length u32[], and the annotations.
    """

    firsts: array[int] = field(default_factory=lambda: array("Q"))
    counts: array[int] = field(default_factory=lambda: array("I"))
    offsets: array[int] = field(default_factory=lambda: array("I"))
    sizes: array[int] = field(default_factory=lambda: array("I"))
    annotations: list[bytes] = field(default_factory=list)

    def append(self, head: RunHead, offset: int, size: int) -> None:
        """Add the run behind the last one; another thread may be reading, so ``firsts`` grows last."""
        self.counts.append(head.entries)
        self.offsets.append(offset)
        self.sizes.append(size)
        self.annotations.append(head.annotation)
        self.firsts.append(head.first_entry_id)

    def suffix_from(self, first_entry_id: int) -> Self:
        """Return the runs that start at this entry or later."""
        return self._suffix(bisect_left(self.firsts, first_entry_id))

    def suffix_with(self, entry_id: int) -> Self:
        """Return the run that holds ``entry_id`` and those behind it."""
        return self._suffix(bisect_right(self.firsts, entry_id) - 1)

    def _suffix(self, at: int) -> Self:
        columns = (self.firsts[at:], self.counts[at:], self.offsets[at:], self.sizes[at:])
        return type(self)(*columns, self.annotations[at:])

    @property
    def memory_bytes(self) -> int:
        """About what the table takes in memory; runs without an annotation share one empty one."""
        annotated = [len(annotation) for annotation in self.annotations if annotation]
        return _RUN_MEMORY_BYTES * len(self.firsts) + _ANNOTATION_MEMORY_BYTES * len(annotated) + sum(annotated)

    def encode(self, ledger_id: int) -> bytes:
        """Make the body of an INDEX."""
        columns = (self.firsts, self.counts, self.offsets, self.sizes, array("I", map(len, self.annotations)))
        head = _TABLE.pack(ledger_id, len(self.firsts))
        return b"".join((head, *map(_pack, columns), *self.annotations))

    @classmethod
    def decode(cls, body: bytes) -> tuple[int, Self]:
        """Read the body of an INDEX: the ledger and its table."""
        ledger_id, runs = _TABLE.unpack_from(body)
        at = _TABLE.size
        columns = []
        for typecode, width in (("Q", 8), ("I", 4), ("I", 4), ("I", 4), ("I", 4)):
            columns.append(_unpack(typecode, body[at : at + width * runs]))
            at += width * runs
        firsts, counts, offsets, sizes, lengths = columns
        annotations = [body[start:end] for start, end in pairwise(accumulate(lengths, initial=at))]
        return ledger_id, cls(firsts, counts, offsets, sizes, annotations)


class LedgerLine(NamedTuple):
    """A live ledger as of the end of a segment."""

    ledger_id: int
    trimmed_before: int
    length: int
    sealed: bool


class ExtentLine(NamedTuple):
    """What a live ledger has in the segment: entries ``first`` up to, not including, ``end``; and its INDEX."""

    ledger_id: int
    first: int
    end: int
    entries_bytes: int
    index_offset: int
    index_size: int


class Footer(NamedTuple):
    """The state of all ledgers at the end of a segment, and what of it lies in this segment.

    On disk: next ledger id u64, ledgers u32, extents u32, the ledgers as (id u64, trimmed before u64, length u64,
    sealed u8), the extents as (ledger u64, first u64, end u64, bytes u64, INDEX offset u32, INDEX size u32); and, so
    that it can be found from the end of the file, the FOOTER's own offset u32 and "MgFt".
    """

    next_ledger_id: int
    ledgers: tuple[LedgerLine, ...]
    extents: tuple[ExtentLine, ...]

    def encode(self, offset: int) -> bytes:
        """Make the body of a FOOTER that is written at ``offset``."""
        head = _FOOTER.pack(self.next_ledger_id, len(self.ledgers), len(self.extents))
        ledgers = (_LEDGER.pack(*line) for line in self.ledgers)
        extents = (_EXTENT.pack(*line) for line in self.extents)
        return b"".join((head, *ledgers, *extents, _FOOTER_TAIL.pack(offset, _FOOTER_MAGIC)))

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Read the body of a FOOTER."""
        next_ledger_id, ledgers, _ = _FOOTER.unpack_from(body)
        ledger_lines = _LEDGER.iter_unpack(body[_FOOTER.size : _FOOTER.size + _LEDGER.size * ledgers])
        return cls(
            next_ledger_id,
            tuple(
                LedgerLine(ledger_id, trimmed, length, bool(sealed))
                for ledger_id, trimmed, length, sealed in ledger_lines
            ),
            cls.decode_extents(body),
        )

    @staticmethod
    def decode_extents(body: bytes) -> tuple[ExtentLine, ...]:
        """Read only the extents: what an older segment's FOOTER says of the ledgers, a newer one says again."""
        _, ledgers, extents = _FOOTER.unpack_from(body)
        extents_at = _FOOTER.size + _LEDGER.size * ledgers
        lines = _EXTENT.iter_unpack(body[extents_at : extents_at + _EXTENT.size * extents])
        return tuple(map(ExtentLine._make, lines))


def footer_offset(tail: bytes) -> int | None:
    """Where the FOOTER starts, by the last FOOTER_TAIL_SIZE bytes of a segment; None if they end no footer."""
    if len(tail) != _FOOTER_TAIL.size:
        return None
    offset, magic = _FOOTER_TAIL.unpack(tail)
    return offset if magic == _FOOTER_MAGIC else None
