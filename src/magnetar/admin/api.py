"""The REST API as one ASGI application."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match

from magnetar.admin.access import check_request
from magnetar.admin.exchange import ROUTE, AdminRoute, Context, refusal
from magnetar.admin.handlers import (
    backlog_quotas,
    brokers,
    clusters,
    metadata_sync,
    namespaces,
    policies,
    protection,
    schemas,
    subscriptions,
    tenants,
    topics,
    unsupported,
)
from magnetar.admin.handlers.metadata_sync import IS_OFF
from magnetar.admin.handlers.operations import (
    broker_stats,
    bundles,
    cluster_routes,
    configuration,
    fences,
    isolation,
    logs,
    namespace_documents,
    namespace_operations,
    non_persistent,
    permissions,
    resource_quotas,
    topic_documents,
)
from magnetar.base.errors import AdminError, BadVersionError, MagnetarError
from magnetar.metasync.local.scope import LOCAL, SCOPE, local_changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from magnetar.admin.service import AdminService
    from magnetar.authorization.access import Access
    from magnetar.metadata.resources import Resources

NOUNS = (
    clusters,
    isolation,
    tenants,
    namespaces,
    namespace_operations,
    namespace_documents,
    bundles,
    permissions,
    topics,
    topic_documents,
    logs,
    fences,
    non_persistent,
    policies,
    backlog_quotas,
    subscriptions,
    protection,
    schemas,
    brokers,
    configuration,
    broker_stats,
    resource_quotas,
    metadata_sync,
    cluster_routes,
)
"""Modules with routes, each with a function ``routes``."""


_SHOWN_MAX = 100
"""Maximum number of characters of a header in a refusal."""


def served_routes(context: Context) -> list[AdminRoute]:
    """Return the routes of all handlers."""
    return [each for noun in NOUNS for each in noun.routes(context)]


def all_routes(context: Context) -> list[AdminRoute]:
    """Return the routes of all handlers, and of all that Apache Pulsar has beyond them."""
    served = served_routes(context)
    return [*served, *unsupported.routes(context, served)]


def build_app(service: AdminService, resources: Resources, access: Access | None = None) -> Starlette:
    """Return Pulsar's REST API for ``service`` and ``resources``. Run it on the broker's loop.

    ``access`` decides about requests; None: each client may make all of them. Every refusal is a status and
    ``{"reason": text}``, also for unknown routes and malformed requests.
    """
    context = Context(service, resources)
    app = Starlette(
        routes=[_RouteTree(all_routes(context))],
        middleware=[Middleware(_RawPath), Middleware(_Scope, service)],
        exception_handlers={
            AdminError: partial(_refused, service),
            HTTPException: _not_routed,
            ClientDisconnect: _disconnected,
            BadVersionError: _conflict,
            MagnetarError: _failed,
            Exception: _crashed,
        },
    )
    app.state.bodies = service.bodies
    app.state.access, app.state.check = access, check_request
    app.router.redirect_slashes = False
    return app


class _RouteTree(BaseRoute):
    """All routes by the parts of their paths. There are hundreds, and Starlette would try one after the other."""

    def __init__(self, routes: Iterable[AdminRoute]) -> None:
        self._root = _Node()
        for route in routes:
            node = self._root
            for part in route.path.split("/"):
                node = node.parts.setdefault("{}" if part.startswith("{") else part, _Node())
            node.routes.append(route)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return the first full match, or else the first one with other methods, as Starlette's router does."""
        best: tuple[Match, Scope] = Match.NONE, {}
        for route in self._root.candidates(scope["path"].split("/")):
            found = route.matches(scope)
            if found[0] is Match.FULL:
                return found
            if best[0] is Match.NONE:
                best = found
        return best

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that matches."""
        await scope[ROUTE].handle(scope, receive, send)


class _Node:
    """The routes that have the same parts up to here."""

    def __init__(self) -> None:
        self.parts: dict[str, _Node] = {}
        """By the next part; ``{}`` stands for a parameter."""
        self.routes: list[AdminRoute] = []

    def candidates(self, parts: Sequence[str]) -> Iterator[AdminRoute]:
        """Yield the routes of a path. A fixed part comes before a parameter in the same place."""
        if not parts:
            yield from self.routes
            return
        for part in (parts[0], "{}"):
            node = self.parts.get(part)
            if node is not None:
                yield from node.candidates(parts[1:])


class _RawPath:
    """Route on the encoded path, so that names can contain an encoded slash; handlers decode the parts."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": scope["raw_path"].decode("latin-1")}
        await self._app(scope, receive, send)


class _Scope:
    """Keep the changes of a request in this cluster if its header asks for it."""

    def __init__(self, app: ASGIApp, service: AdminService) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted = Headers(scope=scope).get(SCOPE) if scope["type"] == "http" else None
        if wanted is None:
            await self._app(scope, receive, send)
        elif wanted.lower() != LOCAL:
            text = f"{SCOPE}: {wanted[:_SHOWN_MAX]} is not a scope; the only one is {LOCAL}"
            await refusal(HTTPStatus.BAD_REQUEST, text)(scope, receive, send)
        elif self._service.metadata_sync is None:
            await refusal(HTTPStatus.PRECONDITION_FAILED, f"{SCOPE}: {IS_OFF}")(scope, receive, send)
        else:
            with local_changes():
                await self._app(scope, receive, send)


async def _refused(service: AdminService, _: Request, error: Exception) -> Response:
    assert isinstance(error, AdminError)
    if error.limit is not None:
        service.limit_hit(error.limit)
    return refusal(error.status, str(error))


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refusal(error.status_code, f"HTTP {error.status_code} {error.detail}: {request.method} {request.url.path}")


async def _disconnected(_: Request, __: Exception) -> Response:
    """Answer a request whose client has disconnected, which is not an error of the broker."""
    return refusal(HTTPStatus.BAD_REQUEST, "The request does not end")


async def _conflict(_: Request, error: Exception) -> Response:
    return refusal(HTTPStatus.CONFLICT, f"Concurrent modification: {error}")


async def _failed(_: Request, error: Exception) -> Response:
    return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))


async def _crashed(_: Request, __: Exception) -> Response:
    """Answer a request that revealed a defect of the broker; the web server logs it."""
    return refusal(
        HTTPStatus.INTERNAL_SERVER_ERROR, "The request failed because of a defect; see the log of the broker"
    )
