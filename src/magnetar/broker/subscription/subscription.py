"""A subscription: its cursor, its consumers, and what acknowledging does."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.parts import Part
from magnetar.base.rates import Rates
from magnetar.broker.dispatch.consumer import Consumer
from magnetar.broker.dispatch.interfaces import DispatchedTopic
from magnetar.broker.dispatch.key_shared import KeySharedDispatcher
from magnetar.broker.dispatch.multiple_consumers import MultipleConsumersDispatcher
from magnetar.broker.dispatch.shared import SharedDispatcher
from magnetar.broker.dispatch.single_active import SingleActiveDispatcher
from magnetar.broker.environment import settle
from magnetar.broker.subscription.ack_state import AckState
from magnetar.broker.subscription.acknowledger import Acknowledger
from magnetar.broker.subscription.admission import check_room_for_consumer
from magnetar.broker.subscription.protection_record import ProtectionRecord
from magnetar.broker.subscription.shared_progress import SharingTopic
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.base.position import Position
    from magnetar.broker.dispatch.base import Dispatcher
    from magnetar.broker.dispatch.consumer import ConsumerOptions
    from magnetar.broker.environment import Environment
    from magnetar.broker.loop.departures import Departures
    from magnetar.broker.subscription.shared_progress import SharedProgress
    from magnetar.cursor.cursor import Cursor
    from magnetar.cursor.ranges import Range
    from magnetar.geo.origins.intervals import IntervalSet

REPLICATED_PROPERTY = "pulsar.replicated.subscription"
"""Cursor property of a replicated subscription; only the value 1 counts (protocol: Replicated subscriptions)."""

_TYPE_NAMES = {0: "Exclusive", 1: "Shared", 2: "Failover", 3: "Key_Shared"}


class Snapshots(Protocol):
    """The snapshots of PIP-33 that a topic takes."""

    def reached(self, subscription: Subscription, mark_delete: Position) -> None:
        """Everything up to ``mark_delete`` is acknowledged, durably."""
        ...

    def forget(self, subscription: Subscription) -> None:
        """The subscription was moved."""
        ...


class SubscribedTopic(DispatchedTopic, SharingTopic, Protocol):
    """What a subscription and its clients' sessions need of the topic."""

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """The subscriptions, by name."""
        ...

    @property
    def departures(self) -> Departures:
        """Producers and consumers that are still to be removed."""
        ...

    @property
    def snapshots(self) -> Snapshots | None:
        """None while no other cluster needs them."""
        ...

    @property
    def replication_forbidden(self) -> str:
        """Why no subscription may be replicated; empty where they may."""
        ...

    @property
    def replication_imposed(self) -> bool:
        """Whether every durable subscription is replicated, whatever its clients ask for."""
        ...

    def set_replicated(self, subscription: Subscription, *, replicated: bool) -> None:
        """Carry the subscription's progress to the other clusters, or stop."""
        ...

    def forget_subscription(self, subscription: Subscription) -> None:
        """A non-durable subscription ended with its consumer."""
        ...

    def delete_subscription(self, subscription: Subscription) -> None:
        """Delete a subscription here and, when it is replicated, everywhere; durable on return."""
        ...


