"""Which consumer of a Failover subscription is active: the same one that Pulsar's brokers choose (protocol, 8.2).

Among the consumers of the best priority level, in the order of their names, a partition takes the one at its index, so
that partitions spread over consumers. A topic without partitions takes its place on a ring of hashes of their names: so
topics spread over consumers too, and when one comes or goes few topics change theirs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import mmh3

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.names import TopicName
    from magnetar.broker.consumer import Consumer

_POINTS_PER_NAME = 100
_HASH_MASK = 0x7FFF_FFFF
"""Pulsar's hashes are not negative."""

_DISTANCES_CACHED = 10_000
"""Distances that are kept, some 200 bytes each: the next election among almost the same consumers needs them again."""


def elect(consumers: Sequence[Consumer], topic: TopicName) -> Consumer:
    """Choose among consumers, of which there is at least one; their order does not matter."""
    ordered = sorted(consumers, key=lambda consumer: (consumer.priority_level, consumer.name))
    best = [consumer for consumer in ordered if consumer.priority_level == ordered[0].priority_level]
    if topic.partition_index >= 0:
        return best[topic.partition_index % len(best)]
    return best[place_on_ring(str(topic), [consumer.name for consumer in best])]


def place_on_ring(text: str, names: Sequence[str]) -> int:
    """Return the index of the name whose point on the ring is the first at or after that of ``text``.

    Of several names that have this point, the last one.
    """
    here = _hash(text)
    distances = [_distance(here, name) for name in names]
    nearest = min(distances)
    return len(distances) - 1 - distances[::-1].index(nearest)


@lru_cache(maxsize=_DISTANCES_CACHED)
def _distance(here: int, name: str) -> int:
    """How far it is on the ring, upwards, from ``here`` to the next point of a name."""
    return min((_hash(f"{name}{number}") - here) & _HASH_MASK for number in range(_POINTS_PER_NAME))


def _hash(text: str) -> int:
    return mmh3.hash(text, signed=False) & _HASH_MASK
