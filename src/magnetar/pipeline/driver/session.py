"""The Spark session that carries the links, and its two queries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from magnetar.pipeline import worker_daemon
from magnetar.pipeline.driver.executors import Demands, check_executors
from magnetar.pipeline.driver.launch import start_spark
from magnetar.pipeline.driver.settings import JAVA_OPTIONS, CommandSettings
from magnetar.pipeline.driver.source import source_named
from magnetar.pipeline.leases import TURNS
from magnetar.pipeline.options import client_confs
from magnetar.pipeline.rows import SCHEMA_DDL
from magnetar.pipeline.status import StatusReceiver
from magnetar.pipeline.work_files import spark_path
from magnetar.pipeline.writing.writer import write

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from magnetar.pipeline.driver.settings import SparkSettings
    from magnetar.pipeline.driver.slots import Need
    from magnetar.pipeline.options import ClusterAddress, ReplicationOptions

TASK_ATTEMPTS = 8
"""Number of attempts of a task before its query ends; an ended query is restarted."""

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_REQUIRED = {
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
}

_WITH_DAEMON = {
    "spark.python.daemon.module": worker_daemon.__name__,
    # It forks workers at once; those of the lease before would keep their memory.
    "spark.python.worker.reuse": "false",
}

_PREFERRED = {
    "spark.task.maxFailures": str(TASK_ATTEMPTS),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
    # Rows are short-lived, so a larger young generation would only take memory.
    JAVA_OPTIONS: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:MaxNewSize=48m",
}

SETTINGS = CommandSettings(_REQUIRED, _PREFERRED)
"""Settings for fast transitions between leases; the architecture page has the measurements."""


def local_master(tasks: int) -> str:
    """Return a local master with room for ``tasks`` of both queries, which overlap at the end of a lease."""
    return f"local[{TURNS * tasks + 1},{TASK_ATTEMPTS}]"


def build_session(options: SparkSettings, tasks: int, work_dir: Path) -> SparkSession:
    """Start Spark for links with so many ``tasks`` in each lease; raises as ``start_spark``."""
    master = options.master or local_master(tasks)
    return start_spark("replicate", replace(options, master=master), work_dir, _settings(options))


def _settings(options: SparkSettings) -> CommandSettings:
    if not options.is_local:
        return SETTINGS  # the package may be shipped to the workers, not to their parent
    return replace(SETTINGS, required=_REQUIRED | _WITH_DAEMON)


def check_cluster(session: SparkSession, options: SparkSettings, demands: Demands, stop: threading.Event) -> list[str]:
    """Return warnings about the executors of a cluster; raises as ``check_executors``."""
    return [] if options.is_local else check_executors(session, demands, stop)


def demands_of(clusters: Iterable[ClusterAddress], need: Need) -> Demands:
    """Return what links between the clusters need of executors."""
    return Demands(worker_daemon.MODULES, need, client_confs=client_confs(clusters))


def status_receiver(session: SparkSession) -> tuple[str, StatusReceiver]:
    """Return the host under which executors reach the driver, and the receiver of their tasks' statuses.

    It uses the number of the port that executors connect to, so that firewalls need no other one. Raises
    ConfigurationError if the port is in use.
    """
    conf = session.sparkContext.getConf()
    host = conf.get("spark.driver.host") or "127.0.0.1"
    return host, StatusReceiver(conf.get("spark.driver.bindAddress") or host, int(conf.get("spark.driver.port") or 0))


def start_query(session: SparkSession, options: ReplicationOptions, checkpoint: Path) -> StreamingQuery:
    """Start the query with the turn in ``options``."""
    source = source_named(f"magnetar-{options.turn}")
    session.dataSource.register(source)
    frame = session.readStream.format(source.name()).options(**options.to_spark()).load()
    written = frame.mapInArrow(write, SCHEMA_DDL)
    return (
        written.writeStream.format("noop")
        .queryName(f"magnetar-replicate-{options.turn}")
        .option("checkpointLocation", spark_path(checkpoint))
        .start()
    )
