"""The processes of the demo and their reports. The official client runs in separate processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from queue import Empty
from typing import TYPE_CHECKING, Any, Protocol

from magnetar.ops.processes import death_pact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Event

    from magnetar.demo.tally import Entry

REPORT_SECONDS = 0.05
"""Interval between two reports of a process."""

# Forking is unsafe, because the client has threads.
_CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Published:
    """A number of new receipts of a publisher."""

    origin: str
    receipts: int


@dataclass(frozen=True, slots=True)
class Consumed:
    """The messages that a consumer of ``stage`` received and acknowledged, in order; times in milliseconds."""

    stage: int
    delivered: list[Entry]
    acknowledged: list[tuple[Entry, float]]


@dataclass(frozen=True, slots=True)
class Arrival:
    """The reception of a message from ``origin`` in another cluster."""

    origin: str
    published_ms: float
    received_ms: float


@dataclass(frozen=True, slots=True)
class Arrived:
    """New arrivals at the probe."""

    arrivals: list[Arrival]


@dataclass(frozen=True, slots=True)
class Holding:
    """The contents of one cluster's log, counted by reading all of it."""

    cluster: str
    messages: int
    """Number of entries."""
    flights: int
    """Number of different flights."""
    resent: int
    """Number of further entries of a flight that its producer sent twice: they have different origin positions."""
    repeated: int
    """Number of entries with the origin position of an earlier one; there must be none."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The error that ended a process."""

    name: str
    error: str


Report = Published | Consumed | Arrived | Holding | Failed


@dataclass(frozen=True, slots=True)
class Controls:
    """The signals to a process."""

    go: Event
    stop: Event
    broker_lost: Event
    """Set before ``stop`` if the broker is dead, so that the client is not closed."""


class Work(Protocol):
    """The function of a process; it must be picklable."""

    def __call__(self, controls: Controls, report: Callable[[Report], None]) -> None:
        """Run until finished or stopped."""
        ...


class Worker:
    """A process that waits for `go`."""

    def __init__(self, name: str, work: Work, reports: Queue[Report]) -> None:
        """Start the process."""
        self.name = name
        self._controls = Controls(_CONTEXT.Event(), _CONTEXT.Event(), _CONTEXT.Event())
        self._process = _CONTEXT.Process(
            target=_run, args=(name, work, self._controls, reports), name=name, daemon=True
        )
        self._process.start()

    def go(self) -> None:
        """Start the function."""
        self._controls.go.set()

    def stop(self, *, broker_lost: bool = False) -> None:
        """Tell the process to end."""
        if broker_lost:
            self._controls.broker_lost.set()
        self._controls.stop.set()
        self._controls.go.set()

    @property
    def running(self) -> bool:
        """Return whether the process has not ended."""
        return self._process.is_alive()

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()


class Workers:
    """All processes of one run, and their reports."""

    def __init__(self) -> None:
        """Begin without processes."""
        self._reports: Queue[Report] = _CONTEXT.Queue()
        self._workers: list[Worker] = []

    def add(self, name: str, work: Work) -> Worker:
        """Start a process, which waits for its `go`."""
        worker = Worker(name, work, self._reports)
        self._workers.append(worker)
        return worker

    def reports(self, wait_seconds: float) -> Iterator[Report]:
        """Yield the available reports; wait up to ``wait_seconds`` for the first one."""
        with contextlib.suppress(Empty):
            yield self._reports.get(timeout=wait_seconds)
            while True:
                yield self._reports.get_nowait()

    def close(self) -> None:
        """Kill all remaining processes."""
        for worker in self._workers:
            worker.kill()
        self._reports.close()


def _run(name: str, work: Work, controls: Controls, reports: Queue[Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process stops its processes itself
    pact = death_pact(os.getppid())
    if pact is not None:
        pact()
    try:
        controls.go.wait()
        work(controls, reports.put)
    except Exception:  # noqa: BLE001 - the root of a process: reported, and it ends
        reports.put(Failed(name, traceback.format_exc()))
    reports.close()
    reports.join_thread()
    sys.stderr.flush()
    os._exit(0)  # a client with a dead broker would block the exit
