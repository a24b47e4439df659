"""``/admin/v2/clusters``: peers, failure domains and isolation policies, which are stored only.

A cluster has one broker, which serves all namespaces.
"""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import re2  # a pattern of Python's takes exponential time for some names
from pydantic import TypeAdapter
from starlette.responses import Response

from magnetar.admin.exchange import AdminRoute, Context, body, entity_name, path_text, route
from magnetar.admin.openapi.description import EMPTY
from magnetar.base.errors import AdminError
from magnetar.base.names import shown
from magnetar.metadata.stored.operations import FailureDomain, IsolationPolicy, OfCluster

if TYPE_CHECKING:
    from starlette.requests import Request

    from magnetar.metadata.policy.document import Document

_NAMES: TypeAdapter[list[str] | None] = TypeAdapter(list[str] | None)
_DOMAIN: TypeAdapter[FailureDomain] = TypeAdapter(FailureDomain)
_POLICY: TypeAdapter[IsolationPolicy] = TypeAdapter(IsolationPolicy)

_PATTERN = re2.Options()
_PATTERN.log_errors = False
_PATTERN.max_mem = 1 << 20  # bytes


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for the stored documents of clusters."""
    handlers = _Isolation(context)
    one = "/admin/v2/clusters/{cluster}"
    domain, policy = f"{one}/failureDomains/{{domain}}", f"{one}/namespaceIsolationPolicies/{{policy}}"
    brokers = f"{one}/namespaceIsolationPolicies/brokers"
    return [
        route("GET", f"{one}/peers", handlers.peers, gives=list[str]),
        route("POST", f"{one}/peers", handlers.set_peers, is_without_effect=True, takes=_NAMES),
        route("GET", f"{one}/failureDomains", handlers.domains, is_without_effect=True, gives=dict[str, FailureDomain]),
        route("GET", domain, handlers.domain, is_without_effect=True, gives=FailureDomain),
        route("POST", domain, handlers.set_domain, is_without_effect=True, takes=_DOMAIN),
        route("DELETE", domain, handlers.delete_domain, is_without_effect=True, gives=EMPTY),
        route(
            "GET",
            f"{one}/namespaceIsolationPolicies",
            handlers.policies,
            is_without_effect=True,
            gives=dict[str, IsolationPolicy],
        ),
        route("GET", policy, handlers.policy, is_without_effect=True, gives=IsolationPolicy),
        route("POST", policy, handlers.set_policy, is_without_effect=True, takes=_POLICY),
        route("DELETE", policy, handlers.delete_policy, is_without_effect=True),
        route("GET", brokers, handlers.brokers, is_without_effect=True, gives=list[dict[str, Any]]),
        route("GET", f"{brokers}/{{broker}}", handlers.broker, is_without_effect=True, gives=dict[str, Any]),
    ]


class _Isolation:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._clusters = context.resources.clusters
        self._domains = context.resources.failure_domains
        self._policies = context.resources.isolation_policies

    def peers(self, request: Request) -> list[str]:
        found = self._clusters.get(entity_name(request, "cluster"))
        if found is None:
            raise AdminError(HTTPStatus.NOT_FOUND, "Cluster does not exist")
        return found.peerClusterNames or []

    async def set_peers(self, request: Request) -> None:
        self.peers(request)
        name, peers = entity_name(request, "cluster"), await body(request, _NAMES) or []
        for peer in peers:
            if peer == name:
                message = f"{name} itself can't be part of peer-list"
                raise AdminError(HTTPStatus.PRECONDITION_FAILED, message)
            if not self._clusters.exists(peer):
                raise AdminError(HTTPStatus.PRECONDITION_FAILED, f"Peer cluster {peer} does not exist")
        await self._clusters.update(name, lambda data: data.model_copy(update={"peerClusterNames": peers}))

    # -- failure domains ----------------------------------------------------------------------------------------

    def domains(self, request: Request) -> dict[str, Any]:
        found = self._domains.of(entity_name(request, "cluster"))
        return {name: each.to_json() for name, each in found.items()}

    def domain(self, request: Request) -> dict[str, Any]:
        key = _key(request, "domain")
        return _to_json(self._domains.get(key), f"Domain {key.name} for cluster {key.cluster} does not exist")

    async def set_domain(self, request: Request) -> None:
        key = self._of_existing(request, "domain")
        wanted = await body(request, _DOMAIN)
        for name, other in self.domains(request).items():
            shared = [each for each in wanted.brokers if each in other["brokers"]]
            if name != key.name and shared:
                message = f"[{', '.join(shared)}] already exists in {name}"
                raise AdminError(HTTPStatus.CONFLICT, message)
        await self._domains.put(key, wanted)

    async def delete_domain(self, request: Request) -> Response:
        key = _key(request, "domain")
        if not self._domains.exists(key):
            message = f"Domain-name {key.name} or cluster {key.cluster} does not exist"
            raise AdminError(HTTPStatus.NOT_FOUND, message)
        await self._domains.delete(key)
        return Response()

    # -- isolation policies -------------------------------------------------------------------------------------

    def policies(self, request: Request) -> dict[str, Any]:
        cluster = self._of_existing(request).cluster
        return {name: each.to_json() for name, each in self._policies.of(cluster).items()}

    def policy(self, request: Request) -> dict[str, Any]:
        key = self._of_existing(request, "policy")
        missing = f"NamespaceIsolationPolicies {key.name} for cluster {key.cluster} does not exist"
        return _to_json(self._policies.get(key), missing)

    async def set_policy(self, request: Request) -> None:
        key = self._of_existing(request, "policy")
        wanted = await body(request, _POLICY)
        for pattern in (*wanted.namespaces, *wanted.primary, *wanted.secondary):
            try:
                re2.compile(pattern, _PATTERN)
            except re2.error as error:
                message = f"{shown(pattern)} is not a regular expression: {error.args[0].decode(errors='replace')}"
                raise AdminError(HTTPStatus.BAD_REQUEST, message) from None
        await self._policies.put(key, wanted)

    async def delete_policy(self, request: Request) -> None:
        key = self._of_existing(request, "policy")
        if self._policies.exists(key):
            await self._policies.delete(key)

    def brokers(self, request: Request) -> list[dict[str, Any]]:
        cluster = self._of_existing(request).cluster
        return [self._broker(cluster, self._context.service.admin_url.partition("://")[2])]

    def broker(self, request: Request) -> dict[str, Any]:
        return self._broker(self._of_existing(request).cluster, path_text(request, "broker"))

    def _broker(self, cluster: str, broker: str) -> dict[str, Any]:
        """Return the namespaces that the policies assign to a broker, whose name is compared without its port."""
        host = broker.partition(":")[0]
        answer: dict[str, Any] = {"brokerName": broker, "namespaceRegex": [], "primary": False}
        for name, policy in self._policies.of(cluster).items():
            is_primary = _matches(policy.primary, host)
            if is_primary or _matches(policy.secondary, host):
                answer["policyName"] = name
                answer["namespaceRegex"] += policy.namespaces
                answer["primary"] = answer["primary"] or is_primary
        return answer

    def _of_existing(self, request: Request, kind: str | None = None) -> OfCluster:
        """Return the key of a document of an existing cluster."""
        cluster = entity_name(request, "cluster")
        if not self._clusters.exists(cluster):
            status = HTTPStatus.PRECONDITION_FAILED if kind == "domain" else HTTPStatus.NOT_FOUND
            raise AdminError(status, f"Cluster {cluster} does not exist.")
        return OfCluster(cluster, path_text(request, kind) if kind is not None else "")


def _key(request: Request, kind: str) -> OfCluster:
    return OfCluster(entity_name(request, "cluster"), path_text(request, kind))


def _to_json(found: Document | None, missing: str) -> dict[str, Any]:
    """Return a document as JSON values; raises AdminError with 404 and the text ``missing`` if it is absent."""
    if found is None:
        raise AdminError(HTTPStatus.NOT_FOUND, missing)
    return found.to_json()


def _matches(patterns: list[str], host: str) -> bool:
    for pattern in patterns:
        with suppress(re2.error):  # stored by an earlier version, which accepted it
            if re2.compile(pattern, _PATTERN).fullmatch(host):
                return True
    return False
