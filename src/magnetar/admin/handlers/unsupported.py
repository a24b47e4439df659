"""Unsupported requests of Pulsar's API: they are refused with their name, never silently accepted.

A GET of an unsupported policy returns Pulsar's answer for an unset policy; setting it is refused with 501.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from magnetar.admin.exchange import Context, namespace_name, route, words
from magnetar.base.errors import AdminError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.routing import Route

_WRITES = "POST PUT DELETE"

_NAMESPACE_POLICIES: dict[str, Any] = dict.fromkeys(
    words("""
    autoSubscriptionCreation autoTopicCreation compactionThreshold dispatchRate entryFilters inactiveTopicPolicies
    maxConsumersPerSubscription maxConsumersPerTopic maxProducersPerTopic maxSubscriptionsPerTopic
    maxTopicsPerNamespace maxUnackedMessagesPerConsumer maxUnackedMessagesPerSubscription offloadPolicies
    persistence publishRate replicatorDispatchRate resourcegroup subscribeRate subscriptionDispatchRate
    subscriptionExpirationTime
    """)
) | {
    "allowedClusters": [],
    "encryptionRequired": False,
    "offloadThreshold": -1,
    "properties": {},
    "subscriptionTypesEnabled": [],
}
"""Unsupported policies, with Pulsar's answer if they are not set (None: 204)."""

_NAMESPACE_WRITES = words("clearBacklog permissions unload unsubscribe")

_TOPIC_POLICIES = words("""
    autoSubscriptionCreation compactionThreshold dispatchRate entryFilters inactiveTopicPolicies maxConsumers
    maxConsumersPerSubscription maxMessageSize maxProducers maxSubscriptionsPerTopic maxUnackedMessagesOnConsumer
    maxUnackedMessagesOnSubscription offloadPolicies persistence publishRate replication
    replicatorDispatchRate shadowTopics subscribeRate subscriptionDispatchRate
    subscriptionTypesEnabled
""")

_TOPIC_OPERATIONS = words("""
    compaction createMissedPartitions examinemessage getMessageIdByIndex internal-info offload permissions properties
    terminate trim truncate
""")

_SUBSCRIPTION_OPERATIONS = words("analyzeBacklog properties")


def routes(context: Context) -> list[Route]:
    """Return routes that refuse unsupported requests."""

    def unset(request: Request) -> Any:  # noqa: ANN401 - any JSON value
        context.policies(namespace_name(request))
        return _NAMESPACE_POLICIES[request.url.path.rpartition("/")[2]]

    def unset_of_topic(request: Request) -> None:
        context.topic(request)

    namespace = "/admin/v2/namespaces/{tenant}/{namespace}"
    topic = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
    subscription = f"{topic}/subscription/{{subscription}}"
    reads = [route("GET", f"{namespace}/{policy}", unset) for policy in _NAMESPACE_POLICIES]
    policies = [
        route(_WRITES, f"{namespace}/{policy}{rest}", _not_implemented(f"the namespace policy {policy}"))
        for policy in (*_NAMESPACE_POLICIES, *_NAMESPACE_WRITES)
        for rest in ("", "/{rest:path}")
    ]
    operations = [
        route(f"GET {_WRITES}", f"{owner}/{operation}", _not_implemented(f"{operation} of {what}"))
        for owner, operations, what in (
            (topic, _TOPIC_OPERATIONS, "topics"),
            (subscription, _SUBSCRIPTION_OPERATIONS, "subscriptions"),
        )
        for operation in operations
    ]
    topic_reads = [route("GET", f"{topic}/{policy}", unset_of_topic) for policy in _TOPIC_POLICIES]
    topic_policies = [
        route(_WRITES, f"{topic}/{policy}", _not_implemented(f"the topic policy {policy}"))
        for policy in _TOPIC_POLICIES
    ]
    return [*reads, *policies, *operations, *topic_reads, *topic_policies]


def _not_implemented(feature: str) -> Callable[[Request], None]:
    def refuse(_: Request) -> None:
        raise AdminError(HTTPStatus.NOT_IMPLEMENTED, f"Magnetar does not support {feature}")

    return refuse
