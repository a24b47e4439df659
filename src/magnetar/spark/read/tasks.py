"""The work of one task: the rows of a range."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from magnetar.base.names import TopicName
from magnetar.spark.columns import Unit
from magnetar.spark.read.batches.chunks import Assembly
from magnetar.spark.read.batches.entry_rows import entry_rows
from magnetar.spark.read.batches.messages import parse
from magnetar.spark.read.batches.rows import Rows
from magnetar.spark.read.cluster import Cluster
from magnetar.spark.read.look_back import look_back
from magnetar.spark.read.planning import check_complete
from magnetar.spark.read.range_reader import RangeReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from magnetar.spark.read.options import ReadOptions
    from magnetar.spark.read.ranges import Range


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """The range of one task."""

    wanted: Range


def rows_of(options: ReadOptions, schema: StructType, wanted: Range) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range in Arrow batches."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    partition = TopicName.parse(wanted.topic).partition_index
    find = partial(look_back, options, wanted.topic)
    assembly = Assembly(find, fail_on_data_loss=options.fail_on_data_loss)
    with RangeReader(options.service_url, wanted) as reader:
        for chunk in reader.chunks():
            if options.unit is Unit.ENTRY:
                yield entry_rows(wanted.topic, partition, chunk, arrow)
            else:
                yield Rows(wanted.topic, partition, parse(assembly.whole(chunk))).batch(arrow)
        if reader.entries < wanted.entries and options.fail_on_data_loss:
            # Markers are not delivered, so a smaller number alone proves nothing.
            with Cluster(options) as cluster:
                check_complete(wanted, cluster.logs([wanted.topic])[wanted.topic].ledgers)
