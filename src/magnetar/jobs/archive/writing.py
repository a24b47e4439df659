"""``archive``: a streaming query whose batches become files of the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError, DataLossError
from magnetar.base.position import EARLIEST
from magnetar.jobs.archive.advance import Advance
from magnetar.jobs.archive.directory import Archive
from magnetar.jobs.archive.report import ArchiveReport
from magnetar.jobs.archive.rows import DAY, MESSAGES, TOPIC, with_partitions
from magnetar.jobs.archive.schemas import fetched, versions_in
from magnetar.jobs.archive.source import in_terms_of_command, options_of
from magnetar.jobs.session import JobFailedError, Needs, batch_session, followed
from magnetar.pipeline.work_files import WorkDirectory, spark_path
from magnetar.spark import MagnetarDataSource
from magnetar.spark.read.cluster import Cluster
from magnetar.spark.read.options import ReadOptions
from magnetar.spark.read.planning import end_of
from magnetar.spark.read.ranges import TASK_BYTES

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from magnetar.base.position import Position
    from magnetar.jobs.archive.settings import ArchiveSettings
    from magnetar.spark.read.ranges import Log

    Tell = Callable[[str, int, int], None]
    """Called with a step of the work, and how much of it is done."""

STEP = "entries archived"

_TASKS_PER_CORE = 2
"""Tasks in one batch for each core of the executors."""

_COMPRESSION = "zstd"


def archive(settings: ArchiveSettings, tell: Tell, stop: threading.Event) -> ArchiveReport:
    """Write the messages that the archive does not have yet.

    Raises MagnetarError, InterruptedJobError among them when ``stop`` is set before the end of an archive that has one.
    """
    try:
        return _archived(settings, tell, stop)
    except (ConfigurationError, JobFailedError) as error:
        raise type(error)(in_terms_of_command(str(error))) from error


def _archived(settings: ArchiveSettings, tell: Tell, stop: threading.Event) -> ArchiveReport:
    given = options_of(settings)
    with Cluster(ReadOptions.of(given)) as cluster:
        logs = cluster.logs(cluster.topics())
    with (
        Archive(settings.directory, settings.cluster.name) as target,
        WorkDirectory(settings.spark.work_dir) as work,
        batch_session(
            "archive", settings.spark, work.path, stop, Needs([settings.cluster], written=[target.own])
        ) as session,
    ):
        ends = target.ends()
        _check_growth(ends, logs)
        session.dataSource.register(MagnetarDataSource)
        given["maxBytesPerTrigger"] = str(session.sparkContext.defaultParallelism * _TASKS_PER_CORE * TASK_BYTES)
        query = _started(session, settings, given, target)
        advance = Advance(ends)

        def look() -> None:
            advance.note(query.recentProgress)
            tell(STEP, advance.done, advance.done + advance.remaining(logs))

        followed(query, stop, look, is_endless=settings.interval_seconds is not None)
    return ArchiveReport.of(settings.directory, advance)


def _started(
    session: SparkSession, settings: ArchiveSettings, given: dict[str, str], target: Archive
) -> StreamingQuery:
    """Start the query; raises JobFailedError if Spark refuses it."""

    def write(messages: DataFrame, batch: int) -> None:
        if target.has(batch):  # Spark was stopped before it noted the end of the batch
            return
        rows = with_partitions(messages).write.option("compression", _COMPRESSION)
        rows.partitionBy(TOPIC, DAY).parquet(spark_path(target.stage()))
        if unknown := target.unknown(versions_in(target.staged())):
            target.keep_schemas(fetched(settings.cluster, unknown))
        target.commit(batch)

    messages = session.readStream.format("magnetar").options(**given).schema(MESSAGES).load()
    writer = messages.writeStream.foreachBatch(write).queryName("archive")
    writer = writer.option("checkpointLocation", spark_path(target.checkpoint))
    if settings.interval_seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{settings.interval_seconds} seconds").start()


def _check_growth(ends: Mapping[str, Position], logs: Mapping[str, Log]) -> None:
    """Raise DataLossError if a topic ends before the place up to which it was archived."""
    for topic, log in logs.items():
        if log.ledgers and end_of(log) < ends.get(topic, EARLIEST):
            message = (
                f"{topic} ends at {end_of(log)}, but it was archived up to {ends[topic]}: data was lost"
                "\nhint: archive to a new directory"
            )
            raise DataLossError(message)
