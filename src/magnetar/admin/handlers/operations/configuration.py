"""``/admin/v2/brokers``: settings that change at run time, and owned namespaces."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from magnetar.admin.exchange import AdminRoute, Context, path_text, route
from magnetar.admin.models.bundles import all_bundles
from magnetar.base.errors import AdminError

if TYPE_CHECKING:
    from starlette.requests import Request

_OWNED = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for dynamic settings."""
    handlers = _Configuration(context)
    root = "/admin/v2/brokers"
    return [
        route("GET", f"{root}/configuration", handlers.names, gives=list[str]),
        route("GET", f"{root}/configuration/values", handlers.values, gives=dict[str, str]),
        route("POST", f"{root}/configuration/{{name}}/{{value}}", handlers.set, refuses=[412]),
        route("DELETE", f"{root}/configuration/{{name}}", handlers.remove, refuses=[412]),
        route("GET", f"{root}/internal-configuration", handlers.internal, gives=dict[str, str]),
        route("GET", f"{root}/{{cluster}}/{{broker}}/ownedNamespaces", handlers.owned, gives=dict[str, dict[str, Any]]),
    ]


class _Configuration:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._service = context.service

    def names(self, _: Request) -> list[str]:
        return sorted(self._service.dynamic.names)

    def values(self, _: Request) -> dict[str, str]:
        return dict(self._service.dynamic.values())

    async def set(self, request: Request) -> None:
        await self._service.dynamic.set(path_text(request, "name"), path_text(request, "value"))

    async def remove(self, request: Request) -> None:
        await self._service.dynamic.remove(path_text(request, "name"))

    def internal(self, _: Request) -> dict[str, str]:
        url = f"local:{self._service.runtime_configuration().get('dataDirectory', '')}"
        former = {"zookeeperServers": url, "configurationStoreServers": url}
        return former | {
            "metadataStoreUrl": url,
            "configurationMetadataStoreUrl": url,
            "ledgersRootPath": "/managed-ledgers",
        }

    def owned(self, request: Request) -> dict[str, Any]:
        broker = path_text(request, "broker")
        if broker != self._service.admin_url.partition("://")[2]:
            raise AdminError(HTTPStatus.NOT_FOUND, f"Broker id '{broker}' not found in available brokers.")
        found: dict[str, Any] = {}
        resources = self._context.resources
        for tenant in resources.tenants.names():
            for namespace in resources.namespaces.of_tenant(tenant):
                policies = resources.namespaces.get(namespace)
                if policies is not None and self._service.cluster_name in policies.replication_clusters:
                    found |= {f"{namespace}/{bundle}": _OWNED for bundle in all_bundles(policies.bundles)}
        return found
