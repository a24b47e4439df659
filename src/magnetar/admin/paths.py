"""Paths of the admin API."""

from __future__ import annotations

from urllib.parse import quote

from magnetar.base.names import NamespaceName, TopicName


def cluster_path(name: str) -> str:
    """Return the path of a cluster."""
    return f"/admin/v2/clusters/{quote(name, safe='')}"


def tenant_path(name: str) -> str:
    """Return the path of a tenant."""
    return f"/admin/v2/tenants/{quote(name, safe='')}"


def owner_path(owner: NamespaceName | TopicName) -> str:
    """Return the path of a namespace or a topic."""
    return topic_path(owner) if isinstance(owner, TopicName) else namespace_path(owner)


def namespace_path(namespace: NamespaceName) -> str:
    """Return the path of a namespace."""
    return f"/admin/v2/namespaces/{namespace}"


def topic_path(topic: TopicName) -> str:
    """Return the path of a topic."""
    return f"/admin/v2/{relative_path(topic)}"


def relative_path(topic: TopicName) -> str:
    """Return the part of the path that names a topic."""
    return f"{topic.domain}/{topic.namespace_name}/{quote(topic.local_name, safe='')}"


def subscription_path(topic: TopicName, subscription: str) -> str:
    """Return the path of a subscription."""
    return f"{topic_path(topic)}/subscription/{quote(subscription, safe='')}"
