"""The number of stored entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.cluster_metadata.reading import if_present
from magnetar.base.names import TopicName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.migration.running.pair import Pair
    from magnetar.migration.sides import Side


def entries_in(pair: Pair, side: Side, topics: Iterable[str]) -> int:
    """Return the number of entries that a cluster stores in topics. A batch is one entry."""

    def of(topic: str) -> int:
        with side.answers():
            found = if_present(side.client.topics.internal_stats, TopicName.parse(topic))
        return 0 if found is None else int(found["numberOfEntries"])

    return sum(count for _, count in pair.with_each(topics, of))
