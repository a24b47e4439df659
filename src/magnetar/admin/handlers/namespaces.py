"""``/admin/v2/namespaces``: namespaces and the supported policies."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from magnetar.admin.exchange import (
    AdminRoute,
    Context,
    body,
    entity_name,
    flag,
    large_answer,
    namespace_name,
    query_text,
    route,
)
from magnetar.admin.handlers import policies, policy_checks
from magnetar.admin.handlers.clusters import check_clusters
from magnetar.admin.handlers.last_edits import remove_last_edit, with_last_edit
from magnetar.base.errors import AdminError
from magnetar.metadata.policies import (
    DEFAULT_NUMBER_OF_NAMESPACE_BUNDLES,
    HASH_MAX,
    NAMESPACE_BUNDLES_MAX,
    BundlesData,
    Policies,
)
from magnetar.metasync.units import ResourceType

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from magnetar.base.names import NamespaceName

_ACTED_ON = policies.ACTED_ON | {"replication_clusters", "bundles", "auth_policies", "properties", "allowed_clusters"}
_OTHER_POLICIES = frozenset({"allowed_topic_property_keys_for_metrics", "resource_group_name"})
"""Unsupported policies of Pulsar that are null by default."""
_POLICIES: TypeAdapter[Policies | None] = TypeAdapter(Policies | None)
_CLUSTERS: TypeAdapter[list[str]] = TypeAdapter(list[str])


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for namespaces."""
    handlers = _Namespaces(context)
    root = "/admin/v2/namespaces/{tenant}"
    one = f"{root}/{{namespace}}"
    return [
        route("GET", root, handlers.of_tenant, gives=list[str]),
        route("GET", one, handlers.get, gives=Policies),
        route("PUT", one, handlers.create, takes=_POLICIES, refuses=[403, 501]),
        route("DELETE", one, handlers.delete, query=["force"], refuses=[405]),
        route("GET", f"{one}/topics", handlers.topics, query=["mode"], gives=list[str]),
        route("GET", f"{one}/bundles", handlers.bundles, gives=BundlesData),
        route("GET", f"{one}/allowedClusters", handlers.allowed, gives=list[str]),
        route("POST", f"{one}/allowedClusters", handlers.set_allowed, takes=_CLUSTERS, refuses=[403]),
        route("GET", f"{one}/replication", handlers.replication, gives=list[str]),
        route("POST", f"{one}/replication", handlers.set_replication, takes=_CLUSTERS, refuses=[403]),
    ]


