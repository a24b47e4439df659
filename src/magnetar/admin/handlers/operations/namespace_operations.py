"""``/admin/v2/namespaces``: operations on all topics of a namespace, or of one of its bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.exchange import (
    AdminRoute,
    Context,
    namespace_name,
    path_text,
    route,
    text_answer,
    unless_deleted,
)
from magnetar.admin.models.bundles import Bundle, bundle_of
from magnetar.admin.openapi.description import TEXT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.responses import Response

    from magnetar.base.names import TopicName


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for the topics of namespaces."""
    handlers = _Operations(context)
    one = "/admin/v2/namespaces/{tenant}/{namespace}"
    found = [
        route("GET", "/lookup/v2/topic/persistent/{tenant}/{namespace}/{topic}/bundle", handlers.bundle, gives=TEXT)
    ]
    for owner in (one, f"{one}/{{bundle}}"):
        found += [
            route("PUT", f"{owner}/unload", handlers.unload),
            route("POST", f"{owner}/clearBacklog", handlers.clear_backlog),
            route("POST", f"{owner}/clearBacklog/{{subscription}}", handlers.clear_backlog),
            route("POST", f"{owner}/unsubscribe/{{subscription}}", handlers.unsubscribe),
        ]
    return found


class _Operations:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._service = context.service

    def bundle(self, request: Request) -> Response:
        topic = self._context.topic(request)
        return text_answer(str(bundle_of(topic, self._context.policies(topic.namespace_name).bundles)))

    async def unload(self, request: Request) -> None:
        async for topic in self._topics(request):
            if self._service.topics.is_loaded(topic):
                await self._service.topics.unload(topic)
        bundle = self._bundle(request)
        for topic in tuple(self._service.non_persistent.each(namespace_name(request))):
            if bundle is None or bundle.contains(topic):
                await self._service.non_persistent.unload(topic)

    def _bundle(self, request: Request) -> Bundle | None:
        """Return the bundle in the path, if there is one."""
        namespace = namespace_name(request)
        bundles = self._context.policies(namespace).bundles
        return (
            Bundle.parse(path_text(request, "bundle"), namespace, bundles) if "bundle" in request.path_params else None
        )

    async def clear_backlog(self, request: Request) -> None:
        only = path_text(request, "subscription") if "subscription" in request.path_params else None
        async for topic in self._topics(request):
            for name in await self._names(topic):
                if only is None or name == only:
                    with unless_deleted():
                        await self._service.subscriptions.skip_all(topic, name)

    async def unsubscribe(self, request: Request) -> None:
        name = path_text(request, "subscription")
        async for topic in self._topics(request):
            if name in await self._names(topic):
                with unless_deleted():
                    await self._service.subscriptions.delete(topic, name, force=False)

    async def _names(self, topic: TopicName) -> list[str]:
        """Return the subscriptions of a topic, none if it was deleted meanwhile."""
        with unless_deleted():
            return await self._service.subscriptions.names(topic)
        return []

    async def _topics(self, request: Request) -> AsyncIterator[TopicName]:
        """Yield the existing topics of the namespace, or of the bundle if the path names one."""
        bundle = self._bundle(request)
        async for topic in self._context.in_turn(tuple(self._service.topics.each(namespace_name(request)))):
            if (bundle is None or bundle.contains(topic)) and self._service.topics.partitions_of(topic) is not None:
                yield topic
