"""The rows of policies: Pulsar's name of each, by the last part of its path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.authorization.needs import SUPERUSER, TENANT_ADMIN, Need, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_BOTH: Final = {
    "autoSubscriptionCreation": "AUTO_SUBSCRIPTION_CREATION",
    "backlogQuota": "BACKLOG",
    "backlogQuotaMap": "BACKLOG",
    "compactionThreshold": "COMPACTION",
    "deduplicationSnapshotInterval": "DEDUPLICATION_SNAPSHOT",
    "delayedDelivery": "DELAYED_DELIVERY",
    "dispatchRate": "RATE",
    "dispatcherPauseOnAckStatePersistent": "DISPATCHER_PAUSE_ON_ACK_STATE_PERSISTENT",
    "entryFilters": "ENTRY_FILTERS",
    "inactiveTopicPolicies": "INACTIVE_TOPIC",
    "maxConsumersPerSubscription": "MAX_CONSUMERS",
    "maxSubscriptionsPerTopic": "MAX_SUBSCRIPTIONS",
    "messageTTL": "TTL",
    "offloadPolicies": "OFFLOAD",
    "persistence": "PERSISTENCE",
    "publishRate": "RATE",
    "replication": "REPLICATION",
    "replicatorDispatchRate": "REPLICATION_RATE",
    "retention": "RETENTION",
    "schemaCompatibilityStrategy": "SCHEMA_COMPATIBILITY_STRATEGY",
    "schemaValidationEnforced": "SCHEMA_COMPATIBILITY_STRATEGY",
    "subscribeRate": "RATE",
    "subscriptionDispatchRate": "RATE",
    "subscriptionTypesEnabled": "SUBSCRIPTION_AUTH_MODE",
}

_OF_NAMESPACE: Final = {
    "allowedClusters": "ALLOW_CLUSTERS",
    "antiAffinity": "ANTI_AFFINITY",
    "autoTopicCreation": "AUTO_TOPIC_CREATION",
    "deduplication": "DEDUPLICATION",
    "encryptionRequired": "ENCRYPTION",
    "isAllowAutoUpdateSchema": "SCHEMA_COMPATIBILITY_STRATEGY",
    "maxConsumersPerTopic": "MAX_CONSUMERS",
    "maxProducersPerTopic": "MAX_PRODUCERS",
    "maxTopicsPerNamespace": "MAX_TOPICS",
    "maxUnackedMessagesPerConsumer": "MAX_UNACKED",
    "maxUnackedMessagesPerSubscription": "MAX_UNACKED",
    "offloadDeletionLagMs": "OFFLOAD",
    "offloadThreshold": "OFFLOAD",
    "offloadThresholdInSeconds": "OFFLOAD",
    "removeOffloadPolicies": "OFFLOAD",
    "resourcegroup": "RESOURCEGROUP",
    "resourcegroup/{resourcegroup}": "RESOURCEGROUP",
    "schemaAutoUpdateCompatibilityStrategy": "SCHEMA_COMPATIBILITY_STRATEGY",
    "subscriptionAuthMode": "SUBSCRIPTION_AUTH_MODE",
    "subscriptionExpirationTime": "SUBSCRIPTION_EXPIRATION_TIME",
    "{bundle}/topicHashPositions": "PERSISTENCE",
}

_OF_TOPIC: Final = {
    "deduplicationEnabled": "DEDUPLICATION",
    "maxConsumers": "MAX_CONSUMERS",
    "maxProducers": "MAX_PRODUCERS",
    "maxUnackedMessagesOnConsumer": "MAX_UNACKED",
    "maxUnackedMessagesOnSubscription": "MAX_UNACKED",
    "policies": "MAX_PRODUCERS",
    "{subscription}/dispatchRate": "RATE",
}

_OF_MAGNETAR: Final = (
    "atRiskAbsenceSeconds",
    "atRiskCopies",
    "maxAtRiskMessages",
    "maxAtRiskSeconds",
    "replicateSubscriptionState",
    "replicatedSubscriptionActiveCluster",
    "replicatedSubscriptionSync",
    "replicatedSubscriptionsAllowed",
    "replicatedSubscriptionsSnapshotFrequencyMillis",
)
"""Policies that Apache Pulsar lacks; they require an admin of the tenant."""

_METHODS: Final = {"GET": "READ", "POST": "WRITE", "PUT": "WRITE", "DELETE": "WRITE"}

_NAMESPACE: Final = "/admin/v2/namespaces/{tenant}/{namespace}"
_TOPICS: Final = tuple(
    f"/admin/v2/{domain}/{{tenant}}/{{namespace}}/{{topic}}" for domain in ("persistent", "non-persistent")
)


def policy_routes() -> Iterator[tuple[str, str, Need]]:
    """Yield method, path and requirement of the routes of policies, and of some that no handler has."""
    for method, operation in _METHODS.items():
        for path, policy in (_OF_BOTH | _OF_NAMESPACE).items():
            is_for_links = (method, path) == ("GET", "replication")
            need = Need(Scope.NAMESPACE_POLICY, operation, policy, is_for_links=is_for_links)
            if path == "delayedDelivery" and operation == "WRITE":
                need = SUPERUSER  # as in Apache Pulsar
            yield method, f"{_NAMESPACE}/{path}", need
        for topic in _TOPICS:
            for path, policy in (_OF_BOTH | _OF_TOPIC).items():
                yield method, f"{topic}/{path}", Need(Scope.TOPIC_POLICY, operation, policy)
            yield method, f"{topic}/maxMessageSize", TENANT_ADMIN
            for path in _OF_MAGNETAR:
                yield method, f"{topic}/{path}", TENANT_ADMIN
        for path in (*_OF_MAGNETAR, "custody"):
            yield method, f"{_NAMESPACE}/{path}", TENANT_ADMIN
    yield "GET", _NAMESPACE, Need(Scope.NAMESPACE_POLICY, "READ", "ALL")
    yield "GET", f"{_NAMESPACE}/subscriptionProtection", Need(Scope.NAMESPACE_POLICY, "READ", "ALL")
