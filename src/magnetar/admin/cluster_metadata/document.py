"""The metadata of a cluster as plain documents. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from magnetar.metadata.policy.table import Policy

if TYPE_CHECKING:
    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.metasync.places import Resource
    from magnetar.metasync.units import Document

SYSTEM_TENANT = "pulsar"
"""The tenant of namespaces that brokers create for themselves. Its metadata are of no other cluster."""

SYSTEM_TOPIC_PREFIX = "__"
"""Beginning of the names of topics that brokers create for themselves."""

MAGNETAR_POLICIES = frozenset(
    {
        Policy.MAX_AT_RISK_MESSAGES,
        Policy.MAX_AT_RISK_SECONDS,
        Policy.AT_RISK_COPIES,
        Policy.AT_RISK_ABSENCE_SECONDS,
        Policy.REPLICATED_SUBSCRIPTIONS_ALLOWED,
        Policy.REPLICATED_SUBSCRIPTION_SYNC,
        Policy.REPLICATED_SUBSCRIPTIONS_SNAPSHOT_FREQUENCY,
        Policy.REPLICATED_SUBSCRIPTION_ACTIVE_CLUSTER,
    }
)
"""Policies that Apache Pulsar does not have."""


LATER_POLICIES = frozenset({Policy.REPLICATE_SUBSCRIPTION_STATE})
"""Policies that Apache Pulsar has since 4.1. That a release before does not set them means nothing."""


class OtherResource(NamedTuple):
    """Something in Apache Pulsar that Magnetar does not have."""

    kind: str
    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Selection:
    """The tenants and namespaces whose metadata are read. An empty list selects everything."""

    tenants: tuple[str, ...] = ()
    namespaces: tuple[NamespaceName, ...] = ()

    def has_tenant(self, tenant: str) -> bool:
        """Return whether a tenant is selected, or one of its namespaces."""
        if tenant == SYSTEM_TENANT or not (self.tenants or self.namespaces):
            return tenant != SYSTEM_TENANT
        return tenant in self.tenants or any(tenant == each.tenant for each in self.namespaces)

    def has_namespace(self, namespace: NamespaceName) -> bool:
        """Return whether a namespace is selected, or its tenant."""
        if namespace.tenant == SYSTEM_TENANT or not (self.tenants or self.namespaces):
            return namespace.tenant != SYSTEM_TENANT
        return namespace.tenant in self.tenants or namespace in self.namespaces


EVERYTHING = Selection()


@dataclass(slots=True)
class ClusterMetadata:
    """The metadata of a cluster at about one time."""

    cluster: str
    """Its name."""
    is_magnetar: bool
    clusters: dict[str, Document] = field(default_factory=dict)
    """The ClusterData of the registered clusters."""
    resources: dict[Resource, Document] = field(default_factory=dict)
    """The documents of tenants, namespaces, partitioned topics and policies of topics."""
    placements: dict[NamespaceName, Document] = field(default_factory=dict)
    """The LocalPolicies of namespaces that have any."""
    topics: set[TopicName] = field(default_factory=set)
    """The persistent topics without partitions."""
    properties: dict[TopicName, dict[str, str]] = field(default_factory=dict)
    """The properties of topics without partitions that have any; those of others are in their documents."""
    schemas: dict[TopicName, list[Document]] = field(default_factory=dict)
    """By topic, all versions of its schema, the oldest first."""
    others: list[OtherResource] = field(default_factory=list)
    """What Magnetar does not have, among the policies of topics."""
