"""Spark's interfaces of the sink."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from magnetar.base.errors import ConfigurationError
from magnetar.spark.write.attempt import Attempt
from magnetar.spark.write.rows import check_columns
from magnetar.spark.write.tasks import write_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from magnetar.spark.write.options import WriteOptions
    from magnetar.spark.write.tasks import Written

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
"""Spark's local properties of a task of a streaming query. The id of a query is that of its checkpoint."""


class BatchWriter(DataSourceArrowWriter):
    """A write of a batch query. What its tasks have published stays if the query fails."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        """Write rows of ``schema``; raises ConfigurationError if that is impossible."""
        if overwrite:
            message = 'topics can only be appended to\nhint: set mode("append")'
            raise ConfigurationError(message)
        check_columns(schema, options.topic)
        self._options = options
        self._id = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish the rows of a task."""
        attempt = Attempt.of_write(self._id, _context().partitionId())
        return write_rows(self._options, attempt, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """The writes of a streaming query."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        """Write rows of ``schema``; raises ConfigurationError if that is impossible."""
        check_columns(schema, options.topic)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish the rows of a task of a micro-batch."""
        context = _context()
        query_id, batch_id = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if query_id is None or batch_id is None:
            message = f"Spark does not tell the task {_QUERY_ID} and {_BATCH_ID}"
            raise ConfigurationError(message)
        attempt = Attempt.of_stream(query_id, int(batch_id), context.partitionId())
        return write_rows(self._options, attempt, iterator)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None  # Spark calls ``write`` in tasks
    return context
