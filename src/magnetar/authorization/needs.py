"""What commands and requests require of a role."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.base.names import NamespaceName, TopicName


class Scope(Enum):
    """Kinds of requirements."""

    ANYONE = "anyone"
    """Nothing is checked."""
    OWN = "own producers and consumers"
    """The command names a producer or consumer of its connection, which was checked when it was opened."""
    AUTHENTICATED = "any role"
    SUPERUSER = "superuser"
    TENANT = "tenant admin"
    """An admin of the tenant, for a request that is no operation in Pulsar's terms."""
    TENANT_OPERATION = "tenant admin, by an operation"
    NAMESPACE = "operation on a namespace"
    NAMESPACE_POLICY = "policy of a namespace"
    """An admin of the tenant."""
    TOPIC = "operation on a topic"
    TOPIC_POLICY = "policy of a topic"
    """An admin of the tenant."""
    REPLICATOR = "replicator"
    """A role that may act for the cluster that the command names."""
    HANDLER = "the handler checks each resource of the body"


@dataclass(frozen=True, slots=True)
class Need:
    """One requirement."""

    scope: Scope
    operation: str = ""
    """Pulsar's name of the operation; for policies READ or WRITE."""
    policy: str = ""
    """Pulsar's name of the policy."""
    is_for_links: bool = False
    """Whether a replicator of any cluster meets it, too: links need it to find what they carry."""


@dataclass(frozen=True, slots=True)
class Resource:
    """What a command or a request is about; parts that it does not name are empty."""

    tenant: str = ""
    namespace: NamespaceName | None = None
    topic: TopicName | None = None
    subscription: str = ""
    cluster: str | None = None
    """Cluster for which a replicator acts; empty: it names none, so that only a replicator of all clusters may do it;
    None: a replicator of any cluster may."""

    @classmethod
    def of_namespace(cls, namespace: NamespaceName) -> Resource:
        """Return a namespace."""
        return cls(namespace.tenant, namespace)

    @classmethod
    def of_topic(cls, topic: TopicName, subscription: str = "") -> Resource:
        """Return a topic, or a subscription of it."""
        return cls(topic.tenant, topic.namespace_name, topic, subscription)


PRODUCE: Final = ("produce",)
CONSUME: Final = ("consume",)
EITHER: Final = ("produce", "consume")
ADMIN: Final = ()
"""No permission suffices: the role must be an admin of the tenant."""

TOPIC_OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "LOOKUP": EITHER,
        "GET_STATS": EITHER,
        "GET_METADATA": EITHER,
        "PRODUCE": PRODUCE,
        **dict.fromkeys(
            (
                "CONSUME",
                "GET_SUBSCRIPTIONS",
                "SUBSCRIBE",
                "UNSUBSCRIBE",
                "SKIP",
                "EXPIRE_MESSAGES",
                "PEEK_MESSAGES",
                "RESET_CURSOR",
                "GET_BACKLOG_SIZE",
                "SET_REPLICATED_SUBSCRIPTION_STATUS",
                "GET_REPLICATED_SUBSCRIPTION_STATUS",
            ),
            CONSUME,
        ),
        **dict.fromkeys(
            ("TERMINATE", "COMPACT", "OFFLOAD", "UNLOAD", "TRIM_TOPIC", "DELETE_METADATA", "UPDATE_METADATA"), ADMIN
        ),
    }
)
"""Actions of which one must be permitted to the role, by operation; an admin of the tenant needs none."""

NAMESPACE_OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "PACKAGES": ("packages",),
        "FUNCTIONS": ("functions",),
        "SOURCES": ("sources",),
        "SINKS": ("sinks",),
        **dict.fromkeys(("GET_TOPICS", "GET_BUNDLE"), EITHER),
        **dict.fromkeys(("UNSUBSCRIBE", "CLEAR_BACKLOG"), CONSUME),
        **dict.fromkeys(
            (
                "CREATE_TOPIC",
                "DELETE_TOPIC",
                "DELETE_BUNDLE",
                "GRANT_PERMISSION",
                "GET_PERMISSION",
                "REVOKE_PERMISSION",
            ),
            ADMIN,
        ),
    }
)
"""As TOPIC_OPERATIONS, for permissions of the namespace."""

ANYONE: Final = Need(Scope.ANYONE)
OWN: Final = Need(Scope.OWN)
AUTHENTICATED: Final = Need(Scope.AUTHENTICATED)
SUPERUSER: Final = Need(Scope.SUPERUSER)
TENANT_ADMIN: Final = Need(Scope.TENANT)
REPLICATOR: Final = Need(Scope.REPLICATOR)
HANDLER: Final = Need(Scope.HANDLER)


def tenant_operation(name: str, *, is_for_links: bool = False) -> Need:
    """Require what an operation on a tenant requires."""
    return Need(Scope.TENANT_OPERATION, name, is_for_links=is_for_links)


def on_namespace(name: str, *, is_for_links: bool = False) -> Need:
    """Require what an operation of NAMESPACE_OPERATIONS requires."""
    assert name in NAMESPACE_OPERATIONS, name
    return Need(Scope.NAMESPACE, name, is_for_links=is_for_links)


def on_topic(name: str, *, is_for_links: bool = False) -> Need:
    """Require what an operation of TOPIC_OPERATIONS requires."""
    assert name in TOPIC_OPERATIONS, name
    return Need(Scope.TOPIC, name, is_for_links=is_for_links)