class Subscription(Part):
    """One named consumption of a topic. Everything happens on the event loop's thread."""

    OWNS = ("cursor",)

    def __init__(self, topic: SubscribedTopic, cursor: Cursor, *, is_new: bool = False) -> None:
        """A subscription without consumers, where its cursor stands; ``is_new``: created now, and not loaded."""
        self.topic = topic
        self.environment: Environment = topic.environment
        self.name = cursor.name
        self.cursor = cursor
        self.type: int | None = None
        self.dispatcher: Dispatcher | None = None
        self.progress: SharedProgress | None = None
        """Its state in origin terms: set while it is replicated, and kept while that is switched off."""
        self.claims_applied: dict[str, tuple[Mapping[str, IntervalSet], Position]] = {}
        """The claims of the last update of PIP-33 of each cluster, and how far they are acknowledged here; see
        ``TopicSnapshots``. Empty after the cursor was moved."""
        self.messages_out = 0
        self.bytes_out = 0
        self.rates_out = Rates()
        self.last_acked_at = 0.0
        self.expired = 0
        """Entries that were acknowledged for their age, or evicted, since the topic was loaded."""
        self.last_expired_at = 0.0
        self._when_durable: list[Callable[[StorageError | None], None]] = []
        self._flush_timer: asyncio.TimerHandle | None = None
        self._flush_soon = False
        self._flushed_at = 0.0
        self._resets = 0
        self._waiting = 0
        """Consumers that wait to be let in."""
        self._settled = asyncio.Event()
        self._settled.set()
        self._closed = False
        self._acknowledger = Acknowledger(topic, cursor, self._narrowed)
        self.ack_state = AckState(cursor, topic.name, topic.environment, self._holders)
        self.ack_state.apply(pauses=topic.policies.pause_on_ack_state)
        self.protection = ProtectionRecord(cursor, topic.environment.clock, self.flush_soon, is_new=is_new)

    @property
    def is_durable(self) -> bool:
        """Whether it outlives its consumers."""
        return self.cursor.durable

    @property
    def is_replicated(self) -> bool:
        """Whether its progress is to go to the other clusters of the namespace; that may be forbidden meanwhile."""
        return (
            self.cursor.properties.get(REPLICATED_PROPERTY) == 1 and self.name not in self.topic.progress.switched_off
        )

    @property
    def shared_progress(self) -> SharedProgress | None:
        """What it shares with the other clusters; None while it is not replicated."""
        return self.progress if self.is_replicated else None

    @property
    def _consumed_elsewhere(self) -> str:
        """The cluster that alone may have consumers of it, if it is another one; else empty."""
        active = self.topic.policies.replicated_subscription_active_cluster
        return active if self.is_replicated and active != self.environment.cluster else ""

    @property
    def consumers(self) -> Collection[Consumer]:
        """The connected consumers, in the order in which they came."""
        return self.dispatcher.consumers if self.dispatcher else ()

    @property
    def is_in_use(self) -> bool:
        """Whether it has consumers, some wait to be let in, or a reset has disconnected them and is not durable yet."""
        return bool(self.consumers) or self._waiting > 0 or self.is_resetting

    @property
    def type_name(self) -> str:
        """Pulsar's name of the type; "None" while nobody is connected."""
        return _TYPE_NAMES[self.type] if self.type is not None and self.consumers else "None"

    @property
    def backlog(self) -> int:
        """Entries not yet acknowledged."""
        return self.cursor.state.backlog(self.topic.ledger.last_confirmed_entry)

    @property
    def delayed(self) -> int:
        """Entries of the backlog that wait for their time, exactly."""
        withheld = self.topic.delayed.withheld
        if not withheld:
            return 0
        taken = self.dispatcher.taken() if isinstance(self.dispatcher, MultipleConsumersDispatcher) else ()
        return self.topic.delayed.undeleted(self.cursor.state) - len({each for each in taken if each in withheld})

    def sent(self) -> tuple[int, int]:
        """Messages and bytes sent to consumers since the topic was loaded."""
        consumers = self.consumers
        return (
            self.messages_out + sum(consumer.messages_sent for consumer in consumers),
            self.bytes_out + sum(consumer.bytes_sent for consumer in consumers),
        )

    # -- reading ------------------------------------------------------------------------------------------------

    def first_unread(self) -> Position:
        """Where a dispatcher that starts over begins to read."""
        return self.topic.ledger.next_position(self.cursor.state.mark_delete_position)

    def undeleted(self, read_position: Position, limit: int) -> list[Range]:
        """The next entries to read, durable and not acknowledged, at most ``limit``."""
        return self._legible(read_position, self.topic.ledger.last_confirmed_entry, limit)

    def readable(self, read_position: Position, limit: int) -> list[Range]:
        """The next entries to send to consumers, at most ``limit``; none that could exceed the limits."""
        return self._legible(read_position, self.readable_through(), limit)

    def readable_through(self) -> Position:
        """How far entries may be sent to consumers."""
        return self.ack_state.readable_through(self.topic.ledger.last_confirmed_entry)

    @property
    def is_paused(self) -> bool:
        """Whether nothing new may be sent until some holes in the acknowledgements are filled (PIP-299)."""
        return self.ack_state.is_blocking

    def is_finished(self, position: Position) -> bool:
        """Whether an entry is not to be sent again: it was acknowledged, or it cannot be read any more."""
        state, damaged = self.cursor.state, self.topic.log.damaged
        return position <= state.mark_delete_position or state.is_deleted(position) or position in damaged

    def _legible(self, read_position: Position, through: Position, limit: int) -> list[Range]:
        """The next entries that are not acknowledged, past those known to be damaged: these stay unacknowledged."""
        while ranges := self.cursor.state.undeleted(read_position, through, limit):
            if not self.topic.log.damaged:
                break
            intact = [part for each in ranges for part in self.topic.log.damaged.absent(each)]
            if intact:
                return intact
            read_position = self.topic.ledger.next_position(ranges[-1].last)
        return ranges

    def apply_policies(self) -> None:
        """Follow the topic's policies as they are now."""
        if self._consumed_elsewhere:
            self.disconnect_consumers()
        if self.ack_state.apply(pauses=self.topic.policies.pause_on_ack_state):
            self.flush_soon()
            self.topic.notify()

    def dispatch(self) -> None:
        """Send what can be sent in one turn."""
        if self.dispatcher is not None:
            self.dispatcher.dispatch()

    # -- consumers ----------------------------------------------------------------------------------------------

    def rivals(self, options: ConsumerOptions) -> list[Consumer]:
        """Consumers because of which one that asks for this is refused, if they live."""
        if self.dispatcher is None or options.type != self.type:
            return []
        return self.dispatcher.rivals(options)

    def check_can_add(self, options: ConsumerOptions) -> None:
        """Raise RequestError if a consumer that asks for this is refused."""
        active = self._consumed_elsewhere
        if active:  # not one of the errors that clients retry in silence: whoever starts a consumer here has to know
            message = (
                f"Subscription {self.name} of {self.topic.name} is consumed in cluster {active}, not in "
                f"{self.environment.cluster}: see the policy replicated-subscription-active-cluster"
            )
            raise RequestError(ServerError.ConsumerBusy, message)
        check_room_for_consumer(self.environment.config, self.topic.subscriptions.values(), self)
        if self.dispatcher is None or not self.dispatcher.consumers:
            return
        if options.type != self.type:
            raise RequestError(ServerError.ConsumerBusy, "Subscription is of different type")
        self.dispatcher.check_can_add(options)

    async def waiting(self, event: Awaitable[None]) -> None:
        """Return after ``event``, for which a consumer waits before it is let in; raises what the event raises."""
        self._waiting += 1
        try:
            await event
        finally:
            self._waiting -= 1

    def add_consumer(self, consumer: Consumer) -> None:
        """Let a consumer in whom ``check_can_add`` did not refuse."""
        if self.dispatcher is None or self.type != consumer.type or not self.dispatcher.suits(consumer):
            if self.dispatcher is not None:
                self.dispatcher.close()
            self.type = consumer.type
            self.dispatcher = self._dispatcher_for(consumer)
        self.dispatcher.add(consumer)

    def _holders(self, entries: Range) -> list[Consumer]:
        return self.dispatcher.holders(entries) if self.dispatcher is not None else []

    def _dispatcher_for(self, consumer: Consumer) -> Dispatcher:
        match consumer.type:
            case pb.CommandSubscribe.Shared:
                return SharedDispatcher(self)
            case pb.CommandSubscribe.Key_Shared:
                return KeySharedDispatcher(self, consumer.key_shared_policy)
        return SingleActiveDispatcher(self, exclusive=consumer.type == pb.CommandSubscribe.Exclusive)

    def remove_consumer(self, consumer: Consumer) -> None:
        """A consumer left; a non-durable subscription leaves with it."""
        if self.dispatcher is None or consumer not in self.dispatcher.consumers:
            return
        self.messages_out += consumer.messages_sent
        self.bytes_out += consumer.bytes_sent
        self.dispatcher.remove(consumer)
        if not self.is_durable and not self.dispatcher.consumers and not self.is_resetting:
            self.topic.forget_subscription(self)

    def disconnect_consumers(self) -> None:
        """Make every consumer subscribe again, and start over from the cursor; many are told in later turns."""
        self.environment.sliced.start(object(), self.let_go(), Consumer.close)

    def let_go(self) -> Iterator[Consumer]:
        """Let go of every consumer, and return those that are still to be told (``Consumer.close``).

        From now on none of them is sent anything, and nothing is taken that they send.
        """
        dispatcher, self.dispatcher = self.dispatcher, None
        if dispatcher is None:
            return iter(())
        dispatcher.close()
        leaving = deque(dispatcher.consumers)
        self.messages_out += sum(consumer.messages_sent for consumer in leaving)
        self.bytes_out += sum(consumer.bytes_sent for consumer in leaving)
        for consumer in leaving:
            consumer.session.forget_consumer(consumer)
        if leaving and not self.is_durable and not self.is_resetting:
            self.topic.forget_subscription(self)
        return _taken_from(leaving)

    # -- acknowledging ------------------------------------------------------------------------------------------

    def acknowledge(self, consumer: Consumer, ack: pb.CommandAck, done: Callable[[StorageError | None], None]) -> None:
        """Apply one ACK; ``done`` is called once it is durable. Unknown or repeated positions have no effect."""
        now = self.environment.clock.now()
        consumer.last_acked_at = self.last_acked_at = now
        if ack.ack_type == pb.CommandAck.Cumulative:
            if isinstance(self.dispatcher, MultipleConsumersDispatcher) or len(ack.message_id) != 1:
                self.flush_with(done)
                return
            deleted = self._acknowledger.cumulative(ack.message_id[0])
        else:
            deleted = self._acknowledger.individually(ack.message_id)
        self.entries_deleted(deleted, consumer)
        if ack.HasField("request_id"):
            self.flush_with(done)
        else:
            self.flush_soon()

    def acknowledge_entries(self, consumer: Consumer, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Apply ACKs of single, whole entries of one ledger. Unknown or repeated ones have no effect."""
        consumer.last_acked_at = self.last_acked_at = self.environment.clock.now()
        self.entries_deleted(self._acknowledger.entries(ledger_id, entry_ids), consumer)
        self.flush_soon()

    def entries_deleted(self, deleted: Sequence[Range], by: Consumer | None = None) -> None:
        """Entries were newly acknowledged here: claim them towards the other clusters, and free what they held.

        ``by`` is the consumer that acknowledged them; None: it was no consumer.
        """
        if self.progress is not None and deleted:
            self.progress.acknowledged(deleted)
        self.free(deleted, by)

    def _narrowed(self, position: Position) -> None:
        if self.progress is not None:
            self.progress.narrowed(position)

    def free(self, deleted: Sequence[Range], by: Consumer | None = None) -> None:
        """Entries were newly acknowledged, here or elsewhere: nobody holds them any more."""
        if self.dispatcher is not None and deleted:
            self.dispatcher.entries_deleted(deleted, by)
            self.topic.notify()

    def acknowledge_through(self, position: Position) -> None:
        """Acknowledge everything up to and including ``position``, for whoever holds it (skip, expiry, clear)."""
        self._check_open()
        self.entries_deleted(self.cursor.acknowledge_cumulative(position))

    def acknowledge_ranges(self, ranges: Iterable[Range]) -> None:
        """Acknowledge these entries, which the log holds, for whoever holds them."""
        self._check_open()
        self.entries_deleted(self.cursor.acknowledge_ranges(ranges))

    def expire_through(self, position: Position, now: float) -> int:
        """Acknowledge what is left up to and including ``position`` because it is too old or too much; how many."""
        before = self.backlog
        self.acknowledge_through(position)
        expired = before - self.backlog
        if expired:
            self.expired += expired
            self.last_expired_at = now
            self.flush_soon()
        return expired

    def skip(self, entries: int) -> None:
        """Acknowledge the next ``entries`` entries that are not acknowledged yet."""
        ranges = self.cursor.state.undeleted(self.first_unread(), self.topic.ledger.last_confirmed_entry, entries)
        self.entries_deleted(self.cursor.acknowledge_ranges(ranges))

    # -- durability ---------------------------------------------------------------------------------------------

    def flush_soon(self) -> None:
        """Write what changed, at most once every ``acknowledgmentFlushIntervalMs``."""
        if self._flush_timer is None and not self._flush_soon:
            interval_s = self.environment.config.acknowledgmentFlushIntervalMs / 1000
            left_s = self._flushed_at + interval_s - self.environment.clock.monotonic()
            self._flush_timer = self.environment.loop.call_later(max(0.0, left_s), self.flush)

    def flush_with(self, done: Callable[[StorageError | None], None]) -> None:
        """Write what changed at the end of this turn of the loop and call ``done`` when it is durable."""
        self._when_durable.append(done)
        if not self._flush_soon:
            self._flush_soon = True
            self.environment.loop.call_soon(self.flush)

    @property
    def is_unwritten(self) -> bool:
        """Whether anything changed since the last flush."""
        return self.cursor.changed or (self.progress is not None and self.progress.is_unwritten)

    def flush(self) -> None:
        """Write what changed since the last flush, as one record."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._flush_timer, self._flush_soon = None, False
        self._flushed_at = self.environment.clock.monotonic()
        waiting, self._when_durable = self._when_durable, []
        speak = self.progress.prepare() if self.progress is not None else None
        mark_delete = self.cursor.state.mark_delete_position

        def durable(error: StorageError | None) -> None:
            if speak is not None:
                speak(error)
            if error is None and self.topic.snapshots is not None:
                self.topic.snapshots.reached(self, mark_delete)
            for done in waiting:
                done(error)

        self.cursor.flush(durable)
        self.ack_state.watch()

    async def flushed(self) -> None:
        """Return once everything that changed until now is durable; raises StorageError."""
        future: asyncio.Future[None] = self.environment.loop.create_future()
        self.flush_with(partial(settle, future))
        await future

    # -- moving -------------------------------------------------------------------------------------------------

    async def reset(self, mark_delete: Position, partial: Sequence[tuple[Position, int]] = ()) -> None:
        """Go to just after ``mark_delete``: consumers subscribe again and get everything from there.

        Of the batches in ``partial`` only the remaining members are still wanted. Durable on return. A replicated
        subscription takes the others with it (a new epoch). Raises RequestError when this subscription
        is no longer the one in use, because its topic was unloaded or it was deleted.
        """
        self._check_open()
        self._resets += 1
        self._settled.clear()
        try:
            leaving = self.let_go()  # a subscription that is not durable outlives its consumers here, as in Pulsar
            self._go_to(mark_delete, partial)
            await self.environment.slices.run(_close_each(leaving))
            await self.flushed()
        finally:
            self._resets -= 1
            if not self._resets:
                self._settled.set()

    def _go_to(self, mark_delete: Position, partial: Sequence[tuple[Position, int]]) -> None:
        self.cursor.reset(mark_delete, (), partial)
        self.claims_applied.clear()
        if self.topic.snapshots is not None:
            self.topic.snapshots.forget(self)
        if self.progress is not None:
            self.progress.moved()
            for position, _ in partial:
                self.progress.narrowed(position)

    @property
    def is_resetting(self) -> bool:
        """Whether a reset has yet to become durable.

        No consumer may come meanwhile: clients drop what they have received when their seek is answered, and would
        wait for ever for what was sent to them between (protocol: Seeks).
        """
        return self._resets > 0

    async def settled(self) -> None:
        """Return once no reset is under way, after whoever asked for it was answered."""
        await self._settled.wait()

    def _check_open(self) -> None:
        if self._closed:
            message = f"Subscription {self.name} was deleted, or its topic unloaded"
            raise RequestError(ServerError.ServiceNotReady, message)

    def close(self) -> None:
        """Stop dispatching and write what is left; consumers are told to come again."""
        self._closed = True
        self.disconnect_consumers()
        self.flush()
        self.cursor.close()


def _taken_from(consumers: deque[Consumer]) -> Iterator[Consumer]:
    """Yield consumers, and keep none of them afterwards: what they hold is freed in parts."""
    while consumers:
        yield consumers.popleft()


def _close_each(consumers: Iterator[Consumer]) -> Generator[None, None, None]:
    for consumer in consumers:
        consumer.close()
        yield
