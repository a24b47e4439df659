"""The tasks that read entries: as runs, or one by one in buckets that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from magnetar.base.errors import MagnetarError
from magnetar.base.position import Position
from magnetar.jobs.audit.runs import Read, runs_of
from magnetar.jobs.audit.tables import ENTRIES
from magnetar.jobs.content import digest, exact_digest
from magnetar.jobs.pieces import chunks
from magnetar.wire.entries.origin import SOURCE_POSITION, is_link_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from magnetar.jobs.pieces import Piece
    from magnetar.spark.options import Options
    from magnetar.spark.read.batches.messages import Stored
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class UnknownOriginError(MagnetarError):
    """A replicated entry without its position at the origin; the text names the topic and the position."""


def read_runs(urls: Mapping[str, Options], wanted: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """Yield the runs of pieces; ``urls`` are the addresses of the clusters."""
    for piece, chunk in chunks(urls, wanted):
        yield runs_of(_read(piece, chunk, digest))


def read_entries(urls: Mapping[str, Options], wanted: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """Yield the entries of pieces one by one, with exact digests."""
    for piece, chunk in chunks(urls, wanted):
        read = _read(piece, chunk, exact_digest)
        names = pa.array(read.names, pa.string())
        columns = [
            pa.repeat(piece.topic, len(chunk)),
            pa.repeat(piece.cluster, len(chunk)),
            names.take(pa.array(read.origins)),
            *map(pa.array, (read.origin_ledgers, read.origin_entries, read.ledgers, read.entries, read.contents)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=ENTRIES)


def _read(piece: Piece, chunk: Sequence[Stored], digest_of: Callable[[bytes], int]) -> Read:
    """Return the columns of a chunk of entries."""
    names = _Names()
    own, everyone = names.index(piece.cluster), names.index("")
    count = len(chunk)
    numbers = np.empty((7, count), np.int64)
    starts = np.zeros(count, np.bool_)
    origins, origin_ledgers, origin_entries, ledgers, entries, contents, targets = numbers
    for index, (position, metadata, entry, _) in enumerate(chunk):
        ledgers[index], entries[index] = position
        contents[index] = digest_of(entry)
        if metadata.HasField("replicated_from"):
            source, starts[index] = _stamp(piece, position, metadata)
            origins[index] = names.index(metadata.replicated_from)
            origin_ledgers[index], origin_entries[index] = source
        else:
            origins[index] = own
            origin_ledgers[index], origin_entries[index] = position
        clusters = metadata.replicate_to
        targets[index] = names.index(",".join(sorted(clusters))) if clusters else everyone
    return Read(
        piece.topic,
        piece.cluster,
        names.all,
        origins,
        origin_ledgers,
        origin_entries,
        ledgers,
        entries,
        contents,
        targets,
        starts,
    )


def _stamp(piece: Piece, position: Position, metadata: pb.MessageMetadata) -> tuple[Position, bool]:
    """Return the position at the origin, and whether the link starts with the entry."""
    for prop in reversed(metadata.properties):
        if prop.key == SOURCE_POSITION:
            try:
                return Position.parse(prop.value), is_link_start(metadata)
            except ValueError:
                break
    message = (
        f"{piece.topic} in {piece.cluster}: the entry {position} was replicated from {metadata.replicated_from} "
        "without its position there\nhint: an audit needs the stamps of Magnetar's pipeline or of Apache Pulsar 4.0.2"
    )
    raise UnknownOriginError(message)


class _Names:
    """Indexes of names."""

    def __init__(self) -> None:
        self._indexes: dict[str, int] = {}

    def index(self, name: str) -> int:
        return self._indexes.setdefault(name, len(self._indexes))

    @property
    def all(self) -> list[str]:
        return list(self._indexes)
