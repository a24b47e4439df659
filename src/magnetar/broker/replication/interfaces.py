"""Protocols of a topic that several parts of its replication share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.broker.log.interfaces import LoggedTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.broker.subscription.shared_progress import SharedProgress
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.geo.progress.state import SubscriptionProgress


class TopicWithSubscriptions(LoggedTopic, Protocol):
    """A topic and its subscriptions."""

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """The subscriptions, by name."""
        ...


class AllowedTopic(TopicWithSubscriptions, Protocol):
    """A topic whose subscriptions may be replicated."""

    @property
    def replication_forbidden(self) -> str:
        """Reason why no subscription may be replicated; empty if they may."""
        ...


class ReplicatingTopic(AllowedTopic, Protocol):
    """A topic whose subscriptions other clusters may create and replicate."""

    def create_replicated(self, incoming: SubscriptionProgress) -> SharedProgress:
        """Create a subscription whose state arrived from another cluster."""
        ...

    def set_replicated(self, subscription: Subscription, *, replicated: bool) -> None:
        """Start or stop the replication of a subscription."""
        ...
