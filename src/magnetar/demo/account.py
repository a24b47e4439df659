"""The account of a run, from the reports of the demo's processes. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from magnetar.base.errors import MagnetarError
from magnetar.demo.processes.workers import Arrival, Arrived, Consumed, Failed, Holding, Published, Report
from magnetar.demo.samples import Percentiles, Samples
from magnetar.demo.tally import Tally


class DemoError(MagnetarError):
    """A step of the demo failed; the text has the reason."""


@dataclass(slots=True)
class Outage:
    """A broker's outage; times are milliseconds since the epoch."""

    cluster: str
    began_ms: float
    ended_ms: float | None = None
    """None during the outage."""


class Account:
    """Processes reports in the order of their arrival."""

    def __init__(self) -> None:
        """Begin without reports."""
        self.tally = Tally()
        self.published: Counter[str] = Counter()
        self.holdings: dict[str, Holding] = {}
        self.outage: Outage | None = None
        self._latency = Samples()
        self._held_up: list[Arrival] = []

    def take(self, report: Report) -> None:
        """Process a report; raises DemoError for the report of a failed process."""
        match report:
            case Published(origin, receipts):
                self.published[origin] += receipts
            case Consumed(stage, delivered, acknowledged):
                for entry in delivered:
                    self.tally.deliver(stage, entry)
                for entry, at_ms in acknowledged:
                    self.tally.acknowledge(entry, at_ms)
            case Arrived(arrivals):
                self._arrived(arrivals)
            case Holding():
                self.holdings[report.cluster] = report
            case Failed(name, error):
                message = f"{name} failed: {error}"
                raise DemoError(message)

    @property
    def late(self) -> int:
        """Count messages published before the outage that the other clusters received only after it."""
        outage = self.outage
        if outage is None or outage.ended_ms is None:
            return 0
        began, ended = outage.began_ms, outage.ended_ms
        return sum(1 for each in self._held_up if each.published_ms < began and each.received_ms >= ended)

    def latency(self) -> Percentiles:
        """Return milliseconds from publication in one cluster to reception in another, without outage delays."""
        return self._latency.percentiles()

    def _arrived(self, arrivals: list[Arrival]) -> None:
        prompt = []
        for arrival in arrivals:
            if self._is_held_up(arrival):
                self._held_up.append(arrival)
            else:
                prompt.append(arrival.received_ms - arrival.published_ms)
        self._latency.add(prompt)

    def _is_held_up(self, arrival: Arrival) -> bool:
        """Return whether the outage delayed the message."""
        outage = self.outage
        return (
            outage is not None
            and arrival.origin == outage.cluster
            and arrival.received_ms >= outage.began_ms
            and (outage.ended_ms is None or arrival.published_ms < outage.ended_ms)
        )
