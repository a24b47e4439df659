"""Limits of the consumers of one topic, under Pulsar's names and with Pulsar's answers; 0 is no limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sized

    from magnetar.metadata.effective import EffectivePolicies


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
    of_topic, of_subscription = policies.max_consumers, policies.max_consumers_per_subscription
    if of_topic and sum(len(each.consumers) for each in subscriptions) >= of_topic:
        message = "Topic reached max consumers limit (maxConsumersPerTopic)"
        raise RequestError(ServerError.ConsumerBusy, message, Limit.CONSUMERS_OF_TOPIC)
    if of_subscription and len(subscription.consumers) >= of_subscription:
        message = "Subscription reached max consumers limit (maxConsumersPerSubscription)"
        raise RequestError(ServerError.ConsumerBusy, message, Limit.CONSUMERS_OF_SUBSCRIPTION)
