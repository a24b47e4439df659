"""Operators of a scenario, for the recorded cluster and for the replayed one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.names import NamespaceName, TopicName
from magnetar.metadata.policies import Policies
from tests.kit.rest import topic_path

if TYPE_CHECKING:
    from magnetar.sim.cluster import Cluster
    from tests.kit.rest import Rest


class RestOperator:
    """Uses the admin REST API."""

    def __init__(self, rest: Rest) -> None:
        """Operate the cluster of ``rest``."""
        self._rest = rest

    def operate(self, action: str, *arguments: str) -> None:
        """Run an action to its end."""
        match action, *arguments:
            case "namespace", namespace:
                self._rest.put(f"namespaces/{namespace}", {})
            case "partitioned-topic", topic, partitions:
                self._rest.put(f"{topic_path(topic)}/partitions", int(partitions))
            case "unload", topic:
                self._rest.put(f"{topic_path(topic)}/unload")
            case _:
                raise _unknown(action)


class HandOperator:
    """Operates a cluster without sockets."""

    def __init__(self, cluster: Cluster) -> None:
        """Operate ``cluster``."""
        self._cluster = cluster

    def operate(self, action: str, *arguments: str) -> None:
        """Run an action in a turn of the cluster's loop."""
        cluster = self._cluster
        match action, *arguments:
            case "namespace", namespace:
                policies = Policies(replication_clusters=[cluster.name])
                cluster.resources.namespaces.create(NamespaceName.parse(namespace), policies)
            case "partitioned-topic", topic, partitions:
                cluster.partition(TopicName.parse(topic), int(partitions))
            case "unload", topic:
                cluster.topics.unload(TopicName.parse(topic))
            case _:
                raise _unknown(action)


def _unknown(action: str) -> ValueError:
    return ValueError(f"an operator does not know how to {action}")
