"""What the admin API tells of the topics to which rows are written."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import AdminError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.admin.client import AdminClient
    from magnetar.base.names import TopicName

_ENABLED = "Enabled"
"""``deduplicationStatus`` of a topic whose broker drops duplicates."""


def partitions_of(admin: AdminClient, topic: TopicName) -> int:
    """Return the number of partitions; 0 for a topic without partitions, and for one that does not exist yet."""
    if topic.partition_index >= 0:
        return 0
    try:
        return admin.topics.partitions(topic)
    except AdminError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return 0  # the producer creates it


def lacking_deduplication(stats: Mapping[str, Any]) -> str:
    """Return the status of deduplication, from the stats of a topic; an empty one if duplicates are dropped."""
    status = str(stats.get("deduplicationStatus", "unknown"))
    return "" if status == _ENABLED else status
