"""What every step of the story needs: reports taken in, clusters asked, moments shown, and waiting that ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from magnetar.demo.account import Account, DemoError
from magnetar.demo.clusters import Clusters, Watch
from magnetar.demo.display import Display, Moment
from magnetar.demo.flights import AIRPORTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.demo.processes.workers import Worker, Workers

PUMP_SECONDS = 0.02
"""Longest wait for a report before the story looks around again."""

SAMPLE_SECONDS = 0.1
"""How often the cluster that is consumed in is asked how it stands."""

SURVEY_SECONDS = 1.0
"""How often all clusters are asked."""

STEP_TIMEOUT_SECONDS = 60.0
"""How long a step may take, or, of one that is long by nature, how long nothing at all may happen."""


class Director:
    """Keeps the account while the story waits."""

    def __init__(self, clusters: Clusters, workers: Workers, display: Display, flights: int) -> None:
        """Begin to count the run's time."""
        self.clusters = clusters
        self.workers = workers
        self.account = Account()
        self.watch = Watch(clusters.standing)
        self.consumed_in: str | None = None
        """Where consumers are at work now."""
        self._display = display
        self._flights = flights
        self._phase = "preparing"
        self._began = time.monotonic()
        self._sampled_at = self._surveyed_at = self._began

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def enter(self, phase: str) -> None:
        """Say what the story is at."""
        self._phase = phase
        self._show()

    def until(self, what: str, condition: Callable[[], bool], timeout_s: float = STEP_TIMEOUT_SECONDS) -> None:
        """Return once ``condition`` holds; raises DemoError naming ``what`` when it does not in time."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                message = f"not within {timeout_s:g} s: {what}"
                raise DemoError(message)
            self.turn()

    def while_moving(self, condition: Callable[[], bool]) -> bool:
        """Return once ``condition`` holds, or once nothing has moved for a step's time; whether it holds."""
        moved_at, last = time.monotonic(), self._counts()
        while not condition():
            self.turn()
            counts = self._counts()
            if counts != last:
                moved_at, last = time.monotonic(), counts
            elif time.monotonic() - moved_at > STEP_TIMEOUT_SECONDS:
                return False
        return True

    def until_ended(self, workers: list[Worker]) -> None:
        """Return once ``workers`` have ended and all that they reported is in the account."""
        self.until("they have ended", lambda: not any(worker.running for worker in workers))
        self.turn()

    def turn(self) -> None:
        """Take in what was reported; now and then ask the clusters."""
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
        standings = self.watch.latest.values()
        backlogs = [each for standing in standings for each in (standing.replication_backlog, standing.backlog)]
        tally = self.account.tally
        return (self.account.published.total(), tally.delivered, tally.outstanding, *backlogs)

    def _show(self) -> None:
        tally = self.account.tally
        self._display.show(
            Moment(
                seconds=self.seconds,
                phase=self._phase,
                flights=self._flights,
                published=self.account.published.total(),
                delivered=tally.delivered,
                unacknowledged=tally.outstanding,
                duplicates=tally.duplicates,
                replication_backlog={
                    name: standing.replication_backlog for name, standing in sorted(self.watch.latest.items())
                },
            )
        )
