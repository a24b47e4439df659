"""Entries that another cluster published and lost with its data, and that this cluster still holds.

No link sends them back: a link carries what its source published. A subscription that has not acknowledged them does
not get them in the cluster that lost them. Positions tell them from other entries: a cluster gives no ledger an id
below the first one of its life (ADR 13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import Position

if TYPE_CHECKING:
    from magnetar.base.life import Life
    from magnetar.broker.topic import Topic
    from magnetar.cursor.state import CursorState
    from magnetar.geo.origins import OriginIndex


def lost_unacknowledged(topic: Topic, peer: str, state: CursorState) -> int | None:
    """Count the held entries that ``peer`` published in an earlier life and that are not acknowledged in ``state``.

    None while it is not known which life ``peer`` is in: no progress link to it is up, or it names no life.
    """
    life = topic.progress.life_of(peer)
    return None if life is None else count_unacknowledged(topic.log.index, peer, life, state)


def count_unacknowledged(index: OriginIndex, cluster: str, life: Life, state: CursorState) -> int:
    """Count the held entries that ``cluster`` published before ``life`` and that are not acknowledged in ``state``.

    Takes time in proportion to the acknowledged ranges beyond the mark-delete position, and none where there is nothing
    to count. An entry that is acknowledged in part counts.
    """
    newest = index.newest_through(cluster, Position(life.first_ledger_id, -1))
    if newest is None or newest <= state.mark_delete_position:
        return 0
    count = index.count_own(cluster, state.mark_delete_position, newest)
    for first, last in state.deleted():
        if first > newest:
            break
        count -= index.count_own(cluster, first._replace(entry_id=first.entry_id - 1), min(last, newest))
    return count
