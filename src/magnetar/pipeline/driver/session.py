"""The Spark session that carries the links, and its two queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.pipeline.driver.launch import start_spark
from magnetar.pipeline.driver.source import source_named
from magnetar.pipeline.leases import TURNS
from magnetar.pipeline.rows import SCHEMA_DDL
from magnetar.pipeline.writing.writer import write

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from magnetar.pipeline.options import ReplicationOptions

TASK_ATTEMPTS = 8
"""Number of attempts of a task before its query ends; an ended query is restarted."""

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

SETTINGS = {
    # One row per Arrow batch, because buffers smaller than a flushed row would delay rows.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.buffer.size": "512",
    "spark.sql.execution.pandas.udf.buffer.size": "512",
    # Over TCP a row of several writes waits some 40 ms for delayed acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
    # The checkpoint has no function, so it should be cheap.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTING,
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # One task per target: a speculative copy would take the links from the first one.
    "spark.speculation": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
}
"""Settings for fast transitions between leases; the architecture page has the measurements."""


def local_master(targets: int) -> str:
    """Return a local master with room for the tasks of both queries, which overlap at the end of a lease."""
    return f"local[{TURNS * targets + 1},{TASK_ATTEMPTS}]"


def build_session(master: str, work_dir: Path, spark_log: Path | None = None) -> SparkSession:
    """Start Spark for the replication; see ``start_spark``."""
    settings = {**SETTINGS, "spark.task.maxFailures": str(TASK_ATTEMPTS)}
    return start_spark("replicate", master, work_dir, spark_log, settings, _JAVA_OPTIONS)


def start_query(session: SparkSession, options: ReplicationOptions, checkpoint: Path) -> StreamingQuery:
    """Start the query with the turn in ``options``."""
    source = source_named(f"magnetar-{options.turn}")
    session.dataSource.register(source)
    frame = session.readStream.format(source.name()).options(**options.to_spark()).load()
    written = frame.mapInArrow(write, SCHEMA_DDL)
    return (
        written.writeStream.format("noop")
        .queryName(f"magnetar-replicate-{options.turn}")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
