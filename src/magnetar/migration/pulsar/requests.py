"""The statistics of a topic, requested from one of the clusters. All raise UnansweredError."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.admin.cluster_metadata.reading import if_present
from magnetar.base.names import TopicName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.migration.sides import Side

    Json = Mapping[str, Any]


def topic_stats(side: Side, topic: str, *, earliest_time_in_backlog: bool = False) -> Json | None:
    """Return the TopicStats with exact backlogs; None if the topic does not exist."""
    with side.answers():
        return if_present(
            side.client.topics.stats,
            TopicName.parse(topic),
            precise_backlog=True,
            earliest_time_in_backlog=earliest_time_in_backlog,
        )


def stats_if_any(side: Side, topic: str) -> Json:
    """Return the TopicStats with exact backlogs; without subscriptions if the topic does not exist."""
    return topic_stats(side, topic) or {"subscriptions": {}}


def internal_stats(side: Side, topic: str) -> Json | None:
    """Return the PersistentTopicInternalStats; None if the topic does not exist."""
    with side.answers():
        return if_present(side.client.topics.internal_stats, TopicName.parse(topic))
