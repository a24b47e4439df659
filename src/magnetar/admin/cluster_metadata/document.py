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
        Policy.CUSTODY,
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
    """The tenants, namespaces and topics whose metadata are read. Without any, everything is selected."""

    tenants: tuple[str, ...] = ()
    namespaces: tuple[NamespaceName, ...] = ()
    topics: tuple[TopicName, ...] = ()
    """Single topics, none of them a partition; their namespaces and tenants are read as well."""

    def has_tenant(self, tenant: str) -> bool:
        """Return whether a tenant is selected, or something in it."""
        if tenant == SYSTEM_TENANT or self._is_everything:
            return tenant != SYSTEM_TENANT
        within: list[NamespaceName | TopicName] = [*self.namespaces, *self.topics]
        return tenant in self.tenants or any(tenant == each.tenant for each in within)

    def has_namespace(self, namespace: NamespaceName) -> bool:
        """Return whether a namespace is selected, its tenant, or one of its topics."""
        if namespace.tenant == SYSTEM_TENANT or self._is_everything:
            return namespace.tenant != SYSTEM_TENANT
        return self._is_whole(namespace) or any(namespace == each.namespace_name for each in self.topics)

    def has_topic(self, topic: TopicName) -> bool:
        """Return whether a topic of a selected namespace is selected."""
        return self._is_everything or self._is_whole(topic.namespace_name) or topic in self.topics

    @property
    def _is_everything(self) -> bool:
        return not (self.tenants or self.namespaces or self.topics)

    def _is_whole(self, namespace: NamespaceName) -> bool:
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
