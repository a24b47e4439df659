"""Dispatchers of non-persistent subscriptions: who gets a message now. Nothing is kept, and nothing is sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.broker.dispatch.base import Consumers, Dispatcher
from magnetar.broker.dispatch.key_shared import HashOwners, selector_for
from magnetar.broker.dispatch.single_active import ActiveConsumer
from magnetar.wire.entries.entry import messages_delivery_and_key
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.names import TopicName
    from magnetar.base.position import Position
    from magnetar.broker.dispatch.consumer import Consumer, Delivery, KeySharedPolicy
    from magnetar.broker.environment import Environment
    from magnetar.cursor.ranges import Range

LEDGER_ID = 0
"""All messages have the id 0:0, as in Pulsar."""


class DeliveryDispatcher(Dispatcher, Protocol):
    """Sends the messages of a subscription to its consumers."""

    def deliver(self, run: Sequence[Delivery], now: float) -> int:
        """Send each entry to a consumer that can take it now; return the number of dropped messages."""
        ...


class _Untracked(Consumers):
    """See ``Dispatcher``: acknowledgements and requests for redelivery have no effect."""

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int | None) -> None:
        """Do nothing: no entry is kept."""

    def holders(self, entries: Range) -> list[Consumer]:
        """Return no consumer: held entries are not tracked."""
        del entries
        return []

    def entries_deleted(self, ranges: Sequence[Range], by: Consumer | None) -> None:
        """Do nothing: held entries are not tracked."""

    def limits_changed(self) -> None:
        """Do nothing: the limits concern held entries."""

    def dispatch(self) -> None:
        """Do nothing: no entry waits for permits."""

    def close(self) -> None:
        """Stop the work in progress."""


class ActiveConsumerDispatcher(ActiveConsumer, _Untracked):
    """Exclusive and Failover: one consumer receives."""

    def remove(self, consumer: Consumer) -> None:
        """Elect another active consumer if this was the active one."""
        super().remove(consumer)
        if consumer is self.active:
            self._elect()

    def deliver(self, run: Sequence[Delivery], now: float) -> int:
        """Send as many entries as the active consumer has permits for; return the number of dropped messages."""
        sending = _Sending()
        dropped = sum([each.messages for each in run if not sending.give(self.active, each)])
        sending.send(now)
        return dropped


class RoundRobinDispatcher(_Untracked):
    """Shared: the next consumer of the best priority level that can take the entry."""

    def __init__(self) -> None:
        """Create a dispatcher without consumers."""
        super().__init__()
        self._levels: dict[int, list[Consumer]] = {}
        """The consumers by priority level, the best level first, each level in the order of arrival."""
        self._turn = 0

    def add(self, consumer: Consumer) -> None:
        """Add a consumer."""
        super().add(consumer)
        level = consumer.priority_level
        if level not in self._levels:
            self._levels = dict(sorted([*self._levels.items(), (level, [])]))
        self._levels[level].append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        super().remove(consumer)
        level = self._levels[consumer.priority_level]
        level.remove(consumer)
        if not level:
            del self._levels[consumer.priority_level]

    def deliver(self, run: Sequence[Delivery], now: float) -> int:
        """Send the entries in turn; if no consumer can take one, it is dropped, and the later ones of the run too."""
        sending, dropped = _Sending(), 0
        # Consumers without permits are skipped once for the run, not for each entry: there can be many.
        levels = [[each for each in members if each.permits > 0] for members in self._levels.values()]
        for number, delivery in enumerate(run):
            if not self._give(sending, levels, delivery):
                dropped = sum([each.messages for each in run[number:]])
                break
        sending.send(now)
        return dropped

    def _give(self, sending: _Sending, levels: list[list[Consumer]], delivery: Delivery) -> bool:
        for members in levels:
            while members:
                self._turn += 1
                index = self._turn % len(members)
                if sending.give(members[index], delivery):
                    return True
                del members[index]
        return False


class StickyKeyDispatcher(HashOwners, _Untracked):
    """Key_Shared: the owner of the hash of the entry's key."""

    def __init__(self, environment: Environment, policy: KeySharedPolicy) -> None:
        """Create a dispatcher without consumers."""
        super().__init__()
        self.policy = policy
        self._selector = selector_for(policy, environment.config)

    def add(self, consumer: Consumer) -> None:
        """Assign hashes to a consumer."""
        super().add(consumer)
        self._selector.add(consumer)
        self._selector.take_changes()  # nothing is held, so no hash has to drain

    def remove(self, consumer: Consumer) -> None:
        """Assign its hashes to others."""
        super().remove(consumer)
        self._selector.remove(consumer)
        self._selector.take_changes()

    def deliver(self, run: Sequence[Delivery], now: float) -> int:
        """Send each entry to the owner of its key; return the number of dropped messages."""
        sending, selector, dropped = _Sending(), self._selector, 0
        for delivery in run:
            key = messages_delivery_and_key(delivery.entry)[2]
            if not sending.give(selector.select(selector.hash_of(key)), delivery):
                dropped += delivery.messages
        sending.send(now)
        return dropped


class _Sending:
    """The entries of one run that consumers will get."""

    def __init__(self) -> None:
        self._runs: dict[Consumer, list[Delivery]] = {}
        self._permits: dict[Consumer, int] = {}
        """Permits that are left."""

    def give(self, consumer: Consumer | None, delivery: Delivery) -> bool:
        """Give an entry to a consumer; return False if it cannot take it now."""
        if consumer is None:
            return False
        permits = self._permits.get(consumer)
        if permits is None:
            permits = consumer.permits if consumer.is_ready else 0
        if permits <= 0:
            self._permits[consumer] = 0
            return False
        self._permits[consumer] = permits - delivery.messages
        self._runs.setdefault(consumer, []).append(delivery)
        return True

    def send(self, now: float) -> None:
        """Write the messages."""
        for consumer, run in self._runs.items():
            consumer.send(LEDGER_ID, run, now)


def dispatcher_for(consumer: Consumer, environment: Environment, name: TopicName) -> DeliveryDispatcher:
    """Return the dispatcher for the type of a first consumer."""
    match consumer.type:
        case pb.CommandSubscribe.Shared:
            return RoundRobinDispatcher()
        case pb.CommandSubscribe.Key_Shared:
            return StickyKeyDispatcher(environment, consumer.key_shared_policy)
    return ActiveConsumerDispatcher(environment, name, exclusive=consumer.type == pb.CommandSubscribe.Exclusive)
