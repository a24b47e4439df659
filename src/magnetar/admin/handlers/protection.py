"""Magnetar's own: the protection of subscriptions of a topic or a namespace against the loss of this cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.exchange import AdminRoute, Context, large_answer, namespace_name, route
from magnetar.admin.models.protection import SubscriptionProtection
from magnetar.admin.service import topic_not_found

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request
    from starlette.responses import Response

    from magnetar.base.names import TopicName


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for the protection of subscriptions."""
    handlers = _Protection(context)
    return [
        route(
            "GET",
            "/admin/v2/namespaces/{tenant}/{namespace}/subscriptionProtection",
            handlers.of_namespace,
            gives=dict[str, dict[str, SubscriptionProtection]],
        ),
        route(
            "GET",
            "/admin/v2/persistent/{tenant}/{namespace}/{topic}/subscriptionProtection",
            handlers.of_topic,
            gives=dict[str, dict[str, SubscriptionProtection]],
        ),
    ]


class _Protection:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._service = context.service

    @large_answer
    async def of_namespace(self, request: Request) -> Response:
        namespace = namespace_name(request)
        self._context.check_lives_here(namespace)
        return await self._of(self._service.topics.each(namespace))

    @large_answer
    async def of_topic(self, request: Request) -> Response:
        topic = self._context.topic(request)
        if self._service.topics.partitions_of(topic) is None:
            raise topic_not_found(topic)
        return await self._of(self._context.parts(topic))

    async def _of(self, topics: Iterable[TopicName]) -> Response:
        """Return the protection by topic and subscription."""
        found = {
            str(topic): await self._service.topics.protection(topic) async for topic in self._context.in_turn(topics)
        }
        return await self._context.answer(found)
