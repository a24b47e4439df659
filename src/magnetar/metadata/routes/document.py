"""The documents of routes, and their paths in a metadata store. Pure."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote_plus, unquote_plus

from pydantic import field_validator

from magnetar.base.names import TopicName
from magnetar.metadata.policy.document import Document
from magnetar.metadata.routes.table import Route

ROUTES: Final = "/magnetar/routes"
"""Root of the routes; not part of Pulsar's tree."""


class StoredRoute(Document):
    """The document of a route. The cluster and the epoch are one field, so that they change and merge together."""

    route: dict[str, Any]

    @field_validator("route")
    @classmethod
    def _is_a_route(cls, value: dict[str, Any]) -> dict[str, Any]:
        return Route.from_json(value).to_json()

    @classmethod
    def of(cls, route: Route) -> StoredRoute:
        """Return the document of a route."""
        return cls(route=route.to_json())

    @property
    def value(self) -> Route:
        """The route."""
        return Route.from_json(self.route)


def route_path(scope: str) -> str:
    """Return the path of the route of a scope."""
    if "://" not in scope:
        return f"{ROUTES}/{scope}"
    topic = TopicName.parse(scope)
    return f"{ROUTES}/{topic.namespace_name}/{topic.domain}/{quote_plus(topic.local_name)}"


def scope_at(path: str) -> str:
    """Return the scope whose route is at a path."""
    match path.removeprefix(f"{ROUTES}/").split("/"):
        case [tenant, namespace, domain, topic]:
            return f"{domain}://{tenant}/{namespace}/{unquote_plus(topic)}"
        case parts:
            return "/".join(parts)
