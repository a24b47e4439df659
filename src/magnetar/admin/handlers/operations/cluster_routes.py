"""Magnetar's own: the clusters that serve the clients of tenants, namespaces and topics."""

from __future__ import annotations

from http import HTTPStatus
from time import time
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from magnetar.admin.exchange import AdminRoute, Context, body, flag, number, path_text, query_text, route
from magnetar.base.errors import AdminError, InvalidTopicNameError
from magnetar.base.limits import ROUTES_MAX, Limit
from magnetar.metadata.policy.document import Document, Long
from magnetar.metadata.routes.atlas import Atlas, RouteOfScope
from magnetar.metadata.routes.document import StoredRoute
from magnetar.metadata.routes.followed import FollowedRoutes
from magnetar.metadata.routes.scope import parse_scope
from magnetar.metadata.routes.table import Route, next_epoch
from magnetar.metasync.local.scope import is_local

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from magnetar.metadata.routes.table import RouteTable

WAIT_MS_MAX = 60_000
"""Maximum milliseconds for which a request waits for a change."""


class NewRoute(Document):
    """A route to be set."""

    cluster: str
    epoch: Long | None = None
    """If given, the change is refused with 409 unless this is the epoch of the route, present or deleted; 0: none."""


_NEW: TypeAdapter[NewRoute] = TypeAdapter(NewRoute)


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for routes."""
    handlers = _Routes(context)
    root = "/admin/v2/magnetar/routes"
    refused = [HTTPStatus.PRECONDITION_FAILED]
    return [
        route("GET", root, handlers.all, gives=list[RouteOfScope]),
        route("GET", f"{root}/{{scope}}", handlers.get, query=["deleted"], gives=RouteOfScope, refuses=[404, *refused]),
        route("PUT", f"{root}/{{scope}}", handlers.set, takes=_NEW, gives=RouteOfScope, refuses=[409, *refused]),
        route("DELETE", f"{root}/{{scope}}", handlers.delete, query=["epoch"], refuses=[404, 409, *refused]),
        route("GET", "/admin/v2/magnetar/atlas", handlers.atlas, query=["version", "waitMs"], gives=Atlas),
    ]


class _Routes:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._routes = context.resources.routes
        self._followed: FollowedRoutes | None = None

    def all(self, _: Request) -> list[dict[str, Any]]:
        found = self._table.all().items()
        return [_shown(scope, each) for scope, each in found if each.cluster is not None]

    def get(self, request: Request) -> dict[str, Any]:
        scope = _scope(request)
        found = self._table.get(scope) if flag(request, "deleted") else None
        return _shown(scope, found or self._present(scope))

    async def set(self, request: Request) -> dict[str, Any]:
        scope, new = _scope(request), await body(request, _NEW)
        here = self._context.service.cluster_name
        if new.cluster != here and not self._context.resources.clusters.exists(new.cluster):
            text = f"Cluster {new.cluster:.100} is not registered in {here}: clients could not be sent there"
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, text)
        if self._table.get(scope) is None and len(self._table.all()) >= ROUTES_MAX:
            text = f"There are {ROUTES_MAX} routes, with the deleted ones ({Limit.ROUTES})"
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, text, Limit.ROUTES)
        return _shown(scope, await self._change(scope, new.cluster, new.epoch))

    async def delete(self, request: Request) -> None:
        scope, expected = _scope(request), number(request, "epoch")
        self._present(scope)
        await self._change(scope, None, expected)

    async def atlas(self, request: Request) -> Response:
        followed = self._follow()
        wait_ms = number(request, "waitMs") or 0
        await followed.changed(query_text(request, "version") or "", min(max(wait_ms, 0), WAIT_MS_MAX) / 1000)
        async with self._context.large_answers:
            return await self._context.answer(followed.atlas().to_json())

    def _present(self, scope: str) -> Route:
        found = self._table.get(scope)
        if found is None or found.cluster is None:
            raise AdminError(HTTPStatus.NOT_FOUND, f"There is no route for {scope}")
        return found

    async def _change(self, scope: str, cluster: str | None, expected: int | None) -> Route:
        if is_local():
            text = "A route is the same in all clusters: change it without Magnetar-Scope: local"
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, text)
        known = self._table.get(scope)
        # The epoch of a deleted route counts: a delayed creation must not have an effect after a deletion.
        epoch = 0 if known is None else known.epoch
        if expected is not None and expected != epoch:
            state = "was deleted with" if known is not None and known.cluster is None else "has"
            text = f"The route for {scope} {state} epoch {epoch}, not {expected}: it was changed meanwhile"
            raise AdminError(HTTPStatus.CONFLICT, text)
        changed = Route(cluster, next_epoch(known, int(time() * 1000)))
        await self._routes.put(scope, StoredRoute.of(changed))
        return changed

    @property
    def _table(self) -> RouteTable:
        return self._follow().table

    def _follow(self) -> FollowedRoutes:
        if self._followed is None:
            self._followed = FollowedRoutes(self._context.resources, self._context.service.cluster_name)
        return self._followed


def _scope(request: Request) -> str:
    try:
        return parse_scope(path_text(request, "scope"))
    except InvalidTopicNameError as error:
        raise AdminError(HTTPStatus.PRECONDITION_FAILED, str(error)) from None


def _shown(scope: str, found: Route) -> dict[str, Any]:
    return {"scope": scope, **found.to_json()}
