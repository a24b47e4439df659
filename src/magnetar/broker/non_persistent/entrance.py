"""Admission of consumers to the subscriptions of a non-persistent topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.names import check_length
from magnetar.broker.non_persistent.subscription import NonPersistentSubscription, SubscribedTopic
from magnetar.broker.settings.properties import subscription_properties
from magnetar.broker.subscription.admission import check_room_for_subscription, check_type

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sized

    from magnetar.wire.proto import pulsar_api_pb2 as pb


class EnteredTopic(SubscribedTopic, Protocol):
    """The topic."""

    @property
    def producers(self) -> Sized:
        """The producers."""
        ...


class NonPersistentEntrance:
    """See ``Entrance``. Used on the event loop's thread."""

    def __init__(self, topic: EnteredTopic) -> None:
        """Admit consumers to ``topic``."""
        self._topic = topic

    @property
    def is_idle(self) -> bool:
        """Whether the topic has no clients without a schema."""
        subscriptions = self._topic.subscriptions.values()
        consumers = (each for subscription in subscriptions for each in subscription.consumers)
        return not self._topic.producers and all(each.is_auto_consume for each in consumers)

    def awaited(self, command: pb.CommandSubscribe, *, is_tool: bool) -> Awaitable[None] | None:
        """Return None: a topic without a log has no migration fence."""
        del command, is_tool
        return None

    def find(self, command: pb.CommandSubscribe) -> NonPersistentSubscription:
        """Return the subscription, or a new one; raises RequestError if it is refused.

        A start position has no effect: a subscription gets the messages that are published while it has consumers. So
        it need not be allowed to create subscriptions, and being durable has no effect, as in Pulsar.
        """
        topic = self._topic
        check_type(topic, command)
        if command.read_compacted:
            raise RequestError(ServerError.NotAllowedError, "readCompacted only valid on persistent topics")
        existing = topic.subscriptions.get(command.subscription)
        if existing is not None:
            return existing
        config = topic.environment.config
        check_length("subscription", command.subscription, config.maxNameLength)
        properties = subscription_properties(command.subscription_properties, config)
        check_room_for_subscription(topic)
        return NonPersistentSubscription(topic, command.subscription, properties)
