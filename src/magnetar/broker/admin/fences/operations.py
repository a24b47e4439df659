"""Operations on the migration fences of topics."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, cast

from magnetar.base.errors import AdminError, TopicLoadError
from magnetar.broker.admin.fences.report import fenced_topic_steps
from magnetar.broker.admin.finding import Finder, refusals
from magnetar.broker.environment import settle
from magnetar.broker.migration_fence.fence import FenceRefusedError
from magnetar.broker.migration_fence.stored_fence import remove_stored_fence
from magnetar.broker.migration_fence.transitions import Fence, Phase

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Iterator

    from magnetar.admin.fence_service import WantedFence
    from magnetar.admin.models.acknowledgements import FencedTopic
    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.registry import TopicRegistry
    from magnetar.broker.topic.topic import Topic


class FenceOperations:
    """See ``magnetar.admin.fence_service.FenceOperations``."""

    def __init__(self, environment: Environment, topics: TopicRegistry) -> None:
        """Operate on ``topics``."""
        self._environment = environment
        self._topics = topics
        self._found = Finder(topics)

    async def get(self, topic: TopicName, *, digests: bool) -> FencedTopic:
        """Return the fence, and the state that a migration waits for."""
        found = await self._found.topic(topic)
        return await self._environment.slices.run(fenced_topic_steps(found, digests=digests))

    async def set(self, topic: TopicName, wanted: WantedFence, *, digests: bool) -> FencedTopic:
        """Set the fence or its next phase, and return the state of the topic when that is done."""
        found = await self._found.topic(topic)
        fence = Fence(migration=wanted.migration, epoch=wanted.epoch, phase=Phase(wanted.phase), lease_s=wanted.lease_s)
        stored: Future[None] = self._environment.loop.create_future()
        with _conflicts():
            found.log.migration_fence.set(fence, partial(settle, stored))
        if _has_producers(found):
            found.producers.dismiss(also_waiting=True)
        leaving = _disconnect(found, fence.phase)
        await stored
        await self._receipts_written(found)
        for subscription in leaving:
            await subscription.flushes.durable()
        await found.departures.over()
        if self._topics.loaded.get(topic) is not found or found.log.migration_fence.present is None:
            message = f"{topic} was unloaded, or the lease was over, before the fence was complete: ask again"
            raise AdminError(HTTPStatus.SERVICE_UNAVAILABLE, message)
        return await self._environment.slices.run(fenced_topic_steps(found, digests=digests))

    async def remove(self, topic: TopicName, migration: str, epoch: int, *, is_decision: bool) -> None:
        """Remove the fence; clients go on. The topic may be one that cannot be loaded."""
        with refusals(topic), _conflicts():
            try:
                await self._topics.ready(topic)
                found = self._topics.get(topic)
            except TopicLoadError:
                await remove_stored_fence(self._environment, topic, migration, epoch, is_decision=is_decision)
            else:
                await found.log.migration_fence.remove(migration, epoch, is_decision=is_decision)

    async def _receipts_written(self, topic: Topic) -> None:
        """Return when the entries of clients have their receipts, and their producers are disconnected."""
        while True:
            appended: Future[None] = self._environment.loop.create_future()
            topic.log.barrier(partial(settle, appended))
            await appended
            await topic.departures.over()
            if not _has_producers(topic) or self._topics.loaded.get(topic.name) is not topic:
                return
            topic.producers.dismiss(also_waiting=True)


def _has_producers(topic: Topic) -> bool:
    """Return whether producers of clients are connected or wait for access."""
    return bool(topic.producers.access.waiting) or any(True for _ in topic.producers.clients())


def _disconnect(topic: Topic, phase: Phase) -> list[Subscription]:
    """Disconnect the consumers that a phase does not allow; return the subscriptions with acknowledgements to write.

    Tools of Magnetar go on reading with subscriptions that are not durable.
    """
    durable: list[Subscription] = []
    for subscription in tuple(topic.subscriptions.values()):
        if not subscription.is_durable:
            if not all(_is_of_a_tool(each.session) for each in subscription.consumers):
                subscription.disconnect_consumers()
        elif phase is not Phase.SETTLING:
            subscription.disconnect_consumers()
            durable.append(subscription)
    return durable


class _Connection(Protocol):
    peer_is_magnetar: bool


class _ClientSession(Protocol):
    connection: _Connection


def _is_of_a_tool(session: object) -> bool:
    return cast("_ClientSession", session).connection.peer_is_magnetar


@contextmanager
def _conflicts() -> Iterator[None]:
    """Convert the refusal of a fence to that of an admin request."""
    try:
        yield
    except FenceRefusedError as error:
        raise AdminError(HTTPStatus.CONFLICT, str(error)) from None