class _Namespaces:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._namespaces = context.resources.namespaces

    def of_tenant(self, request: Request) -> list[str]:
        tenant = entity_name(request, "tenant")
        if not self._context.resources.tenants.exists(tenant):
            raise AdminError(HTTPStatus.NOT_FOUND, "Tenant not found")
        return list(map(str, self._namespaces.of_tenant(tenant)))

    def get(self, request: Request) -> dict[str, Any]:
        policies = self._policies(request).to_json()
        return with_last_edit(self._context, ResourceType.NAMESPACES, namespace_name(request), policies)

    async def create(self, request: Request) -> None:
        namespace = namespace_name(request)
        self._context.tenant(namespace.tenant)
        wanted = await body(request, _POLICIES) or Policies()
        remove_last_edit(wanted)
        _check_acted_on(wanted)
        bundles = checked_bundles(wanted.bundles)
        clusters = wanted.replication_clusters or [self._context.service.cluster_name]
        check_clusters(self._context, namespace.tenant, clusters)
        policy_checks.check(wanted)
        if self._namespaces.exists(namespace):
            raise AdminError(HTTPStatus.CONFLICT, "Namespace already exists")
        self._context.check_new_name("namespace", str(namespace))
        await self._namespaces.create(
            namespace, wanted.model_copy(update={"replication_clusters": clusters, "bundles": bundles})
        )

    async def delete(self, request: Request) -> None:
        namespace = namespace_name(request)
        policies = self._context.policies(namespace)
        if flag(request, "force"):
            raise AdminError(HTTPStatus.METHOD_NOT_ALLOWED, "Broker doesn't allow forced deletion of namespaces")
        if len(policies.replication_clusters) > 1:
            raise AdminError(
                HTTPStatus.PRECONDITION_FAILED,
                f"Cannot delete the global namespace {namespace}. There are still more than one replication clusters "
                "configured.",
            )
        domains = self._context.service.topics, self._context.service.non_persistent
        if any(True for of in domains for each in (of.each, of.each_partitioned) for _ in each(namespace)):
            raise AdminError(HTTPStatus.CONFLICT, "Cannot delete non empty namespace")
        await self._namespaces.delete(namespace)
        if self._context.resources.local_policies.exists(namespace):
            await self._context.resources.local_policies.delete(namespace)

    @large_answer
    async def topics(self, request: Request) -> Response:
        self._policies(request)
        mode = (query_text(request, "mode") or "PERSISTENT").upper()
        return await self._context.answer_names(self._names(namespace_name(request), mode))

    def _names(self, namespace: NamespaceName, mode: str) -> Generator[None, None, Sequence[str]]:
        """Return the names of the topics of a domain, or of both; in steps."""
        service, found = self._context.service, list[str]()
        if mode != "PERSISTENT":
            found += yield from service.non_persistent.names(namespace)
        if mode != "NON_PERSISTENT":
            found += yield from service.topics.names(namespace)
        return found

    def bundles(self, request: Request) -> dict[str, Any]:
        return self._policies(request).bundles.to_json()

    def allowed(self, request: Request) -> list[str]:
        return self._policies(request).allowed_clusters

    async def set_allowed(self, request: Request) -> None:
        namespace = namespace_name(request)
        policies = self._policies(request)
        wanted = await body(request, _CLUSTERS)
        clusters = list(dict.fromkeys(wanted))
        check_clusters(self._context, namespace.tenant, clusters)
        for cluster in policies.replication_clusters:
            if cluster not in clusters:
                message = f"Allowed clusters do not contain the replication cluster {cluster}. Please remove the "
                message += "replication cluster if the cluster is not allowed for this namespace"
                raise AdminError(HTTPStatus.BAD_REQUEST, message)
        await self._update(namespace, allowed_clusters=clusters)

    def replication(self, request: Request) -> list[str]:
        return self._policies(request).replication_clusters

    async def set_replication(self, request: Request) -> None:
        namespace = namespace_name(request)
        self._policies(request)
        wanted = await body(request, _CLUSTERS)
        clusters = list(dict.fromkeys(wanted))
        if not clusters:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, "ClusterIds should not be null or empty")
        check_clusters(self._context, namespace.tenant, clusters)
        allowed = self._policies(request).allowed_clusters
        for cluster in clusters:
            if allowed and cluster not in allowed:
                message = f"Cluster [{cluster}] is not in the list of allowed clusters list for namespace [{namespace}]"
                raise AdminError(HTTPStatus.FORBIDDEN, message)
        await self._update(namespace, replication_clusters=clusters)

    def _policies(self, request: Request) -> Policies:
        return self._context.policies(namespace_name(request))

    async def _update(self, namespace: NamespaceName, **fields: object) -> None:
        await self._namespaces.update(namespace, lambda policies: policies.model_copy(update=fields))


def _check_acted_on(policies: Policies) -> None:
    """Refuse unsupported policies with 501, so that no policy is stored and ignored.

    Fields that are no policy of Pulsar are accepted, as Pulsar does.
    """
    default = Policies()
    for field, value in policies:
        known = field in Policies.model_fields or field in _OTHER_POLICIES
        if known and field not in _ACTED_ON and value != getattr(default, field, None):
            raise AdminError(HTTPStatus.NOT_IMPLEMENTED, f"Magnetar does not support the namespace policy {field}")


def checked_bundles(wanted: BundlesData) -> BundlesData:
    """Return the bundles of a new namespace; refuses with 400 a wrong number of them."""
    bounds = _bounds(wanted.boundaries) if wanted.boundaries else None
    count = len(bounds) - 1 if bounds else wanted.numBundles or DEFAULT_NUMBER_OF_NAMESPACE_BUNDLES
    if not 0 < count <= NAMESPACE_BUNDLES_MAX:
        raise AdminError(
            HTTPStatus.BAD_REQUEST,
            f"Invalid number of bundles. Number of bundles has to be in the range of (0, {NAMESPACE_BUNDLES_MAX}].",
        )
    return BundlesData.between(bounds) if bounds else BundlesData.of(count)


def _bounds(boundaries: list[str]) -> list[int]:
    """Return the boundaries of bundles, sorted; refuses with 400 boundaries that do not divide all hashes."""
    try:
        bounds = sorted({int(bound, 0) for bound in boundaries})
    except ValueError:
        raise AdminError(HTTPStatus.BAD_REQUEST, "A boundary of a bundle is not a number") from None
    if len(bounds) != len(boundaries):
        raise AdminError(HTTPStatus.BAD_REQUEST, "Input bundles included repeated partition points. Ignored.")
    if (bounds[0], bounds[-1]) != (0, HASH_MAX):
        message = "Input bundles do not cover the whole hash range. "
        message += f"first:0x{bounds[0]:08x}, last:0x{bounds[-1]:08x}"
        raise AdminError(HTTPStatus.BAD_REQUEST, message)
    return bounds
