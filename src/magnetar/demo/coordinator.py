"""Common functions of the demo's steps: processing reports, polling clusters, updating the display, bounded waits."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from magnetar.demo.account import Account, DemoError
from magnetar.demo.clusters import Clusters, Watch
from magnetar.demo.display import Display, RunState
from magnetar.demo.flights import AIRPORTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.demo.processes.workers import Worker, Workers

PUMP_SECONDS = 0.02
"""Maximum wait for a report in one iteration, in seconds."""

SAMPLE_SECONDS = 0.1
"""Interval between polls of the cluster with consumers, in seconds."""

SURVEY_SECONDS = 1.0
"""Interval between polls of all clusters, in seconds."""

STEP_TIMEOUT_SECONDS = 60.0
"""Time limit for a step, or for a long step without any progress, in seconds."""


class Coordinator:
    """Processes reports and updates the account while a step waits."""

    def __init__(self, clusters: Clusters, workers: Workers, display: Display, flights: int) -> None:
        """Start the clock of the run."""
        self.clusters = clusters
        self.workers = workers
        self.account = Account()
        self.watch = Watch(clusters.status)
        self.consumed_in: str | None = None
        """The cluster with active consumers."""
        self._display = display
        self._flights = flights
        self._phase = "preparing"
        self._began = time.monotonic()
        self._sampled_at = self._surveyed_at = self._began

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._began

    def enter(self, phase: str) -> None:
        """Show the name of a new phase."""
        self._phase = phase
        self._show()

    def until(self, what: str, condition: Callable[[], bool], timeout_s: float = STEP_TIMEOUT_SECONDS) -> None:
        """Wait for ``condition``; raises DemoError with ``what`` after the time limit."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                message = f"not within {timeout_s:g} s: {what}"
                raise DemoError(message)
            self.turn()

    def while_moving(self, condition: Callable[[], bool]) -> bool:
        """Wait for ``condition`` as long as there is progress; return whether it became true."""
        moved_at, last = time.monotonic(), self._counts()
        while not condition():
            self.turn()
            counts = self._counts()
            if counts != last:
                moved_at, last = time.monotonic(), counts
            elif time.monotonic() - moved_at > STEP_TIMEOUT_SECONDS:
                return False
        return True

    def while_running(self, workers: list[Worker]) -> None:
        """Wait for the end of ``workers`` as long as there is progress, and take the reports of all that have ended."""
        self.while_moving(partial(_have_ended, workers))
        self.turn()

    def until_ended(self, workers: list[Worker]) -> None:
        """Wait until ``workers`` have ended and all their reports are in the account."""
        self.until("they have ended", partial(_have_ended, workers))
        self.turn()

    def turn(self) -> None:
        """Process reports, and poll the clusters from time to time."""
        for report in self.workers.reports(PUMP_SECONDS):
            self.account.take(report)
        now = time.monotonic()
        if self.consumed_in is not None and now - self._sampled_at >= SAMPLE_SECONDS:
            self._sampled_at = now
            outage = self.account.outage
            self.watch.sample_age(self.consumed_in, down=outage.cluster if outage is not None else None)
        if now - self._surveyed_at >= SURVEY_SECONDS:
            self._surveyed_at = now
            for cluster in AIRPORTS:
                self.watch.look(cluster)
        self._show()

    def _counts(self) -> tuple[int | None, ...]:
        statuses = self.watch.latest.values()
        backlogs = [each for status in statuses for each in (status.replication_backlog, status.backlog)]
        tally = self.account.tally
        return (self.account.published.total(), tally.delivered, tally.outstanding, *backlogs)

    def _show(self) -> None:
        tally = self.account.tally
        self._display.show(
            RunState(
                seconds=self.seconds,
                phase=self._phase,
                flights=self._flights,
                published=self.account.published.total(),
                delivered=tally.delivered,
                unacknowledged=tally.outstanding,
                duplicates=tally.duplicates,
                replication_backlog={
                    name: status.replication_backlog for name, status in sorted(self.watch.latest.items())
                },
            )
        )


def _have_ended(workers: list[Worker]) -> bool:
    return not any(worker.running for worker in workers)
