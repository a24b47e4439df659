"""The program whose classes are archived: a short run of what the commands of the pipeline do with Spark.

``python -m magnetar.pipeline.driver.training FILE`` lets Java write the archive to ``FILE``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import functions
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition, SimpleDataSourceStreamReader

from magnetar.pipeline.class_archive import write_archive
from magnetar.pipeline.driver.launch import start_spark
from magnetar.pipeline.driver.session import SETTINGS
from magnetar.pipeline.driver.settings import SparkSettings
from magnetar.pipeline.work_files import WorkDirectory, spark_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

SCHEMA = "topic string, number bigint, value binary"
ROWS = [("flights", number, b"row %d" % number) for number in range(100)]
SHUFFLE_PARTITIONS = 2


class _Rows(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        del partition
        columns = [pa.array(column) for column in zip(*ROWS, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=["topic", "number", "value"])


class _Stream(SimpleDataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"row": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[str, int, bytes]], dict[str, int]]:
        return iter(ROWS[start["row"] :]), {"row": len(ROWS)}

    def readBetweenOffsets(  # noqa: N802 - Spark's name
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[str, int, bytes]]:
        return iter(ROWS[start["row"] : end["row"]])


class _Source(DataSource):
    @classmethod
    def name(cls) -> str:
        return "training"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        del schema
        return _Rows()

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:  # noqa: N802 - Spark's name
        del schema
        return _Stream()


def train(session: SparkSession, directory: Path) -> None:
    """Run a batch job and a streaming query, which write files to ``directory``."""
    session.conf.set("spark.sql.shuffle.partitions", SHUFFLE_PARTITIONS)
    session.dataSource.register(_Source)
    rows = session.read.format(_Source.name()).load()
    rows.write.partitionBy("topic").parquet(spark_path(directory / "rows"))
    stored = session.read.parquet(spark_path(directory / "rows"))
    by_topic = stored.groupBy("topic").agg(functions.count("*"), functions.max("number"))
    stored.join(by_topic, "topic").orderBy("number").collect()
    written = session.readStream.format(_Source.name()).load().mapInArrow(_same, SCHEMA).writeStream.format("noop")
    query = written.option("checkpointLocation", spark_path(directory / "checkpoint")).start()
    query.processAllAvailable()
    query.stop()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def main() -> None:
    """Run the program, and wait until Java has ended."""
    archive = Path(sys.argv[1])
    with WorkDirectory() as directory:
        settings = SparkSettings("local[2]", directory.path)
        session = start_spark("training", settings, directory.path, SETTINGS, classes=write_archive(archive))
        train(session, directory.path)
        session.stop()
        gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark has no other way to it
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


if __name__ == "__main__":
    main()
