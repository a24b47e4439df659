"""Admission of consumers to the subscriptions of a topic with a log, and the place where a new subscription begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.names import check_length
from magnetar.base.position import EARLIEST, LATEST
from magnetar.broker.settings.properties import subscription_properties
from magnetar.broker.subscription.admission import (
    check_room_for_subscription,
    check_room_in_topic,
    check_type,
    may_create_subscription,
)
from magnetar.broker.subscription.subscription import SubscribedTopic
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from magnetar.base.position import Position
    from magnetar.broker.subscription.subscription import Subscription


class Publishing(Protocol):
    """The producers of a topic."""

    def clients(self) -> Iterator[object]:
        """Return the producers of clients."""
        ...


class EnteredTopic(SubscribedTopic, Protocol):
    """The topic."""

    @property
    def producers(self) -> Publishing:
        """The producers."""
        ...

    def create_subscription(
        self, name: str, mark_delete: Position, *, durable: bool = True, properties: dict[str, str] | None = None
    ) -> Subscription:
        """Create a subscription that starts after ``mark_delete``."""
        ...


class TopicEntrance:
    """See ``Entrance``. Used on the event loop's thread."""

    def __init__(self, topic: EnteredTopic) -> None:
        """Admit consumers to ``topic``."""
        self._topic = topic

    @property
    def is_idle(self) -> bool:
        """Whether the topic has no clients without a schema, and no entries."""
        topic = self._topic
        if topic.ledger.entries or any(True for _ in topic.producers.clients()):
            return False
        consumers = (each for subscription in topic.subscriptions.values() for each in subscription.consumers)
        return all(each.is_auto_consume for each in consumers)

    def awaited(self, command: pb.CommandSubscribe, *, is_tool: bool) -> Awaitable[None] | None:
        """Return the end of a migration fence, except for a tool that only reads; None without a fence."""
        fence = self._topic.log.migration_fence
        return fence.end() if fence.is_set and (command.durable or not is_tool) else None

    def find(self, command: pb.CommandSubscribe) -> Subscription:
        """Return the subscription, create it if that is allowed; raises RequestError if it is refused."""
        topic = self._topic
        check_type(topic, command)
        _check_supported(command)
        existing = topic.subscriptions.get(command.subscription)
        if existing is not None:
            if existing.is_durable != command.durable:
                kind = "durable" if existing.is_durable else "non-durable"
                message = f"Subscription {existing.name} exists as a {kind} one"
                raise RequestError(ServerError.NotAllowedError, message)
            return existing
        if command.durable and not may_create_subscription(topic):
            message = f"Subscription {command.subscription} does not exist and may not be created automatically"
            raise RequestError(ServerError.SubscriptionNotFound, message)
        check_length("subscription", command.subscription, topic.environment.config.maxNameLength)
        properties = subscription_properties(command.subscription_properties, topic.environment.config)
        check_room_for_subscription(topic)
        if not command.durable:  # it is removed with its consumer, so there must be none without a consumer
            check_room_in_topic(topic.policies, topic.subscriptions.values())
        return topic.create_subscription(
            command.subscription, self._start(command), durable=command.durable, properties=properties
        )

    def _start(self, command: pb.CommandSubscribe) -> Position:
        """Return the mark-delete position of a new subscription."""
        topic = self._topic
        if command.HasField("start_message_id") and not command.durable:
            start, former = position_of(command.start_message_id), topic.log.former
            if former is not None and former.has(start.ledger_id):
                start = former.start_at(start) or LATEST
            if start == EARLIEST:
                return topic.log.before_first()
            if start < LATEST and start <= topic.ledger.last_confirmed_entry:
                return topic.ledger.previous_position(start)
        if command.initialPosition == pb.CommandSubscribe.Earliest:
            return topic.log.before_first()
        return topic.ledger.last_confirmed_entry


def _check_supported(command: pb.CommandSubscribe) -> None:
    if command.read_compacted and command.durable:
        # A table view reads so too, by a non-durable subscription: every message of a key includes the latest one.
        message = (
            "readCompacted is not supported by this broker: topics are not compacted. Subscribe without it, or use a"
            " reader or a table view"
        )
        raise RequestError(ServerError.NotAllowedError, message)
    if command.start_message_rollback_duration_sec:
        message = "start_message_rollback_duration_sec is not supported by this broker: seek by time instead"
        raise RequestError(ServerError.NotAllowedError, message)
