"""Limits of a topic's producers and subscriptions, under Pulsar's names and with Pulsar's answers; 0 is no limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.broker.log.interfaces import LoggedTopic
from magnetar.broker.publish.producer import LocalProducer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sized

    from magnetar.broker.publish.access import ProducerAccess
    from magnetar.broker.publish.interfaces import Producer


class EnteredProducers(Protocol):
    """The producers of a topic."""

    @property
    def access(self) -> ProducerAccess:
        """Number of waiting producers."""
        ...

    def values(self) -> Iterable[Producer]:
        """Number of connected producers."""
        ...


class EnteredTopic(LoggedTopic, Protocol):
    """The topic."""

    @property
    def subscriptions(self) -> Sized:
        """The subscriptions."""
        ...


def check_room_for_producer(topic: EnteredTopic, producers: EnteredProducers) -> None:
    """Raise RequestError with ProducerBusy if the topic has reached its limit of connected and waiting producers.

    Raises RequestError with ServiceNotReady if there is no memory for a producer.
    """
    topic.environment.objects.check()
    limit = topic.policies.max_producers
    if not limit:
        return
    connected = sum(isinstance(each, LocalProducer) for each in producers.values())
    if connected + len(producers.access.waiting) >= limit:
        message = "Topic reached max producers limit (maxProducersPerTopic)"
        raise RequestError(ServerError.ProducerBusy, message, Limit.PRODUCERS)


def check_room_for_subscription(topic: EnteredTopic) -> None:
    """Raise RequestError with NotAllowedError if the topic has reached its limit of subscriptions.

    Raises RequestError with ServiceNotReady if there is no memory for a subscription.
    """
    topic.environment.objects.check()
    limit = topic.policies.max_subscriptions
    if limit and len(topic.subscriptions) >= limit:
        message = f"Exceed the maximum number of subscriptions of the topic: {topic.name} (maxSubscriptionsPerTopic)"
        raise RequestError(ServerError.NotAllowedError, message, Limit.SUBSCRIPTIONS)


def may_create_subscription(topic: EnteredTopic) -> bool:
    """Return whether a client may create a missing subscription by using it; the broker's setting is dynamic."""
    policies = topic.environment.policies_of(topic.name)
    return policies.auto_subscription_creation.allowAutoSubscriptionCreation
