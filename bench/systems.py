"""The two systems with one broker, or with two clusters that replicate to each other."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, Self

from tests.kit.broker import Broker
from tests.kit.clusters import Up
from tests.kit.processes import cpu_seconds
from tests.kit.pulsar import PulsarClusters, PulsarStandalone
from tests.kit.pulsar_jars import PULSAR_VERSION, java, pulsar_jars

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.clusters import Group
    from tests.kit.server import Server

HERE, THERE = PAIR = ("here", "there")
"""The cluster of the producers, and the target cluster."""


class System(StrEnum):
    """The measured systems, in the order of alternation."""

    APACHE = "apache"
    MAGNETAR = "magnetar"


TITLES = {System.APACHE: f"Apache Pulsar {PULSAR_VERSION}", System.MAGNETAR: "Magnetar"}


class Pair(Protocol):
    """Two clusters, ``HERE`` and ``THERE``, with operations on their brokers."""

    @property
    def group(self) -> Group:
        """Return both running clusters."""
        ...

    def __enter__(self) -> Self:
        """Start both clusters, and the replication between them."""
        ...

    def __exit__(self, *_exception: object) -> None:
        """Stop everything."""
        ...

    def cpu_seconds(self) -> float:
        """Return the processor time of all processes, including replication."""
        ...

    def freeze(self, name: str) -> None:
        """Suspend a broker; its connections stay open."""
        ...

    def thaw(self, name: str) -> None:
        """Resume a suspended broker."""
        ...

    def kill(self, name: str) -> None:
        """Kill a broker with SIGKILL."""
        ...


class ApachePair:
    """Two clusters of Apache Pulsar with their own replicators."""

    def __init__(self, directory: Path) -> None:
        """Choose ports without starting the brokers."""
        self.group = PulsarClusters(directory, PAIR)

    def __enter__(self) -> Self:
        """Start both brokers at the same time."""
        try:
            with ThreadPoolExecutor() as starting:
                for started in [starting.submit(server.start) for server in self.group.servers()]:
                    started.result()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        """Kill both brokers; their data is not used again."""
        for server in self.group.servers():
            server.kill_if_running()
        self.group.__exit__(*exception)

    def cpu_seconds(self) -> float:
        """Return the processor time of both brokers."""
        return sum(cpu_seconds(server.pid) for server in self.group.servers())

    def freeze(self, name: str) -> None:
        """Send SIGSTOP."""
        self.group.pulsars[name].freeze()

    def thaw(self, name: str) -> None:
        """Send SIGCONT."""
        self.group.pulsars[name].thaw()

    def kill(self, name: str) -> None:
        """Kill a broker with SIGKILL; it is not restarted."""
        self.group.pulsars[name].kill()


class MagnetarPair:
    """``magnetar up`` with two clusters and its pipeline."""

    group: Up

    def __init__(self, directory: Path) -> None:
        """Nothing runs yet."""
        self._directory = directory

    def __enter__(self) -> Self:
        """Start ``magnetar up`` and wait until it is ready."""
        self.group = Up(self._directory, PAIR)
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop ``magnetar up``."""
        self.group.__exit__(*exception)

    def cpu_seconds(self) -> float:
        """Return the processor time of both brokers and the pipeline."""
        return cpu_seconds(self.group.process.pid)

    def freeze(self, name: str) -> None:
        """Send SIGSTOP."""
        self._signal(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Send SIGCONT."""
        self._signal(name, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """Kill a broker with SIGKILL; ``magnetar up`` restarts it."""
        self._signal(name, signal.SIGKILL)

    def _signal(self, name: str, number: signal.Signals) -> None:
        (pid,) = self.group.broker_pids(name)
        os.kill(pid, number)


def one_broker(system: System, directory: Path) -> Server:
    """Return a broker that is not started."""
    return PulsarStandalone(directory) if system is System.APACHE else Broker(directory)


def two_clusters(system: System, directory: Path) -> Pair:
    """Return two clusters that are not started."""
    return ApachePair(directory) if system is System.APACHE else MagnetarPair(directory)


def require_apache() -> None:
    """Download missing parts of Apache Pulsar; raises PulsarUnavailableError if it cannot be run."""
    java()
    pulsar_jars()
