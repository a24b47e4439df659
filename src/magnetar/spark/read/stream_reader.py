"""A read without an end: micro-batches between two offsets. A retried batch gives the same rows in the same tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from magnetar.base.position import EARLIEST, Position
from magnetar.spark.read.bounds import starts_of
from magnetar.spark.read.cluster import Cluster
from magnetar.spark.read.limits import up_to_bytes, up_to_messages
from magnetar.spark.read.offsets import TopicOffset, decode_offsets, encode_offsets, offsets_of, ranges_between
from magnetar.spark.read.planning import end_of, first_positions, last_before, ranges
from magnetar.spark.read.subscription import acknowledge
from magnetar.spark.read.tasks import RangePartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

    from magnetar.spark.read.ranges import Log
    from magnetar.spark.read.tasks import Task

    Offsets = dict[str, Any]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The offsets of a stream: the next position of each topic or partition. Topics that appear later are added."""

    def __init__(self, task: Task) -> None:
        """Read ranges as ``task`` does."""
        self._task = task
        self._options = task.options
        self._available: dict[str, Position] | None = None
        """The end of a query that processes what is available now; None for a query without an end."""
        self._acknowledged: dict[str, Position] = {}
        """The ends of the newest batches that are acknowledged in the predefined subscription."""

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        """Return the positions at which a new query begins; creates the predefined subscription where it is missing."""
        with Cluster(self._options) as cluster:
            topics = cluster.topics()
            starts = starts_of(cluster, self._options, topics)
            logs = cluster.logs(topics)
        first = {topic: min(start, end_of(logs[topic])) for topic, start in first_positions(starts, logs).items()}
        if self._options.predefined_subscription:
            missing = [topic for topic, log in logs.items() if log.mark_delete is None]
            acknowledge(self._options, {topic: last_before(first[topic], logs[topic].ledgers) for topic in missing})
        return encode_offsets({topic: TopicOffset(start) for topic, start in first.items()})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return a limit of the options for one batch. Spark passes on one only; ``latestOffset`` applies both."""
        if self._options.max_messages_per_trigger is not None:
            return ReadMaxRows(self._options.max_messages_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """End at the positions that the topics have now."""
        with Cluster(self._options) as cluster:
            self._available = {topic: end_of(log) for topic, log in cluster.logs(cluster.topics()).items()}

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802 - Spark's name
        """Return the end of the next batch and its tasks: the ends of all topics, or less if ``limit`` demands it.

        The batch that ends at ``start`` is acknowledged in the predefined subscription.
        """
        before = decode_offsets(start)
        # Spark asks for the next batch when it has committed the one before. It calls ``commit`` later, and not at all
        # for the last batch of a query.
        self._acknowledge(before)
        starts = {topic: offset.next for topic, offset in before.items()}
        with Cluster(self._options) as cluster:
            logs = cluster.logs(cluster.topics())
        ends: Mapping[str, Position] | None = self._available
        if ends is None:
            ends = {topic: end_of(log) for topic, log in logs.items()}
        ends = {topic: end for topic, end in ends.items() if topic in logs and end > starts.get(topic, EARLIEST)}
        if not isinstance(limit, ReadAllAvailable):
            ends = self._limited(starts, ends, logs)
        if not ends:
            return start  # in its own words, so that Spark finds it unchanged
        return encode_offsets(before | offsets_of(ends, ranges(logs, self._options, starts, ends)))

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Return the ranges of the tasks of one batch, a pure function of the two offsets."""
        return [RangePartition(wanted) for wanted in ranges_between(decode_offsets(start), decode_offsets(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range."""
        yield from self._task.rows(cast("RangePartition", partition).wanted)

    def _limited(
        self, starts: Mapping[str, Position], ends: Mapping[str, Position], logs: Mapping[str, Log]
    ) -> Mapping[str, Position]:
        """Return the ends of a batch within the limits of the options."""
        options = self._options
        if options.max_bytes_per_trigger is not None:
            ends = up_to_bytes(starts, ends, logs, options.max_bytes_per_trigger)
        if options.max_messages_per_trigger is not None:
            ends = up_to_messages(options, starts, ends, logs, options.max_messages_per_trigger)
        return ends

    def _acknowledge(self, committed: Mapping[str, TopicOffset]) -> None:
        """Acknowledge the batch that ends at ``committed`` in the predefined subscription."""
        if self._options.predefined_subscription:
            ends = {topic: offset.tasks[-1][0] for topic, offset in committed.items() if offset.tasks}
            new = {topic: end for topic, end in ends.items() if self._acknowledged.get(topic) != end}
            places = {topic: Position(end.ledger_id, end.entry_id - 1) for topic, end in new.items()}
            acknowledge(self._options, places)
            self._acknowledged |= new
