"""Key_Shared in one cluster: while a consumer holds an entry of a key, no other one is sent an entry of that key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from magnetar.base.position import Position
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.sim.referees.model import Entry


@dataclass
class _Sent:
    """What a consumer was sent, by position, as long as the cursor was not moved."""

    since: object
    entries: dict[Position, Entry] = field(default_factory=dict)


class KeyHolders:
    """Who was sent what, as the brokers' frames tell it."""

    def __init__(self, is_left: Callable[[Subscription, Entry], bool]) -> None:
        """``is_left`` says whether a subscription still has an entry to deliver, or to be acknowledged."""
        self._is_left = is_left
        self._sent: dict[Consumer, _Sent] = {}

    def send(self, consumer: Consumer, subscription: Subscription, position: Position, entry: Entry) -> Entry | None:
        """A consumer is sent an entry; returns the one of its key that another consumer holds, if there is one.

        What a consumer holds that left counts no more, nor does what it got before the subscription was moved. An entry
        without a key is alone with its own.
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
        """A consumer wants entries again, all that it holds where none is named, and so does not hold them."""
        sent = self._sent.get(consumer)
        if sent is not None:
            for position in positions or tuple(sent.entries):
                sent.entries.pop(position, None)
