"""Which origin position each entry of a topic has, both ways.

Every entry was produced in one cluster, its origin, and keeps its position there as its identity. Within one origin
local and origin positions grow together, so the map shrinks to extents: stretches that are consecutive on both
sides. They are kept per origin, in arrays, and found by bisection from either side.

A log mixes entries of several origins, so the positions of one origin's own entries are not consecutive in it, and
adjacency cannot be told from the numbers. It comes from the **floor** of each extent: the origin position above
which, up to the extent's first entry, the origin has no other entry of its own. From there the holder may claim.
Nothing is ever claimed across a floor, so no entry that was not held is ever claimed.

The origin itself may have lost entries that other clusters hold: a loss of power takes entries that were not synced. A
*loss boundary* is the first ledger id that could be given after such a loss. No own entry behind a boundary has its
floor before the boundary.
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
    """All entries that ``cluster`` itself produced in ``(lower, upper]`` of its own positions."""

    cluster: str
    lower: Position
    upper: Position


class PartialClaim(NamedTuple):
    """A batch that ``cluster`` produced at ``position``, with a bit set for each message not acknowledged."""

    cluster: str
    position: Position
    remaining: int


class OriginIndex:
    """The origins of one topic's entries in one cluster.

    Filled in log order: by the broker as it appends, and at recovery from the runs of the log, which are the truth.
    What a trim removes leaves its newest origin positions behind (``positions_at``); they are persisted with the log
    and given to the constructor, or a replay could append a trimmed entry again.
    """

    __slots__ = ("_loss_boundaries", "_returned", "_tracks", "_trimmed", "local_cluster", "seen")

    def __init__(
        self,
        local_cluster: str,
        before: Mapping[str, Position] | None = None,
        loss_boundaries: Sequence[int] = (),
        returned: IntervalSet | None = None,
    ) -> None:
        """Start without entries; ``before`` has the newest origin position of each cluster that was trimmed.

        ``loss_boundaries`` are ledger ids, ascending: own entries of lower ledgers may be missing here. ``returned``
        has the positions of returned entries that were trimmed.
        """
        self._returned: list[Track] = []
        """Entries of earlier lives of the local cluster: each track ascends on both sides."""
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
        """Record ``count`` entries, consecutive on both sides, appended to the log at ``local_first``.

        Entries produced here have ``cluster`` = ``local_cluster`` and the same position twice; their floor is None
        and is the own entry before them, or the start of the ledger at the loss boundary in between. Where no entry
        before is known, the floor is the place directly before.
        ``origin_first`` must be above everything held of that cluster, and the floor below it.
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

    def append_returned(self, origin_first: Position, count: int, local_first: Position, floor: Position) -> None:
        """Record entries that the local cluster published in an earlier life and that another cluster sent back.

        None of them may be in ``seen``. They lie behind entries with higher positions, so they are kept apart from the
        own entries of the present life.
        """
        track = next((each for each in self._returned if each.last is None or each.last < origin_first), None)
        if track is None:
            track = Track(None)
            self._returned.append(track)
        track.append(origin_first, count, local_first, floor)
        self.seen.add(floor, Position(origin_first.ledger_id, origin_first.entry_id + count - 1))

    def returned_extents(self, after_local: Position, through_local: Position) -> Iterator[HeldExtent]:
        """The extents of returned entries at local positions ``(after_local, through_local]``, track by track."""
        for track in self._returned:
            yield from track.extents(after_local, through_local)

    def returned_in(self, after_local: Position, through_local: Position) -> Iterator[Interval]:
        """The positions of the returned entries at local positions ``(after_local, through_local]``, without floors."""
        for extent in self.returned_extents(after_local, through_local):
            ledger_id, entry_id = extent.origin_first
            yield Interval(Position(ledger_id, entry_id - 1), extent.origin_last)

    def returned_through(self, local: Position) -> IntervalSet:
        """The positions of returned entries at or below ``local``, trimmed ones included, as a trim persists them."""
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
        """The newest origin position of ``cluster`` that the topic holds or held; None when there is none."""
        track = self._tracks.get(cluster)
        return track.last if track is not None else None

    def positions_at(self, local: Position) -> dict[str, Position]:
        """For each cluster, its newest origin position held at or below ``local``, trimmed entries included.

        A cluster with nothing there is absent. These are the starts of a subscription whose mark-delete position is
        ``local``, and what a trim up to and including ``local`` has to persist.
        """
        found = ((cluster, track.newest_at(local)) for cluster, track in self._tracks.items())
        return {cluster: position for cluster, position in found if position is not None}

    def to_origin(self, local_first: Position, local_last: Position) -> list[Claim]:
        """The claims that acknowledging ``local_first..local_last`` makes, both inclusive and in one ledger.

        The claim of an extent's first entry begins at the extent's floor, of any other at the entry before it; claims
        that meet are joined.
        """
        return [
            Claim(cluster, lower, upper)
            for cluster, track in self._all_tracks()
            for lower, upper in track.claims(local_first, local_last)
        ]

    def claims(self, ranges: Iterable[Range]) -> list[Claim]:
        """The claims that acknowledging ``ranges`` of local entries makes."""
        return [claim for first, last in ranges for claim in self.to_origin(first, last)]

    def partial_claims(self, partial: Iterable[tuple[Position, int]]) -> list[PartialClaim]:
        """The claims that acknowledging batches in part makes: local positions with their remaining bits."""
        found = ((self.origin_of(position), remaining) for position, remaining in partial)
        return [PartialClaim(*origin, remaining) for origin, remaining in found if origin is not None]

    def to_local(self, cluster: str, lower: Position, upper: Position) -> list[Range]:
        """The held entries that ``cluster`` produced in ``(lower, upper]`` of its positions, in local ranges."""
        return [found for track in self._tracks_of(cluster) for found in track.held(lower, upper)]

    def to_local_all(self, claims: Iterable[Claim]) -> Iterator[Range]:
        """The held entries of many claims, in their order; quick where claims of one cluster follow each other."""
        for cluster, of_cluster in groupby(claims, itemgetter(0)):
            tracks = list(self._tracks_of(cluster))
            pairs: Iterable[tuple[Position, Position]] = ((lower, upper) for _, lower, upper in of_cluster)
            if len(tracks) > 1:
                pairs = list(pairs)
            for track in tracks:
                yield from track.held_of_all(pairs)

    def origin_of(self, local: Position) -> tuple[str, Position] | None:
        """The origin and origin position of one entry; None when the topic does not hold it."""
        for cluster, _, position in self.to_origin(local, local):
            return cluster, position
        return None

    def first_after(self, cluster: str, position: Position) -> Position | None:
        """Where the first held entry that ``cluster`` produced after ``position`` is; None when there is none."""
        found = (track.first_after(position) for track in self._tracks_of(cluster))
        return min((each for each in found if each is not None), default=None)

    def newest_through(self, cluster: str, position: Position) -> Position | None:
        """Where the newest held entry is that ``cluster`` produced at or before ``position``; None when none is."""
        track = self._tracks.get(cluster)
        return track.newest_through(position) if track is not None else None

    def local_of(self, cluster: str, position: Position) -> Position | None:
        """Where the entry that ``cluster`` produced at ``position`` is held; None when it is not."""
        held = self.to_local(cluster, Position(position.ledger_id, position.entry_id - 1), position)
        return held[0].first if held else None

    def own_extents(
        self, after_local: Position, through_local: Position, cluster: str | None = None
    ) -> Iterator[HeldExtent]:
        """The extents of ``cluster``, by default the local one, at local positions ``(after_local, through_local]``.

        In log order, cut to those bounds. Nothing may be appended or trimmed while the iterator is in use.
        """
        track = self._tracks.get(cluster or self.local_cluster)
        return track.extents(after_local, through_local) if track is not None else iter(())

    def count_own(self, cluster: str, after: Position, through: Position) -> int:
        """How many entries of ``cluster`` lie at local positions ``(after, through]``."""
        track = self._tracks.get(cluster)
        return max(0, track.count_through(through) - track.count_through(after)) if track is not None else 0

    def trim(self, before_local: Position) -> None:
        """Forget the extents that end below ``before_local``; ``last_position`` and the floors stay."""
        self._trimmed = self.returned_through(Position(before_local.ledger_id, before_local.entry_id - 1))
        for _, track in self._all_tracks():
            track.trim(before_local)

    def cut_back(self, last_local: Position) -> None:
        """Forget all entries after ``last_local``: their append failed."""
        for _, track in self._all_tracks():
            track.cut_back(last_local)

    def clusters(self) -> list[str]:
        """The clusters of which anything is or was held, sorted."""
        found = {cluster for cluster, track in self._tracks.items() if track.last is not None}
        return sorted(found | {self.local_cluster} if self._returned else found)

    def __len__(self) -> int:
        """How many extents it takes."""
        return sum(len(track) for _, track in self._all_tracks())
