"""What progress in origin positions means for a local cursor.

The owner of a cursor applies effects with ``acknowledge_ranges`` and ``acknowledge_batch``, or with ``reset`` where
the cursor is rebuilt, and claims every range that this newly deleted, as it does for a consumer's acknowledgements:
so intervals grow together across floors that only the holder of an entry knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.position import Position
    from magnetar.cursor.ranges import Range
    from magnetar.geo.origins.index import Claim, OriginIndex, PartialClaim
    from magnetar.geo.progress.state import Outcome, SubscriptionProgress


class LocalEffects(NamedTuple):
    """Entries to delete, and batches with the bits of the messages that remain."""

    ranges: list[Range]
    partial: list[tuple[Position, int]]


def effects_of_merge(index: OriginIndex, outcome: Outcome) -> LocalEffects:
    """What a merge adds to a cursor that need not be rebuilt; entries not held are left for their arrival."""
    assert not outcome.rebuild, outcome.kind
    return _effects(index, outcome.news, outcome.partial_news)


def effects_on_arrival(
    index: OriginIndex, progress: SubscriptionProgress, cluster: str, lower: Position, upper: Position
) -> LocalEffects:
    """What is known of a run that just arrived, already in ``index``, with the origin positions ``(lower, upper]``."""
    return _effects(index, progress.covered_in(cluster, lower, upper), progress.partial_in(cluster, lower, upper))


def effects_of_all(index: OriginIndex, progress: SubscriptionProgress) -> LocalEffects:
    """The whole state of a cursor: reset it to before the log's first entry, with these."""
    return _effects(index, progress.covered(), progress.partials())


def _effects(index: OriginIndex, claims: Iterable[Claim], partials: Iterable[PartialClaim]) -> LocalEffects:
    ranges = list(index.to_local_all(claims))
    places = ((index.local_of(cluster, position), remaining) for cluster, position, remaining in partials)
    return LocalEffects(ranges, [(place, remaining) for place, remaining in places if place is not None])
