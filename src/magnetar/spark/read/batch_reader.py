"""A read with an end. Its tasks are pure functions of their ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from magnetar.spark.read.bounds import ends_of, starts_of
from magnetar.spark.read.cluster import Cluster
from magnetar.spark.read.planning import first_positions, ranges
from magnetar.spark.read.tasks import RangePartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

    from magnetar.spark.read.tasks import Task


class BatchReader(DataSourceReader):
    """Reads the ranges between two offsets."""

    def __init__(self, task: Task) -> None:
        """Read ranges as ``task`` does."""
        self._task = task
        self._options = task.options

    def partitions(self) -> list[InputPartition]:
        """Return the ranges of the tasks, from the positions that the topics have now."""
        with Cluster(self._options) as cluster:
            topics = cluster.topics()
            starts, ends = starts_of(cluster, self._options, topics), ends_of(cluster, self._options, topics)
            logs = cluster.logs(topics)
        planned = ranges(logs, self._options, first_positions(starts, logs), ends)
        return [RangePartition(wanted) for wanted in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range."""
        if isinstance(partition, RangePartition):  # Spark passes another one if there is no range
            yield from self._task.rows(partition.wanted)
