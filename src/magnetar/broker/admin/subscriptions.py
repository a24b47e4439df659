"""Operations on subscriptions."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.admin.service import (
    NO_PROPERTIES,
    subscription_exists,
    subscription_in_use,
)
from magnetar.admin.topic_service import message_not_found
from magnetar.base.errors import AdminError
from magnetar.base.names import check_length
from magnetar.base.position import EARLIEST
from magnetar.broker.admin.acknowledgements import page_steps
from magnetar.broker.admin.finding import Finder, refusals
from magnetar.broker.environment import settle
from magnetar.broker.settings.properties import check_properties
from magnetar.broker.subscription.admission import check_room_for_subscription
from magnetar.wire.entries.ack_set import all_remaining
from magnetar.wire.entries.entry import messages_in

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from magnetar.admin.models.acknowledgements import AcknowledgementState
    from magnetar.base.names import TopicName
    from magnetar.base.position import Position
    from magnetar.broker.environment import Environment
    from magnetar.broker.log.interfaces import LoggedTopic
    from magnetar.broker.subscription.subscription import SubscribedTopic
    from magnetar.broker.topic.registry import TopicRegistry


class SubscriptionOperations:
    """See ``magnetar.admin.service.SubscriptionOperations``."""

    def __init__(self, environment: Environment, topics: TopicRegistry) -> None:
        """Operate on the subscriptions of ``topics``."""
        self._environment = environment
        self._found = Finder(topics)

    async def names(self, topic: TopicName) -> list[str]:
        """Return the names of the subscriptions."""
        return sorted((await self._found.topic(topic)).subscriptions)

    async def create(
        self,
        topic: TopicName,
        subscription: str,
        position: Position,
        *,
        replicated: bool,
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> None:
        """Create a subscription whose first message is at or after ``position``."""
        found = await self._found.topic_or_new(topic)
        if subscription in found.subscriptions:
            raise subscription_exists()
        if replicated:
            _check_replication_allowed(found)
        with refusals(topic):
            found.log.migration_fence.check_change()
            check_length("subscription", subscription, self._environment.config.maxNameLength)
            check_properties(properties, self._environment.config)
            check_room_for_subscription(found)
            mark_delete = _mark_delete_before(found, position)
            created = found.create_subscription(subscription, mark_delete, properties=dict(properties))
        if replicated:
            found.set_replicated(created, replicated=True)
        await created.flushes.durable()

    async def delete(self, topic: TopicName, subscription: str, *, force: bool) -> None:
        """Delete a subscription; return when that is durable."""
        found = await self._found.subscription(topic, subscription, to_change=True)
        if found.consumers and not force:
            raise subscription_in_use()
        deleted: asyncio.Future[None] = self._environment.loop.create_future()
        found.topic.delete_subscription(found, partial(settle, deleted))
        await deleted

    async def skip(self, topic: TopicName, subscription: str, count: int) -> None:
        """Acknowledge the next ``count`` unacknowledged entries."""
        found = await self._found.subscription(topic, subscription, to_change=True)
        with refusals(topic):
            await found.skip(count)
        await found.flushes.durable()

    async def skip_all(self, topic: TopicName, subscription: str) -> None:
        """Acknowledge all entries that the log contains now."""
        found = await self._found.subscription(topic, subscription, to_change=True)
        found.acknowledge_through(found.topic.ledger.last_confirmed_entry)
        await found.flushes.durable()

    async def reset_to_time(self, topic: TopicName, subscription: str, timestamp_ms: int) -> None:
        """Move to the first entry published at or after the time; later entries are redelivered, also older ones."""
        found = await self._found.subscription(topic, subscription, to_change=True)
        await found.reset(await found.topic.log.position_before_time(timestamp_ms))

    async def reset(
        self, topic: TopicName, subscription: str, position: Position, *, is_excluded: bool, batch_index: int = -1
    ) -> None:
        """Move to ``position``, or after it if ``is_excluded``; of a batch, to or after the member ``batch_index``."""
        found = await self._found.subscription(topic, subscription, to_change=True)
        ledger = found.topic.ledger
        if batch_index >= 0 and ledger.contains(position) and position <= ledger.last_confirmed_entry:
            members = messages_in(await found.topic.log.read_entry(position))
            first = batch_index + is_excluded
            if 0 < first < members:
                remaining = all_remaining(members) & ~all_remaining(first)
                await found.reset(_mark_delete_before(found.topic, position), [(position, remaining)])
                return
        last = ledger.last_confirmed_entry
        excluded = is_excluded and ledger.contains(position)
        await found.reset(min(position, last) if excluded else _mark_delete_before(found.topic, position))

    async def expire(self, topic: TopicName, subscription: str, seconds: int) -> None:
        """Acknowledge all entries that this cluster appended more than ``seconds`` ago."""
        found = await self._found.subscription(topic, subscription, to_change=True)
        found.expire_through(found.topic.ledger.position_older_than(seconds), self._environment.clock.now())
        await found.flushes.durable()

    async def expire_through(self, topic: TopicName, subscription: str, position: Position) -> None:
        """Acknowledge all entries up to and including ``position``."""
        found = await self._found.subscription(topic, subscription, to_change=True)
        last = min(position, found.topic.ledger.last_confirmed_entry)
        with refusals(topic):
            found.expire_through(last, self._environment.clock.now())
        await found.flushes.durable()

    async def acknowledgements(self, topic: TopicName, subscription: str, after: Position) -> AcknowledgementState:
        """Return the acknowledgement state after a position, or the first page of it."""
        found = await self._found.subscription(topic, subscription)
        return await self._environment.slices.run(page_steps(found.cursor.state, after))

    async def properties(self, topic: TopicName, subscription: str) -> Mapping[str, str]:
        """Return the properties of a subscription."""
        return (await self._found.subscription(topic, subscription)).cursor.subscription_properties

    async def set_properties(self, topic: TopicName, subscription: str, properties: Mapping[str, str]) -> None:
        """Replace the properties of a subscription."""
        found = await self._found.subscription(topic, subscription)
        with refusals(topic):
            check_properties(properties, self._environment.config)
        stored: asyncio.Future[None] = self._environment.loop.create_future()
        found.cursor.set_subscription_properties(properties, partial(settle, stored))
        await stored

    async def set_replicated(self, topic: TopicName, subscription: str, *, replicated: bool) -> None:
        """Start or stop the replication of a subscription."""
        found = await self._found.subscription(topic, subscription)
        if replicated:
            _check_replication_allowed(found.topic)
        elif found.topic.replication_imposed and found.is_durable:
            message = f"{subscription} is replicated because of the policy replicateSubscriptionState of its topic"
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, message)
        found.topic.set_replicated(found, replicated=replicated)
        await self._environment.recorded()
        await found.flushes.durable()

    async def is_replicated(self, topic: TopicName, subscription: str) -> bool:
        """Return whether a subscription is replicated."""
        found = await self._found.subscription(topic, subscription)
        return found.is_replicated and not found.topic.replication_forbidden

    async def peek(self, topic: TopicName, subscription: str, message: int) -> tuple[Position, bytes]:
        """Return the ``message``-th (from 1) unacknowledged entry; without the subscription, that of a new one.

        Apache Pulsar creates a subscription that does not exist, at the first entry.
        """
        found = await self._found.topic(topic)
        known = found.subscriptions.get(subscription)
        if known is not None:
            position = await self._environment.slices.run(known.unread.nth(message, with_damaged=False))
        else:
            has_it = message <= found.ledger.entries
            position = found.ledger.position_at(found.ledger.first_position, message - 1) if has_it else None
        if position is None:
            raise message_not_found()
        with refusals(topic):
            return position, await found.log.read_entry(position)


def _check_replication_allowed(topic: SubscribedTopic) -> None:
    if topic.replication_forbidden:
        raise AdminError(HTTPStatus.METHOD_NOT_ALLOWED, f"{topic.name}: {topic.replication_forbidden}")


def _mark_delete_before(topic: LoggedTopic, position: Position) -> Position:
    """Return the mark-delete position of a cursor whose first message is at or after ``position``."""
    if position == EARLIEST:
        return topic.log.before_first()
    if position > topic.ledger.last_confirmed_entry:
        return topic.ledger.last_confirmed_entry
    return max(topic.log.before_first(), topic.ledger.previous_position(position))
