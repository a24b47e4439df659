"""The rows from reader to writer: one row is one chunk of entries as stored.

A row has one column, ``body``, because each column takes time in every process on the way. The first byte of a body is
its kind. The first row of a task is an OPENING, JSON. The body of ENTRIES, all integers big-endian:

    u8 kind
    u16 attachments, each: u32 number, u16 length, source cluster, u16 length, topic,
                               u16 length, life of the source
    u32 items, each: u16 index of its attachment, i64 x 6 position, previous and floor (ledger, entry),
                     u8 link_start, u32 length, u32 entries of a run (0: a single entry),
                     of a run: u32 size of each entry, u32 length, schema version,
                               u16 length, origin in custody, i64 x 2 position there (empty and 0: no origin)
                     the entry, or the entries of the run
    zeros up to ROW_BYTES_MIN and to a multiple of ROW_ALIGNMENT

Every row has the attachments that it uses, so that it can be decoded independently.

Spark passes a row on only when the next one is available, because its batch iterator looks ahead. So an empty row,
which the writer ignores, follows the last row of a burst in the same Arrow batch. A row must not be held back in the
buffers of 512 bytes on the path. So its last part, the body, is larger than that, and aligned so that Arrow adds
nothing.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from magnetar.base.position import Position
from magnetar.pipeline import limits
from magnetar.wire.message_id import Link, OriginPosition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SCHEMA_DDL = "body binary"
"""The rows' schema for Spark."""

SCHEMA = pa.schema([("body", pa.binary())])
"""The rows' schema for Arrow."""

_ATTACHMENTS = struct.Struct(">H")
_NUMBER = struct.Struct(">I")
_TEXT = struct.Struct(">H")
_ITEM = struct.Struct(">HqqqqqqBII")
_POSITION = struct.Struct(">qq")
_NO_ORIGIN = OriginPosition("", Position(0, 0))
_OFFSETS = struct.Struct("=iii")
"""The offsets of an Arrow column with two values."""


class Kind(IntEnum):
    """The kind of a row, the first byte of its body."""

    OPENING = 1
    ENTRIES = 2


class Attachment(NamedTuple):
    """One attachment of a reader to one topic of one source; ``number`` is unique within the task."""

    number: int
    source: str
    topic: str
    life: str = ""
    """The life of the source (base/life.py); empty if it names none."""


class Carried(NamedTuple):
    """An entry in transit, with the source's information about the entries before it; or a run of entries.

    The entries of a run have consecutive positions. Each follows the one before on the link.
    """

    attachment: Attachment
    position: Position
    """The position of the entry, or of the first one of the run."""
    link: Link
    entry: bytes
    """The entry, or the entries of the run one after the other."""
    sizes: tuple[int, ...] = ()
    """The sizes of the entries of a run; empty for a single entry."""
    schema_version: bytes = b""
    """The version of the schema of all entries of a run at the source, empty for none. Not set for a single entry."""
    origin: OriginPosition | None = None
    """The position at its origin, of the first one of a run, if it has no stamp and is in the custody of the source.

    Then ``link`` has positions of the origin.
    """

    @property
    def is_marker(self) -> bool:
        """Return whether it is a marker, which has the position of the entry before it."""
        return self.origin is None and self.position == self.link.previous

    @property
    def entries(self) -> int:
        """Return the number of entries."""
        return len(self.sizes) or 1

    @property
    def last(self) -> Position:
        """Return the position of the last entry."""
        return self.position._replace(entry_id=self.position.entry_id + self.entries - 1)

    def singles(self) -> Iterator[Carried]:
        """Yield each entry of a run."""
        position, origin, link, start = self.position, self.origin, self.link, 0
        for size in self.sizes:
            yield Carried(self.attachment, position, link, self.entry[start : start + size], origin=origin)
            start += size
            previous = position if origin is None else origin.position
            link = Link(previous, previous)
            position = _next(position)
            origin = None if origin is None else origin._replace(position=_next(origin.position))


@dataclass(frozen=True, slots=True)
class Opening:
    """The information that a writer needs before the first entry."""

    target: str
    lease: int
    channel: str
    """Path of the unix socket on which the reader receives reports."""
    target_url: str
    """Broker URL of the target cluster."""
    source_urls: dict[str, str] = field(default_factory=dict)
    """Broker URLs of the source clusters, by name."""
    client_confs: dict[str, str] = field(default_factory=dict)
    """Paths of the files with the credentials for clusters, by name; see ClusterAddress."""


def row(body: bytes, *, is_last: bool) -> pa.RecordBatch:
    """Return one row as a record batch, which shares the memory of ``body``; after the last of a burst an empty one."""
    rows = 2 if is_last else 1
    offsets = pa.py_buffer(_OFFSETS.pack(0, len(body), len(body)))
    bodies = pa.Array.from_buffers(pa.binary(), rows, [None, offsets, pa.py_buffer(body)])
    return pa.RecordBatch.from_arrays([bodies], schema=SCHEMA)


