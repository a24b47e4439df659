"""The rates of one topic that its policies limit."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from magnetar.base.errors import RequestError, ServerError
from magnetar.broker.resources.token_bucket import Rate, RateLimit, TokenBucket, followed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.broker.resources.token_bucket import PublishLimit
    from magnetar.metadata.effective import EffectivePolicies
    from magnetar.metadata.policy.values import DispatchRate, SubscribeRate

SUBSCRIBERS_MAX: Final = 10_000
"""Consumers whose subscribe rates are remembered; beyond it, those that subscribed longest ago are forgotten."""

UNLIMITED: Final = Rate(0, 0)

Subscriber = tuple[str, str, int]
"""Host, name and id of a consumer."""


class TopicRates:
    """Limits of the rates of a topic; None without a limit."""

    def __init__(self, of_tenant: PublishLimit | None = None) -> None:
        """Begin without limits, except that of its tenant."""
        self._of_tenant = of_tenant
        self._publish: RateLimit | None = None
        """Limit of all clients' producers together."""
        self.publish_limits: tuple[PublishLimit, ...] = () if of_tenant is None else (of_tenant,)
        """All limits of what clients publish."""
        self.dispatch: RateLimit | None = None
        """Limit that all subscriptions share."""
        self.of_subscription = UNLIMITED
        """Rate of each subscription without its own."""
        self._own: dict[str, Rate] = {}
        self.of_link = UNLIMITED
        """Rate of each link, which counts entries."""
        self.follows_publishing = False
        """Whether limits depend on the rate of publishing, and so must be applied again when it changes."""
        self.publish_limited = 0
        """Number of times that a connection was not read because of the publish rate."""
        self._subscribe: SubscribeRate | None = None
        self._subscribers: OrderedDict[Subscriber, TokenBucket] = OrderedDict()

    def apply(self, policies: EffectivePolicies, published: Sequence[float], now: float) -> None:
        """Apply policies; ``published`` are the messages and bytes that are published per second at present."""
        publish = policies.publish_rate
        rate = Rate(publish.publishThrottlingRateInMsg, publish.publishThrottlingRateInByte)
        self._publish = followed(self._publish, rate, now)
        self.publish_limits = tuple(limit for limit in (self._publish, self._of_tenant) if limit is not None)
        self.dispatch = followed(self.dispatch, _rate(policies.dispatch_rate, published), now)
        self.of_subscription = _rate(policies.subscription_dispatch_rate, published)
        own = policies.dispatch_rates_by_subscription
        self._own = {name: _rate(rate, published) for name, rate in own.items()}
        self.of_link = _rate(policies.replicator_dispatch_rate, published)
        self.follows_publishing = any(
            rate.relativeToPublishRate
            for rate in (
                policies.dispatch_rate,
                policies.subscription_dispatch_rate,
                policies.replicator_dispatch_rate,
                *own.values(),
            )
        )
        if policies.subscribe_rate != self._subscribe:
            self._subscribers.clear()
            self._subscribe = policies.subscribe_rate

    def of(self, subscription: str) -> Rate:
        """Return the rate of a subscription."""
        return self._own.get(subscription, self.of_subscription)

    def check_subscribe(self, subscriber: Subscriber, now: float) -> None:
        """Raise RequestError if a consumer has subscribed too often."""
        bucket = self._subscribers.get(subscriber)
        if bucket is not None and bucket.tokens(now) < 1.0:
            message = "Subscribe limited by subscribe rate limit per consumer."
            raise RequestError(ServerError.NotAllowedError, message)

    def subscribed(self, subscriber: Subscriber, now: float) -> None:
        """Count a consumer that has subscribed."""
        rate = self._subscribe
        if rate is None or rate.subscribeThrottlingRatePerConsumer <= 0:
            return
        bucket = self._subscribers.pop(subscriber, None)
        if bucket is None:
            period_s = max(rate.ratePeriodInSecond, 1)
            bucket = TokenBucket(rate.subscribeThrottlingRatePerConsumer, period_s, now=now)
        bucket.take(1, now)
        self._subscribers[subscriber] = bucket
        if len(self._subscribers) > SUBSCRIBERS_MAX:
            self._subscribers.popitem(last=False)


def _rate(policy: DispatchRate, published: Sequence[float]) -> Rate:
    period_s = max(policy.ratePeriodInSecond, 1)
    rate = Rate(policy.dispatchThrottlingRateInMsg, policy.dispatchThrottlingRateInByte, period_s)
    return rate.plus(*published) if policy.relativeToPublishRate else rate
