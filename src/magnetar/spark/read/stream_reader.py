"""A read without an end: micro-batches between two offsets. A retried batch gives the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from magnetar.spark.read.cluster import Cluster
from magnetar.spark.read.offsets import decode_offsets, encode_offsets
from magnetar.spark.read.planning import changes, first_offsets, last_offsets
from magnetar.spark.read.ranges import up_to_bytes
from magnetar.spark.read.tasks import RangePartition, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from magnetar.base.position import Position
    from magnetar.spark.options import ReadOptions

    Offsets = dict[str, str]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The offsets of a stream: the next position of each topic or partition. Topics that appear later are added."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Read the columns of ``schema``."""
        self._options = options
        self._schema = schema
        self._available: dict[str, Position] | None = None
        """The end of a query that processes what is available now; None for a query without an end."""

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        """Return the positions at which a new query begins."""
        with Cluster(self._options) as cluster:
            return encode_offsets(first_offsets(cluster, self._options))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of the options for one batch."""
        limit = self._options.max_bytes_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxBytes(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """End at the positions that the topics have now."""
        with Cluster(self._options) as cluster:
            self._available = last_offsets(cluster, cluster.topics())

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802 - Spark's name
        """Return the end of the next batch: the ends of all topics, or less if ``limit`` demands it."""
        begun = decode_offsets(start)
        with Cluster(self._options) as cluster:
            ends = self._available if self._available is not None else last_offsets(cluster, cluster.topics())
            if isinstance(limit, ReadMaxBytes):
                ends = up_to_bytes(begun, ends, cluster.ledgers, limit.max_bytes)
        return encode_offsets(begun | ends)

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Return the ranges of the tasks of one batch."""
        with Cluster(self._options) as cluster:
            ranges = changes(cluster, self._options, decode_offsets(start), decode_offsets(end))
        return [RangePartition(wanted) for wanted in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range."""
        yield from rows_of(self._options, self._schema, cast("RangePartition", partition).wanted)