def bodies_in(batch: pa.RecordBatch) -> Iterator[memoryview]:
    """Yield the bodies of the rows that are not empty; they share the memory of the batch."""
    for value in batch.column(0):
        body = memoryview(value.as_buffer())
        if body:
            yield body


def kind_of(body: memoryview) -> Kind:
    """Return the kind of a row; raises ValueError for an unknown one."""
    return Kind(body[0])


def encode_opening(opening: Opening) -> bytes:
    """Encode the body of an OPENING row."""
    return (bytes((Kind.OPENING,)) + json.dumps(asdict(opening)).encode()).ljust(limits.ROW_BYTES_MIN)


def decode_opening(body: memoryview) -> Opening:
    """Decode the body of an OPENING row."""
    return Opening(**json.loads(bytes(body[1:])))


def encode_chunks(entries: Iterable[Carried]) -> Iterator[bytes]:
    """Yield bodies of ENTRIES rows for ``entries`` in order, each of at most CHUNK_BYTES unless an entry is larger."""
    chunk: list[Carried] = []
    size = 0
    for carried in entries:
        if chunk and size + len(carried.entry) > limits.CHUNK_BYTES:
            yield _encode_chunk(chunk)
            chunk, size = [], 0
        chunk.append(carried)
        size += len(carried.entry)
    if chunk:
        yield _encode_chunk(chunk)


def decode_chunk(body: memoryview) -> list[Carried]:
    """Decode the body of an ENTRIES row; the entries are copies."""
    (count,) = _ATTACHMENTS.unpack_from(body, 1)
    offset = 1 + _ATTACHMENTS.size
    attachments = []
    for _ in range(count):
        (number,) = _NUMBER.unpack_from(body, offset)
        source, offset = _text(body, offset + _NUMBER.size)
        topic, offset = _text(body, offset)
        life, offset = _text(body, offset)
        attachments.append(Attachment(number, source, topic, life))
    (count,) = _NUMBER.unpack_from(body, offset)
    offset += _NUMBER.size
    entries = []
    for _ in range(count):
        index, *places, link_start, length, size_count = _ITEM.unpack_from(body, offset)
        offset += _ITEM.size
        position, previous, floor = map(Position, places[::2], places[1::2])
        sizes, version, origin, offset = _run(body, offset, size_count) if size_count else ((), b"", None, offset)
        entry = body[offset : offset + length].tobytes()
        link = Link(previous, floor, link_start != 0)
        entries.append(Carried(attachments[index], position, link, entry, sizes, version, origin))
        offset += length
    return entries


def _encode_chunk(chunk: list[Carried]) -> bytes:
    indexes: dict[Attachment, int] = {}
    for carried in chunk:
        indexes.setdefault(carried.attachment, len(indexes))
    parts = [bytes((Kind.ENTRIES,)), _ATTACHMENTS.pack(len(indexes))]
    for attachment in indexes:
        parts.append(_NUMBER.pack(attachment.number))
        for text in (attachment.source.encode(), attachment.topic.encode(), attachment.life.encode()):
            parts += (_TEXT.pack(len(text)), text)
    parts.append(_NUMBER.pack(len(chunk)))
    parts += _entries(chunk, indexes)
    size = sum(map(len, parts))
    parts.append(bytes(max(limits.ROW_BYTES_MIN - size, -size % limits.ROW_ALIGNMENT)))
    return b"".join(parts)


def _entries(chunk: list[Carried], indexes: dict[Attachment, int]) -> Iterator[bytes]:
    for carried in chunk:
        yield _ITEM.pack(
            indexes[carried.attachment],
            *carried.position,
            *carried.link.previous,
            *carried.link.floor,
            carried.link.link_start,
            len(carried.entry),
            len(carried.sizes),
        )
        if carried.sizes:
            yield struct.pack(f">{len(carried.sizes)}I", *carried.sizes)
            yield _NUMBER.pack(len(carried.schema_version)) + carried.schema_version
            cluster, position = carried.origin or _NO_ORIGIN
            yield _TEXT.pack(len(cluster.encode())) + cluster.encode() + _POSITION.pack(*position)
        yield carried.entry


def _run(body: memoryview, offset: int, count: int) -> tuple[tuple[int, ...], bytes, OriginPosition | None, int]:
    """Decode the sizes, the schema version and the origin of a run at ``offset``; return also the offset after them."""
    sizes = struct.unpack_from(f">{count}I", body, offset)
    offset += count * _NUMBER.size
    start = offset + _NUMBER.size
    end = start + _NUMBER.unpack_from(body, offset)[0]
    cluster, offset = _text(body, end)
    position = Position(*_POSITION.unpack_from(body, offset))
    origin = OriginPosition(cluster, position) if cluster else None
    return sizes, body[start:end].tobytes(), origin, offset + _POSITION.size


def _next(position: Position) -> Position:
    return position._replace(entry_id=position.entry_id + 1)


def _text(body: memoryview, offset: int) -> tuple[str, int]:
    """Decode a text at ``offset``; return it and the offset after it."""
    (length,) = _TEXT.unpack_from(body, offset)
    start = offset + _TEXT.size
    return str(body[start : start + length], "utf-8"), start + length
