"""The Spark session that carries the links, and the two queries that run in it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from magnetar.pipeline.driver.source import source_named
from magnetar.pipeline.leases import TURNS
from magnetar.pipeline.rows import SCHEMA_DDL
from magnetar.pipeline.work_files import socket_directory
from magnetar.pipeline.writing.writer import write

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from magnetar.pipeline.options import ReplicationOptions

TASK_ATTEMPTS = 8
"""How often Spark tries a task before it gives its query up; a query that ended is started again."""

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

_LOGGING = Path(__file__).with_name("log4j2.properties").as_uri()

SETTINGS = {
    # A row must not wait for company: one row per Arrow batch, buffers smaller than a flush row.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.buffer.size": "512",
    "spark.sql.execution.pandas.udf.buffer.size": "512",
    # Over TCP a row of several writes waits for delayed acknowledgements, some 40 ms.
    "spark.python.unix.domain.socket.enabled": "true",
    # The checkpoint decides nothing, so it need only be cheap.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTING,
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # One task per target, never two: a speculative copy would take the links from the first.
    "spark.speculation": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
}
"""What makes a relay of leases fast; measured, see the architecture page."""


def local_master(targets: int) -> str:
    """Return a local master with room for both queries' tasks, which overlap while one hands over to the other."""
    return f"local[{TURNS * targets + 1},{TASK_ATTEMPTS}]"


def build_session(master: str, work_dir: Path) -> SparkSession:
    """Start Spark, or join the cluster at ``master``. Java must be there: Spark's own error for that is obscure."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    os.environ |= _environment(work_dir, local=master.startswith("local"))
    builder = SparkSession.builder.master(master).appName("magnetar replicate")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    java_files = work_dir / "java"  # what libraries leave behind when the machine is killed goes with the rest
    java_files.mkdir()
    java = f"{_JAVA_OPTIONS} -Dlog4j2.configurationFile={_LOGGING} -Djava.io.tmpdir={java_files}"
    sockets = socket_directory(work_dir)
    on_interrupt = signal.getsignal(signal.SIGINT)
    session = (
        builder.config("spark.driver.extraJavaOptions", java)
        .config("spark.python.unix.domain.socket.dir", str(sockets))
        .config("spark.task.maxFailures", str(TASK_ATTEMPTS))
        .config("spark.sql.warehouse.dir", str(work_dir / "warehouse"))
        .getOrCreate()
    )
    if threading.current_thread() is threading.main_thread():
        # Spark takes the signal for itself; how the driver stops is for its command to say.
        signal.signal(signal.SIGINT, on_interrupt)
    return session


def _environment(work_dir: Path, *, local: bool) -> dict[str, str]:
    """Return what Spark takes from the environment alone: the same Python everywhere, its files, its address."""
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": str(work_dir),
        # Spark warns of each new pandas, which is not used here.
        "PYTHONWARNINGS": "ignore::FutureWarning",
    }
    return environment | {"SPARK_LOCAL_IP": "127.0.0.1"} if local else environment


def start_query(session: SparkSession, options: ReplicationOptions, checkpoint: Path) -> StreamingQuery:
    """Start the query whose turn ``options`` names."""
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
