"""The Spark session of batch jobs, which has Spark's settings for batches and none of the relay's."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from magnetar.base.errors import MagnetarError
from magnetar.pipeline.driver.executors import Demands, check_executors
from magnetar.pipeline.driver.launch import start_spark
from magnetar.pipeline.driver.settings import CommandSettings
from magnetar.pipeline.options import client_confs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from magnetar.pipeline.driver.settings import SparkSettings
    from magnetar.pipeline.options import ClusterAddress

_POLL_SECONDS = 0.5
"""Seconds between two looks at the progress of a job."""

_DRIVER_MEMORY = "2g"
"""Heap of the Java virtual machine; Spark writes what does not fit into it to its local directories."""

_SETTINGS = CommandSettings(
    required={
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.speculation": "false",
        "spark.sql.session.timeZone": "UTC",
    },
    preferred={
        "spark.driver.memory": _DRIVER_MEMORY,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    },
)

MODULES = (
    "magnetar.spark",
    "magnetar.jobs.audit.frames",
    "magnetar.jobs.archive.publishing",
    "magnetar.jobs.translate.frames",
)
"""Modules that tasks of all jobs import."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What the tasks of a job need."""

    clusters: Sequence[ClusterAddress] = ()
    """Clusters that they connect to."""
    read: Sequence[Path] = ()
    """Files of the driver that they read."""
    written: Sequence[Path] = ()
    """Directories that they and the driver write."""


NOTHING = Needs()


class InterruptedJobError(MagnetarError):
    """A job was stopped before its end."""

    def __init__(self) -> None:
        """Create the error, whose text is always the same."""
        super().__init__("interrupted")


class JobFailedError(MagnetarError):
    """A job of Spark failed; the text has the reason."""


@contextmanager
def batch_session(
    name: str,
    spark: SparkSettings,
    work_dir: Path,
    stop: threading.Event | None = None,
    needs: Needs = NOTHING,
) -> Iterator[SparkSession]:
    """Start Spark, or connect to it, for the block; its files are in ``work_dir``. Raises as ``start_spark``.

    Raises ConfigurationError if executors of a Spark cluster have not what tasks need.
    """
    session = start_spark(name, spark, work_dir, _SETTINGS)
    try:
        if not spark.is_local:
            demands = Demands(
                MODULES,
                files=tuple(needs.read),
                directories=tuple(needs.written),
                client_confs=client_confs(needs.clusters),
            )
            check_executors(session, demands, stop or threading.Event())
        yield session
    finally:
        session.stop()


@contextmanager
def stoppable(
    session: SparkSession, stop: threading.Event, done: Callable[[int], None] = lambda _: None
) -> Iterator[None]:
    """Cancel the Spark jobs of the block when ``stop`` is set, and report the number of completed tasks to ``done``.

    Raises InterruptedJobError if they were cancelled, and JobFailedError with the reason if one failed.
    """
    context, group, ended = session.sparkContext, f"magnetar-{id(stop)}", threading.Event()
    context.setJobGroup(group, "magnetar", interruptOnCancel=True)
    tracker = context.statusTracker()

    def watch() -> None:
        while not ended.wait(_POLL_SECONDS):
            if stop.is_set():
                context.cancelJobGroup(group)
            stages = (tracker.getStageInfo(number) for number in tracker.getActiveStageIds())
            done(sum(stage.numCompletedTasks for stage in stages if stage is not None))

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if stop.is_set():
            raise InterruptedJobError from None
        raise JobFailedError(_reason(str(error))) from error
    finally:
        ended.set()
        watcher.join()
    if stop.is_set():
        raise InterruptedJobError


def followed(query: StreamingQuery, stop: threading.Event, look: Callable[[], None], *, is_endless: bool) -> None:
    """Return at the end of a streaming query, which is stopped when ``stop`` is set; call ``look`` in between.

    Raises JobFailedError with the reason if it failed, and InterruptedJobError if one that has an end was stopped.
    """
    try:
        while query.isActive:
            look()
            if stop.wait(_POLL_SECONDS):
                query.stop()
                break
        else:
            query.awaitTermination()
    except PySparkException as error:
        raise JobFailedError(_reason(str(error))) from error
    look()
    if stop.is_set() and not is_endless:
        raise InterruptedJobError


def _reason(text: str) -> str:
    """Return the error of a task in Python, with its hint, without the stacks of Java and Python around it."""
    lines = [line.strip() for line in text.splitlines()]
    for number, line in enumerate(lines):
        if line.startswith("magnetar.") and "Error: " in line:
            hint = [following for following in lines[number + 1 : number + 2] if following.startswith("hint: ")]
            return "\n".join([line.partition("Error: ")[2], *hint])
    return (lines or ["Spark failed"])[0]
