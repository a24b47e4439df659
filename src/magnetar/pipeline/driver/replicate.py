"""The driver of replication: it starts both queries, restarts ended ones, and reports progress."""

from __future__ import annotations

import itertools
import os
import socket
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from magnetar.base.real import SystemClock
from magnetar.pipeline import limits
from magnetar.pipeline.addresses import AddressWatch
from magnetar.pipeline.connections.flow import Backoff
from magnetar.pipeline.driver.division import Division, write_division
from magnetar.pipeline.driver.progress import LinkProgress, ProgressWatch
from magnetar.pipeline.driver.session import build_session, check_cluster, demands_of, start_query, status_receiver
from magnetar.pipeline.driver.settings import IN_THIS_PROCESS, SparkSettings
from magnetar.pipeline.driver.slots import Need, SlotWatch, parallelism_of, slots_of
from magnetar.pipeline.driver.tasks import TaskStatuses
from magnetar.pipeline.leases import TURNS, Schedule
from magnetar.pipeline.options import ClusterAddress, ReplicationOptions
from magnetar.pipeline.work_files import WorkDirectory

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path
    from random import Random

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from magnetar.pipeline.status import StatusReceiver, TaskStatus

DIVISION_FILE = "division.json"
"""Name of the file in the work directory that states how to divide the links."""

RESTART = Backoff(limits.RESTART_INITIAL_SECONDS, limits.RESTART_MAX_SECONDS)
"""The delay before an ended query is restarted."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The clusters to replicate, and the environment."""

    clusters: tuple[ClusterAddress, ...]
    lease_seconds: float = limits.LEASE_SECONDS
    spark: SparkSettings = IN_THIS_PROCESS
    parallelism: int | None = None
    """Number of tasks among which the links to a target are divided; None: 1, or on a cluster as many as half of the
    slots have room for, at most PARALLELISM_MAX."""
    namespaces: tuple[str, ...] = ()
    """Namespaces to read from foreign clusters, besides those in the policies of Magnetar clusters."""


@dataclass(frozen=True, slots=True)
class SparkStarted:
    """Spark runs; the queries are about to start."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The links of every target are carried, and the next query is running."""


@dataclass(frozen=True, slots=True)
class QueryEnded:
    """A query ended; it restarts in ``restart_in_seconds``."""

    turn: int
    reason: str
    restart_in_seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of all links, and the newest status of each task that reports."""

    links: tuple[LinkProgress, ...]
    tasks: tuple[TaskStatus, ...]


@dataclass(frozen=True, slots=True)
class Rival:
    """Another pipeline holds links that this one should carry; reported once for each pipeline and target."""

    target: str
    pipeline: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The broker URL of a cluster changed; both queries restart with the new one."""

    cluster: str
    broker_url: str


@dataclass(frozen=True, slots=True)
class Warned:
    """The executors of a Spark cluster do not suit the links; an empty text: there are enough task slots again."""

    text: str


Event = SparkStarted | Ready | QueryEnded | Progress | Rival | Moved | Warned


