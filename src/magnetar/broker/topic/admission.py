"""Limits of the clients of one topic, under Pulsar's names and with Pulsar's answers; 0 is no limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.broker.publish.producer import LocalProducer

if TYPE_CHECKING:
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.topic import Topic


def check_room_for_producer(topic: Topic) -> None:
    """Raise RequestError with ProducerBusy if the topic has as many clients' producers as it may, or they wait."""
    limit = topic.environment.config.maxProducersPerTopic
    if not limit:
        return
    connected = sum(isinstance(each, LocalProducer) for each in topic.producers.values())
    if connected + len(topic.access.waiting) >= limit:
        message = "Topic reached max producers limit (maxProducersPerTopic)"
        raise RequestError(ServerError.ProducerBusy, message, Limit.PRODUCERS)


def check_room_for_consumer(subscription: Subscription) -> None:
    """Raise RequestError with ConsumerBusy if the topic or the subscription has as many consumers as it may."""
    topic, config = subscription.topic, subscription.environment.config
    of_topic, of_subscription = config.maxConsumersPerTopic, config.maxConsumersPerSubscription
    if of_topic and sum(len(each.consumers) for each in topic.subscriptions.values()) >= of_topic:
        message = "Topic reached max consumers limit (maxConsumersPerTopic)"
        raise RequestError(ServerError.ConsumerBusy, message, Limit.CONSUMERS_OF_TOPIC)
    if of_subscription and len(subscription.consumers) >= of_subscription:
        message = "Subscription reached max consumers limit (maxConsumersPerSubscription)"
        raise RequestError(ServerError.ConsumerBusy, message, Limit.CONSUMERS_OF_SUBSCRIPTION)


def check_room_for_subscription(topic: Topic) -> None:
    """Raise RequestError with NotAllowedError if the topic has as many subscriptions as it may."""
    limit = topic.environment.config.maxSubscriptionsPerTopic
    if limit and len(topic.subscriptions) >= limit:
        message = f"Exceed the maximum number of subscriptions of the topic: {topic.name} (maxSubscriptionsPerTopic)"
        raise RequestError(ServerError.NotAllowedError, message, Limit.SUBSCRIPTIONS)
