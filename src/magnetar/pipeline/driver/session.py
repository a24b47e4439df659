"""The Spark session that carries the links, and its two queries."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from magnetar.base.logs.rotated_output import RotatedOutput
from magnetar.pipeline.driver.source import source_named
from magnetar.pipeline.leases import TURNS
from magnetar.pipeline.rows import SCHEMA_DDL
from magnetar.pipeline.work_files import socket_directory
from magnetar.pipeline.writing.writer import write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.streaming.query import StreamingQuery

    from magnetar.pipeline.options import ReplicationOptions

TASK_ATTEMPTS = 8
"""Number of attempts of a task before its query ends; an ended query is restarted."""

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_STANDARD = (1, 2)
"""File descriptors of standard output and standard error."""

_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

LOGGING = Path(__file__).with_name("log4j2.properties").as_uri()

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
    """Start Spark, or connect to ``master``. Spark's own output goes to ``spark_log``, or to that of this process."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    os.environ |= environment_of(work_dir, local=master.startswith("local"))
    builder = SparkSession.builder.master(master).appName("magnetar replicate")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    java_files = work_dir / "java"  # files that libraries leave after a kill are removed with the others
    java_files.mkdir()
    java = f"{_JAVA_OPTIONS} -Dlog4j2.configurationFile={LOGGING} -Djava.io.tmpdir={java_files}"
    sockets = socket_directory(work_dir)
    on_interrupt = signal.getsignal(signal.SIGINT)
    builder = (
        builder.config("spark.driver.extraJavaOptions", java)
        .config("spark.python.unix.domain.socket.dir", str(sockets))
        .config("spark.task.maxFailures", str(TASK_ATTEMPTS))
        .config("spark.sql.warehouse.dir", str(work_dir / "warehouse"))
    )
    with output_to(spark_log):
        session = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        # Spark replaces the signal handler; restore the command's.
        signal.signal(signal.SIGINT, on_interrupt)
    return session


@contextmanager
def output_to(log: Path | None) -> Iterator[None]:
    """Send the output of processes that are started in the block to ``log``, which is rotated."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    output = RotatedOutput(log)
    streams = (sys.stdout, sys.stderr)
    for stream in streams:
        stream.flush()
    kept = [os.dup(number) for number in _STANDARD]
    for number in _STANDARD:
        os.dup2(output.sink, number)
    output.close()
    try:
        yield
    finally:
        for stream in streams:
            stream.flush()
        for number, old in zip(_STANDARD, kept, strict=True):
            os.dup2(old, number)
            os.close(old)


def environment_of(work_dir: Path, *, local: bool) -> dict[str, str]:
    """Return Spark's environment variables: the Python executable, the directories and the address."""
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": str(work_dir),
        # Spark warns about each new version of pandas, which is not used here.
        "PYTHONWARNINGS": "ignore::FutureWarning",
    }
    return environment | {"SPARK_LOCAL_IP": "127.0.0.1"} if local else environment


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
