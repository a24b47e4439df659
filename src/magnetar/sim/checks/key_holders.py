"""Key_Shared in one cluster: while a consumer holds an entry of a key, no other consumer gets an entry of that key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from magnetar.base.position import Position
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.sim.checks.model import Entry


@dataclass
class _Sent:
    """The entries sent to a consumer, by position, until the cursor is reset."""

    since: object
    entries: dict[Position, Entry] = field(default_factory=dict)


class KeyHolders:
    """The holders of keys, derived from the brokers' frames."""

    def __init__(self, is_left: Callable[[Subscription, Entry], bool]) -> None:
        """Begin without entries; ``is_left`` returns whether a subscription still has to deliver an entry."""
        self._is_left = is_left
        self._sent: dict[Consumer, _Sent] = {}

    def send(self, consumer: Consumer, subscription: Subscription, position: Position, entry: Entry) -> Entry | None:
        """Record an entry sent to a consumer; return an entry of the same key that another consumer holds, or None.

        Entries of consumers that left, and entries sent before a reset of the cursor, do not count. Entries without a
        key do not conflict.
        """
        if subscription.consumers.type != pb.CommandSubscribe.Key_Shared or not entry.key:
            return None
        assert subscription.progress is not None
        since = subscription.progress.state.epoch, subscription.progress.state.starts()
        sent = self._sent.get(consumer)
        if sent is None or sent.since != since:
            sent = self._sent[consumer] = _Sent(since)
        sent.entries[position] = entry
        for other in subscription.consumers:
            theirs = self._sent.get(other)
            if other is consumer or theirs is None or theirs.since != since:
                continue
            for held in theirs.entries.values():
                if held.key == entry.key and self._is_left(subscription, held):
                    return held
        return None

    def give_back(self, consumer: Consumer, positions: Collection[Position]) -> None:
        """Record a redelivery request for entries, or for all entries of the consumer if ``positions`` is empty."""
        sent = self._sent.get(consumer)
        if sent is not None:
            for position in positions or tuple(sent.entries):
                sent.entries.pop(position, None)
