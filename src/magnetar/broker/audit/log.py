"""The audit log as the broker uses it: events in, lines for the writer out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from magnetar.admin.metrics.measurements import AuditTotals
from magnetar.base.limits import Limit
from magnetar.broker.audit.limits import AuditLimits
from magnetar.security.attempts import source_of
from magnetar.security.audit import AuditEvent, Kind, Result, line

if TYPE_CHECKING:
    import asyncio

    from magnetar.base.world import Clock
    from magnetar.broker.resources.limit_hits import LimitHits

REPORT_S: Final = 10.0
"""Seconds between two reports of suppressed events."""


class Writer(Protocol):
    """The thread that writes lines."""

    @property
    def lost(self) -> int:
        """Number of lines that were not written."""
        ...

    @property
    def is_failing(self) -> bool:
        """Whether the last line could not be written."""
        ...

    def write(self, line: str) -> bool:
        """Write a line later; return whether it is among those that wait. It never blocks."""
        ...


class AuditLog:
    """Used on the event loop's thread. Changes that were made are never suppressed; refusals are, by source."""

    def __init__(self, cluster: str, clock: Clock, limit_hits: LimitHits, writer: Writer) -> None:
        """Begin without events."""
        self._cluster = cluster
        self._clock = clock
        self._limit_hits = limit_hits
        self._limits = AuditLimits(clock.monotonic())
        self._timer: asyncio.TimerHandle | None = None
        self._writer = writer
        self._events = dict.fromkeys(Result, 0)
        """By result, since the start of the broker."""

    def totals(self) -> AuditTotals:
        """Return the numbers of events for the metrics."""
        events = {result.value: count for result, count in self._events.items()}
        return AuditTotals(events, self._limits.suppressed, self._writer.lost, self._writer.is_failing)

    def record(self, event: AuditEvent) -> None:
        """Write an event, unless its source has caused too many refusals."""
        self._events[event.result] += 1
        source = source_of(event.address.removeprefix("/").rpartition(":")[0])
        if event.result is Result.ALLOWED or self._limits.admits(source, self._clock.monotonic()):
            self._write(event)
        else:
            self._limit_hits.hit(Limit.AUDIT_EVENTS)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to report suppressed events."""
        self._timer = loop.call_later(REPORT_S, self._tick, loop)

    def stop(self) -> None:
        """Report the suppressed events for the last time."""
        if self._timer is not None:
            self._timer.cancel()
        self.report()

    def report(self) -> None:
        """Write how many events of each source were suppressed since the last report."""
        for source, count in self._limits.report():
            reason = f"too many events ({Limit.AUDIT_EVENTS})"
            event = AuditEvent(
                Kind.SUPPRESSED, Result.DENIED, "any", address=source or "other addresses", reason=reason, count=count
            )
            self._write(event)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self.report()
        self.start(loop)

    def _write(self, event: AuditEvent) -> None:
        if not self._writer.write(line(event, self._cluster, self._clock.now())):
            self._limit_hits.hit(Limit.WAITING_AUDIT_EVENTS)
