"""Lookup of the topics and subscriptions in admin requests, with Pulsar's refusals."""

from __future__ import annotations

from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.admin.service import subscription_not_found, topic_not_found
from magnetar.base.errors import AdminError, RequestError, ServerError, TopicLoadError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.base.names import TopicName
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.registry import TopicRegistry
    from magnetar.broker.topic.topic import Topic


class Finder:
    """Finds the topics and subscriptions in requests, and loads topics. Raises AdminError."""

    def __init__(self, topics: TopicRegistry) -> None:
        """Search ``topics``."""
        self._topics = topics

    async def topic(self, name: TopicName) -> Topic:
        """Return the topic with this name."""
        with refusals(name):
            await self._topics.ready(name)
            return self._topics.get(name)

    async def changeable(self, name: TopicName) -> Topic:
        """Return the topic like ``topic``; refuses with 412 while a migration has fenced it."""
        found = await self.topic(name)
        with refusals(name):
            found.log.migration_fence.check_change()
        return found

    async def topic_or_new(self, name: TopicName) -> Topic:
        """Return the topic with this name; create it if it does not exist."""
        with refusals(name):
            await self._topics.ready(name)
            return self._topics.get_or_create(name)

    async def subscription(self, name: TopicName, subscription: str, *, to_change: bool = False) -> Subscription:
        """Return a subscription of a topic; ``to_change``: see ``changeable``."""
        topic = await (self.changeable(name) if to_change else self.topic(name))
        found = topic.subscriptions.get(subscription)
        if found is None:
            raise subscription_not_found(name, subscription)
        return found


@contextmanager
def refusals(name: TopicName, but: type[RequestError] | tuple[()] = ()) -> Iterator[None]:
    """Convert the refusal of a client to that of an admin request, except errors of the type ``but``."""
    try:
        yield
    except but:
        raise
    except RequestError as error:
        raise _as_admin_error(name, error) from None


def _as_admin_error(name: TopicName, error: RequestError) -> AdminError:
    if isinstance(error, TopicLoadError):
        return AdminError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
    if error.code is ServerError.TopicNotFound:
        return topic_not_found(name)
    if error.code is ServerError.ServiceNotReady:
        return AdminError(HTTPStatus.SERVICE_UNAVAILABLE, str(error), error.limit)
    return AdminError(HTTPStatus.PRECONDITION_FAILED, str(error), error.limit)
