"""``/admin/v2/clusters``: the registered clusters."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import TypeAdapter
from starlette.responses import Response

from magnetar.admin.exchange import AdminRoute, Context, body, entity_name, route
from magnetar.admin.openapi.description import EMPTY
from magnetar.base.errors import AdminError, NotFoundError
from magnetar.base.names import is_named_entity
from magnetar.metadata.policies import ClusterData

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request

_URL_SCHEMES = {
    "serviceUrl": "http",
    "serviceUrlTls": "https",
    "brokerServiceUrl": "pulsar",
    "brokerServiceUrlTls": "pulsar+ssl",
}
_DATA: TypeAdapter[ClusterData] = TypeAdapter(ClusterData)


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for clusters."""
    handlers = _Clusters(context)
    root = "/admin/v2/clusters"
    return [
        route("GET", root, handlers.names, gives=list[str]),
        route("GET", f"{root}/{{cluster}}", handlers.get, gives=ClusterData),
        route("PUT", f"{root}/{{cluster}}", handlers.create, takes=_DATA, gives=EMPTY),
        route("POST", f"{root}/{{cluster}}", handlers.update, takes=_DATA, gives=EMPTY),
        route("DELETE", f"{root}/{{cluster}}", handlers.delete),
    ]


class _Clusters:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._clusters = context.resources.clusters
        self._tenants = context.resources.tenants
        self._namespaces = context.resources.namespaces

    def names(self, _: Request) -> list[str]:
        return self._clusters.names()

    def get(self, request: Request) -> dict[str, Any]:
        return self._get(entity_name(request, "cluster")).to_json()

    async def create(self, request: Request) -> Response:
        name = entity_name(request, "cluster")
        data = _checked(await body(request, _DATA))
        if self._clusters.exists(name):
            raise AdminError(HTTPStatus.CONFLICT, "Cluster already exists")
        self._context.check_new_name("cluster", name)
        await self._clusters.create(name, data)
        return Response()

    async def update(self, request: Request) -> Response:
        data = _checked(await body(request, _DATA))
        try:
            await self._clusters.update(entity_name(request, "cluster"), lambda _: data)
        except NotFoundError:
            raise _does_not_exist() from None
        return Response()

    async def delete(self, request: Request) -> None:
        name = entity_name(request, "cluster")
        self._get(name)
        service, following = self._context.service, None
        if service.metadata_sync is not None and name != service.cluster_name:
            following = service.metadata_sync.namespace  # it leaves the cluster when the record is deleted
        for tenant in self._tenants.names():
            for namespace in self._namespaces.of_tenant(tenant):
                policies = self._namespaces.get(namespace)
                if policies is not None and name in policies.replication_clusters and namespace != following:
                    raise AdminError(HTTPStatus.PRECONDITION_FAILED, f"Cluster not empty: {namespace} replicates to it")
        await self._clusters.delete(name)

    def _get(self, name: str) -> ClusterData:
        found = self._clusters.get(name)
        if found is None:
            raise _does_not_exist()
        return found


def _does_not_exist() -> AdminError:
    return AdminError(HTTPStatus.NOT_FOUND, "Cluster does not exist")


def _checked(data: ClusterData) -> ClusterData:
    """Refuse with 400 an invalid URL, one with the wrong scheme for its field, and TLS that brokers do not support."""
    if data.brokerClientTlsEnabledWithKeyStore:
        message = "brokerClientTlsEnabledWithKeyStore: key stores of Java are not supported; name PEM files"
        raise AdminError(HTTPStatus.BAD_REQUEST, message)
    if bool(data.brokerClientCertificateFilePath) != bool(data.brokerClientKeyFilePath):
        message = "brokerClientCertificateFilePath and brokerClientKeyFilePath must be given together"
        raise AdminError(HTTPStatus.BAD_REQUEST, message)
    for field, scheme in _URL_SCHEMES.items():
        url = getattr(data, field)
        if url is None or url == "":
            continue
        if not _is_url(url, scheme):
            raise AdminError(HTTPStatus.BAD_REQUEST, f"Illegal {field} {url}: expected {scheme}://host:port")
    return data


def check_clusters(context: Context, tenant: str, clusters: Iterable[str]) -> None:
    """Refuse with 403 clusters of a namespace or a topic that do not exist, or that its tenant does not allow."""
    allowed = context.tenant(tenant).allowedClusters
    for cluster in clusters:
        if not is_named_entity(cluster) or not context.resources.clusters.exists(cluster):
            raise AdminError(HTTPStatus.FORBIDDEN, f"Invalid cluster id: {cluster}")
        if cluster not in allowed:
            raise AdminError(
                HTTPStatus.FORBIDDEN,
                f"Cluster [{cluster}] is not in the list of allowed clusters list for tenant [{tenant}]",
            )


def _is_url(url: str, scheme: str) -> bool:
    """Return whether ``url`` is ``scheme://host:port``, with one host or several separated by commas."""
    found, separator, authorities = url.partition("://")
    try:
        hosts = [urlsplit(f"//{authority}").hostname for authority in authorities.split(",")]
    except ValueError:
        return False
    return bool(separator) and found == scheme and all(hosts)
