"""Processes of the demo and how they report: what needs the official client runs apart from the story."""

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
"""How often a process reports what it did."""

# Threads and forks do not mix, and the client has threads.
_CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Published:
    """A publisher has had so many more receipts."""

    origin: str
    receipts: int


@dataclass(frozen=True, slots=True)
class Consumed:
    """A consumer of ``stage`` has received and acknowledged, in this order; times are milliseconds since the epoch."""

    stage: int
    delivered: list[Entry]
    acknowledged: list[tuple[Entry, float]]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message from ``origin`` was received in another cluster."""

    origin: str
    published_ms: float
    received_ms: float


@dataclass(frozen=True, slots=True)
class Arrived:
    """The probe has seen these."""

    arrivals: list[Arrival]


@dataclass(frozen=True, slots=True)
class Holding:
    """What one cluster's log holds, counted by reading all of it."""

    cluster: str
    messages: int
    """All entries."""
    flights: int
    """Different flights."""
    resent: int
    """Further entries of a flight that its producer had to send twice: they have origin positions of their own."""
    repeated: int
    """Entries with the same origin position as an earlier one; there must be none."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A process ended with an error."""

    name: str
    error: str


Report = Published | Consumed | Arrived | Holding | Failed


@dataclass(frozen=True, slots=True)
class Controls:
    """How a process is told what to do."""

    go: Event
    stop: Event
    broker_lost: Event
    """Set before ``stop`` when the broker is dead: there is nobody to say goodbye to."""


class Work(Protocol):
    """What a process does; picklable, and everything that it needs is in it."""

    def __call__(self, controls: Controls, report: Callable[[Report], None]) -> None:
        """Work until done or told to stop."""
        ...


class Worker:
    """One process; it waits for `go`."""

    def __init__(self, name: str, work: Work, reports: Queue[Report]) -> None:
        """Start the process."""
        self.name = name
        self._controls = Controls(_CONTEXT.Event(), _CONTEXT.Event(), _CONTEXT.Event())
        self._process = _CONTEXT.Process(
            target=_run, args=(name, work, self._controls, reports), name=name, daemon=True
        )
        self._process.start()

    def go(self) -> None:
        """Let it begin."""
        self._controls.go.set()

    def stop(self, *, broker_lost: bool = False) -> None:
        """Tell it to end."""
        if broker_lost:
            self._controls.broker_lost.set()
        self._controls.stop.set()
        self._controls.go.set()

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.is_alive()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.join()


class Workers:
    """All processes of one run, and what they report."""

    def __init__(self) -> None:
        """Nobody works yet."""
        self._reports: Queue[Report] = _CONTEXT.Queue()
        self._workers: list[Worker] = []

    def add(self, name: str, work: Work) -> Worker:
        """Start a process that waits for its `go`."""
        worker = Worker(name, work, self._reports)
        self._workers.append(worker)
        return worker

    def reports(self, wait_seconds: float) -> Iterator[Report]:
        """What has been reported; waits up to ``wait_seconds`` for the first."""
        with contextlib.suppress(Empty):
            yield self._reports.get(timeout=wait_seconds)
            while True:
                yield self._reports.get_nowait()

    def close(self) -> None:
        """Kill whoever is left."""
        for worker in self._workers:
            worker.kill()
        self._reports.close()


def _run(name: str, work: Work, controls: Controls, reports: Queue[Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the story stops its processes itself
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
    os._exit(0)  # a client whose broker is dead would wait for it
