"""What a subscription's state becomes when it is moved in one cluster, whose log need not hold what the others hold.

A seek says something about the entries of the log in which it is made, and of them alone:

* what lies in this log at or before the new mark-delete position is not wanted any more;
* what lies behind it is wanted again, and so is what an origin produced after that and has yet to arrive, unless the
  seek goes to the very end: then nothing is wanted again;
* what this log does not have although it has later entries of the same origin (trimmed here, behind the start of a link
  in the middle, not meant for this cluster) stays as it was, and so does an origin of which it never had anything.

So going to the end in a cluster that joined late takes nothing from those who still have to consume elsewhere, and
brings nothing back that they have consumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, LATEST
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.geo.progress.state import OriginProgress

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.geo.origins.index import OriginIndex
    from magnetar.geo.progress.state import SubscriptionProgress


def sought(
    index: OriginIndex, state: SubscriptionProgress, mark_delete: Position, *, to_end: bool
) -> dict[str, OriginProgress]:
    """What was acknowledged of each origin, and where it starts, once the local cursor is at ``mark_delete``.

    ``to_end`` says that every entry of the log is at or before it.
    """
    before = index.positions_at(mark_delete)
    found: dict[str, OriginProgress] = {}
    for cluster in sorted({*state.origins, *index.clusters()}):
        old = state.origins.get(cluster) or OriginProgress()
        if index.last_position(cluster) is None:
            kept = found[cluster] = old.copy()
            if cluster == index.local_cluster:
                _seek_returned(index, kept, mark_delete)
            continue
        reached = before.get(cluster)
        if reached is None:
            reached = next(iter(index.own_extents(EARLIEST, LATEST, cluster))).floor
        kept = _cut(old, min(old.start, reached), LATEST if to_end else reached)
        for extent in index.own_extents(EARLIEST, mark_delete, cluster):
            if extent.origin_last > kept.start:
                kept.acknowledge(max(extent.floor, kept.start), extent.origin_last)
        if cluster == index.local_cluster:
            _seek_returned(index, kept, mark_delete)
        # One that wants nothing before the new place begins there: the usual case.
        begins = kept.start < reached and kept.acknowledged.covers(kept.start, reached)
        found[cluster] = _cut(kept, reached, LATEST) if begins else kept
    return found


def _seek_returned(index: OriginIndex, kept: OriginProgress, mark_delete: Position) -> None:
    """Have returned entries up to the new place not wanted, and those behind it wanted again.

    These lie behind own entries with higher positions, so each counts by its local place.
    """
    for lower, upper in index.returned_in(EARLIEST, mark_delete):
        if upper > kept.start:
            kept.acknowledge(max(lower, kept.start), upper)
    wanted = IntervalSet()
    for lower, upper in index.returned_in(mark_delete, LATEST):
        wanted.add(lower, upper)
    if not wanted:
        return
    first = next(iter(wanted)).lower
    if kept.start > first:
        kept.acknowledge(first, kept.start)
        kept.start = first
    kept.acknowledged = kept.acknowledged.subtract(wanted)
    for lower, upper in wanted:
        kept.partial.discard(lower, upper)


def _cut(old: OriginProgress, start: Position, through: Position) -> OriginProgress:
    """What was acknowledged in ``(start, through]``, as a state that begins at ``start``."""
    kept = OriginProgress(start)
    for lower, upper in old.acknowledged.within(start, through):
        kept.acknowledge(lower, upper)
    for position, remaining in old.partial.between(start, through):
        kept.narrow(position, remaining)
    return kept
