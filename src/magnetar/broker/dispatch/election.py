"""Election of the active consumer of a Failover subscription, as Pulsar's brokers do it (protocol: Failover).

The candidates are the consumers of the best priority level, ordered by name. A partition takes the candidate at the
partition's index, so that partitions spread over consumers. A topic without partitions uses a hash ring of the names:
topics spread over consumers, and few topics change their consumer when one is added or removed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import count
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import mmh3

_POINTS_PER_NAME = 100
_HASH_MASK = 0x7FFF_FFFF
"""Pulsar's hashes are never negative."""


class Candidate(Protocol):
    """A consumer in an election. Two consumers with the same name are two candidates."""

    @property
    def name(self) -> str:
        """Determines the place in the order, or on the ring."""
        ...

    @property
    def priority_level(self) -> int:
        """The lowest level is the best."""
        ...


C = TypeVar("C", bound=Candidate)

if TYPE_CHECKING:
    Place = tuple[int, int, str, int]
    """Priority level, distance on the ring (0 for partitions), name, and a unique number."""


class Candidates(Generic[C]):
    """The consumers of one subscription, in the order of election.

    Adding, removing and electing take about log n steps for n consumers.
    """

    def __init__(self, topic: str, partition_index: int) -> None:
        """Create an empty set; ``partition_index`` is negative for a topic without partitions."""
        self._topic = _hash(topic)
        self._partition_index = partition_index
        self._places: dict[C, Place] = {}
        """The candidates, in the order of their arrival."""
        self._order: list[Place] = []
        self._by_number: dict[int, C] = {}
        self._numbers = count()

    def add(self, candidate: C) -> None:
        """Add a new candidate."""
        number = next(self._numbers)
        distance = 0 if self._partition_index >= 0 else distance_on_ring(self._topic, candidate.name)
        place = candidate.priority_level, distance, candidate.name, number
        insort(self._order, place)
        self._places[candidate] = place
        self._by_number[number] = candidate

    def remove(self, candidate: C) -> None:
        """Remove a candidate."""
        place = self._places.pop(candidate)
        del self._order[bisect_left(self._order, place)]
        del self._by_number[place[-1]]

    def elected(self) -> C | None:
        """Return the candidate to be active; None without candidates.

        Of several candidates at the same point of the ring, the last one by name.
        """
        if not self._order:
            return None
        level, distance, _, _ = self._order[0]
        if self._partition_index >= 0:
            best = bisect_left(self._order, (level + 1,))
            at = self._partition_index % best
        else:
            at = bisect_left(self._order, (level, distance + 1)) - 1
        return self._by_number[self._order[at][-1]]


def distance_on_ring(here: int, name: str) -> int:
    """Return the distance on the ring, upwards, from the hash ``here`` to the next point of ``name``."""
    return min((_hash(f"{name}{number}") - here) & _HASH_MASK for number in range(_POINTS_PER_NAME))


def _hash(text: str) -> int:
    return mmh3.hash(text, signed=False) & _HASH_MASK
