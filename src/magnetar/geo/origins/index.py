"""The origin index: the map between local and origin positions of a topic's entries.

Every entry was published in one cluster, its origin, and keeps its position there as its identity. Within one origin,
local and origin positions grow together, so the map consists of extents: runs that are consecutive in both logs. The
extents of each origin are stored in arrays, and found by bisection from either side.

A log mixes entries of several origins, so the positions of one origin's own entries are not consecutive in it, and
adjacency cannot be derived from the numbers. It comes from the **floor** of each extent: the origin has no entry of its
own between the floor and the extent's first entry. A claim begins at the floor and never extends across it, so no entry
is claimed that this cluster did not hold.

The origin itself may have lost entries that other clusters hold: a loss of power removes entries that were not synced.
A *loss boundary* is the lowest ledger id that could be assigned after such a loss. The floor of an own entry after a
boundary is never before the boundary.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import EARLIEST, Position
from magnetar.geo.origins.extents import Track
from magnetar.geo.origins.intervals import Interval, IntervalSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from magnetar.cursor.ranges import Range
    from magnetar.geo.origins.extents import HeldExtent


class Claim(NamedTuple):
    """All entries that ``cluster`` itself published in ``(lower, upper]`` of its positions."""

    cluster: str
    lower: Position
    upper: Position


class PartialClaim(NamedTuple):
    """A batch that ``cluster`` published at ``position``, with a bit set for each unacknowledged message."""

    cluster: str
    position: Position
    remaining: int


class OriginIndex:
    """The origins of one topic's entries in one cluster.

    Filled in log order: by the broker at each append, and at recovery from the runs of the log, which are
    authoritative. A trim keeps the newest origin positions of the trimmed entries (``positions_at``). They are
    persisted with the log and passed to the constructor; otherwise a replay could append a trimmed entry again.
    """

    __slots__ = ("_loss_boundaries", "_returned", "_tracks", "_trimmed", "local_cluster", "seen")

    def __init__(
        self,
        local_cluster: str,
        before: Mapping[str, Position] | None = None,
        loss_boundaries: Sequence[int] = (),
        returned: IntervalSet | None = None,
    ) -> None:
        """Create an empty index; ``before`` has the newest trimmed origin position of each cluster.

        ``loss_boundaries`` are ascending ledger ids: own entries of lower ledgers may be missing here. ``returned`` has
        the positions of trimmed returned entries.
        """
        self._returned: list[Track] = []
        """Entries of earlier lives of the local cluster. Each track ascends on both sides."""
        self._trimmed = IntervalSet() if returned is None else returned
        self.seen = self._trimmed.copy()
        """Positions of returned entries that the topic holds or held."""
        self.local_cluster = local_cluster
        self._loss_boundaries = loss_boundaries
        self._tracks: dict[str, Track] = {}
        for cluster in sorted(before or {}):
            self._tracks[cluster] = Track(before[cluster])  # type: ignore[index]

    def append(
        self, cluster: str, origin_first: Position, count: int, local_first: Position, floor: Position | None = None
    ) -> None:
        """Record ``count`` entries, consecutive in both logs, appended to the log at ``local_first``.

        Locally published entries have ``cluster`` = ``local_cluster`` and two equal positions. Their floor is None, and
        stands for the previous own entry, or for the start of the ledger at a loss boundary in between. Without a known
        previous entry, the floor is the position directly before ``origin_first``. ``origin_first`` must be above all
        held positions of that cluster, and the floor below it.
        """
        track = self._tracks.get(cluster)
        if track is None:
            track = self._tracks[cluster] = Track(None)
        if floor is None:
            floor = track.last
            if floor is None or floor >= origin_first:
                floor = Position(origin_first.ledger_id, origin_first.entry_id - 1)
            elif self._loss_boundaries and cluster == self.local_cluster and floor[0] != origin_first[0]:
                floor = self._behind_loss(floor, origin_first)
        track.append(origin_first, count, local_first, floor)

    def append_own(self, first: Position, count: int) -> None:
        """Record ``count`` entries of the local cluster, whose two positions are equal: ``append`` without a floor."""
        track = self._tracks.get(self.local_cluster)
        if track is None or not track.grow(first, count):
            self.append(self.local_cluster, first, count, first)

    def append_returned(self, origin_first: Position, count: int, local_first: Position, floor: Position) -> None:
        """Record entries that the local cluster published in an earlier life and that another cluster sent back.

        None of them may be in ``seen``. They are stored after entries with higher positions, so they are kept separate
        from the own entries of the current life.
        """
        track = next((each for each in self._returned if each.last is None or each.last < origin_first), None)
        if track is None:
            track = Track(None)
            self._returned.append(track)
        track.append(origin_first, count, local_first, floor)
        self.seen.add(floor, Position(origin_first.ledger_id, origin_first.entry_id + count - 1))

    def returned_extents(self, after_local: Position, through_local: Position) -> Iterator[HeldExtent]:
        """Yield the extents of returned entries at local positions ``(after_local, through_local]``, track by track."""
        for track in self._returned:
            yield from track.extents(after_local, through_local)

    def returned_in(self, after_local: Position, through_local: Position) -> Iterator[Interval]:
        """Yield the origin positions of returned entries at ``(after_local, through_local]``, without floors."""
        for extent in self.returned_extents(after_local, through_local):
            ledger_id, entry_id = extent.origin_first
            yield Interval(Position(ledger_id, entry_id - 1), extent.origin_last)

    def returned_through(self, local: Position) -> IntervalSet:
        """Return the positions of returned entries at or below ``local``, including trimmed ones."""
        found = self._trimmed.copy()
        for extent in self.returned_extents(EARLIEST, local):
            found.add(extent.floor, extent.origin_last)
        return found

    def _tracks_of(self, cluster: str) -> Iterator[Track]:
        track = self._tracks.get(cluster)
        if track is not None:
            yield track
        if cluster == self.local_cluster:
            yield from self._returned

    def _all_tracks(self) -> Iterator[tuple[str, Track]]:
        yield from self._tracks.items()
        for track in self._returned:
            yield self.local_cluster, track

    def _behind_loss(self, previous: Position, first: Position) -> Position:
        """Return the floor of the own entry at ``first``; ``previous`` is the own entry before it."""
        at = bisect_right(self._loss_boundaries, first.ledger_id)
        if at and self._loss_boundaries[at - 1] > previous.ledger_id:
            return Position(self._loss_boundaries[at - 1], -1)
        return previous

    def last_position(self, cluster: str) -> Position | None:
        """Return the newest origin position of ``cluster`` that the topic holds or held; None if there is none."""
        track = self._tracks.get(cluster)
        return track.last if track is not None else None

    def around(self, cluster: str, position: Position) -> tuple[Position | None, HeldExtent | None]:
        """Return the newest trimmed origin position of ``cluster``, and its first extent after an origin position.

        Each is None if there is none.
        """
        track = self._tracks.get(cluster)
        return (None, None) if track is None else (track.before, track.extent_after(position))

    def positions_at(self, local: Position) -> dict[str, Position]:
        """Return the newest origin position of each cluster at or below ``local``, including trimmed entries.

        A cluster without entries there is absent. These positions are the starts of a subscription with the mark-delete
        position ``local``. A trim through ``local`` has to persist them.
        """
        found = ((cluster, track.newest_at(local)) for cluster, track in self._tracks.items())
        return {cluster: position for cluster, position in found if position is not None}

    def reached_at(self, local: Position) -> dict[str, Position]:
        """Return ``positions_at``, with the newest returned entry if the local cluster has no other entry there."""
        found = self.positions_at(local)
        if self.local_cluster not in found:
            newest = [self._trimmed.last, *(track.newest_at(local) for track in self._returned)]
            returned = max((each for each in newest if each is not None), default=None)
            if returned is not None:
                found[self.local_cluster] = returned
        return found

    def _to_origin(self, local_first: Position, local_last: Position) -> list[Claim]:
        """Return the claims for acknowledging ``local_first..local_last``, both inclusive and in one ledger."""
        return [
            Claim(cluster, lower, upper)
            for cluster, track in self._all_tracks()
            for lower, upper in track.claims(local_first, local_last)
        ]

    def claims(self, ranges: Iterable[Range]) -> list[Claim]:
        """Return the claims for acknowledging ``ranges`` of local entries.

        The claim for an extent's first entry begins at the extent's floor, for any other at the previous entry.
        Adjacent claims of a range are joined.
        """
        return [claim for first, last in ranges for claim in self._to_origin(first, last)]

    def partial_claims(self, partial: Iterable[tuple[Position, int]]) -> list[PartialClaim]:
        """Return the claims for partly acknowledged batches: local positions with their remaining bits."""
        found = ((self.origin_of(position), remaining) for position, remaining in partial)
        return [PartialClaim(*origin, remaining) for origin, remaining in found if origin is not None]

    def to_local(self, cluster: str, lower: Position, upper: Position) -> list[Range]:
        """Return the local ranges of the entries that ``cluster`` published in ``(lower, upper]`` of its positions."""
        return [found for track in self._tracks_of(cluster) for found in track.held(lower, upper)]

    def to_local_all(self, claims: Iterable[Claim]) -> Iterator[Range]:
        """Yield the local ranges of many claims, in their order; fast if claims of one cluster follow each other."""
        for cluster, of_cluster in groupby(claims, itemgetter(0)):
            tracks = list(self._tracks_of(cluster))
            pairs: Iterable[tuple[Position, Position]] = ((lower, upper) for _, lower, upper in of_cluster)
            if len(tracks) > 1:
                pairs = list(pairs)
            for track in tracks:
                yield from track.held_of_all(pairs)

    def origin_of(self, local: Position) -> tuple[str, Position] | None:
        """Return the origin and origin position of an entry; None if the topic does not hold it."""
        for cluster, _, position in self._to_origin(local, local):
            return cluster, position
        return None

    def first_after(self, cluster: str, position: Position) -> Position | None:
        """Return the local position of the first entry that ``cluster`` published after ``position``, or None."""
        found = (track.first_after(position) for track in self._tracks_of(cluster))
        return min((each for each in found if each is not None), default=None)

    def newest_through(self, cluster: str, position: Position) -> Position | None:
        """Return the local position of the newest entry that ``cluster`` published through ``position``, or None."""
        track = self._tracks.get(cluster)
        return track.newest_through(position) if track is not None else None

    def local_of(self, cluster: str, position: Position) -> Position | None:
        """Return the local position of the entry that ``cluster`` published at ``position``; None if it is not held."""
        held = self.to_local(cluster, Position(position.ledger_id, position.entry_id - 1), position)
        return held[0].first if held else None

    def own_extents(
        self, after_local: Position, through_local: Position, cluster: str | None = None
    ) -> Iterator[HeldExtent]:
        """Yield the extents of ``cluster``, default the local one, at local positions ``(after_local, through_local]``.

        In log order, cut to those bounds. The index must not change while the iterator is in use.
        """
        track = self._tracks.get(cluster or self.local_cluster)
        return track.extents(after_local, through_local) if track is not None else iter(())

    def origins_of(self, ranges: Sequence[Range]) -> Iterator[tuple[str, Iterator[tuple[int, int, int]]]]:
        """Yield the entries in local ``ranges`` by origin, which may occur several times; see ``Track.origins_of``."""
        for cluster, track in self._all_tracks():
            yield cluster, track.origins_of(ranges)

    def gaps(self, cluster: str, after: Position) -> Iterator[Interval]:
        """Yield the intervals of positions of ``cluster`` after ``after`` that lie between two entries held here.

        No entry in them is held here. The index must not change while the iterator is in use.
        """
        track = self._tracks.get(cluster)
        return track.gaps(after) if track is not None else iter(())

    def count_own(self, cluster: str, after: Position, through: Position) -> int:
        """Count the entries of ``cluster`` at local positions ``(after, through]``."""
        track = self._tracks.get(cluster)
        return max(0, track.count_through(through) - track.count_through(after)) if track is not None else 0

    def trim(self, before_local: Position) -> None:
        """Remove the extents that end below ``before_local``; ``last_position`` and the floors stay."""
        self._trimmed = self.returned_through(Position(before_local.ledger_id, before_local.entry_id - 1))
        for _, track in self._all_tracks():
            track.trim(before_local)

    def cut_back(self, last_local: Position) -> None:
        """Remove all entries after ``last_local``, because their append failed."""
        for _, track in self._all_tracks():
            track.cut_back(last_local)

    def clusters(self) -> list[str]:
        """Return the clusters with entries in the topic, including trimmed ones, sorted."""
        found = {cluster for cluster, track in self._tracks.items() if track.last is not None}
        return sorted(found | {self.local_cluster} if self._returned else found)

    def __len__(self) -> int:
        """Return the number of extents."""
        return sum(len(track) for _, track in self._all_tracks())
