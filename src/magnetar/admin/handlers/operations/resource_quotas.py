"""``/admin/v2/resource-quotas``: expected loads of bundles, which are stored only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from magnetar.admin.exchange import AdminRoute, Context, body, namespace_name, path_text, route
from magnetar.admin.models.bundles import Bundle
from magnetar.metadata.stored.operations import ResourceQuota

if TYPE_CHECKING:
    from starlette.requests import Request

    from magnetar.base.names import NamespaceName

_QUOTA: TypeAdapter[ResourceQuota] = TypeAdapter(ResourceQuota)


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for resource quotas."""
    handlers = _Quotas(context)
    root = "/admin/v2/resource-quotas"
    one = f"{root}/{{tenant}}/{{namespace}}/{{bundle}}"
    return [
        route("GET", root, handlers.default, is_without_effect=True, gives=ResourceQuota),
        route("POST", root, handlers.set_default, is_without_effect=True, takes=_QUOTA),
        route("GET", one, handlers.get, is_without_effect=True, gives=ResourceQuota),
        route("POST", one, handlers.set, is_without_effect=True, takes=_QUOTA),
        route("DELETE", one, handlers.delete, is_without_effect=True),
    ]


class _Quotas:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._quotas = context.resources.resource_quotas

    def default(self, _: Request) -> dict[str, Any]:
        return (self._quotas.get(None) or ResourceQuota()).to_json()

    async def set_default(self, request: Request) -> None:
        await self._quotas.put(None, await body(request, _QUOTA))

    def get(self, request: Request) -> dict[str, Any]:
        found = self._quotas.get(self._bundle(request))
        return self.default(request) if found is None else found.to_json()

    async def set(self, request: Request) -> None:
        key = self._bundle(request)
        await self._quotas.put(key, await body(request, _QUOTA))

    async def delete(self, request: Request) -> None:
        key = self._bundle(request)
        if self._quotas.exists(key):
            await self._quotas.delete(key)

    def _bundle(self, request: Request) -> tuple[NamespaceName, str]:
        """Return the namespace and the bundle in a path; refuses with 412 a bundle that the namespace does not have."""
        namespace = namespace_name(request)
        bundles = self._context.policies(namespace).bundles
        return namespace, str(Bundle.parse(path_text(request, "bundle"), namespace, bundles))
