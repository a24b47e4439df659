"""The account of every delivery: what came, what came again, and whether it may have. Pure.

An *entry* is told by its origin position, which is the same in every cluster; a flight that its producer had to send
twice (its broker died before the receipt) is two entries. A *stage* is one cluster's turn to consume, counted from 0;
the switch into stage ``s`` is the one before it.

A delivery *repeats* when its entry was delivered before. It is a duplicate when that earlier one had been
acknowledged, and a redelivery, which every client must expect, when it had not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

Entry = tuple[int, str]
"""A flight's number, and the origin position ``ledger:entry`` of the entry that carries it."""


@dataclass(slots=True)
class _Delivery:
    stage: int
    acknowledged_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Repeats:
    """What came again in one stage."""

    duplicates: int
    """Acknowledged before, in any cluster."""
    redelivered: int
    """Delivered before and never acknowledged."""


class Tally:
    """Counts deliveries as they are reported; reports of one consumer arrive in order, those of several in any."""

    def __init__(self) -> None:
        """Nothing was delivered yet."""
        self._entries: dict[Entry, _Delivery] = {}
        self._flights: set[int] = set()
        self._duplicates: Counter[int] = Counter()
        self._redelivered: Counter[int] = Counter()
        self._settled = 0

    @property
    def delivered(self) -> int:
        """Flights that were delivered at least once."""
        return len(self._flights)

    @property
    def outstanding(self) -> int:
        """Entries that were delivered and not acknowledged, in no cluster."""
        return len(self._entries) - self._settled

    @property
    def duplicates(self) -> int:
        """Deliveries, in any stage, of what had been acknowledged."""
        return self._duplicates.total()

    def deliver(self, stage: int, entry: Entry) -> None:
        """Count the delivery of ``entry`` in ``stage``."""
        self._flights.add(entry[0])
        earlier = self._entries.get(entry)
        if earlier is None:
            self._entries[entry] = _Delivery(stage)
            return
        if earlier.acknowledged_ms is not None:
            self._duplicates[stage] += 1
        else:
            self._redelivered[stage] += 1
            earlier.stage = stage

    def acknowledge(self, entry: Entry, at_ms: float) -> None:
        """Count the acknowledgement of ``entry``; the first one stands."""
        delivery = self._entries[entry]
        if delivery.acknowledged_ms is None:
            delivery.acknowledged_ms = at_ms
            self._settled += 1

    def repeats(self, stage: int) -> Repeats:
        """What came again in ``stage``."""
        return Repeats(self._duplicates[stage], self._redelivered[stage])

    def acknowledged_since(self, stage: int, since_ms: float) -> int:
        """Entries of ``stage`` that were acknowledged at ``since_ms``, milliseconds since the epoch, or later."""
        return sum(
            1
            for delivery in self._entries.values()
            if delivery.stage == stage and delivery.acknowledged_ms is not None and delivery.acknowledged_ms >= since_ms
        )

    def unacknowledged(self, stage: int) -> int:
        """Entries delivered in ``stage``, and nowhere since, that are not acknowledged."""
        return sum(1 for each in self._entries.values() if each.stage == stage and each.acknowledged_ms is None)
