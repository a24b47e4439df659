"""Leases: numbered intervals of time for which two queries carry the links in turn.

Lease ``n`` owns the slot ``[n * lease_seconds, (n + 1) * lease_seconds)`` of the wall clock. Even leases belong to one
query, odd ones to the other. A task starts a little before its slot, so that it is warmed up when it attaches. It holds
its links until the next lease takes them. Without a successor it continues until its own query's next turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.pipeline import limits

TURNS = 2
"""Number of queries that take turns."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The slots of all leases of ``lease_seconds`` each. Times are seconds since the epoch."""

    lease_seconds: float

    @property
    def warm_up_seconds(self) -> float:
        """Return the time between the start of a task and its slot."""
        return min(limits.WARM_UP_SECONDS, self.lease_seconds / 4)

    def due(self, turn: int, now: float) -> int | None:
        """Return the lease that query ``turn`` (0 or 1) should run at ``now``; None in the other query's turn."""
        lease = int((now + self.warm_up_seconds) // self.lease_seconds)
        return lease if lease % TURNS == turn else None

    def next_start(self, turn: int, now: float) -> float:
        """Return the start time of the first task of query ``turn`` after ``now``."""
        lease = int((now + self.warm_up_seconds) // self.lease_seconds) + 1
        while lease % TURNS != turn:
            lease += 1
        return self.start(lease) - self.warm_up_seconds

    def start(self, lease: int) -> float:
        """Return the beginning of the slot, at which the task attaches."""
        return lease * self.lease_seconds

    def end(self, lease: int) -> float:
        """Return the end of the slot, exclusive: the successor may take the links from then on."""
        return self.start(lease + 1)

    def hard_end(self, lease: int) -> float:
        """Return the time at which the task ends at the latest, so that its query can warm up for its next turn."""
        return self.start(lease + TURNS) - 2 * self.warm_up_seconds
