"""Message ids that the clients of a topic got in another cluster, its former one, and their places here. Pure.

All ledgers of the topic here have higher ids than those of the former cluster, so the ledger of an id says whose it is
(docs/adr/0037).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.wire.links import NOTHING_PUBLISHED

if TYPE_CHECKING:
    from magnetar.cursor.ranges import Range
    from magnetar.geo.origins.index import OriginIndex


class FormerIds:
    """The ids of ``cluster`` with a ledger below ``below``, the first ledger of the topic here."""

    def __init__(self, index: OriginIndex, cluster: str, below: int) -> None:
        """Translate by the origins of the topic's entries."""
        self._index = index
        self.cluster = cluster
        self.below = below

    def has(self, ledger_id: int) -> bool:
        """Return whether the former cluster gave a ledger id, which EARLIEST and LATEST do not have."""
        return 0 <= ledger_id < self.below

    def local_of(self, position: Position) -> Position | None:
        """Return the local position of an entry; None if it is not here, or was published in a third cluster."""
        return self._index.local_of(self.cluster, position)

    def acknowledged_through(self, position: Position, mark_delete: Position) -> list[Range]:
        """Return the local entries that a cumulative acknowledgement of ``position`` covers, after ``mark_delete``.

        These are the entries that the former cluster published up to there. Those of third clusters are not: their
        places among them may be others here.
        """
        before = self._index.positions_at(mark_delete).get(self.cluster, EARLIEST)
        return self._index.to_local(self.cluster, before, position) if before < position else []

    def start_at(self, position: Position) -> Position | None:
        """Return the place for a reader that starts at an entry: the first one here that was published at or after it.

        None if no such entry has arrived.
        """
        return self._index.first_after(self.cluster, Position(position.ledger_id, position.entry_id - 1))


def reason_against(index: OriginIndex, cluster: str, first_ledger_id: int | None) -> str | None:
    """Return why ids of ``cluster`` cannot be told from those given here; None if they can be.

    ``first_ledger_id`` is the topic's first ledger here, None if it is not known.
    """
    newest = index.last_position(cluster)
    if cluster == index.local_cluster:
        return "it is this cluster"
    if newest is None:
        return NOTHING_PUBLISHED
    if first_ledger_id is None:
        return "the first ledger of the topic here is not known, since an earlier release trimmed the topic"
    if newest.ledger_id >= first_ledger_id:
        return f"its ledger ids go up to {newest.ledger_id}, and those of the topic here begin at {first_ledger_id}"
    return None
