"""Routes of Apache Pulsar that no handler serves: they are refused with their name, never silently accepted.

A GET of an unsupported policy returns Pulsar's answer for an unset policy; setting it is refused with 501.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from magnetar.admin.exchange import AdminRoute, Context, namespace_name, route, words
from magnetar.admin.pulsar_api.routes import GROUPS, by_key
from magnetar.base.errors import AdminError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request

_NAMESPACE_POLICIES: dict[str, Any] = dict.fromkeys(
    words("""
    autoSubscriptionCreation autoTopicCreation dispatchRate entryFilters inactiveTopicPolicies maxTopicsPerNamespace
    publishRate replicatorDispatchRate resourcegroup subscribeRate subscriptionDispatchRate
    subscriptionExpirationTime
    """)
) | {
    "allowedClusters": [],
    "encryptionRequired": False,
    "properties": {},
    "subscriptionTypesEnabled": [],
}
"""Unsupported policies, with Pulsar's answer if they are not set (None: 204)."""

_TOPIC_POLICIES = words("""
    autoSubscriptionCreation dispatchRate entryFilters inactiveTopicPolicies maxMessageSize publishRate replication
    replicatorDispatchRate shadowTopics subscribeRate subscriptionDispatchRate subscriptionTypesEnabled
""")


def routes(context: Context, served: Sequence[AdminRoute]) -> list[AdminRoute]:
    """Return routes for everything in Pulsar's API that ``served`` lacks."""

    def unset(request: Request) -> Any:  # noqa: ANN401 - any JSON value
        context.policies(namespace_name(request))
        return _NAMESPACE_POLICIES[request.url.path.rpartition("/")[2]]

    def unset_of_topic(request: Request) -> None:
        context.topic(request)

    namespace = "/admin/v2/namespaces/{tenant}/{namespace}"
    topic = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
    reads = [
        *(route("GET", f"{namespace}/{policy}", unset) for policy in _NAMESPACE_POLICIES),
        *(route("GET", f"{topic}/{policy}", unset_of_topic) for policy in _TOPIC_POLICIES),
    ]
    answered = by_key([*served, *reads])
    missing = (each for group in GROUPS for each in group.routes() if each.key not in answered)
    return [*reads, *(route(each.method, each.path, _not_implemented(each.refusal)) for each in missing)]


def _not_implemented(reason: str) -> Callable[[Request], None]:
    def refuse(_: Request) -> None:
        raise AdminError(HTTPStatus.NOT_IMPLEMENTED, reason)

    return refuse
