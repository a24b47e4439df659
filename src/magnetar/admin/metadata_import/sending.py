"""What makes a change of one field, through the client of the target."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import AdminError
from magnetar.metadata.policy.table import OFFLOAD_FIELDS, Policy
from magnetar.schema.strategy import SchemaCompatibilityStrategy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.admin.client import AdminClient
    from magnetar.admin.metadata_import.changes import Send
    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.metasync.units import Document

    Owner = NamespaceName | TopicName
    Value = Any  # any JSON value; None: not set


def new_cluster(name: str, data: Document) -> Send:
    """Register a cluster."""
    return lambda client: client.clusters.create(name, data)


def new_tenant(name: str, allowed_clusters: Sequence[str], admin_roles: Sequence[str]) -> Send:
    """Create a tenant."""
    return lambda client: client.tenants.create(name, allowed_clusters, admin_roles)


def tenant(name: str, allowed_clusters: Sequence[str], admin_roles: Sequence[str]) -> Send:
    """Change a tenant."""
    return lambda client: client.tenants.update(name, allowed_clusters, admin_roles)


def new_namespace(namespace: NamespaceName, document: Document) -> Send:
    """Create a namespace with its clusters and bundles."""
    clusters, bundles, allowed = (
        document.get(each) for each in ("replication_clusters", "bundles", "allowed_clusters")
    )
    return lambda client: client.namespaces.create(namespace, clusters or (), bundles or 0, allowed_clusters=allowed)


def new_topic(topic: TopicName, partitions: int, properties: Mapping[str, str]) -> Send:
    """Create a topic; 0: without partitions."""
    if not partitions:
        return lambda client: client.topics.create(topic, properties)

    def send(client: AdminClient) -> None:
        client.topics.create_partitioned(topic, partitions)
        if properties:
            client.properties.update(topic, properties)

    return send


def partitions(topic: TopicName, number: int) -> Send:
    """Add partitions, up to a number."""
    return lambda client: client.topics.update_partitioned(topic, number)


def policy(owner: Owner, which: Policy, value: Value) -> Send:
    """Set a policy; None removes it."""
    if value is None or (which is Policy.PAUSE_ON_ACK_STATE and value is False):
        return lambda client: client.policies.remove(owner, which)
    return lambda client: client.policies.set(owner, which, value)


def offload_policies(owner: Owner, value: Value) -> Send:
    """Set OffloadPolicies; None removes them.

    Without a driver they cannot be set: they come from the thresholds, which have paths of their own.
    """
    if value is None or value.get("managedLedgerOffloadDriver") is not None:
        return policy(owner, Policy.OFFLOAD_POLICIES, value)

    def send(client: AdminClient) -> None:
        client.policies.remove(owner, Policy.OFFLOAD_POLICIES)
        for which, field in OFFLOAD_FIELDS.items():
            if value.get(field) is not None:
                client.policies.set(owner, which, value[field])

    return send


def backlog_quota(owner: Owner, kind: str, quota: Value) -> Send:
    """Set the backlog quota of a type; None removes it."""
    if quota is None:
        return lambda client: client.policies.remove_backlog_quota(owner, kind)
    limits = {"limit_size": quota["limitSize"], "limit_time": quota["limitTime"]}
    return lambda client: client.policies.set_backlog_quota(owner, kind, quota["policy"], **limits)


def permission(owner: Owner, role: str, actions: Value) -> Send:
    """Permit a role these actions, and no others; None revokes them."""
    if actions is None:
        return lambda client: client.permissions.revoke(owner, role)
    return lambda client: client.permissions.grant(owner, role, actions)


def subscription_roles(namespace: NamespaceName, subscription: str, before: Value, after: Value) -> Send:
    """Permit these roles, and no others, to use a subscription; None permits none."""

    def revoke_all(client: AdminClient) -> None:
        for role in before or ():
            client.permissions.revoke_for_subscription(namespace, subscription, role)

    if after is None:
        return revoke_all
    return lambda client: client.permissions.grant_for_subscription(namespace, subscription, after)


def namespace_property(namespace: NamespaceName, key: str, value: Value) -> Send:
    """Set a property of a namespace; None removes it."""
    if value is None:
        return lambda client: client.properties.remove_from_namespace(namespace, key)
    return lambda client: client.properties.update(namespace, {key: value})


def topic_property(topic: TopicName, key: str, value: Value) -> Send:
    """Set a property of a topic; None removes it."""
    if value is None:
        return lambda client: client.properties.remove_from_topic(topic, key)
    return lambda client: client.properties.update(topic, {key: value})


def auto_update_of_schemas(namespace: NamespaceName, value: Value) -> Send:
    """Allow or forbid clients to bring new schemas; None allows it."""
    return lambda client: client.namespaces.set_auto_update_of_schemas(namespace, allowed=value is not False)


def anti_affinity_group(namespace: NamespaceName, group: Value) -> Send:
    """Set the anti-affinity group; None removes it."""
    if group is None:
        return lambda client: client.placement.remove_anti_affinity_group(namespace)
    return lambda client: client.placement.set_anti_affinity_group(namespace, group)


def bookie_affinity_group(namespace: NamespaceName, group: Value) -> Send:
    """Set the bookie affinity group; None removes it."""
    if group is None:
        return lambda client: client.placement.remove_bookie_affinity_group(namespace)
    return lambda client: client.placement.set_bookie_affinity_group(namespace, group)


def topic_clusters(topic: TopicName, clusters: Sequence[str]) -> Send:
    """Set the clusters that replicate a topic."""
    return lambda client: client.topic_documents.set_clusters(topic, clusters)


def subscription_policies(topic: TopicName, subscription: str, policies: Value) -> Send:
    """Set the policies of a subscription, which are its dispatch rate; None removes them."""
    rate = (policies or {}).get("dispatchRate")
    if rate is None:
        return lambda client: client.topic_documents.remove_dispatch_rate(topic, subscription)
    return lambda client: client.topic_documents.set_dispatch_rate(topic, subscription, rate)


def schema(topic: TopicName, definition: Document) -> Send:
    """Register the next version of a schema, even if it is not compatible with the versions before it.

    The source accepted it, perhaps with another strategy. If the target refuses it, the strategy of the topic is
    ALWAYS_COMPATIBLE during this request.
    """
    strategy, always = Policy.SCHEMA_COMPATIBILITY_STRATEGY, SchemaCompatibilityStrategy.ALWAYS_COMPATIBLE.value

    def send(client: AdminClient) -> None:
        try:
            client.schemas.upload(topic, definition)
        except AdminError as error:
            if error.status is not HTTPStatus.CONFLICT:
                raise
        else:
            return
        before = client.policies.get(topic, strategy)
        client.policies.set(topic, strategy, always)
        try:
            client.schemas.upload(topic, definition)
        finally:
            policy(topic, strategy, before)(client)

    return send
