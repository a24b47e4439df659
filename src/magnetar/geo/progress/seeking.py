"""The state of a subscription that begins or seeks in one cluster, whose log need not have the entries of the others.

A seek concerns only the entries of the log in which it is made:

* entries of this log at or before the new mark-delete position become acknowledged;
* entries after it become unacknowledged, and so do entries that an origin published later and that have yet to arrive,
  unless the seek goes to the very end: then no entry becomes unacknowledged;
* entries that this log lacks although it has later entries of the same origin (trimmed, before the start of the link,
  not meant for this cluster) keep their state, and so do all entries of an origin without entries here. After a seek
  to a place before the old start, those between the two are in the subscription.

So a seek to the end in a cluster that joined late neither takes entries from consumers in other clusters nor brings
consumed ones back.
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


def begun(index: OriginIndex, mark_delete: Position) -> dict[str, OriginProgress]:
    """Return the start of each origin in a subscription that begins at ``mark_delete``."""
    found = {cluster: OriginProgress(start) for cluster, start in index.positions_at(mark_delete).items()}
    returned = index.returned_through(mark_delete).last
    own = found.get(index.local_cluster)
    if returned is not None and (own is None or own.start < returned):
        own = found[index.local_cluster] = OriginProgress(returned)
    if own is not None:
        _seek_returned(index, own, mark_delete)
    return found


def sought(
    index: OriginIndex, state: SubscriptionProgress, mark_delete: Position, *, to_end: bool
) -> dict[str, OriginProgress]:
    """Return the acknowledgements and the start of each origin after a seek to ``mark_delete``.

    ``to_end``: every entry of the log is at or before it.
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
        if not to_end:
            _keep_gaps(index, cluster, old, kept, reached)
        for extent in index.own_extents(EARLIEST, mark_delete, cluster):
            if extent.origin_last > kept.start:
                kept.acknowledge(max(extent.floor, kept.start), extent.origin_last)
        if cluster == index.local_cluster:
            _seek_returned(index, kept, mark_delete)
        # The usual case: everything before the new position is acknowledged, so the origin starts there.
        begins = kept.start < reached and kept.acknowledged.covers(kept.start, reached)
        found[cluster] = _cut(kept, reached, LATEST) if begins else kept
    return found


def _keep_gaps(index: OriginIndex, cluster: str, old: OriginProgress, kept: OriginProgress, reached: Position) -> None:
    """Keep the acknowledgements of entries that this log lacks, although it has later ones.

    Entries before the old start are not acknowledged: another cluster may have the subscription with an earlier start.
    """
    for lower, upper in index.gaps(cluster, reached):
        for acknowledged in old.acknowledged.within(lower, upper):
            kept.acknowledge(*acknowledged)
        for position, remaining in old.partial.between(lower, upper):
            kept.narrow(position, remaining)


def _seek_returned(index: OriginIndex, kept: OriginProgress, mark_delete: Position) -> None:
    """Acknowledge returned entries up to the new position, and make those after it unacknowledged.

    They are stored after own entries with higher positions, so each counts by its local position.
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
    """Return the acknowledgements in ``(start, through]``, as a state that begins at ``start``."""
    kept = OriginProgress(start)
    for lower, upper in old.acknowledged.within(start, through):
        kept.acknowledge(lower, upper)
    for position, remaining in old.partial.between(start, through):
        kept.narrow(position, remaining)
    return kept
