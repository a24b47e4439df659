"""The effects of progress in origin positions on a local cursor.

The owner of a cursor applies effects with ``acknowledge_ranges`` and ``acknowledge_batch``, or with ``reset`` if the
cursor is rebuilt. It then claims every newly deleted range, as for a consumer's acknowledgements. So intervals grow
together across floors that only the holder of an entry knows.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from magnetar.base.position import Position
    from magnetar.cursor.ranges import Range
    from magnetar.geo.origins.index import Claim, OriginIndex, PartialClaim
    from magnetar.geo.progress.state import Outcome, SubscriptionProgress


CLAIMS_AT_ONCE = 1_000
"""Claims of a part of the effects, some 3 ms with their application."""


class LocalEffects(NamedTuple):
    """Ranges of entries to delete, and batches with the bits of the remaining messages."""

    ranges: list[Range]
    partial: list[tuple[Position, int]]


def effects_of_merge(index: OriginIndex, outcome: Outcome) -> LocalEffects:
    """Return the effects of a merge on a cursor that is not rebuilt; missing entries wait for their arrival."""
    assert not outcome.rebuild, outcome.kind
    return _effects(index, outcome.news, outcome.partial_news)


def effects_on_arrival(
    index: OriginIndex, progress: SubscriptionProgress, cluster: str, lower: Position, upper: Position
) -> LocalEffects:
    """Return the known acknowledgements of a run that just arrived, with the origin positions ``(lower, upper]``.

    The run must be in ``index``.
    """
    return _effects(index, progress.covered_in(cluster, lower, upper), progress.partial_in(cluster, lower, upper))


def effects_of_all(index: OriginIndex, progress: SubscriptionProgress) -> LocalEffects:
    """Return the effects of the whole state, for a cursor that was reset to before the log's first entry."""
    return _effects(index, progress.covered(), progress.partials())


def each_effect(index: OriginIndex, progress: SubscriptionProgress) -> Iterator[LocalEffects]:
    """Yield the effects of the whole state in parts of CLAIMS_AT_ONCE claims."""
    claims, partials = iter(progress.covered()), iter(progress.partials())
    while part := list(islice(claims, CLAIMS_AT_ONCE)):
        yield _effects(index, part, ())
    while batches := list(islice(partials, CLAIMS_AT_ONCE)):
        yield _effects(index, (), batches)


def _effects(index: OriginIndex, claims: Iterable[Claim], partials: Iterable[PartialClaim]) -> LocalEffects:
    ranges = list(index.to_local_all(claims))
    places = ((index.local_of(cluster, position), remaining) for cluster, position, remaining in partials)
    return LocalEffects(ranges, [(place, remaining) for place, remaining in places if place is not None])
