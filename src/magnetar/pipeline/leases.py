"""Whose turn it is: time cut into numbered leases that two queries take in turns.

Lease ``n`` owns the slot ``[n * lease_seconds, (n + 1) * lease_seconds)`` of the wall clock. Even leases belong to
one query, odd ones to the other. A task starts a little before its slot, to be warm when it attaches, and holds its
links until the next lease takes them; should no successor come, it goes on until its own query's next turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.pipeline import limits

TURNS = 2
"""Queries that take turns."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The slots of all leases of ``lease_seconds`` each. Times are seconds since the epoch."""

    lease_seconds: float

    @property
    def warm_up_seconds(self) -> float:
        """How long before its slot a task starts."""
        return min(limits.WARM_UP_SECONDS, self.lease_seconds / 4)

    def due(self, turn: int, now: float) -> int | None:
        """Return the lease that query ``turn`` (0 or 1) should run at ``now``; None when it is the other's turn."""
        lease = int((now + self.warm_up_seconds) // self.lease_seconds)
        return lease if lease % TURNS == turn else None

    def next_start(self, turn: int, now: float) -> float:
        """Return when the first task of query ``turn`` after ``now`` starts warming up."""
        lease = int((now + self.warm_up_seconds) // self.lease_seconds) + 1
        while lease % TURNS != turn:
            lease += 1
        return self.start(lease) - self.warm_up_seconds

    def start(self, lease: int) -> float:
        """First instant of the slot: the task attaches."""
        return lease * self.lease_seconds

    def end(self, lease: int) -> float:
        """First instant after the slot: from here on the successor is expected."""
        return self.start(lease + 1)

    def hard_end(self, lease: int) -> float:
        """When the task ends in any case, so that its query can warm up for its next turn."""
        return self.start(lease + TURNS) - 2 * self.warm_up_seconds
