"""Scopes of routes: the tenant, namespace or topic that a route is about. Pure.

A scope is a text: ``acme``, ``acme/orders`` or ``persistent://acme/orders/a``.
"""

from __future__ import annotations

from magnetar.base.errors import InvalidTopicNameError
from magnetar.base.names import NamespaceName, TopicName, is_named_entity, shown

_FORMS = "a tenant, tenant/namespace, or a topic such as persistent://tenant/namespace/topic"


def parse_scope(text: str) -> str:
    """Return ``text`` if it is a scope; raises InvalidTopicNameError, which states the reason.

    The partitions of a topic have one route, so a partition is no scope.
    """
    if "://" in text:
        topic = TopicName.parse(text)
        if topic.partition_index >= 0:
            message = f"{shown(text)} is a partition: a route is for all partitions of {topic.partitioned_topic}"
            raise InvalidTopicNameError(message)
    elif "/" in text:
        NamespaceName.parse(text)
    elif not is_named_entity(text):
        message = f"{shown(text)} is no scope of a route: expected {_FORMS}"
        raise InvalidTopicNameError(message)
    return text


def scopes_of(topic: TopicName) -> tuple[str, str, str]:
    """Return the scopes that include a topic, the most specific first."""
    whole = topic.partitioned_topic
    return str(whole), f"{topic.tenant}/{topic.namespace}", topic.tenant


def includes(scope: str, topic: TopicName) -> bool:
    """Return whether a scope includes a topic."""
    return scope in scopes_of(topic)


def namespace_of(scope: str) -> NamespaceName | None:
    """Return the namespace that a scope is, or that its topic is in; None for a tenant."""
    if "://" in scope:
        return TopicName.parse(scope).namespace_name
    return NamespaceName.parse(scope) if "/" in scope else None
