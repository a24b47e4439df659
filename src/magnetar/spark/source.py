"""The data source ``magnetar``: topics of Magnetar or Apache Pulsar as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader

from magnetar.spark.cluster import Cluster
from magnetar.spark.columns import all_columns, check_columns
from magnetar.spark.options import ReadOptions
from magnetar.spark.planning import plan
from magnetar.spark.streaming import StreamReader
from magnetar.spark.tasks import RangePartition, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

NAME = "magnetar"


class BatchReader(DataSourceReader):
    """A read with an end. Its tasks are pure functions of their ranges."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Read the columns of ``schema``."""
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return the ranges of the tasks, from the positions that the topics have now."""
        with Cluster(self._options) as cluster:
            return [RangePartition(wanted) for wanted in plan(cluster, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range."""
        if isinstance(partition, RangePartition):  # Spark passes another one if there is no range
            yield from rows_of(self._options, self._schema, partition.wanted)


class MagnetarDataSource(DataSource):
    """Messages of topics; see the guide for the options and columns."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return NAME

    def schema(self) -> StructType:
        """Return all columns; a query that needs few of them states them with ``schema``."""
        return all_columns()

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of a batch query; raises ConfigurationError for unknown columns or options."""
        check_columns(schema)
        return BatchReader(ReadOptions.of(self.options), schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query; raises as ``reader``."""
        check_columns(schema)
        return StreamReader(ReadOptions.of(self.options), schema)
