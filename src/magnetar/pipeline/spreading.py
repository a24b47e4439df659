"""The links to a target, divided among the tasks of a lease by the traffic of their buckets. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.wire.links import LINK_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Sequence

ALL_BUCKETS = frozenset(range(LINK_BUCKETS))
"""The buckets of a task that carries all links."""

NO_TRAFFIC = (0,) * LINK_BUCKETS
"""The traffic of links of which nothing is known."""

IDLE_WEIGHT = 1
"""Weight of a bucket without traffic, in bytes: idle links are divided evenly."""

LEASES = 2
"""Number of leases whose traffic counts: the present one may have just begun."""


@dataclass(frozen=True)
class Assignment:
    """The links that a task carries for a lease."""

    target: str
    """Target cluster."""
    lease: int
    part: int = 0
    """The number of the task among those of the target and the lease."""
    buckets: frozenset[int] = ALL_BUCKETS
    """The buckets of the links (`magnetar.wire.links.link_bucket`)."""


def spread(traffic: Sequence[int], parts: int) -> list[frozenset[int]]:
    """Divide the buckets into ``parts`` sets of about equal ``traffic``, which is in bytes by bucket.

    The heaviest bucket goes first to the lightest set. A topic is never divided, so its bucket may exceed the others.
    """
    sets: list[set[int]] = [set() for _ in range(parts)]
    loads = [0] * parts
    for bucket in sorted(range(LINK_BUCKETS), key=lambda each: (-traffic[each], each)):
        part = min(range(parts), key=lambda each: (loads[each], len(sets[each])))
        sets[part].add(bucket)
        loads[part] += traffic[bucket] + IDLE_WEIGHT
    return list(map(frozenset, sets))


class Traffic:
    """The traffic of the links to each target by bucket, in the newest leases."""

    def __init__(self) -> None:
        """Begin without traffic."""
        self._bytes: dict[str, dict[int, dict[int, Sequence[int]]]] = {}
        """By target, lease and part, the bytes of each bucket since the task began."""

    def heard(self, target: str, lease: int, part: int, bytes_by_bucket: Sequence[int]) -> None:
        """Note what a task has read since it began."""
        leases = self._bytes.setdefault(target, {})
        leases.setdefault(lease, {})[part] = bytes_by_bucket
        for old in sorted(leases)[:-LEASES]:
            del leases[old]

    def by_target(self) -> dict[str, list[int]]:
        """Return the bytes of each bucket, by target."""
        return {target: self._sums(leases) for target, leases in self._bytes.items()}

    @staticmethod
    def _sums(leases: dict[int, dict[int, Sequence[int]]]) -> list[int]:
        tasks = [each for parts in leases.values() for each in parts.values()]
        return [sum(column) for column in zip(*tasks, strict=True)]
