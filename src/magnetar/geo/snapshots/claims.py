"""The entries that an update of PIP-33 acknowledges: acknowledged ones, and none before a start. Pure.

An update of Apache Pulsar names one position of the receiving cluster's log: the subscription has acknowledged
everything up to there. That includes entries before the start of the sender's subscription, which no client consumed,
and entries that the sender never held. Clusters of Magnetar add claims: for each origin, the intervals of entries that
the sender held and acknowledged. A receiver that supports claims acknowledges nothing else.
"""

from __future__ import annotations

import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from magnetar.base.position import EARLIEST, Position
from magnetar.cursor.ranges import Range
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.geo.progress.state import SubscriptionProgress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from magnetar.cursor.state import CursorState
    from magnetar.geo.origins.extents import HeldExtent
    from magnetar.geo.origins.index import OriginIndex
    from magnetar.geo.progress.epochs import Epoch

INTERVALS_MAX: Final = 256
"""Maximum number of intervals of one origin in an update, the newest ones.

Several exist only if the sender lacks entries in between. A receiver that missed all earlier updates delivers the
entries of older intervals again.
"""

_NOTHING: Final = IntervalSet()


class UpdateClaims(NamedTuple):
    """The claims of an update, in origin positions."""

    starts: Mapping[str, Position]
    """The exclusive start of the subscription in each origin; absent: its first entry."""
    acknowledged: Mapping[str, IntervalSet]
    """The acknowledged entries of each origin up to the position of the update; absent: none. Immutable."""
    lives: Mapping[str, str] = MappingProxyType({})
    """The encoded life of each origin to which its positions belong; absent: not known."""

    def with_lives(self, known: Mapping[str, str]) -> UpdateClaims:
        """Return the claims with those of the ``known`` lives whose clusters they name."""
        return self._replace(lives={name: life for name, life in known.items() if self.newest_of(name) > EARLIEST})

    def newest_of(self, cluster: str) -> Position:
        """Return the highest position of an origin; EARLIEST for none."""
        intervals = self.acknowledged.get(cluster, _NOTHING)
        return max(self.starts.get(cluster, EARLIEST), intervals.last or EARLIEST)

    def state(self, name: str, epoch: Epoch) -> SubscriptionProgress:
        """Return a subscription with the sender's starts and without acknowledgements."""
        return SubscriptionProgress(name, self.starts, epoch)


def claims_of(state: SubscriptionProgress, reached: Mapping[str, Position]) -> UpdateClaims:
    """Return the claims of a subscription for the entries up to and including ``reached`` in each origin.

    A seek makes the entries before its position unwanted. So a subscription that was sought has no start, and claims
    the entries before it.
    """
    is_sought = bool(state.epoch.cluster)
    acknowledged: dict[str, IntervalSet] = {}
    for cluster, upper in reached.items():
        origin = state.origins.get(cluster)
        if origin is None:
            continue
        begin = EARLIEST if is_sought else origin.start
        claims = origin.covered(begin, upper) if begin < upper else []
        if claims:
            acknowledged[cluster] = IntervalSet.from_pairs(claims[-INTERVALS_MAX:])
    return UpdateClaims({} if is_sought else state.starts(), acknowledged)


def claimed(
    index: OriginIndex, state: CursorState, within: Range, acknowledged: Mapping[str, IntervalSet]
) -> list[Range]:
    """Return the entries of this log in ``within`` that are in ``acknowledged`` and not deleted in ``state``."""
    begins = [index.first_after(cluster, next(iter(each)).lower) for cluster, each in acknowledged.items()]
    first = min((begin for begin in begins if begin is not None), default=None)
    if first is None:
        return []
    found: list[Range] = []
    for stretch in state.undeleted(max(first, within.first), within.last, sys.maxsize):
        before = Position(stretch.first.ledger_id, stretch.first.entry_id - 1)
        if _is_whole(index, before, stretch.last, acknowledged):
            found.append(stretch)
            continue
        for cluster, intervals in acknowledged.items():
            for extent in index.own_extents(before, stretch.last, cluster):
                found += _parts(extent, intervals)
        for extent in index.returned_extents(before, stretch.last):
            found += _parts(extent, acknowledged.get(index.local_cluster, _NOTHING))
    return found


def changed_from(index: OriginIndex, old: Mapping[str, IntervalSet], new: Mapping[str, IntervalSet]) -> Position | None:
    """Return a position at or before the first local entry that ``new`` claims and ``old`` does not; None if none."""
    begins: list[Position] = []
    for cluster, intervals in new.items():
        lower = next(iter(intervals)).lower
        if cluster in old:
            *before, last = old[cluster]
            *now, same = list(intervals)[: len(before) + 1]
            if now != before or same.lower != last.lower or same.upper < last.upper:
                return EARLIEST  # not only extended
            lower = last.upper
        begin = index.first_after(cluster, lower)
        if begin is not None:
            begins.append(begin)
    return min(begins, default=None)


def _is_whole(index: OriginIndex, before: Position, last: Position, acknowledged: Mapping[str, IntervalSet]) -> bool:
    """Return whether all entries after ``before``, through ``last``, are certainly in ``acknowledged``."""
    lowers = index.positions_at(before)
    for cluster, upper in index.positions_at(last).items():
        lower = lowers.get(cluster, EARLIEST)
        if lower < upper and (cluster not in acknowledged or not acknowledged[cluster].covers(lower, upper)):
            return False
    returned = acknowledged.get(index.local_cluster, _NOTHING)
    return all(returned.covers(lower, upper) for lower, upper in index.returned_in(before, last))


def _parts(extent: HeldExtent, intervals: IntervalSet) -> Iterator[Range]:
    """Yield the local ranges of the entries of an extent that are in ``intervals``."""
    ledger_id, origin_first = extent.origin_first
    local_ledger, local_first = extent.local_first
    before = Position(ledger_id, origin_first - 1)
    for lower, upper in intervals.within(before, extent.origin_last):
        first, end = lower.entry_id + 1 - origin_first, upper.entry_id - origin_first
        yield Range(Position(local_ledger, local_first + first), Position(local_ledger, local_first + end))
