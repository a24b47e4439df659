"""The data source ``magnetar``: topics of Magnetar or Apache Pulsar as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from magnetar.spark.columns import check_columns
from magnetar.spark.read.batch_reader import BatchReader
from magnetar.spark.read.options import ReadOptions
from magnetar.spark.read.stream_reader import StreamReader
from magnetar.spark.read.tasks import Task, columns_of
from magnetar.spark.write.options import WriteOptions
from magnetar.spark.write.writers import BatchWriter, StreamWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME = "magnetar"


class MagnetarDataSource(DataSource):
    """Messages of topics; see the guide for the options and columns."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return NAME

    def schema(self) -> StructType:
        """Return all columns; a query that needs few of them states them with ``schema``."""
        return columns_of(ReadOptions.of(self.options))[0]

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of a batch query; raises ConfigurationError for unknown columns or options."""
        options = ReadOptions.of_batch(self.options)
        allowed, schemas = columns_of(options)
        check_columns(schema, allowed)
        return BatchReader(Task(options, schema, schemas))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query; raises as ``reader``."""
        options = ReadOptions.of_stream(self.options)
        allowed, schemas = columns_of(options)
        check_columns(schema, allowed)
        return StreamReader(Task(options, schema, schemas))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:  # noqa: FBT001 - Spark's signature
        """Return the writer of a batch query; raises ConfigurationError for wrong columns or options."""
        return BatchWriter(WriteOptions.of(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802, FBT001 - Spark's
        """Return the writer of a streaming query; raises as ``writer``."""
        del overwrite  # complete mode: each micro-batch has all rows of the result
        return StreamWriter(WriteOptions.of(self.options), schema)
