"""The two systems as their users run them: one broker, or two clusters that replicate to each other."""

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
"""The cluster that is published in, and the one that it is replicated to."""


class System(StrEnum):
    """Who is measured; in this order, in turn."""

    APACHE = "apache"
    MAGNETAR = "magnetar"


TITLES = {System.APACHE: f"Apache Pulsar {PULSAR_VERSION}", System.MAGNETAR: "Magnetar"}


class Pair(Protocol):
    """Two clusters, ``HERE`` and ``THERE``, and what may happen to their brokers."""

    @property
    def group(self) -> Group:
        """Both clusters, while they run."""
        ...

    def __enter__(self) -> Self:
        """Start both, and what replicates between them."""
        ...

    def __exit__(self, *_exception: object) -> None:
        """Stop everything."""
        ...

    def cpu_seconds(self) -> float:
        """Return the processor time of everything that runs, whatever replicates included."""
        ...

    def freeze(self, name: str) -> None:
        """Stop a broker from running; its connections stay open."""
        ...

    def thaw(self, name: str) -> None:
        """Let a frozen broker run on."""
        ...

    def kill(self, name: str) -> None:
        """``kill -9`` a broker."""
        ...


class ApachePair:
    """Two Apache Pulsars with their own replicators."""

    def __init__(self, directory: Path) -> None:
        """Choose ports; nothing runs yet."""
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
        """Kill both brokers: what they hold is thrown away."""
        for server in self.group.servers():
            server.kill_if_running()
        self.group.__exit__(*exception)

    def cpu_seconds(self) -> float:
        """Both brokers."""
        return sum(cpu_seconds(server.pid) for server in self.group.servers())

    def freeze(self, name: str) -> None:
        """SIGSTOP."""
        self.group.pulsars[name].freeze()

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        self.group.pulsars[name].thaw()

    def kill(self, name: str) -> None:
        """``kill -9``; it stays down."""
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
        """Stop it."""
        self.group.__exit__(*exception)

    def cpu_seconds(self) -> float:
        """Both brokers and the pipeline."""
        return cpu_seconds(self.group.process.pid)

    def freeze(self, name: str) -> None:
        """SIGSTOP."""
        self._signal(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        self._signal(name, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """``kill -9``; ``magnetar up`` starts it again."""
        self._signal(name, signal.SIGKILL)

    def _signal(self, name: str, number: signal.Signals) -> None:
        (pid,) = self.group.broker_pids(name)
        os.kill(pid, number)


def one_broker(system: System, directory: Path) -> Server:
    """Return a broker that does not run yet."""
    return PulsarStandalone(directory) if system is System.APACHE else Broker(directory)


def two_clusters(system: System, directory: Path) -> Pair:
    """Return two clusters that do not run yet."""
    return ApachePair(directory) if system is System.APACHE else MagnetarPair(directory)


def require_apache() -> None:
    """Fetch what is missing of Apache Pulsar; raises PulsarUnavailableError where it cannot be run."""
    java()
    pulsar_jars()
