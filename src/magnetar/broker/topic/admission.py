"""Limits of a topic's producers and subscriptions, under Pulsar's names and with Pulsar's answers; 0 is no limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.broker.log.interfaces import LoggedTopic
from magnetar.broker.publish.producer import LocalProducer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sized

    from magnetar.broker.publish.access import ProducerAccess
    from magnetar.broker.publish.interfaces import Producer


class EnteredTopic(LoggedTopic, Protocol):
    """The topic that clients want to use."""

    @property
    def producers(self) -> Mapping[str, Producer]:
        """The connected producers, by name."""
        ...

    @property
    def access(self) -> ProducerAccess:
        """The producers that wait."""
        ...

    @property
    def subscriptions(self) -> Sized:
        """The subscriptions."""
        ...


def check_room_for_producer(topic: EnteredTopic) -> None:
    """Raise RequestError with ProducerBusy if the topic has as many clients' producers as it may, or they wait."""
    limit = topic.environment.config.maxProducersPerTopic
    if not limit:
        return
    connected = sum(isinstance(each, LocalProducer) for each in topic.producers.values())
    if connected + len(topic.access.waiting) >= limit:
        message = "Topic reached max producers limit (maxProducersPerTopic)"
        raise RequestError(ServerError.ProducerBusy, message, Limit.PRODUCERS)


def check_room_for_subscription(topic: EnteredTopic) -> None:
    """Raise RequestError with NotAllowedError if the topic has as many subscriptions as it may."""
    limit = topic.environment.config.maxSubscriptionsPerTopic
    if limit and len(topic.subscriptions) >= limit:
        message = f"Exceed the maximum number of subscriptions of the topic: {topic.name} (maxSubscriptionsPerTopic)"
        raise RequestError(ServerError.NotAllowedError, message, Limit.SUBSCRIPTIONS)
