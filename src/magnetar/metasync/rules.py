"""What may differ between clusters. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from magnetar.metasync.units import ResourceType

if TYPE_CHECKING:
    from magnetar.base.names import NamespaceName
    from magnetar.metasync.places import Resource
    from magnetar.metasync.records import Record

OF_EACH_CLUSTER: dict[ResourceType, frozenset[str]] = {
    ResourceType.TENANTS: frozenset({"/allowedClusters"}),
    ResourceType.NAMESPACES: frozenset(
        {"/replication_clusters", "/allowed_clusters", "/replicated_subscription_active_cluster"}
    ),
    ResourceType.TOPICS: frozenset({"/deleted"}),
    ResourceType.TOPIC_POLICIES: frozenset({"/replicationClusters", "/replicatedSubscriptionActiveCluster"}),
}
"""Units that are copied when a cluster gets a resource, and stay its own afterwards.

They need an order between clusters: a cluster that leaves a namespace must not stop its links before the others have
sent what they hold for it, and two active clusters would deliver messages twice. The mark of a topic that is being
deleted stays local like the deletion.
"""


@dataclass(frozen=True, slots=True)
class Rules:
    """Which resources and units a cluster shares with the others."""

    own_namespace: NamespaceName
    """The namespace of the event topic. It comes from the configuration of each cluster."""

    def covers(self, resource: Resource) -> bool:
        """Return whether a resource is synchronized."""
        own = str(self.own_namespace)
        if resource.kind is ResourceType.TENANTS:
            return resource.name != self.own_namespace.tenant
        name = resource.name.partition("://")[2] or resource.name
        return name != own and not name.startswith(f"{own}/")

    def shared(self, record: Record) -> Record:
        """Return the part of a record that is synchronized while the resource exists."""
        own = OF_EACH_CLUSTER[record.kind]
        if not own & record.edits.keys():
            return record
        return replace(record, edits={unit: edit for unit, edit in record.edits.items() if unit not in own})
