"""When a topic takes snapshots of PIP-33, and what it makes of the markers of other clusters. Pure.

Times are seconds of one clock that never goes back. Methods return the effects that the shell must carry out, in order.
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
"""Snapshots of one topic that wait for answers before another one is begun: where answers take long, more requests
would only wait before the answers."""


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """For how long a snapshot waits."""

    timeout_s: float
    """For answers, from its beginning."""
    without_after_s: float = 0.0
    """A cluster that has been away for so long is left out; 0: never, no snapshot is taken meanwhile."""


class Ask(NamedTuple):
    """Send a request to each of these clusters; it says which ones are left out."""

    snapshot_id: str
    targets: tuple[str, ...]
    without: tuple[str, ...] = ()


class Answer(NamedTuple):
    """Send a response to ``target``: that this log ends at ``position``, behind all up to there."""

    snapshot_id: str
    target: str
    position: Position
    without: frozenset[str] = frozenset()


class Completed(NamedTuple):
    """A snapshot is complete."""

    snapshot: Snapshot


Effect = Ask | Answer | Completed


class SnapshotController:
    """Takes the snapshots of one topic, and answers those of the other clusters.

    A snapshot is begun when entries came since the last complete one but one was, and every cluster can be asked. At
    most UNDER_WAY_MAX are under way, and until the first one is complete only one: a cluster that never answers is
    asked once a timeout. One whose request may have been lost is no reason to wait.
    """

    def __init__(self, options: SnapshotOptions, new_id: Callable[[], str]) -> None:
        """Nothing is under way."""
        self.timed_out = 0
        """Snapshots that were given up because answers did not come in time."""
        self.completed = 0
        """Complete snapshots."""
        self.took_s = 0.0
        """Seconds from the beginning to the end of those, added up."""
        self._options = options
        self._new_id = new_id
        self._pending: dict[str, SnapshotBuilder] = {}
        self._completed_start: float | None = None
        """When the last complete snapshot was begun."""
        self._completed_before: float | None = None
        """When the one before that was."""
        self._left_out: tuple[str, ...] = ()
        """The clusters that the last complete snapshot left out."""
        self._again = False
        """Whether another one is due though no entries come."""

    @property
    def pending(self) -> int:
        """Snapshots under way."""
        return len(self._pending)

    def age_s(self, now: float) -> float | None:
        """How long ago the newest complete snapshot was begun; None when there is none."""
        return None if self._completed_start is None else now - self._completed_start

    def is_idle(self, moved_at: float) -> bool:
        """Whether ticks do nothing until entries come or a request is made by hand."""
        return not self._pending and not self._is_due(moved_at)

    def tick(
        self, now: float, moved_at: float, peers: Mapping[str, float | None], *, leaves_out: bool = False
    ) -> list[Effect]:
        """Give up what took too long and begin a snapshot if one is due.

        ``moved_at`` is when the newest entry came. ``peers`` are the clusters to ask, and for how many seconds nobody
        has carried the link there; None while somebody does. ``without_after_s`` holds only where it ``leaves_out``.
        """
        for builder in [each for each in self._pending.values() if each.started_at + self._options.timeout_s < now]:
            del self._pending[builder.snapshot_id]
            self.timed_out += 1
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
        """Begin a snapshot with ``clusters``, at least one, now; those in ``without`` are left out."""
        builder = SnapshotBuilder(self._new_id(), clusters, now, without)
        self._pending[builder.snapshot_id] = builder
        return [Ask(builder.snapshot_id, tuple(builder.missing), builder.without)]

    def handed_over(self, peer: str) -> None:
        """Somebody else carries the link to ``peer`` now: what it has not answered it may never have been asked.

        If the last snapshot left it out, another one is due, though no entries come.
        """
        self._again = self._again or peer in self._left_out
        for builder in self._pending.values():
            if peer in builder.missing:
                builder.in_doubt = True
            if peer in builder.without:
                builder.again = True

    def went_back(self) -> None:
        """A cluster lost entries, and the link there sends them again, to new positions.

        No snapshot names these positions, so another one is due, though no entries come.
        """
        self._again = True
        for builder in self._pending.values():
            builder.again = True

    def asked(self, request: SnapshotRequest, end: Position) -> list[Effect]:
        """Answer a cluster that asks.

        ``end`` is the newest entry of this log before the first that one of ``request.without`` produced and the asking
        cluster does not hold.
        """
        return [Answer(request.snapshot_id, request.source, end, frozenset(request.without))]

    def answered(self, response: SnapshotResponse, now: float, end: Position) -> list[Effect]:
        """Take an answer; ``end`` is the newest entry of this log, durable, as is all that came before the answer."""
        builder = self._pending.get(response.snapshot_id)
        if builder is None or response.without != frozenset(builder.without):
            return []  # it was given up, is not of this cluster's life, or speaks of more than is known here
        match builder.answered(response.cluster, response.position):
            case Round.WAITING:
                return []
            case Round.AGAIN:
                return [Ask(builder.snapshot_id, tuple(builder.missing), builder.without)]
            case Round.COMPLETE:
                del self._pending[builder.snapshot_id]
                if self._completed_start is not None and builder.started_at < self._completed_start:
                    return []  # one that was begun later knows more
                self._completed_before, self._completed_start = self._completed_start, builder.started_at
                self._left_out, self._again = builder.without, builder.again
                self.completed += 1
                self.took_s += now - builder.started_at
                return [Completed(Snapshot(builder.snapshot_id, end, builder.positions))]

    def _is_due(self, moved_at: float) -> bool:
        """Whether entries came since the last complete snapshot but one was begun, or at that very moment.

        Apache Pulsar looks at the last. What a third cluster published may be here before the snapshot and come to a
        cluster only after that has answered: its acknowledgement waits there for the next snapshot, so there is one.
        """
        return self._again or self._completed_before is None or moved_at >= self._completed_before
