"""Snapshots of PIP-33: positions of this log with the corresponding positions of other clusters' logs. Pure.

A subscription that has acknowledged everything up to the local position of a snapshot has acknowledged everything up to
the position of each other cluster, of the entries that ever reach this cluster. To take a snapshot, the cluster asks
the others for the end of their logs. An answer follows all entries that were sent before it, so they have arrived when
the answer arrives.

With two other clusters or more, an answer may cover entries of a third cluster that have not arrived here. So all
clusters are asked a second time after all have answered: an entry that any of them had at its first answer was
published earlier, and is sent here before the second answer of its publisher. The snapshot has the positions of the
first answers, and the local end at the second.

An absent cluster prevents snapshots. Leaving it out needs care: another cluster may hold entries of the absent one that
never arrived here; the snapshot would cover them, and they would never be consumed. So each request names the newest
entry that this cluster holds of each absent cluster, and each answer ends before later entries of it: all entries
before the first answers' positions are here. Only Magnetar clusters support this; the answer of any other, such as
Apache Pulsar, is ignored then.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from magnetar.base.position import Position


class Snapshot(NamedTuple):
    """A local position with the corresponding positions of other clusters."""

    snapshot_id: str
    local: Position
    positions: Mapping[str, Position]
    """Of the other clusters, inclusive."""


class Round(Enum):
    """The consequence of an answer."""

    WAITING = auto()
    """Other answers are missing."""
    AGAIN = auto()
    """All have answered once, and must be asked again."""
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
        """Whether a request may have been lost with its carrier.

        It is not sent again: an answer to the request of the first round must not count in the second.
        """
        self.again = False
        """Whether another snapshot is due after this one, because an absent cluster returned or a cluster lost entries.
        """
        self.positions: dict[str, Position] = {}
        """The positions of the first answers."""
        self._missing = dict.fromkeys(sorted(clusters))
        assert self._missing
        self._rounds_left = 1 if len(self._missing) == 1 else 2

    @property
    def missing(self) -> list[str]:
        """Return the clusters that have not answered the last request."""
        return list(self._missing)

    def answered(self, cluster: str, position: Position) -> Round:
        """Process an answer; an unexpected or repeated one has no effect."""
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
    """The snapshots beyond a subscription's mark-delete position, in the order of local positions."""

    __slots__ = ("_limit", "_snapshots")

    def __init__(self, limit: int, snapshots: Iterable[Snapshot] = ()) -> None:
        """Hold at most ``limit`` snapshots, at least 3."""
        self._limit = limit
        self._snapshots = list(snapshots)

    def __iter__(self) -> Iterator[Snapshot]:
        """Iterate over the snapshots, oldest first."""
        return iter(self._snapshots)

    def __len__(self) -> int:
        """Return the number of snapshots."""
        return len(self._snapshots)

    def add(self, snapshot: Snapshot, count: Callable[[Position, Position], int]) -> None:
        """Add a new snapshot; ``count(after, through)`` returns the number of entries between two positions.

        Beyond the limit, the snapshot with the nearest neighbours is removed, never the first or the last. So snapshots
        stay spread over a long backlog, and a slow consumer always passes one soon (Pulsar's #25044).
        """
        while self._snapshots and snapshot.local <= self._snapshots[-1].local:
            # Without entries in between, the newer snapshot covers as much of the others, or more.
            del self._snapshots[-1]
        self._snapshots.append(snapshot)
        if len(self._snapshots) > self._limit:
            held = self._snapshots
            spans = [count(held[index - 1].local, held[index + 1].local) for index in range(1, len(held) - 1)]
            del held[1 + spans.index(min(spans))]

    def advance(self, mark_delete: Position) -> Snapshot | None:
        """Return the newest snapshot at or before ``mark_delete``, or None, and remove it and all before it."""
        passed = sum(snapshot.local <= mark_delete for snapshot in self._snapshots)
        if not passed:
            return None
        found = self._snapshots[passed - 1]
        del self._snapshots[:passed]
        return found
