"""Policies of topics with verbs of their own: replication clusters, rates of subscriptions, removal of all policies."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from magnetar.admin.exchange import AdminRoute, Context, body, flag, path_text, route
from magnetar.admin.handlers.clusters import check_clusters
from magnetar.admin.handlers.policy_owners import PolicyOwners
from magnetar.base.errors import AdminError
from magnetar.metadata.policy.values import DispatchRate, SubscriptionPolicies

if TYPE_CHECKING:
    from starlette.requests import Request

_RATE: TypeAdapter[DispatchRate | None] = TypeAdapter(DispatchRate | None)
_CLUSTERS: TypeAdapter[list[str] | None] = TypeAdapter(list[str] | None)


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for these policies."""
    handlers = _TopicDocuments(context)
    one = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
    return [
        route("GET", f"{one}/replication", handlers.replication, query=["applied"], gives=list[str] | None),
        route("POST", f"{one}/replication", handlers.set_replication, takes=_CLUSTERS, refuses=[403]),
        route("DELETE", f"{one}/replication", handlers.remove_replication),
        route("DELETE", f"{one}/policies", handlers.remove_all),
        route(
            "GET",
            f"{one}/{{subscription}}/dispatchRate",
            handlers.dispatch_rate,
            query=["applied"],
            gives=DispatchRate | None,
        ),
        route("POST", f"{one}/{{subscription}}/dispatchRate", handlers.set_dispatch_rate, takes=_RATE),
        route("DELETE", f"{one}/{{subscription}}/dispatchRate", handlers.remove_dispatch_rate),
    ]


class _TopicDocuments:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._owners = PolicyOwners(context)

    def replication(self, request: Request) -> list[str] | None:
        topic = self._owners.topic(request)
        own = self._owners.own(topic).replicationClusters
        inherited = self._owners.of_namespace(topic).replication_clusters if flag(request, "applied") else None
        return own or inherited

    async def set_replication(self, request: Request) -> None:
        """Set the clusters of a topic, which need not be among those of its namespace, as in Apache Pulsar."""
        topic = self._owners.to_change(request)
        clusters = list(dict.fromkeys(await body(request, _CLUSTERS) or ()))
        if not clusters:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, "ClusterIds should not be null or empty")
        if self._owners.cluster not in clusters:
            message = "Can not remove local cluster from the local topic-level replication clusters policy"
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, message)
        check_clusters(self._context, topic.tenant, clusters)
        await self._owners.set_topic(topic, replicationClusters=clusters)

    async def remove_replication(self, request: Request) -> None:
        await self._owners.set_topic(self._owners.to_change(request), replicationClusters=None)

    def dispatch_rate(self, request: Request) -> dict[str, Any] | None:
        """Return the dispatch rate of one subscription."""
        topic = self._owners.topic(request)
        own = self._owners.own(topic).subscriptionPolicies.get(path_text(request, "subscription"))
        rate = None if own is None else own.dispatchRate
        if rate is None and flag(request, "applied"):
            rate = self._owners.applied(topic).subscription_dispatch_rate
        return None if rate is None else rate.to_json()

    async def set_dispatch_rate(self, request: Request) -> None:
        topic = self._owners.to_change(request)
        rate = await body(request, _RATE)
        known = self._owners.own(topic).subscriptionPolicies
        name = path_text(request, "subscription")
        known = known | {name: SubscriptionPolicies(dispatchRate=rate)}
        await self._owners.set_topic(topic, name, subscriptionPolicies=known)

    async def remove_dispatch_rate(self, request: Request) -> None:
        topic = self._owners.to_change(request)
        known = dict(self._owners.own(topic).subscriptionPolicies)
        name = path_text(request, "subscription")
        known.pop(name, None)
        await self._owners.set_topic(topic, name, subscriptionPolicies=known)

    async def remove_all(self, request: Request) -> None:
        await self._context.resources.topic_policies.forget(self._owners.to_change(request))
