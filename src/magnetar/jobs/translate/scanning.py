"""The tasks that read entries, and keep what identifies them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mmh3
import numpy as np
import pyarrow as pa

from magnetar.jobs.content import identity
from magnetar.jobs.pieces import chunks
from magnetar.jobs.translate.tables import IDENTITIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from magnetar.jobs.pieces import Piece
    from magnetar.spark.options import Options
    from magnetar.spark.read.batches.messages import Stored


def read_identities(urls: Mapping[str, Options], source: str, wanted: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """Yield the entries of pieces as rows of IDENTITIES; ``urls`` are the addresses of the source and the target."""
    for piece, chunk in chunks(urls, wanted):
        yield identities_of(piece, chunk, source)


def identities_of(piece: Piece, chunk: Sequence[Stored], source: str) -> pa.RecordBatch:
    """Return the rows of a chunk of entries."""
    count = len(chunk)
    # A topic of its own for equal entries of two topics.
    bits = np.array([identity(stored.entry) for stored in chunk], np.int64).reshape(count, 2)
    bits ^= np.array(mmh3.hash64(piece.topic.encode()), np.int64)
    places = np.array([stored.position for stored in chunk], np.int64).reshape(count, 2)
    metadata = [stored.metadata for stored in chunk]
    columns = [
        pa.repeat(piece.topic, count),
        pa.repeat(piece.cluster != source, count),
        pa.array(places[:, 0]),
        pa.array(places[:, 1]),
        pa.array(bits[:, 1]),
        pa.array(bits[:, 0]),
        pa.array([(each.replicated_from or piece.cluster) == source for each in metadata], pa.bool_()),
        pa.array([each.producer_name for each in metadata], pa.string()),
        pa.array(np.array([each.sequence_id for each in metadata], np.uint64).view(np.int64)),
        pa.array(np.array([each.publish_time for each in metadata], np.uint64).view(np.int64)),
        pa.array([stored.messages for stored in chunk], pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=IDENTITIES)
