"""The work of one task: the rows of a range."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from magnetar.base.errors import ConfigurationError
from magnetar.base.names import TopicName
from magnetar.spark.columns import VALUE, Unit, all_columns
from magnetar.spark.read.batches.chunks import Assembly
from magnetar.spark.read.batches.entry_rows import entry_rows
from magnetar.spark.read.batches.messages import parse
from magnetar.spark.read.batches.rows import Rows
from magnetar.spark.read.cluster import Cluster
from magnetar.spark.read.decoding.values import Decoder, common_type
from magnetar.spark.read.look_back import look_back
from magnetar.spark.read.planning import check_complete
from magnetar.spark.read.range_reader import RangeReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from magnetar.schema.info import SchemaInfo
    from magnetar.spark.read.options import ReadOptions
    from magnetar.spark.read.ranges import Range


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """The range of one task."""

    wanted: Range


def columns_of(options: ReadOptions) -> tuple[StructType, Mapping[str, SchemaInfo]]:
    """Return all columns of a query and, if values are decoded, the current schemas of the topics.

    Raises ConfigurationError for a schema that cannot be decoded, and as Cluster.
    """
    if not options.decode:
        return all_columns(options.unit), {}
    with Cluster(options) as cluster:
        schemas = cluster.schemas()
    return all_columns(value=common_type(schemas)), schemas


@dataclass(frozen=True)
class Task:
    """The work of a task, as the driver sends it to the executors."""

    options: ReadOptions
    schema: StructType
    """The columns to build."""
    schemas: Mapping[str, SchemaInfo]
    """The schemas that determine the type of decoded values, by topic."""

    def rows(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range in Arrow batches."""
        options, arrow = self.options, to_arrow_schema(self.schema, timezone="UTC")
        partition = TopicName.parse(wanted.topic).partition_index
        assembly = Assembly(partial(look_back, options, wanted.topic), fail_on_data_loss=options.fail_on_data_loss)
        decoder = self._decoder(wanted.topic)
        with RangeReader(options, wanted) as reader:
            for chunk in reader.chunks():
                if options.unit is Unit.ENTRY:
                    yield entry_rows(wanted.topic, partition, chunk, arrow)
                elif whole := assembly.whole(chunk):
                    yield Rows(wanted.topic, partition, parse(whole), decoder).batch(arrow)
            if reader.entries < wanted.entries and options.fail_on_data_loss:
                # Markers are not delivered, so a smaller number alone proves nothing.
                with Cluster(options) as cluster:
                    check_complete(wanted, cluster.logs([wanted.topic])[wanted.topic].ledgers)

    def _decoder(self, topic: str) -> Decoder | None:
        """Return the decoder of the values of a topic; None if they stay bytes."""
        if not self.options.decode or VALUE not in self.schema.names:
            return None
        name = str(TopicName.parse(topic).partitioned_topic)
        fetch = partial(_schema, self.options, name)
        decoder = Decoder(self.schemas.get(name) or fetch(), fetch)
        if decoder.kind != self.schema[VALUE].dataType:
            message = f"the schema of {name}, which appeared later, has another type than the column value"
            raise ConfigurationError(message)
        return decoder


def _schema(options: ReadOptions, topic: str, version: int | None = None) -> SchemaInfo:
    with Cluster(options) as cluster:
        return cluster.schema(topic, version)
