"""Limits of a topic's subscriptions and consumers, under Pulsar's names and with Pulsar's answers; 0 is no limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.broker.log.interfaces import AnyTopic
from magnetar.broker.subscription.names import check_subscription_name
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Sized

    from magnetar.metadata.effective import EffectivePolicies


class Subscribable(AnyTopic, Protocol):
    """A topic."""

    @property
    def subscriptions(self) -> Sized:
        """The subscriptions."""
        ...


class Consumed(Protocol):
    """A subscription."""

    @property
    def consumers(self) -> Sized:
        """Its consumers."""
        ...


def check_room_for_consumer(
    policies: EffectivePolicies, subscriptions: Iterable[Consumed], subscription: Consumed
) -> None:
    """Raise RequestError with ConsumerBusy if the topic or the subscription has reached its limit of consumers.

    ``subscriptions`` are all those of the topic.
    """
    check_room_in_topic(policies, subscriptions)
    limit = policies.max_consumers_per_subscription
    if limit and len(subscription.consumers) >= limit:
        message = "Subscription reached max consumers limit (maxConsumersPerSubscription)"
        raise RequestError(ServerError.ConsumerBusy, message, Limit.CONSUMERS_OF_SUBSCRIPTION)


def check_room_in_topic(policies: EffectivePolicies, subscriptions: Iterable[Consumed]) -> None:
    """Raise RequestError with ConsumerBusy if the topic, whose subscriptions these are, has too many consumers."""
    limit = policies.max_consumers
    if limit and sum(len(each.consumers) for each in subscriptions) >= limit:
        message = "Topic reached max consumers limit (maxConsumersPerTopic)"
        raise RequestError(ServerError.ConsumerBusy, message, Limit.CONSUMERS_OF_TOPIC)


def check_room_for_subscription(topic: Subscribable) -> None:
    """Raise RequestError with NotAllowedError if the topic has reached its limit of subscriptions.

    Raises RequestError with ServiceNotReady if there is no memory for a subscription.
    """
    topic.environment.objects.check()
    limit = topic.policies.max_subscriptions
    if limit and len(topic.subscriptions) >= limit:
        message = f"Exceed the maximum number of subscriptions of the topic: {topic.name} (maxSubscriptionsPerTopic)"
        raise RequestError(ServerError.NotAllowedError, message, Limit.SUBSCRIPTIONS)


def may_create_subscription(topic: AnyTopic) -> bool:
    """Return whether a client may create a missing subscription by using it; the broker's setting is dynamic."""
    policies = topic.environment.policies.of(topic.name)
    return policies.auto_subscription_creation.allowAutoSubscriptionCreation


def check_type(topic: AnyTopic, command: pb.CommandSubscribe) -> None:
    """Raise RequestError for a reserved name, and for a type of subscription that is not enabled."""
    check_subscription_name(command.subscription)
    kind = pb.CommandSubscribe.SubType.Name(command.subType)
    if kind not in topic.policies.subscription_types:
        raise RequestError(ServerError.NotAllowedError, f"Topic[{{{topic.name}}}] doesn't support {kind} sub type!")
    is_key_shared = command.subType == pb.CommandSubscribe.Key_Shared
    if is_key_shared and not topic.environment.config.subscriptionKeySharedEnable:
        raise RequestError(ServerError.NotAllowedError, "Key_Shared subscription is disabled by broker.")
