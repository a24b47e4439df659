"""The account of deliveries, repetitions and acknowledgements. Pure.

An *entry* is identified by its origin position, which is the same in every cluster. A flight that its producer sent
twice (its broker died before the receipt) is two entries. A *stage* is the time in which one cluster has the consumers,
counted from 0; the switch into stage ``s`` is the one before it.

A delivery *repeats* if its entry was delivered before. It is a duplicate if the earlier delivery had been acknowledged.
Otherwise it is a redelivery, which every client must expect.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

Entry = tuple[int, str]
"""A flight's number, and the origin position ``ledger:entry`` of its entry."""


@dataclass(slots=True)
class _Delivery:
    stage: int
    acknowledged_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Repeats:
    """The repetitions in one stage."""

    duplicates: int
    """Number of deliveries after an acknowledgement in any cluster."""
    redelivered: int
    """Number of deliveries after an earlier one without acknowledgement."""


class Tally:
    """Counts deliveries from reports; reports of one consumer arrive in order, those of several in any order."""

    def __init__(self) -> None:
        """Begin without deliveries."""
        self._entries: dict[Entry, _Delivery] = {}
        self._flights: set[int] = set()
        self._duplicates: Counter[int] = Counter()
        self._redelivered: Counter[int] = Counter()
        self._settled = 0

    @property
    def delivered(self) -> int:
        """Return the number of flights delivered at least once."""
        return len(self._flights)

    @property
    def outstanding(self) -> int:
        """Return the number of entries delivered and acknowledged in no cluster."""
        return len(self._entries) - self._settled

    @property
    def duplicates(self) -> int:
        """Return the number of deliveries after an acknowledgement, in all stages."""
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
        """Count the acknowledgement of ``entry``; only the first one counts."""
        delivery = self._entries[entry]
        if delivery.acknowledged_ms is None:
            delivery.acknowledged_ms = at_ms
            self._settled += 1

    def repeats(self, stage: int) -> Repeats:
        """Return the repetitions in ``stage``."""
        return Repeats(self._duplicates[stage], self._redelivered[stage])

    def acknowledged_since(self, stage: int, since_ms: float) -> int:
        """Count entries of ``stage`` acknowledged at or after ``since_ms``, in milliseconds since the epoch."""
        return sum(
            1
            for delivery in self._entries.values()
            if delivery.stage == stage and delivery.acknowledged_ms is not None and delivery.acknowledged_ms >= since_ms
        )

    def unacknowledged(self, stage: int) -> int:
        """Count entries last delivered in ``stage`` that are not acknowledged."""
        return sum(1 for each in self._entries.values() if each.stage == stage and each.acknowledged_ms is None)
