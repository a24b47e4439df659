"""Clusters and their pipeline on one machine: starting, registering, supervising and stopping them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import ConfigurationError, MagnetarError
from magnetar.ops.processes import Child, Command, Process, Running, describe_exit, tail
from magnetar.ops.records import introduce, is_healthy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from magnetar.ops.layout import LocalCluster

START_TIMEOUT_SECONDS = 120.0
"""Time for the brokers, and then for the pipeline, to become ready; Spark on a busy machine is the slowest."""

STOP_TIMEOUT_SECONDS = 20.0
"""Time for the pipeline, and then for the brokers, to end before they are killed."""

POLL_SECONDS = 0.1
"""Interval at which child processes are checked."""

SPARK_EVENT = b'"event": "spark_started"'
"""Event in the pipeline's log when Spark runs."""

READY_EVENT = b'"event": "ready"'
"""Event in the pipeline's log when it replicates."""


class StoppedError(MagnetarError):
    """The operator stopped the clusters before all of them were ready."""


class StopRequest(Protocol):
    """The request to stop, set by a signal (threading.Event)."""

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds; return whether the request was made."""
        ...


@dataclass(frozen=True, slots=True)
class StartStep:
    """A step of the start, when it begins and when it is done."""

    name: str
    seconds: float | None = None
    """Time that it took; None at its begin."""


@dataclass(frozen=True, slots=True)
class Host:
    """Interface of `LocalClusters` to the machine: processes, time, and messages to the operator."""

    stop_request: StopRequest
    say: Callable[[str], None]
    report: Callable[[StartStep], None]
    start: Callable[[Command], Running] = Process
    is_healthy: Callable[[LocalCluster], bool] = is_healthy
    introduce: Callable[[Sequence[LocalCluster]], None] = introduce
    monotonic: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


class LocalClusters:
    """Supervised brokers and pipeline. Call `start`, then `supervise`, and `stop` in any case."""

    def __init__(self, clusters: Sequence[LocalCluster], host: Host, pipeline: Command | None) -> None:
        """Prepare the processes, with the command of the ``pipeline`` if there is one; `start` starts them."""
        self.clusters = clusters
        self._world = host
        self._brokers = {each.name: Child(each.broker_command(), host.start) for each in clusters}
        self._pipeline = None if pipeline is None else Child(pipeline, host.start)

    def start(self) -> None:
        """Start everything; return when all clusters are registered with each other and the pipeline replicates.

        Raises ConfigurationError, with the end of the child's log, if a child ended or was not ready in time, and
        StoppedError if the operator requested to stop meanwhile.
        """
        broker_steps = {}
        for cluster in self.clusters:
            broker_steps[cluster.name] = self._begin(f"broker {cluster.name}")
            self._brokers[cluster.name].start(self._world.monotonic())
        for cluster in self.clusters:
            self._until(self._brokers[cluster.name], partial(self._world.is_healthy, cluster))
            broker_steps[cluster.name]()
        done = self._begin("registration")
        self._world.introduce(self.clusters)
        done()
        if self._pipeline is not None:
            self._start_pipeline(self._pipeline)

    def _start_pipeline(self, pipeline: Child) -> None:
        log = pipeline.command.log
        log_start = log.stat().st_size if log.exists() else 0
        pipeline.start(self._world.monotonic())
        for step, event in (("Spark", SPARK_EVENT), ("pipeline", READY_EVENT)):
            done = self._begin(step)
            self._until(pipeline, partial(_has_logged, log, log_start, event))
            done()

    def _begin(self, step: str) -> Callable[[], None]:
        """Report the begin of a step of the start, and return a function that reports its end."""
        began = self._world.monotonic()
        self._world.report(StartStep(step))
        return lambda: self._world.report(StartStep(step, self._world.monotonic() - began))

    def supervise(self) -> None:
        """Restart children that end, until the request to stop."""
        while not self._world.stop_request.wait(POLL_SECONDS):
            now = self._world.monotonic()
            for child in self._children():
                said = child.tick(now)
                if said:
                    self._world.say(said)

    def stop(self) -> None:
        """Stop the pipeline, then the brokers, and kill the processes that do not end in time."""
        if self._pipeline is not None:
            self._end([self._pipeline])
        self._end(list(self._brokers.values()))

    def endpoints(self) -> dict[str, object]:
        """Return URLs and process ids, in the form that ``--output json`` prints."""
        security = self.clusters[0].security
        secured = {} if security is None else {"security": security.endpoints()}
        return {
            "clusters": {
                cluster.name: {
                    "service_url": cluster.service_url,
                    "admin_url": cluster.admin_url,
                    "pid": self._brokers[cluster.name].pid,
                }
                for cluster in self.clusters
            },
            "pipeline": {"pid": self._pipeline.pid} if self._pipeline is not None else None,
            **secured,
        }

    def _children(self) -> Iterable[Child]:
        yield from self._brokers.values()
        if self._pipeline is not None:
            yield self._pipeline

    def _until(self, child: Child, ready: Callable[[], bool]) -> None:
        deadline = self._world.monotonic() + START_TIMEOUT_SECONDS
        while not ready():
            status = child.exit_status()
            if status is not None:
                raise _start_error(child, describe_exit(status))
            if self._world.monotonic() > deadline:
                raise _start_error(child, f"was not ready within {START_TIMEOUT_SECONDS:g} s")
            if self._world.stop_request.wait(POLL_SECONDS):
                message = "stopped before all clusters were ready"
                raise StoppedError(message)

    def _end(self, children: list[Child]) -> None:
        for child in children:
            child.stop()
        deadline = self._world.monotonic() + STOP_TIMEOUT_SECONDS
        while not all(child.stopped for child in children) and self._world.monotonic() < deadline:
            self._world.pause(POLL_SECONDS)
        for child in children:
            if not child.stopped:
                self._world.say(f"{child.command.name} did not end within {STOP_TIMEOUT_SECONDS:g} s: killed")
            child.kill()


def _start_error(child: Child, what: str) -> ConfigurationError:
    logs = [child.command.log, *(log for log in child.command.more_logs if log.exists())]
    ends = "\n".join(f"the end of {log}:\n{tail(log)}" for log in logs)
    return ConfigurationError(f"{child.command.name} {what}; {ends}")


def _has_logged(log: Path, start: int, event: bytes) -> bool:
    """Return whether the pipeline has logged an event after byte ``start`` of its log."""
    with log.open("rb") as file:
        if start <= log.stat().st_size:  # otherwise the log was rotated
            file.seek(start)
        return event in file.read()
