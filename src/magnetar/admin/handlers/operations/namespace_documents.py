"""``/admin/v2/namespaces``: properties and groups of namespaces. Nothing in the broker depends on them."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Never

from pydantic import TypeAdapter

from magnetar.admin.exchange import (
    AdminRoute,
    Context,
    body,
    entity_name,
    namespace_name,
    path_text,
    route,
    text_answer,
    text_body,
)
from magnetar.admin.openapi.description import OPTIONAL_TEXT, TEXT
from magnetar.base.errors import AdminError
from magnetar.metadata.policies import LocalPolicies
from magnetar.metadata.policy.values import BookieAffinityGroup

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_PROPERTIES: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])
_AFFINITY: TypeAdapter[BookieAffinityGroup] = TypeAdapter(BookieAffinityGroup)

_OF_GROUP = "/admin/namespaces/{cluster}/antiAffinity/{group}"
"""The path that Pulsar's clients use."""


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for the documents of namespaces."""
    handlers = _Documents(context)
    root = "/admin/v2/namespaces"
    one = f"{root}/{{tenant}}/{{namespace}}"
    affinity, anti_affinity = f"{one}/persistence/bookieAffinity", f"{one}/antiAffinity"
    return [
        route("GET", f"{one}/properties", handlers.properties, gives=dict[str, str]),
        route("PUT", f"{one}/properties", handlers.add_properties, takes=_PROPERTIES),
        route("DELETE", f"{one}/properties", handlers.clear_properties),
        route("GET", f"{one}/property/{{key}}", handlers.property_of, gives=OPTIONAL_TEXT),
        route("PUT", f"{one}/property/{{key}}/{{value}}", handlers.set_property),
        route("DELETE", f"{one}/property/{{key}}", handlers.remove_property, gives=OPTIONAL_TEXT),
        route("GET", anti_affinity, handlers.anti_affinity, gives=OPTIONAL_TEXT),
        route("POST", anti_affinity, handlers.set_anti_affinity, is_without_effect=True, takes=TEXT),
        route("DELETE", anti_affinity, handlers.remove_anti_affinity, is_without_effect=True),
        route("GET", f"{root}/{{cluster}}/antiAffinity/{{group}}", handlers.of_group, gives=list[str]),
        route("GET", _OF_GROUP, handlers.of_group, gives=list[str]),
        route("GET", f"{one}/resourcegroup", handlers.resource_group),
        route("POST", f"{one}/resourcegroup/{{resourcegroup}}", handlers.set_resource_group, gives=Never),
        route("DELETE", f"{one}/resourcegroup", handlers.resource_group),
        route("GET", affinity, handlers.bookie_affinity, gives=BookieAffinityGroup | None),
        route("POST", affinity, handlers.set_bookie_affinity, is_without_effect=True, takes=_AFFINITY),
        route("DELETE", affinity, handlers.remove_bookie_affinity, is_without_effect=True),
    ]


class _Documents:
    def __init__(self, context: Context) -> None:
        self._context = context

    # -- properties ---------------------------------------------------------------------------------------------

    def properties(self, request: Request) -> dict[str, str]:
        return self._context.policies(namespace_name(request)).properties

    async def add_properties(self, request: Request) -> None:
        added = await body(request, _PROPERTIES)
        await self._store(request, self.properties(request) | added)

    async def clear_properties(self, request: Request) -> None:
        self.properties(request)
        await self._store(request, {})

    def property_of(self, request: Request) -> Response | None:
        value = self.properties(request).get(path_text(request, "key"))
        return None if value is None else text_answer(value)

    async def set_property(self, request: Request) -> None:
        known = self.properties(request)
        await self._store(request, known | {path_text(request, "key"): path_text(request, "value")})

    async def remove_property(self, request: Request) -> Response | None:
        known = dict(self.properties(request))
        value = known.pop(path_text(request, "key"), None)
        await self._store(request, known)
        return None if value is None else text_answer(value)

    async def _store(self, request: Request, properties: dict[str, str]) -> None:
        namespaces, changed = self._context.resources.namespaces, {"properties": properties}
        await namespaces.update(namespace_name(request), lambda policies: policies.model_copy(update=changed))

    # -- groups -------------------------------------------------------------------------------------------------

    def anti_affinity(self, request: Request) -> Response | None:
        group = self._local(request).namespaceAntiAffinityGroup
        return None if group is None else text_answer(group)

    async def set_anti_affinity(self, request: Request) -> None:
        self._local(request)
        group = await text_body(request)
        if not group.strip():
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, "antiAffinityGroup can't be empty")
        await self._store_local(request, namespaceAntiAffinityGroup=group)

    async def remove_anti_affinity(self, request: Request) -> None:
        self._local(request)
        await self._store_local(request, namespaceAntiAffinityGroup=None)

    def of_group(self, request: Request) -> list[str]:
        """Return the namespaces of a group."""
        cluster, group = entity_name(request, "cluster"), path_text(request, "group")
        resources = self._context.resources
        if not resources.clusters.exists(cluster):
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, f"Cluster {cluster} does not exist.")
        found = []
        for tenant in resources.tenants.names():
            for namespace in resources.namespaces.of_tenant(tenant):
                local = resources.local_policies.get(namespace)
                if local is not None and local.namespaceAntiAffinityGroup == group:
                    found.append(str(namespace))
        return found

    def resource_group(self, request: Request) -> None:
        """Return no group, or remove it: there are no resource groups."""
        self._context.policies(namespace_name(request))

    def set_resource_group(self, request: Request) -> None:
        """Refuse any group with 412."""
        self._context.policies(namespace_name(request))
        raise AdminError(HTTPStatus.PRECONDITION_FAILED, "ResourceGroup does not exist")

    def bookie_affinity(self, request: Request) -> dict[str, Any] | None:
        group = self._local(request).bookieAffinityGroup
        return None if group is None else group.to_json()

    async def set_bookie_affinity(self, request: Request) -> None:
        self._local(request)
        group = await body(request, _AFFINITY)
        await self._store_local(request, bookieAffinityGroup=group)

    async def remove_bookie_affinity(self, request: Request) -> None:
        self._local(request)
        await self._store_local(request, bookieAffinityGroup=None)

    def _local(self, request: Request) -> LocalPolicies:
        namespace = namespace_name(request)
        self._context.policies(namespace)
        return self._context.resources.local_policies.get(namespace) or LocalPolicies()

    async def _store_local(self, request: Request, **fields: object) -> None:
        await self._context.resources.local_policies.change(namespace_name(request), **fields)
