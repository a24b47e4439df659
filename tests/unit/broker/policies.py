"""Policies of the clusters of unit tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.cluster import NAMESPACE, TOPIC

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.sim.cluster import Cluster


def set_in_namespace(cluster: Cluster, **fields: object) -> None:
    """Set policies of the namespace; None removes one."""
    cluster.do(lambda: cluster.resources.namespaces.update(NAMESPACE, lambda found: found.model_copy(update=fields)))


def set_in_topic(cluster: Cluster, topic: TopicName = TOPIC, **fields: object) -> None:
    """Set policies of a topic; None removes one."""
    cluster.do(lambda: cluster.resources.topic_policies.change(topic, **fields))
