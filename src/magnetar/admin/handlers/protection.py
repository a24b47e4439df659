"""Ours: how well off subscriptions are towards the other clusters, of a topic or of a whole namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.admin.exchange import Context, namespace_name, route
from magnetar.admin.service import topic_not_found

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request
    from starlette.routing import Route

    from magnetar.base.names import TopicName


def routes(context: Context) -> list[Route]:
    """Answer for the protection of subscriptions."""
    handlers = _Protection(context)
    return [
        route("GET", "/admin/v2/namespaces/{tenant}/{namespace}/subscriptionProtection", handlers.of_namespace),
        route("GET", "/admin/v2/persistent/{tenant}/{namespace}/{topic}/subscriptionProtection", handlers.of_topic),
    ]


class _Protection:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._service = context.service

    async def of_namespace(self, request: Request) -> dict[str, Any]:
        namespace = namespace_name(request)
        self._context.check_lives_here(namespace)
        return await self._of(self._service.list_topics(namespace))

    async def of_topic(self, request: Request) -> dict[str, Any]:
        topic = self._context.topic(request)
        if self._service.partitions_of(topic) is None:
            raise topic_not_found(topic)
        return await self._of(self._context.parts(topic))

    async def _of(self, topics: Iterable[TopicName]) -> dict[str, Any]:
        """By topic, and in it by subscription."""
        return {
            str(topic): {name: each.to_json() for name, each in (await self._service.protection(topic)).items()}
            async for topic in self._context.in_turn(topics)
        }
