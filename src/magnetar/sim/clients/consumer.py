"""Simulated consumers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from magnetar.base.position import EARLIEST, Position
from magnetar.sim.clients.client import Observer
from magnetar.sim.clients.subscriber import SimSubscriber
from magnetar.sim.content import text_in
from magnetar.sim.scenario import SUBSCRIPTION_TYPES
from magnetar.wire import commands
from magnetar.wire.entries import ack_set
from magnetar.wire.entries.entry import parse_metadata
from magnetar.wire.message_id import message_id, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.sim.clients.client import ClientContext


@dataclass
class Held:
    """An unacknowledged entry of a consumer."""

    position: Position
    text: str
    members: int
    remaining: int
    """Bit set of the batch members that are not acknowledged."""


class ConsumerObserver(Observer, Protocol):
    """An observer of consumers."""

    def delivered(self, consumer: SimConsumer, held: Held, entry: bytes) -> None:
        """Record an entry that a consumer received."""
        ...


class SimConsumer(SimSubscriber[ConsumerObserver]):
    """A consumer of a replicated subscription."""

    permits = 20

    def __init__(
        self, name: str, cluster: str, context: ClientContext[ConsumerObserver], subscription: str, *, earliest: bool
    ) -> None:
        """Subscribe in ``cluster``; a new subscription begins at the earliest or the latest position."""
        self.subscription = subscription
        self.held: dict[Position, Held] = {}
        self.received: set[Position] = set()
        """Entries that it got and has not refused: the broker need not send them again on this connection."""
        self._earliest = earliest
        self._replicated = context.replicated
        super().__init__(name, cluster, context)

    # -- actions of the application --------------------------------------------------------------------------------

    def acknowledge(self, chosen: list[Held], *, confirmed: bool) -> None:
        """Acknowledge whole entries individually."""
        ids = [message_id(held.position) for held in chosen]
        for held in chosen:
            self.held.pop(held.position, None)
        self._ack(ids, confirmed=confirmed, cumulative=False)

    def acknowledge_member(self, held: Held, member: int, *, confirmed: bool) -> None:
        """Acknowledge one message of a batch."""
        held.remaining &= ~(1 << member)
        if not held.remaining:
            self.acknowledge([held], confirmed=confirmed)
            return
        data = message_id(held.position)
        data.batch_index, data.batch_size = member, held.members
        full = ack_set.all_remaining(held.members) & ~(1 << member)
        data.ack_set.extend(ack_set.int_to_words(full))
        self._ack([data], confirmed=confirmed, cumulative=False)

    def acknowledge_through(self, held: Held, *, confirmed: bool) -> None:
        """Acknowledge cumulatively up to an entry, inclusive."""
        self.held = {position: each for position, each in self.held.items() if position > held.position}
        self._ack([message_id(held.position)], confirmed=confirmed, cumulative=True)

    def refuse(self, chosen: list[Held]) -> None:
        """Request redelivery of entries."""
        for held in chosen:
            self.held.pop(held.position, None)
            self.received.discard(held.position)
        ids = [message_id(held.position) for held in chosen]
        self.say(
            commands.redeliver_unacknowledged_messages(consumer_id=self._consumer_id, message_ids=ids),
            commands.flow(consumer_id=self._consumer_id, message_permits=max(1, len(ids))),
        )

    def seek(self, position: Position = EARLIEST) -> None:
        """Seek to a position."""
        self.say(commands.seek(consumer_id=self._consumer_id, request_id=self.request_id(), position=position))

    def unsubscribe(self) -> None:
        """Delete the subscription and disconnect."""
        self.say(commands.unsubscribe(consumer_id=self._consumer_id, request_id=self.request_id()))
        self.stopped = True
        self.loop.call_later(1.0, self.disconnect)

    # -- reactions to the broker -----------------------------------------------------------------------------------

    def opened(self) -> None:
        """Subscribe."""
        self._consumer_id += 1
        self._used = 0
        self.held.clear()
        self.received.clear()
        self.ready = False
        body = pb.CommandSubscribe(
            topic=str(self.topic),
            subscription=self.subscription,
            subType=SUBSCRIPTION_TYPES[self.subscription],
            consumer_id=self._consumer_id,
            request_id=self._ask(),
            consumer_name=self.name,
            initialPosition=pb.CommandSubscribe.Earliest if self._earliest else pb.CommandSubscribe.Latest,
            replicate_subscription_state=self._replicated,
        )
        self.say(commands.subscribe(body))

    def closed(self) -> None:
        """Drop all entries: the broker redelivers them to other consumers."""
        self.held.clear()
        self.received.clear()
        self.ready = False

    def _receive(self, message: pb.CommandMessage, entry: bytes) -> None:
        position, metadata = position_of(message.message_id), parse_metadata(entry)
        members = max(1, metadata.num_messages_in_batch)
        remaining = ack_set.words_to_int(message.ack_set) if message.ack_set else ack_set.all_remaining(members)
        held = Held(position, text_in(metadata, entry), members, remaining)
        self.held[position] = held
        self.received.add(position)
        self.observer.delivered(self, held, entry)
        self._use(remaining.bit_count())

    def _ack(self, ids: list[pb.MessageIdData], *, confirmed: bool, cumulative: bool) -> None:
        request_id = self.request_id() if confirmed else None
        self.say(
            commands.ack(consumer_id=self._consumer_id, message_ids=ids, cumulative=cumulative, request_id=request_id)
        )
