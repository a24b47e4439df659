"""The reading of logs by the tasks of a job, in parts that are kept when the job is interrupted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from magnetar.base.errors import ConfigurationError, DataLossError
from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.connecting import options_of
from magnetar.jobs.pieces import pieces, tasks
from magnetar.jobs.scans import Plan
from magnetar.jobs.session import stoppable
from magnetar.pipeline.work_files import spark_path

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from magnetar.jobs.pieces import Piece
    from magnetar.jobs.scans import Ends, Records, Scan
    from magnetar.jobs.survey import Bounds
    from magnetar.pipeline.options import ClusterAddress
    from magnetar.spark.options import Options

    Read = Callable[[Sequence[Piece]], Iterator[pa.RecordBatch]]
    """Yields the rows of pieces."""

_TASKS_PER_PART = 16
"""Tasks whose rows are complete together; an interrupted job reads the entries of at most so many tasks again."""


def urls_of(clusters: Iterable[ClusterAddress]) -> dict[str, Options]:
    """Return the addresses of clusters by name, as tasks need them."""
    return {each.name: options_of(each) for each in clusters}


def written_for(option: str, place: Path | None) -> list[Path]:
    """Return the directory in which a job creates the new directory of an option; nothing without the option.

    Raises ConfigurationError if the new directory exists.
    """
    if place is None:
        return []
    if place.exists():
        message = f"{option}: {place} exists\nhint: name another directory"
        raise ConfigurationError(message)
    return [place.absolute().parent]


def plan_of(bounds: Mapping[str, Mapping[str, Bounds | None]], ends: Ends) -> Plan:
    """Return what a new run reads: the entries in ``bounds``, by cluster and topic, after the ``ends`` of earlier runs.

    Raises DataLossError for a log that ends before.
    """
    plan = Plan()
    wanted = []
    for cluster, by_topic in bounds.items():
        plan.ends[cluster] = {}
        for topic, found in by_topic.items():
            before = ends.get(cluster, {}).get(topic, EARLIEST)
            plan.ends[cluster][topic] = before if found is None else found.end
            if found is not None:
                _check_growth(cluster, topic, before, found.end)
                wanted += pieces(cluster, topic, Position(before.ledger_id, before.entry_id + 1), found.ledgers)
    plan.tasks = tasks(wanted)
    return plan


def _check_growth(cluster: str, topic: str, before: Position, end: Position) -> None:
    if end < before:
        message = (
            f"{topic} in {cluster} ends at {end}, but an earlier run read it up to {before}: data was lost"
            "\nhint: name a new directory with --state to begin again"
        )
        raise DataLossError(message)


def read_parts(
    session: SparkSession,
    scan: Scan,
    read: Read,
    kind: StructType,
    tell: Callable[[int, int], None],
    stop: threading.Event,
) -> None:
    """Write the parts of the scan that are not complete yet, with rows of ``kind``.

    ``tell`` is called with the number of entries that are read, and that of all. Raises as ``stoppable``.
    """
    planned = scan.plan.tasks
    total = scan.plan.entries
    done = 0
    for number, first in enumerate(range(0, len(planned), _TASKS_PER_PART)):
        part = planned[first : first + _TASKS_PER_PART]
        entries = sum(piece.entries for task in part for piece in task)
        if not scan.has(number):
            with stoppable(session, stop, partial(_told, tell, done, total, entries / len(part))):
                rows_read(session, part, read, kind).write.mode("overwrite").parquet(spark_path(scan.part(number)))
        done += entries
        tell(done, total)


def _told(tell: Callable[[int, int], None], before: int, total: int, per_task: float, completed: int) -> None:
    tell(min(total, before + int(per_task * completed)), total)


def all_read(session: SparkSession, records: Records, kind: StructType) -> DataFrame:
    """Return the rows of all complete parts, of ``kind``."""
    parts = [spark_path(part) for part in records.parts()]
    return session.read.schema(kind).parquet(*parts) if parts else session.createDataFrame([], kind)


def of_topics(rows: DataFrame, topics: Iterable[str]) -> DataFrame:
    """Return the rows of some topics."""
    wanted = rows.sparkSession.createDataFrame([(topic,) for topic in topics], "topic string")
    return rows.join(f.broadcast(wanted), "topic", "left_semi")


def rows_read(session: SparkSession, tasks: Sequence[Sequence[Piece]], read: Read, kind: StructType) -> DataFrame:
    """Return the rows that tasks read, one Spark task each."""
    shared = session.sparkContext.broadcast([list(task) for task in tasks])

    def read_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(shared.value[number])

    return session.range(0, len(tasks), 1, len(tasks)).mapInArrow(read_tasks, kind)
