"""Segments: the files that the shared log is cut into.

A segment is named ``segment-<sequence, 16 digits>.log`` and starts with a header::

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

import re
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import google_crc32c

from magnetar.base.durable import storage_error
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
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from magnetar.base.world import File, Files
    from magnetar.ledger.segments.record import Body

SEGMENT_HEADER_SIZE = 28

_MAGIC = b"MAGNETAR"
_VERSION = 2
_HEADER = Struct("<8sHHIQ")
_CRC = Struct("<I")
_NAME = re.compile(r"segment-(\d{16})\.log")
_FREE_TIMES = 8
"""How many times its size a segment needs to be free on the disk before it has all of it set aside."""

_PART_BYTES = 4096
"""Bytes of a part, on average, that is written from where it is."""

_PARTS_JOINED = 512
"""Smaller parts that are joined."""


def segment_path(directory: Path, sequence: int) -> Path:
    """The file of a segment."""
    return directory / f"segment-{sequence:016d}.log"


def segment_sequences(names: Sequence[str]) -> list[int]:
    """The segments among the file names of a directory, oldest first; other files are none of ours."""
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)


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


def corruption(path: Path, offset: int, what: str) -> CorruptionError:
    """Make the error for bytes that are not what was written, naming file and offset."""
    return CorruptionError(f"{path}: offset {offset}: {what}")


def read_footer(file: File, sequence: int) -> Record | None:
    """Read the FOOTER of a sealed segment; None if there is none, or no intact one."""
    size = file.size()
    offset = footer_offset(file.read_at(max(size - FOOTER_TAIL_SIZE, 0), FOOTER_TAIL_SIZE))
    if offset is None or offset >= size:
        return None
    record = decode_record(file.read_at(offset, size - offset), 0, sequence, offset)
    if record is None or record.kind is not Kind.FOOTER or record.end != size:
        return None
    return record


def walk(data: bytes, header: SegmentHeader, path: Path) -> Iterator[Record]:
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
                raise _synced_damage(path, offset, proof)
        yield record
        offset, previous = record.end, record.crc


def refuse_synced_damage(data: bytes, sequence: int, offset: int, path: Path) -> None:
    """Raise CorruptionError if a record behind ``offset`` proves that what is at ``offset`` had been synced."""
    proof = _find_later_sync(data, sequence, offset)
    if proof is not None:
        raise _synced_damage(path, offset, proof)


def _synced_damage(path: Path, offset: int, proof: int) -> CorruptionError:
    what = f"broken record, though the record at {proof} followed its sync; more than the content of entries is damaged"
    return corruption(path, offset, what)


def _find_later_sync(data: bytes, sequence: int, offset: int) -> int | None:
    """Return the offset of a record that proves that what is at ``offset`` had been synced; None if there is none."""
    at = data.find(MAGIC, offset + 1)
    while at >= 0:
        record = decode_record(data, at, sequence, at)
        if record is not None and record.place.synced > offset:
            return at
        at = data.find(MAGIC, at + 1)
    return None


class SegmentWriter:
    """The end of the newest segment. Used by one thread."""

    def __init__(self, path: Path, file: File, sequence: int, previous: int) -> None:
        """Continue ``file`` behind its last record, whose crc is ``previous``; all of the file must be synced."""
        self.path = path
        self.sequence = sequence
        self.size = file.size()
        """Bytes written, all of them intact."""
        self.previous = previous
        """What the next record repeats."""
        self._file = file
        self._synced = self.size

    @classmethod
    def create(cls, files: Files, directory: Path, sequence: int, previous: int, room: int) -> SegmentWriter:
        """Start a segment, with so many bytes of the disk set aside for it unless that is much of what is free.

        Raises DiskFullError, after which it can be tried again, or StorageError.
        """
        path = segment_path(directory, sequence)
        header = make_segment_header(sequence, previous)
        try:
            file = files.open(path)
        except OSError as error:
            raise storage_error(path, error) from error
        try:
            file.truncate(0)  # an attempt that ran out of space may have left something
            file.write([header.encode()])
            set_room_aside(files, directory, file, room)
            file.sync()
            files.sync_directory(directory)
            return cls(path, file, sequence, header.crc)
        except OSError as error:
            with suppress(OSError):
                file.truncate(0)
            file.close()
            raise storage_error(path, error) from error

    @property
    def has_records(self) -> bool:
        """Whether anything was written behind the header."""
        return self.size > SEGMENT_HEADER_SIZE

    def write(self, records: Sequence[tuple[Kind, Body]]) -> list[int]:
        """Append records in one write; return their offsets. Durable after ``sync``.

        Raises DiskFullError with the segment cut back to what it was, or StorageError with its end unknown.
        """
        parts: list[bytes] = []
        offsets = []
        offset, previous = self.size, self.previous
        for kind, body in records:
            header, previous = encode_header(kind, body, Place(self.sequence, offset, previous, self._synced))
            parts.append(header)
            parts += body.parts
            offsets.append(offset)
            offset += HEADER_SIZE + body.size
        try:
            self._file.write(_gathered(parts))
        except OSError as error:
            self._cut_back()
            raise storage_error(self.path, error) from error
        self.size, self.previous = offset, previous
        return offsets

    def sync(self) -> None:
        """Return once everything written is on the disk; raises StorageError, and then nothing can be promised."""
        try:
            self._file.sync()
        except OSError as error:
            # Even ENOSPC here leaves unknown what reached the disk: the kernel may have dropped the dirty pages.
            message = f"{self.path}: cannot sync: {error}"
            raise StorageError(message) from error
        self._synced = self.size

    def give_back_room(self) -> None:
        """Give back what was set aside and not needed: nothing more will be written."""
        with suppress(OSError):  # it is only room
            self._file.truncate(self.size)

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _cut_back(self) -> None:
        """Remove what a failed write left, durably: it must not come back as if it had been written."""
        try:
            self._file.truncate(self.size)
            self._file.sync()
        except OSError as error:
            message = f"{self.path}: cannot cut back to {self.size} bytes: {error}"
            raise StorageError(message) from error


def _gathered(parts: list[bytes]) -> list[bytes]:
    """The same bytes in fewer parts where they are small.

    Large ones are not copied: a group in one piece is megabytes of fresh memory, which costs more than writing it.
    """
    if sum(map(len, parts)) >= _PART_BYTES * len(parts):
        return parts
    return [b"".join(parts[start : start + _PARTS_JOINED]) for start in range(0, len(parts), _PARTS_JOINED)]


def set_room_aside(files: Files, directory: Path, file: File, room: int) -> None:
    """Have the disk keep ``room`` bytes for a segment, unless that is much of what is free."""
    if files.free_bytes(directory) >= _FREE_TIMES * room:
        size = file.size()
        try:
            file.set_aside(room)
        except OSError:  # the file grows as it is written; a part that was set aside is given back
            file.truncate(size)
