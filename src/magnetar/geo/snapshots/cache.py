"""Snapshots of PIP-33: which position of this log goes with which positions of the other clusters' logs. Pure.

A snapshot says: who has acknowledged everything up to its local position has acknowledged everything up to the named
position of each other cluster, as far as it ever comes here. It is made by asking. Each cluster answers with the end of
its log, behind everything that it had sent until then, so when the answer is here, so is what it speaks of.

With two other clusters or more, one may speak of entries that it has from another, and that have not come here yet. So
all are asked a second time once all have answered: what had come to any of them when it answered first had been
published before, and is sent here before the second answer of where it was published. The positions of the first
answers count, and the local end of the second.

A cluster that is away keeps the others from a snapshot. It can be left out, but not simply: another may hold entries
of it that never came here, a snapshot would take that one's word for them, and nobody would ever consume them. So each
request says how much this cluster holds of who is left out, and each answer ends before what goes beyond that: whatever
lies before the first answers' positions is here. Only a cluster that knows of this answers so; the answer of any other,
as of Apache Pulsar, is worth nothing then.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from magnetar.base.position import Position


class Snapshot(NamedTuple):
    """What lies before one moment, in each cluster's own positions."""

    snapshot_id: str
    local: Position
    positions: Mapping[str, Position]
    """Of the other clusters, inclusive."""


class Round(Enum):
    """What an answer leads to."""

    WAITING = auto()
    """Others have not answered yet."""
    AGAIN = auto()
    """All have answered once and must be asked again."""
    COMPLETE = auto()


class SnapshotBuilder:
    """A snapshot that waits for answers."""

    __slots__ = ("_missing", "_rounds_left", "again", "in_doubt", "positions", "snapshot_id", "started_at", "without")

    def __init__(self, snapshot_id: str, clusters: Iterable[str], now: float, without: Iterable[str] = ()) -> None:
        """Wait for the answers of ``clusters``, at least one; those in ``without`` are left out."""
        self.without = tuple(sorted(without))
        self.snapshot_id = snapshot_id
        self.started_at = now
        self.in_doubt = False
        """Whether a request may have been lost with who carried it. It is not sent again: an answer to the request of
        the first round must not count in the second."""
        self.again = False
        """Whether another snapshot is due once this one is complete: one that is left out can be asked by now, or a
        cluster lost entries."""
        self.positions: dict[str, Position] = {}
        """What the clusters answered first."""
        self._missing = dict.fromkeys(sorted(clusters))
        assert self._missing
        self._rounds_left = 1 if len(self._missing) == 1 else 2

    @property
    def missing(self) -> list[str]:
        """The clusters that have not answered the last request."""
        return list(self._missing)

    def answered(self, cluster: str, position: Position) -> Round:
        """Hear from a cluster; one that is not asked, or has answered already, changes nothing."""
        if cluster not in self._missing:
            return Round.WAITING
        del self._missing[cluster]
        self.positions.setdefault(cluster, position)
        if self._missing:
            return Round.WAITING
        self._rounds_left -= 1
        if self._rounds_left == 0:
            return Round.COMPLETE
        self._missing = dict.fromkeys(sorted(self.positions))
        return Round.AGAIN


class SnapshotCache:
    """The snapshots that one subscription has not passed yet, in the order of their local positions."""

    __slots__ = ("_limit", "_snapshots")

    def __init__(self, limit: int, snapshots: Iterable[Snapshot] = ()) -> None:
        """Hold at most ``limit`` snapshots, at least 3."""
        self._limit = limit
        self._snapshots = list(snapshots)

    def __iter__(self) -> Iterator[Snapshot]:
        """The snapshots, oldest first."""
        return iter(self._snapshots)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._snapshots)

    def add(self, snapshot: Snapshot, count: Callable[[Position, Position], int]) -> None:
        """Take a new snapshot; ``count(after, through)`` is the number of entries between two positions.

        Beyond the limit the one goes whose neighbours are nearest to each other, never the first or the last: so they
        stay spread over a long backlog, and a slow consumer always passes one soon (Pulsar's #25044).
        """
        while self._snapshots and snapshot.local <= self._snapshots[-1].local:
            # Nothing came in between: the newer one knows as much of the others, or more.
            del self._snapshots[-1]
        self._snapshots.append(snapshot)
        if len(self._snapshots) > self._limit:
            held = self._snapshots
            spans = [count(held[index - 1].local, held[index + 1].local) for index in range(1, len(held) - 1)]
            del held[1 + spans.index(min(spans))]

    def advance(self, mark_delete: Position) -> Snapshot | None:
        """Everything up to ``mark_delete`` is acknowledged: return the newest snapshot that says something about it.

        That one and all before it are forgotten. None when there is none.
        """
        passed = sum(snapshot.local <= mark_delete for snapshot in self._snapshots)
        if not passed:
            return None
        found = self._snapshots[passed - 1]
        del self._snapshots[:passed]
        return found
