"""A read with an end. Its tasks are pure functions of their ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from magnetar.spark.read.cluster import Cluster
from magnetar.spark.read.planning import batch_ranges
from magnetar.spark.read.tasks import RangePartition, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from magnetar.spark.options import ReadOptions


class BatchReader(DataSourceReader):
    """Reads the ranges between two offsets."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Read the columns of ``schema``."""
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return the ranges of the tasks, from the positions that the topics have now."""
        with Cluster(self._options) as cluster:
            ledgers = cluster.ledgers_of_topics()
        return [RangePartition(wanted) for wanted in batch_ranges(ledgers, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range."""
        if isinstance(partition, RangePartition):  # Spark passes another one if there is no range
            yield from rows_of(self._options, self._schema, partition.wanted)