class Turn:
    """One of the two queries, with its restarts."""

    def __init__(self, session: SparkSession, options: ReplicationOptions, work_dir: Path, rng: Random) -> None:
        """Create the query of ``session``; `supervise` starts it."""
        self._session = session
        self._options = options
        self._work_dir = work_dir
        self._rng = rng
        self._query: StreamingQuery | None = None
        self._starts = itertools.count()
        self._started_at = 0.0
        self._attempt = 0
        self._restart_at = 0.0
        self.restarts = 0
        """Number of restarts of the query."""

    def is_due(self) -> bool:
        """Return whether the current lease is one of the query."""
        return Schedule(self._options.lease_seconds).due(self._options.turn, time.time()) is not None

    @property
    def active(self) -> bool:
        """Return whether the query runs."""
        return self._query is not None and self._query.isActive

    def supervise(self, now: float) -> QueryEnded | None:
        """Start the query if it is due; return an event if it has ended."""
        if self._query is None:
            return self._start(now) if now >= self._restart_at else None
        if self._query.isActive:
            return None
        return self._ended(str(self._query.exception() or "stopped"), now)

    def _start(self, now: float) -> QueryEnded | None:
        # A new checkpoint each time, because only the brokers know the positions.
        checkpoint = self._work_dir / f"checkpoint-{self._options.turn}-{next(self._starts)}"
        self._started_at = now
        try:
            self._query = start_query(self._session, self._options, checkpoint)
        except (Py4JJavaError, PySparkException) as error:
            # Spark asks a Python worker for the source's schema. The query restarts if that worker is killed, or if it
            # fails. Most errors of Spark are a PySparkException, the others a Py4JJavaError.
            return self._ended(str(getattr(error, "java_exception", error)), now)
        return None

    def _ended(self, reason: str, now: float) -> QueryEnded:
        # A query that ran for a while failed for a new reason: restart the backoff.
        self._attempt = 0 if now - self._started_at > limits.RESTART_MAX_SECONDS else self._attempt + 1
        delay = RESTART.delay(self._attempt, self._rng)
        self._query = None
        self._restart_at = now + delay
        self.restarts += 1
        return QueryEnded(self._options.turn, reason, delay)

    def move(self, clusters: tuple[ClusterAddress, ...]) -> None:
        """Restart the query at once with other addresses."""
        self.stop()
        self._query = None
        self._options = replace(self._options, clusters=clusters)
        self._restart_at = 0.0

    def stop(self) -> None:
        """Stop the query; other tasks can take its links."""
        if self._query is not None:
            self._query.stop()


