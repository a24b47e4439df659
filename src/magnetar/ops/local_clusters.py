"""Clusters and their pipeline on one machine: started, introduced to each other, kept running, stopped in order."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import ConfigurationError, MagnetarError
from magnetar.ops.layout import pipeline_command
from magnetar.ops.processes import Child, Command, Process, Running, describe_exit, tail
from magnetar.ops.records import introduce, is_healthy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from magnetar.ops.layout import LocalCluster

START_TIMEOUT_SECONDS = 120.0
"""How long brokers, and then the pipeline, may take until they serve; Spark on a busy machine is the slowest."""

STOP_TIMEOUT_SECONDS = 20.0
"""How long the pipeline, and then the brokers, may take to end before they are killed."""

POLL_SECONDS = 0.1
"""How often children are looked at."""

READY_EVENT = b'"event": "ready"'
"""What the pipeline says, in its log, once it replicates."""


class StoppedError(MagnetarError):
    """The operator asked to stop before everything was up."""


class StopRequest(Protocol):
    """What a signal sets (threading.Event)."""

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds; whether stopping was asked for."""
        ...


@dataclass(frozen=True, slots=True)
class Host:
    """The world of `LocalClusters`: how processes start, what time it is, where words go."""

    stop_request: StopRequest
    say: Callable[[str], None]
    start: Callable[[Command], Running] = Process
    is_healthy: Callable[[str], bool] = is_healthy
    introduce: Callable[[Sequence[LocalCluster]], None] = introduce
    monotonic: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


class LocalClusters:
    """Brokers and a pipeline, supervised. `start`, then `supervise` until asked to stop, and always `stop`."""

    def __init__(self, clusters: Sequence[LocalCluster], host: Host, *, with_pipeline: bool) -> None:
        """Nothing runs until `start`."""
        self.clusters = clusters
        self._world = host
        self._brokers = {each.name: Child(each.broker_command(), host.start) for each in clusters}
        self._pipeline = Child(pipeline_command(clusters), host.start) if with_pipeline else None

    def start(self) -> None:
        """Return when all clusters serve and know each other and the pipeline replicates.

        Raises ConfigurationError, with the end of its log, for a child that ended or was not ready in time, and
        StoppedError when stopping was asked for meanwhile.
        """
        for broker in self._brokers.values():
            broker.start(self._world.monotonic())
        for cluster in self.clusters:
            self._until(self._brokers[cluster.name], partial(self._world.is_healthy, cluster.admin_url))
        self._world.introduce(self.clusters)
        if self._pipeline is not None:
            log = self._pipeline.command.log
            log_start = log.stat().st_size if log.exists() else 0
            self._pipeline.start(self._world.monotonic())
            self._until(self._pipeline, partial(_replicates, log, log_start))

    def supervise(self) -> None:
        """Start again what ends, until asked to stop."""
        while not self._world.stop_request.wait(POLL_SECONDS):
            now = self._world.monotonic()
            for child in self._children():
                said = child.tick(now)
                if said:
                    self._world.say(said)

    def stop(self) -> None:
        """End the pipeline, then the brokers; what does not end in time is killed. Nothing runs afterwards."""
        if self._pipeline is not None:
            self._end([self._pipeline])
        self._end(list(self._brokers.values()))

    def endpoints(self) -> dict[str, object]:
        """Where everything is, as ``--output json`` shows it."""
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
                message = "stopped before everything was up"
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
    log = child.command.log
    return ConfigurationError(f"{child.command.name} {what}; the end of {log}:\n{tail(log)}")


def _replicates(log: Path, start: int) -> bool:
    """Whether the pipeline has said, after byte ``start`` of its log, that it replicates."""
    with log.open("rb") as file:
        file.seek(start)
        return READY_EVENT in file.read()
