"""``restore``: publish archived messages in the order of their log, each once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as f

from magnetar.base.errors import MagnetarError
from magnetar.base.names import without_partition
from magnetar.jobs.archive.directory import contents, identity
from magnetar.jobs.archive.publishing import Publication, Targets
from magnetar.jobs.archive.report import Restored, RestoreReport
from magnetar.jobs.archive.rows import ARCHIVED, ORDER
from magnetar.jobs.archive.schemas import registered
from magnetar.jobs.archive.selection import Selection, targets_of
from magnetar.jobs.session import Needs, batch_session, stoppable
from magnetar.pipeline.work_files import WorkDirectory, spark_path
from magnetar.spark import columns
from magnetar.spark.connecting import admin_client
from magnetar.spark.write.options import WriteOptions

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from magnetar.jobs.archive.contents import Definitions
    from magnetar.jobs.archive.settings import RestoreSettings
    from magnetar.jobs.archive.writing import Tell
    from magnetar.pipeline.options import ClusterAddress

    Versions = Mapping[tuple[str, bytes | None], bytes | None]
    """By topic or partition of the archive, and version there; None for no version."""

STEP = "messages restored"

_TASKS_MAX = 10_000

_SETTINGS = {
    # Rows may be large. These are the units in which Spark reads them and passes them on.
    "spark.sql.parquet.columnarReaderBatchSize": "256",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 * 2**20),
}

_PUBLISHED = (
    columns.TOPIC,
    columns.VALUE,
    columns.KEY,
    columns.HAS_BASE64_KEY,
    columns.ORDERING_KEY,
    columns.PROPERTIES,
    columns.EVENT_TIME,
    columns.PUBLISH_TIME,
    columns.DELIVER_AT_TIME,
    columns.REPLICATE_TO,
    columns.SCHEMA_VERSION,
)
"""The columns that a restored message has."""


def restore(settings: RestoreSettings, tell: Tell, stop: threading.Event) -> RestoreReport:
    """Publish the messages that are not published yet.

    Raises MagnetarError, InterruptedJobError among them when ``stop`` is set.
    """
    found = contents(settings.directory)
    targets = targets_of(found, settings.topics, settings.to)
    selection = Selection(found.archive_id, targets, settings.start_time, settings.end_time)
    cluster = settings.cluster
    options = WriteOptions(
        service_url=cluster.broker_url,
        admin_url=cluster.admin_url,
        client_conf=cluster.client_conf,
        compression_type=settings.compression,
    )
    needs = Needs([cluster], read=[identity(settings.directory)])
    paths = [spark_path(one.path) for one in selection.files(found.files)]
    with (
        WorkDirectory(settings.spark.work_dir) as work,
        admin_client(options) as admin,
        batch_session("restore", settings.spark, work.path, stop, needs) as session,
    ):
        for key, value in _SETTINGS.items():
            session.conf.set(key, value)
        messages = _selected(session, settings.directory, paths, selection)
        with stoppable(session, stop):
            by_version = _counts(messages)
        counts: dict[str, int] = {}
        for (archived, _), count in by_version.items():
            counts[archived] = counts.get(archived, 0) + count
        places = {archived: selection.target(archived) for archived in counts}
        names = {target: selection.producer_name(archived) for archived, target in places.items()}
        publication = Publication(options, names)
        checked = Targets(admin, list(names))
        checked.check_partitions()
        before = publication.published()
        checked.check_state(before, is_append=settings.is_append)
        versions = _versions(cluster, by_version, places, found.schemas)
        total, done = sum(counts.values()), sum(before.values())

        def look(_completed: int) -> None:
            with suppress(MagnetarError):  # a broker that does not answer concerns the tasks
                tell(STEP, min(total, done + checked.received()), total)

        with stoppable(session, stop, look):
            published = _publish(_targeted(messages, places, versions), publication)
        tell(STEP, total, total)
    rows = [
        Restored(topic=archived, target=places[archived], messages=count, before=before[places[archived]])
        for archived, count in sorted(counts.items())
    ]
    return RestoreReport(settings.directory, published, rows)


def _selected(session: SparkSession, directory: Path, paths: list[str], selection: Selection) -> DataFrame:
    """Return the messages of the selection."""
    if not paths:
        return session.createDataFrame([], ARCHIVED)
    found = session.read.schema(ARCHIVED).option("basePath", spark_path(directory)).parquet(*paths)
    if selection.start_time is not None:
        found = found.where(f.col(columns.PUBLISH_TIME) >= f.lit(selection.start_time))
    if selection.end_time is not None:
        found = found.where(f.col(columns.PUBLISH_TIME) < f.lit(selection.end_time))
    return found


def _counts(messages: DataFrame) -> dict[tuple[str, bytes | None], int]:
    """Return the number of messages by topic or partition, and by version of the schema."""
    rows = messages.groupBy(columns.TOPIC, columns.SCHEMA_VERSION).count().collect()
    found = {}
    for archived, version, count in sorted(rows, key=lambda row: str(row[0])):
        found[archived, None if version is None else bytes(version)] = count
    return found


def _versions(
    cluster: ClusterAddress,
    archived: Iterable[tuple[str, bytes | None]],
    places: Mapping[str, str],
    schemas: Definitions,
) -> Versions:
    """Return the versions at the targets of archived versions; raises as ``registered``."""
    pairs = list(archived)
    definitions = {places[topic]: schemas.get(without_partition(topic), {}) for topic, _ in pairs}
    new = registered(cluster, [(places[topic], version) for topic, version in pairs], definitions)
    return {(topic, version): new.get((places[topic], version or b"")) for topic, version in pairs}


def _targeted(messages: DataFrame, places: Mapping[str, str], versions: Versions) -> DataFrame:
    """Return the messages with their targets, each target in one task and in the order of the log."""
    rows = [(archived, version, places[archived], new) for (archived, version), new in versions.items()]
    named = messages.sparkSession.createDataFrame(rows, "archived string, version binary, target string, new binary")
    is_same = (f.col("archived") == f.col(columns.TOPIC)) & f.col("version").eqNullSafe(f.col(columns.SCHEMA_VERSION))
    found = messages.join(f.broadcast(named), is_same)
    found = found.withColumn(columns.TOPIC, f.col("target")).withColumn(columns.SCHEMA_VERSION, f.col("new"))
    tasks = max(1, min(len(places), _TASKS_MAX))
    divided = found.select(*_PUBLISHED, *ORDER).repartition(tasks, columns.TOPIC)
    return divided.sortWithinPartitions(columns.TOPIC, *ORDER)


def _publish(messages: DataFrame, publication: Publication) -> int:
    """Return the number of messages that were published."""

    def publish(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"published": [publication.publish(iter(batches))]})

    return sum(row["published"] for row in messages.mapInArrow(publish, "published long").collect())
