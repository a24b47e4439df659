"""The earlier chunks of a message whose last chunk is in a range, read from the log before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.spark.read.batches.chunks import earlier_chunks
from magnetar.spark.read.cluster import Cluster
from magnetar.spark.read.range_reader import RangeReader
from magnetar.spark.read.ranges import Range, steps_back

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.spark.read.batches.messages import Stored
    from magnetar.spark.read.options import ReadOptions

LOOK_BACK_ENTRIES = (2**8, 2**12, 2**16)
"""Numbers of entries before the last chunk that are searched, one after the other, until all chunks are found."""


def look_back(options: ReadOptions, topic: str, last: Stored) -> Mapping[int, Stored] | None:
    """Return the chunks before ``last``; see ``earlier_chunks``. Raises as Cluster and RangeReader."""
    with Cluster(options) as cluster:
        ledgers = cluster.logs([topic])[topic].ledgers
    found: Mapping[int, Stored] | None = {}
    before = None
    for entries in LOOK_BACK_ENTRIES:
        start = steps_back(ledgers, last.position, entries)
        if start == before:
            break
        before = start
        with RangeReader(options, Range(topic, start, last.position)) as reader:
            found = earlier_chunks(last, (stored for chunk in reader.chunks() for stored in chunk))
        if found is None or len(found) == last.metadata.num_chunks_from_msg - 1:
            break
    return found
