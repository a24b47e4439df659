"""Checks of requests: refusal of what their role may not do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.exchange import entity_name, namespace_name, path_text, topic_name
from magnetar.admin.identity import note_denial, principal_of
from magnetar.authorization.needs import Resource
from magnetar.authorization.routes import need_of
from magnetar.base.errors import AdminError
from magnetar.base.names import NON_PERSISTENT, PERSISTENT

if TYPE_CHECKING:
    from starlette.requests import Request

    from magnetar.admin.exchange import AdminRoute
    from magnetar.authorization.access import Access
    from magnetar.authorization.needs import Need


def check_request(request: Request, route: AdminRoute) -> None:
    """Refuse a request that the role may not make (`magnetar.authorization.routes`), or with an invalid name."""
    if request.app.state.access is not None:
        check_permission(request, need_of(request.method, route.path), _resource(request, route))


def check_permission(request: Request, need: Need, resource: Resource) -> None:
    """Refuse with Pulsar's status and text what the role of a request may not do."""
    access: Access | None = request.app.state.access
    if access is None:
        return
    client = request.client
    address = "" if client is None else f"/{client.host}:{client.port}"
    refused = access.refusal(need, resource, principal_of(request.scope), address)
    if refused is not None:
        note_denial(request.scope)
        raise AdminError(refused.status, refused.reason)


def _resource(request: Request, route: AdminRoute) -> Resource:
    """Return what the path of a request names; refuses invalid names with 412.

    The domain is that of the route: in the path, it may also be the name of a tenant, a namespace or a topic.
    """
    names = request.path_params
    if "topic" in names and "namespace" in names:
        domain = NON_PERSISTENT if f"/{NON_PERSISTENT}/" in route.path else PERSISTENT
        subscription = path_text(request, "subscription") if "subscription" in names else ""
        return Resource.of_topic(topic_name(request, domain), subscription)
    if "tenant" in names and "namespace" in names:
        return Resource.of_namespace(namespace_name(request))
    return Resource(entity_name(request, "tenant") if "tenant" in names else "")
