"""``/admin/v2/tenants``: tenants, their clusters and their roles."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from magnetar.admin.exchange import AdminRoute, Context, body, entity_name, flag, route
from magnetar.admin.handlers.last_edits import remove_last_edit, with_last_edit
from magnetar.base.errors import AdminError
from magnetar.metadata.policies import TenantInfo
from magnetar.metasync.units import ResourceType

if TYPE_CHECKING:
    from starlette.requests import Request
_INFO: TypeAdapter[TenantInfo | None] = TypeAdapter(TenantInfo | None)


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for tenants."""
    handlers = _Tenants(context)
    root = "/admin/v2/tenants"
    return [
        route("GET", root, handlers.names, gives=list[str]),
        route("GET", f"{root}/{{tenant}}", handlers.get, gives=TenantInfo),
        route("PUT", f"{root}/{{tenant}}", handlers.create, takes=_INFO),
        route("POST", f"{root}/{{tenant}}", handlers.update, takes=_INFO),
        route("DELETE", f"{root}/{{tenant}}", handlers.delete, query=["force"], refuses=[405]),
    ]


class _Tenants:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._tenants = context.resources.tenants
        self._namespaces = context.resources.namespaces

    def names(self, _: Request) -> list[str]:
        return self._tenants.names()

    def get(self, request: Request) -> dict[str, Any]:
        name = entity_name(request, "tenant")
        return with_last_edit(self._context, ResourceType.TENANTS, name, self._context.tenant(name).to_json())

    async def create(self, request: Request) -> None:
        name = entity_name(request, "tenant")
        info = await self._info(request)
        if self._tenants.exists(name):
            raise AdminError(HTTPStatus.CONFLICT, "Tenant already exist")
        self._context.check_new_name("tenant", name)
        await self._tenants.create(name, info)

    async def update(self, request: Request) -> None:
        name = entity_name(request, "tenant")
        info = await self._info(request)
        if not self._tenants.exists(name):
            raise AdminError(HTTPStatus.NOT_FOUND, f"Tenant {name} not found")
        removed = set(self._context.tenant(name).allowedClusters) - set(info.allowedClusters)
        in_use = [
            str(namespace)
            for namespace in self._namespaces.of_tenant(name)
            if removed.intersection(self._context.policies(namespace).replication_clusters)
        ]
        if in_use:
            raise AdminError(HTTPStatus.CONFLICT, f"Active namespaces use the removed clusters: {', '.join(in_use)}")
        await self._tenants.update(name, lambda old: _with_unknown(info, old))

    async def delete(self, request: Request) -> None:
        name = entity_name(request, "tenant")
        if flag(request, "force"):
            raise AdminError(HTTPStatus.METHOD_NOT_ALLOWED, "Broker doesn't allow forced deletion of tenants")
        if not self._tenants.exists(name):
            raise AdminError(HTTPStatus.NOT_FOUND, "Tenant doesn't exist")
        if self._namespaces.of_tenant(name):
            raise AdminError(HTTPStatus.CONFLICT, "The tenant still has active namespaces")
        await self._tenants.delete(name)

    async def _info(self, request: Request) -> TenantInfo:
        info = await body(request, _INFO)
        if info is None:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, "TenantInfo is null")
        if not info.allowedClusters or not all(map(str.strip, info.allowedClusters)):
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, "Clusters can not be empty")
        if not all(map(self._context.resources.clusters.exists, info.allowedClusters)):
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, "Clusters do not exist")
        remove_last_edit(info)
        return info


def _with_unknown(info: TenantInfo, old: TenantInfo) -> TenantInfo:
    """Return a tenant with the fields of the old one that this version does not know, as other clusters may."""
    return info.model_copy(update={**(old.model_extra or {}), **(info.model_extra or {})})
