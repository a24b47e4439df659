"""Messages that an earlier attempt of a task has published, read back from the topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from magnetar.base.names import TopicName
from magnetar.spark import columns
from magnetar.spark.connecting import admin_client
from magnetar.spark.read.batches.messages import parse
from magnetar.spark.read.batches.rows import TIME, Rows
from magnetar.spark.read.cluster import ledgers_in
from magnetar.spark.read.planning import end_of
from magnetar.spark.read.range_reader import RangeReader
from magnetar.spark.read.ranges import Log, Range, steps_back
from magnetar.spark.write.rows import rows_of
from magnetar.wire.entries.origin import origin_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from magnetar.base.position import Position
    from magnetar.spark.read.batches.messages import Stored
    from magnetar.spark.read.ranges import Ledger
    from magnetar.spark.write.options import WriteOptions

FIRST_WINDOW = 1_000
"""Entries that are read at first, from the end of the topic."""

WINDOW_GROWTH = 8
"""Each further part is so many times larger than the one before."""

_SCHEMA = pa.schema(
    {
        columns.VALUE: pa.binary(),
        columns.KEY: pa.binary(),
        columns.EVENT_TIME: TIME,
        columns.PROPERTIES: pa.map_(pa.string(), pa.string()),
        columns.SEQUENCE_ID: pa.int64(),
    }
)


def published(options: WriteOptions, topic: str, producer_name: str, first: int, last: int) -> dict[int, bytes]:
    """Return the digests of a producer's messages with sequence ids from ``first`` to ``last``, both inclusive.

    The topic is read from its end backwards until ``first`` is found; messages that were deleted are missing. Raises
    as AdminClient and RangeReader.
    """
    with admin_client(options) as admin:
        ledgers = ledgers_in(admin.topics.internal_stats(TopicName.parse(topic)))
    found: dict[int, bytes] = {}
    for start, end in windows(ledgers):
        with RangeReader(options, Range(topic, start, end)) as reader:
            for chunk in reader.chunks():
                mine = [stored for stored in chunk if _is_of(stored, producer_name)]
                found.update(_digests(topic, mine, first, last))
        if first in found:
            break
    return found


def windows(ledgers: Sequence[Ledger]) -> Iterator[tuple[Position, Position]]:
    """Yield parts of a topic, from its end backwards to its beginning: start, inclusive, and end, exclusive."""
    end, size = end_of(Log(ledgers)), FIRST_WINDOW
    while (start := steps_back(ledgers, end, size)) < end:
        yield start, end
        end, size = start, size * WINDOW_GROWTH


def _is_of(stored: Stored, producer_name: str) -> bool:
    return stored.metadata.producer_name == producer_name and origin_of(stored.metadata) is None


def _digests(topic: str, entries: Sequence[Stored], first: int, last: int) -> Iterator[tuple[int, bytes]]:
    """Yield sequence id and digest of the messages in ``entries``."""
    if entries:
        batch = Rows(topic, -1, parse(entries)).batch(_SCHEMA)
        for sequence_id, row in zip(batch.column(columns.SEQUENCE_ID).to_pylist(), rows_of(batch), strict=True):
            if first <= sequence_id <= last:
                yield sequence_id, row.digest()