class Replication:
    """A running replication."""

    def __init__(self, settings: Settings, tell: Callable[[Event], None], rng: Random) -> None:
        """Create a replication that calls ``tell`` with events, from several threads; `run` runs it."""
        self._settings = settings
        self._tell = tell
        self._rng = rng
        self._tasks = TaskStatuses()
        self._rivals: set[tuple[str, str]] = set()
        self._ready = False
        self._parallelism = settings.parallelism or 1
        self._need = Need.of_links(len(settings.clusters) * self._parallelism)
        self._slots = SlotWatch(self._need)
        self._division_file: Path

    def run(self, stop: threading.Event) -> None:
        """Replicate until ``stop`` is set. Removes its files, and those of drivers that were killed."""
        with WorkDirectory(self._settings.spark.work_dir) as directory:
            self._division_file = directory.path / DIVISION_FILE
            session = build_session(self._settings.spark, self._tasks_of_a_lease, directory.path)
            self._tell(SparkStarted())
            demands = demands_of(self._settings.clusters, self._need)
            try:
                for text in check_cluster(session, self._settings.spark, demands, stop):
                    self._tell(Warned(text))
                self._divide(slots_of(session))
                self._supervise(session, directory.path, stop)
            finally:
                session.stop()

    def _supervise(self, session: SparkSession, work_dir: Path, stop: threading.Event) -> None:
        host, receiver = status_receiver(session)
        options = ReplicationOptions(
            clusters=self._settings.clusters,
            namespaces=self._settings.namespaces,
            lease_seconds=self._settings.lease_seconds,
            parallelism=self._parallelism,
            division_path=str(self._division_file),
            status_host=host,
            status_port=receiver.port,
            pipeline=f"{socket.gethostname()}:{os.getpid()}:{self._rng.randrange(1 << 32):08x}",
        )
        turns = [Turn(session, replace(options, turn=turn), work_dir, self._rng) for turn in range(TURNS)]
        watch = ProgressWatch(self._settings.clusters, self._settings.namespaces, SystemClock(), self._progressed)
        watch.start()
        addresses = AddressWatch(self._settings.clusters)
        addresses.start()
        started_at, may_all_start = time.monotonic(), False
        try:
            while not stop.is_set():
                self._follow(addresses, turns)
                # At first only one query starts: it has the processors to itself until it carries the links.
                may_all_start |= self._carries_all or time.monotonic() >= started_at + limits.ONE_QUERY_SECONDS
                for turn in turns:
                    if not (may_all_start or turn.is_due()):
                        continue
                    ended = turn.supervise(time.monotonic())
                    if ended is not None:
                        self._tell(ended)
                self._hear(receiver, turns)
                self._watch_slots(session, time.monotonic())
                stop.wait(limits.SUPERVISION_SECONDS)
        finally:
            addresses.stop()
            watch.stop()
            # Stopping running tasks is intended, so Spark's errors about them are suppressed.
            session.sparkContext.setLogLevel("OFF")
            for turn in turns:
                turn.stop()
            receiver.close()

    @property
    def _carries_all(self) -> bool:
        """Whether the links of every target have been carried."""
        return self._tasks.heard_of >= self._tasks_of_a_lease

    @property
    def _tasks_of_a_lease(self) -> int:
        return len(self._settings.clusters) * self._parallelism

    def _follow(self, addresses: AddressWatch, turns: list[Turn]) -> None:
        """Restart the queries if a cluster's address changed."""
        moved = addresses.take_moved()
        for address in moved:
            self._tell(Moved(address.name, address.broker_url))
        if moved:
            for turn in turns:
                turn.move(addresses.clusters)

    def _hear(self, receiver: StatusReceiver, turns: list[Turn]) -> None:
        for status in receiver.receive():
            if self._tasks.heard(status, time.monotonic()):
                self._tell_rivals(status)
        if not self._ready and self._carries_all and all(turn.active for turn in turns):
            self._ready = True
            self._tell(Ready())

    def _watch_slots(self, session: SparkSession, now: float) -> None:
        if not self._slots.is_due(now):
            return
        slots = slots_of(session)
        self._divide(slots)
        shortage = self._slots.note(slots, now)
        if shortage is not None:
            self._tell(Warned(shortage))

    def _divide(self, slots: int) -> None:
        """Let the next lease have as many tasks as there is room for, unless their number is given."""
        if self._settings.parallelism is None and not self._settings.spark.is_local:
            self._parallelism = parallelism_of(slots, len(self._settings.clusters))

    def _tell_rivals(self, status: TaskStatus) -> None:
        for rival in status.rivals:
            if (status.target, rival) not in self._rivals and len(self._rivals) < limits.RIVALS_TOLD_MAX:
                self._rivals.add((status.target, rival))
                self._tell(Rival(status.target, rival))

    def _progressed(self, links: list[LinkProgress]) -> None:
        write_division(self._division_file, Division(self._parallelism, self._tasks.traffic.by_target()))
        self._tell(Progress(tuple(links), self._tasks.recent(time.monotonic())))


def event_json(event: Event) -> dict[str, Any]:
    """Return an event as JSON data."""
    return {"event": _NAMES[type(event)], **_details(event)}


_INTERNAL = ("part", "traffic")
"""Fields of a status for the driver only."""

_NAMES = {
    SparkStarted: "spark_started",
    Ready: "ready",
    QueryEnded: "query_ended",
    Rival: "another_pipeline",
    Moved: "cluster_moved",
    Warned: "warning",
    Progress: "progress",
}


def _details(event: Event) -> dict[str, Any]:
    match event:
        case QueryEnded(turn, reason, delay):
            return {"query": turn, "reason": reason, "restart_in_seconds": round(delay, 3)}
        case Rival(target, pipeline):
            return {"target": target, "pipeline": pipeline}
        case Moved(cluster, broker_url):
            return {"cluster": cluster, "broker_url": broker_url}
        case Warned(text):
            return {"text": text}
        case Progress(links, tasks):
            return {"links": [_fields(link) for link in links], "tasks": [_fields(t) for t in tasks]}
        case _:
            return {}


def _fields(value: LinkProgress | TaskStatus) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__ if name not in _INTERNAL}
