"""Which entries an update of PIP-33 acknowledges: what somebody acknowledged, never what lies before a start. Pure.

An update of Apache Pulsar names one position of the receiving cluster's log: the subscription has acknowledged
everything up to there. That includes what lies before the start of the sender's subscription, which nobody consumed,
and what the sender never held. Clusters of Magnetar add, for each origin, the place after which entries were held and
acknowledged. A receiver that knows these claims acknowledges nothing else.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import LATEST, Position
from magnetar.cursor.ranges import Range
from magnetar.geo.progress import SubscriptionProgress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.cursor.state import CursorState
    from magnetar.geo.epochs import Epoch
    from magnetar.geo.origins import OriginIndex


class UpdateClaims(NamedTuple):
    """What an update claims, in origin positions."""

    starts: Mapping[str, Position]
    """Where the subscription starts in each origin, exclusive; absent: at its first entry."""
    after: Mapping[str, Position]
    """Entries after this one are acknowledged, as far as the update goes, exclusive; absent: none of that origin."""

    def state(self, name: str, epoch: Epoch) -> SubscriptionProgress:
        """A subscription that starts where the sender's does, with nothing acknowledged."""
        return SubscriptionProgress(name, self.starts, epoch)


def claims_of(state: SubscriptionProgress) -> UpdateClaims | None:
    """What a subscription may claim; None: everything before its mark-delete position, because it was sought.

    A seek says that what lies before the new place is not wanted.
    """
    if state.epoch.cluster:
        return None
    after = {
        cluster: next(iter(origin.acknowledged)).lower
        for cluster, origin in state.origins.items()
        if origin.acknowledged
    }
    return UpdateClaims(state.starts(), after)


def claimed(index: OriginIndex, state: CursorState, within: Range, after: Mapping[str, Position]) -> list[Range]:
    """The entries of this log in ``within`` that ``after`` claims and ``state`` has not deleted."""
    begins = {cluster: _begin(index, cluster, after.get(cluster)) for cluster in index.clusters()}
    first, everything = min(begins.values(), default=LATEST), max(begins.values(), default=LATEST)
    found: list[Range] = []
    for stretch in state.undeleted(max(first, within.first), within.last, sys.maxsize):
        if stretch.first >= everything:
            found.append(stretch)
            continue
        for cluster, begin in begins.items():
            start = max(stretch.first, begin)
            before = Position(start.ledger_id, start.entry_id - 1)
            for extent in index.own_extents(before, stretch.last, cluster):
                held = extent.local_first
                found.append(Range(held, Position(held.ledger_id, held.entry_id + extent.count - 1)))
    return found


def _begin(index: OriginIndex, cluster: str, after: Position | None) -> Position:
    """The first entry of this log that is claimed of an origin; LATEST when none is."""
    return LATEST if after is None else index.first_after(cluster, after) or LATEST
