"""The schedule of a topic's snapshots (PIP-33), and the handling of other clusters' markers. Pure.

Times are seconds of a monotonic clock. Methods return the effects that the shell must carry out, in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from magnetar.geo.snapshots.cache import Round, Snapshot, SnapshotBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from magnetar.base.position import Position
    from magnetar.geo.snapshots.markers import SnapshotRequest, SnapshotResponse


UNDER_WAY_MAX = 3
"""Maximum number of unanswered snapshots of one topic. With slow answers, more requests would only wait longer."""


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """The time limits of snapshots."""

    timeout_s: float
    """Maximum time for the answers of a snapshot."""
    without_after_s: float = 0.0
    """A cluster that is absent for this long is left out; 0: never, and no snapshot is taken meanwhile."""


class SnapshotCounts:
    """Snapshots that have ended."""

    __slots__ = ("completed", "timed_out", "took_s")

    def __init__(self) -> None:
        """Begin with none."""
        self.completed = 0
        self.timed_out = 0
        """Number of snapshots without answers in time."""
        self.took_s = 0.0
        """Total duration of the complete snapshots in seconds."""


class Ask(NamedTuple):
    """Send a request to each of these clusters, with the clusters that are left out."""

    snapshot_id: str
    targets: tuple[str, ...]
    without: tuple[str, ...] = ()


class Answer(NamedTuple):
    """Send a response to ``target``: the log ends at ``position``. It must follow all entries up to there."""

    snapshot_id: str
    target: str
    position: Position
    without: frozenset[str] = frozenset()


class Completed(NamedTuple):
    """A snapshot is complete."""

    snapshot: Snapshot


Effect = Ask | Answer | Completed


class SnapshotController:
    """Takes the snapshots of one topic, and answers the requests of other clusters.

    A snapshot begins if entries arrived since the last complete snapshot but one began, and every cluster can be asked.
    At most UNDER_WAY_MAX are pending, and only one until the first one is complete: a cluster that never answers gets
    one request per timeout. A snapshot with a possibly lost request does not delay others.
    """

    def __init__(
        self, options: SnapshotOptions, new_id: Callable[[], str], of_broker: SnapshotCounts | None = None
    ) -> None:
        """Begin without snapshots. They are also counted in ``of_broker``, together with those of other topics."""
        self.counts = SnapshotCounts()
        self._counts = (self.counts,) if of_broker is None else (self.counts, of_broker)
        self._options = options
        self._new_id = new_id
        self._pending: dict[str, SnapshotBuilder] = {}
        self._completed_start: float | None = None
        """Time at which the last complete snapshot began."""
        self._completed_before: float | None = None
        """Time at which the complete snapshot before it began."""
        self._left_out: tuple[str, ...] = ()
        """The clusters that the last complete snapshot left out."""
        self._again = False
        """Whether another snapshot is due without new entries."""

    @property
    def pending(self) -> int:
        """Return the number of pending snapshots."""
        return len(self._pending)

    def age_s(self, now: float) -> float | None:
        """Return the time since the newest complete snapshot began; None if there is none."""
        return None if self._completed_start is None else now - self._completed_start

    def is_idle(self, moved_at: float) -> bool:
        """Return whether ``tick`` has no effect until new entries arrive or a snapshot is requested."""
        return not self._pending and not self._is_due(moved_at)

    def tick(
        self, now: float, moved_at: float, peers: Mapping[str, float | None], *, leaves_out: bool = False
    ) -> list[Effect]:
        """Give up expired snapshots, and begin a snapshot if one is due.

        ``moved_at`` is the arrival time of the newest entry. ``peers`` are the clusters to ask, each with the seconds
        since its link lost its carrier, or None. ``without_after_s`` applies only if ``leaves_out`` is set.
        """
        for builder in [each for each in self._pending.values() if each.started_at + self._options.timeout_s < now]:
            del self._pending[builder.snapshot_id]
            for counts in self._counts:
                counts.timed_out += 1
        under_way = sum(not builder.in_doubt for builder in self._pending.values())
        under_way_max = 1 if self._completed_start is None else UNDER_WAY_MAX
        if under_way >= under_way_max or not self._is_due(moved_at):
            return []
        after_s = self._options.without_after_s if leaves_out else 0.0
        without = [peer for peer, away_s in peers.items() if away_s is not None and 0 < after_s <= away_s]
        asked = [peer for peer in peers if peer not in without]
        can_be_asked = asked and all(peers[peer] is None for peer in asked)
        return self.begin(now, asked, without) if can_be_asked else []

    def begin(self, now: float, clusters: Sequence[str], without: Sequence[str] = ()) -> list[Effect]:
        """Begin a snapshot with ``clusters``, at least one; those in ``without`` are left out."""
        builder = SnapshotBuilder(self._new_id(), clusters, now, without)
        self._pending[builder.snapshot_id] = builder
        return [Ask(builder.snapshot_id, tuple(builder.missing), builder.without)]

    def handed_over(self, peer: str) -> None:
        """Record a new carrier of the link to ``peer``, which may never have received unanswered requests.

        If the last snapshot left the peer out, another one is due without new entries.
        """
        self._again = self._again or peer in self._left_out
        for builder in self._pending.values():
            if peer in builder.missing:
                builder.in_doubt = True
            if peer in builder.without:
                builder.again = True

    def went_back(self) -> None:
        """Record that a cluster lost entries, and that the link sends them again, to new positions.

        No snapshot includes these positions, so another one is due without new entries.
        """
        self._again = True
        for builder in self._pending.values():
            builder.again = True

    def asked(self, request: SnapshotRequest, end: Position) -> list[Effect]:
        """Answer a request of another cluster.

        ``end`` is the newest entry of this log before the first entry that the asking cluster lacks and a cluster in
        ``request.without`` published.
        """
        return [Answer(request.snapshot_id, request.source, end, frozenset(request.without))]

    def answered(self, response: SnapshotResponse, now: float, end: Position) -> list[Effect]:
        """Process an answer; ``end`` is the newest entry of this log.

        Everything that arrived before the answer is durable.
        """
        builder = self._pending.get(response.snapshot_id)
        if builder is None or response.without != frozenset(builder.without):
            return []  # expired, from another life of the cluster, or beyond the known positions
        match builder.answered(response.cluster, response.position):
            case Round.WAITING:
                return []
            case Round.AGAIN:
                return [Ask(builder.snapshot_id, tuple(builder.missing), builder.without)]
            case Round.COMPLETE:
                del self._pending[builder.snapshot_id]
                if self._completed_start is not None and builder.started_at < self._completed_start:
                    return []  # a snapshot that began later covers more
                self._completed_before, self._completed_start = self._completed_start, builder.started_at
                self._left_out, self._again = builder.without, builder.again
                for counts in self._counts:
                    counts.completed += 1
                    counts.took_s += now - builder.started_at
                return [Completed(Snapshot(builder.snapshot_id, end, builder.positions))]

    def _is_due(self, moved_at: float) -> bool:
        """Return whether entries arrived since, or just when, the last complete snapshot but one began.

        Apache Pulsar considers the last one. An entry of a third cluster may arrive here before the snapshot, and at
        another cluster only after its answer: its acknowledgement waits there for the next snapshot, so there must be
        one.
        """
        return self._again or self._completed_before is None or moved_at >= self._completed_before
