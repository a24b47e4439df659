"""A subscription: its cursor, its consumers, and the effects of acknowledgements."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.parts import Part
from magnetar.base.rates import Rates
from magnetar.broker.dispatch.consumer import Consumer
from magnetar.broker.dispatch.interfaces import DispatchedTopic
from magnetar.broker.loop.slices import taken_from
from magnetar.broker.loop.under_way import UnderWay
from magnetar.broker.subscription.ack_state import AckState
from magnetar.broker.subscription.acknowledger import Acknowledger
from magnetar.broker.subscription.admission import check_room_for_consumer
from magnetar.broker.subscription.consumers import SubscriptionConsumers, dispatcher_for
from magnetar.broker.subscription.flushes import Flushes
from magnetar.broker.subscription.names import UNUSED_SINCE
from magnetar.broker.subscription.protection_record import ProtectionRecord
from magnetar.broker.subscription.requests import SubscriptionRequests
from magnetar.broker.subscription.resets import Resets
from magnetar.broker.subscription.shared_progress import SharingTopic
from magnetar.broker.subscription.unread import UnreadEntries
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.base.position import Position
    from magnetar.broker.dispatch.consumer import ConsumerOptions
    from magnetar.broker.environment import Environment
    from magnetar.broker.subscription.shared_progress import SharedProgress
    from magnetar.cursor.cursor import Cursor
    from magnetar.cursor.ranges import Range
    from magnetar.geo.origins.intervals import IntervalSet
    from magnetar.geo.snapshots.markers import SubscriptionUpdate
    from magnetar.metadata.store import OnDurable

REPLICATED_PROPERTY = "pulsar.replicated.subscription"
"""Cursor property of a replicated subscription; only the value 1 counts (protocol: Replicated subscriptions)."""


class Snapshots(Protocol):
    """The snapshots of PIP-33 of a topic."""

    def reached(self, subscription: Subscription, mark_delete: Position) -> None:
        """Everything up to ``mark_delete`` is acknowledged, durably."""
        ...

    def forget(self, subscription: Subscription) -> None:
        """Handle a moved cursor."""
        ...


class SubscribedTopic(DispatchedTopic, SharingTopic, Protocol):
    """The topic, as a subscription and the sessions of its clients use it."""

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """The subscriptions, by name."""
        ...

    @property
    def departures(self) -> UnderWay:
        """Producers and consumers that are being removed."""
        ...

    @property
    def snapshots(self) -> Snapshots | None:
        """The snapshots of the topic; None while no other cluster needs them."""
        ...

    @property
    def replication_forbidden(self) -> str:
        """Reason why no subscription may be replicated; empty if they may."""
        ...

    @property
    def replication_imposed(self) -> bool:
        """Whether every durable subscription is replicated, independent of its clients."""
        ...

    def set_replicated(self, subscription: Subscription, *, replicated: bool) -> None:
        """Start or stop the replication of a subscription."""
        ...

    def forget_subscription(self, subscription: Subscription) -> None:
        """Remove a non-durable subscription, whose consumer has left."""
        ...

    def delete_subscription(self, subscription: Subscription, done: OnDurable) -> None:
        """Delete a subscription, in all clusters if it is replicated; ``done`` is called when that is durable."""
        ...


class Subscription(Part):
    """A named subscription of a topic. Used on the event loop's thread."""

    OWNS = ("cursor",)

    def __init__(self, topic: SubscribedTopic, cursor: Cursor, *, is_new: bool = False) -> None:
        """Create it without consumers, at the position of its cursor; ``is_new``: created now, not loaded."""
        self.topic = topic
        self.environment: Environment = topic.environment
        self.name = cursor.name
        self.cursor = cursor
        self.progress: SharedProgress | None = None
        """The state in origin positions: set while it is replicated, and kept while replication is disabled."""
        self.claims_applied: dict[str, tuple[Mapping[str, IntervalSet], Position]] = {}
        """Claims of the last update of PIP-33 from each cluster, and the position up to which they are acknowledged
        here; see ``TopicSnapshots``. Empty after the cursor was moved."""
        self.last_updates: dict[str, SubscriptionUpdate] = {}
        """Last update of PIP-33 from each cluster, which its link may repeat; kept when the cursor is moved."""
        self.rates = Rates(5)
        """Rates of the counters of its consumers, and of ``expired``."""
        self.last_acked_at = 0.0
        self.expired = 0
        """Entries that expired or were evicted since the topic was loaded."""
        self.last_expired_at = 0.0
        self._admissions = UnderWay()
        """Number of consumers that wait for admission."""
        self.resets = Resets(self.environment.loop, None if cursor.durable else self._end_without_consumers)
        self._closed = False
        self._acknowledger = Acknowledger(topic, cursor, self._narrowed)
        self.consumers = SubscriptionConsumers()
        self.ack_state = AckState(cursor, topic.name, topic.environment, self.consumers.holders)
        self.ack_state.apply(pauses=topic.policies.pause_on_ack_state)
        self.unread = UnreadEntries(topic, cursor, self.ack_state)
        delete = partial(topic.delete_subscription, self)
        self.requests = SubscriptionRequests(self, delete, partial(topic.set_replicated, self, replicated=True))
        self.flushes = Flushes(self, self._reached)
        self.protection = ProtectionRecord(cursor, topic.environment.clock, self.flushes.soon, is_new=is_new)

    @property
    def is_durable(self) -> bool:
        """Whether the subscription outlives its consumers."""
        return self.cursor.durable

    @property
    def is_replicated(self) -> bool:
        """Whether the subscription is to be replicated; a policy may forbid it at present."""
        return (
            self.cursor.properties.get(REPLICATED_PROPERTY) == 1 and self.name not in self.topic.progress.switched_off
        )

    @property
    def shared_progress(self) -> SharedProgress | None:
        """Progress shared with the other clusters; None while it is not replicated."""
        return self.progress if self.is_replicated else None

    @property
    def _consumed_elsewhere(self) -> str:
        """The active cluster, if consumers are restricted to another cluster; else empty."""
        active = self.topic.policies.replicated_subscription_active_cluster
        return active if self.is_replicated and active != self.environment.cluster else ""

    @property
    def is_in_use(self) -> bool:
        """Whether there are connected or waiting consumers, or a reset that disconnected them is not durable yet."""
        return bool(self.consumers or self._admissions or self.resets)

    @property
    def backlog(self) -> int:
        """Number of unacknowledged entries."""
        return self.cursor.state.backlog(self.topic.ledger.last_confirmed_entry)

    @property
    def delayed(self) -> int:
        """Exact number of delayed entries in the backlog."""
        withheld = self.topic.delayed.withheld
        if not withheld:
            return 0
        taken = {each for each in self.consumers.taken() if each in withheld}
        return withheld.undeleted(self.cursor.state) - len(taken)

    def apply_policies(self) -> None:
        """Apply the current policies of the topic."""
        if self._consumed_elsewhere:
            self.disconnect_consumers()
        if self.ack_state.apply(pauses=self.topic.policies.pause_on_ack_state):
            self.flushes.soon()
            self.topic.notify()
        if self.consumers.dispatcher is not None:
            self.consumers.dispatcher.limits_changed()

    def dispatch(self) -> None:
        """Dispatch as much as one turn allows."""
        dispatcher = self.consumers.dispatcher
        if dispatcher is not None:
            dispatcher.dispatch()

    # -- consumers ----------------------------------------------------------------------------------------------

    def check_can_add(self, options: ConsumerOptions) -> None:
        """Raise RequestError if a consumer with this request is refused."""
        active = self._consumed_elsewhere
        if active:  # clients do not retry this error silently, so that the operator of a new consumer notices
            message = (
                f"Subscription {self.name} of {self.topic.name} is consumed in cluster {active}, not in "
                f"{self.environment.cluster}: see the policy replicated-subscription-active-cluster"
            )
            raise RequestError(ServerError.ConsumerBusy, message)
        check_room_for_consumer(self.topic.policies, self.topic.subscriptions.values(), self)
        self.consumers.check_can_add(options)

    async def waiting(self, event: Awaitable[None]) -> None:
        """Await ``event`` for a consumer that waits for admission; raises the error of the event."""
        self._admissions.begin()
        try:
            await event
        finally:
            self._admissions.end()

    def add_consumer(self, consumer: Consumer) -> None:
        """Admit a consumer that ``check_can_add`` accepted."""
        if UNUSED_SINCE in self.cursor.properties:
            self.cursor.set_property(UNUSED_SINCE, None)
            self.flushes.soon()
        self.consumers.add(consumer, partial(dispatcher_for, self.unread))
        if self.topic.log.termination.is_over and not self.backlog:
            consumer.tell_end(is_new=True)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer; a non-durable subscription is removed with it."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            self._end_without_consumers()

    def disconnect_consumers(self) -> None:
        """Disconnect all consumers, many in later turns, and restart dispatch from the cursor."""
        self.environment.sliced.start(object(), self.detach_all(), Consumer.close)

    def detach_all(self) -> Iterator[Consumer]:
        """Remove all consumers, and return them for ``Consumer.close``.

        From now on they get no messages, and their commands are ignored.
        """
        leaving = self.consumers.detach_all()
        if leaving:
            self._end_without_consumers()
        return taken_from(leaving)

    def _end_without_consumers(self) -> None:
        if not (self.is_durable or self.consumers or self.resets or self._closed):
            self.topic.forget_subscription(self)

    # -- acknowledging ------------------------------------------------------------------------------------------

    def acknowledge(self, consumer: Consumer, ack: pb.CommandAck, done: Callable[[StorageError | None], None]) -> None:
        """Apply one ACK; ``done`` is called when it is durable. Unknown or repeated positions have no effect."""
        now = self.environment.clock.now()
        consumer.last_acked_at = self.last_acked_at = now
        if ack.ack_type == pb.CommandAck.Cumulative:
            if self.consumers.is_tracked or len(ack.message_id) != 1:
                self.flushes.then(done)
                return
            deleted = self._acknowledger.cumulative(ack.message_id[0])
        else:
            deleted = self._acknowledger.individually(ack.message_id)
        self.entries_deleted(deleted, consumer)
        batches = [self._acknowledger.place(each) for each in ack.message_id if each.ack_set]
        if batches:
            self.consumers.messages_deleted(batches, consumer)
        if ack.HasField("request_id"):
            self.flushes.then(done)
        else:
            self.flushes.soon()

    def acknowledge_entries(self, consumer: Consumer, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Apply ACKs of single, whole entries of one ledger. Unknown or repeated ones have no effect."""
        consumer.last_acked_at = self.last_acked_at = self.environment.clock.now()
        self.entries_deleted(self._acknowledger.entries(ledger_id, entry_ids), consumer)
        self.flushes.soon()

    def entries_deleted(self, deleted: Sequence[Range], by: Consumer | None = None) -> None:
        """Claim newly acknowledged entries for the other clusters, and release them.

        ``by`` is the consumer that acknowledged them; None if it was not a consumer.
        """
        if self.progress is not None and deleted:
            self.progress.acknowledged(deleted)
        self.free(deleted, by)

    def _narrowed(self, position: Position) -> None:
        if self.progress is not None:
            self.progress.narrowed(position)

    def free(self, deleted: Sequence[Range], by: Consumer | None = None) -> None:
        """Release entries that were acknowledged, here or in another cluster, from the consumers that hold them."""
        dispatcher = self.consumers.dispatcher
        if dispatcher is not None and deleted:
            dispatcher.entries_deleted(deleted, by)
            self.topic.notify()
            if self.topic.log.termination.is_over:
                self.tell_end()

    def tell_end(self) -> None:
        """Tell the consumers of a terminated topic that it is read to its end, once it is."""
        if not self.backlog:
            self.environment.sliced.start(object(), tuple(self.consumers), Consumer.tell_end)

    def acknowledge_through(self, position: Position) -> None:
        """Acknowledge all entries up to and including ``position``, also held ones (skip, expiry, clear)."""
        self._check_open()
        self.entries_deleted(self.cursor.acknowledge_cumulative(position))

    def acknowledge_ranges(self, ranges: Iterable[Range]) -> None:
        """Acknowledge these entries of the log, also those that consumers hold."""
        self._check_open()
        self.entries_deleted(self.cursor.acknowledge_ranges(ranges))

    def expire_through(self, position: Position, now: float) -> int:
        """Expire or evict the remaining entries up to and including ``position``; return their number.

        Nothing expires while a migration has fenced the topic.
        """
        if self.topic.log.migration_fence.is_set:
            return 0
        before = self.backlog
        self.acknowledge_through(position)
        expired = before - self.backlog
        if expired:
            self.expired += expired
            self.last_expired_at = now
            self.flushes.soon()
        return expired

    async def skip(self, entries: int) -> None:
        """Acknowledge the next ``entries`` unacknowledged entries, or all of the log at this time if it has fewer."""
        if not entries:
            return
        last = self.topic.ledger.last_confirmed_entry  # entries that arrive meanwhile may be more than these
        through = await self.environment.slices.run(self.unread.nth(entries, with_damaged=True))
        self.topic.log.migration_fence.check_change()
        self.acknowledge_through(last if through is None else through)

    def _reached(self, mark_delete: Position) -> None:
        """Everything up to ``mark_delete`` is acknowledged, durably."""
        if self.topic.snapshots is not None:
            self.topic.snapshots.reached(self, mark_delete)

    # -- moving -------------------------------------------------------------------------------------------------

    async def reset(self, mark_delete: Position, partial: Sequence[tuple[Position, int]] = ()) -> None:
        """Move the cursor to ``mark_delete``: consumers subscribe again and get all later entries.

        Of the batches in ``partial``, only the remaining members are delivered. Durable on return. For a replicated
        subscription, other clusters follow (a new epoch). Raises RequestError if this object is no longer in use,
        because the topic was unloaded or the subscription deleted, or while a migration has fenced the topic. A reset
        that is cancelled is finished nevertheless.
        """
        self._check_open()
        if self.is_durable:
            self.topic.log.migration_fence.check_clients()
        self.resets.begin()
        leaving = self.detach_all()  # a non-durable subscription outlives its consumers, see Resets
        self._go_to(mark_delete, partial)
        try:
            await self.environment.slices.run(_close_each(leaving))
            await self.flushes.durable()
        except asyncio.CancelledError:  # its client has left; the consumers of others must subscribe again
            self.environment.sliced.start(object(), leaving, Consumer.close)
            self.flushes.soon()
            raise
        finally:
            self.resets.end()

    def _go_to(self, mark_delete: Position, partial: Sequence[tuple[Position, int]]) -> None:
        self.cursor.reset(mark_delete, (), partial)
        self.claims_applied.clear()
        if self.topic.snapshots is not None:
            self.topic.snapshots.forget(self)
        if self.progress is not None:
            self.progress.moved()
            for position, _ in partial:
                self.progress.narrowed(position)

    def _check_open(self) -> None:
        if self._closed:
            message = f"Subscription {self.name} was deleted, or its topic unloaded"
            raise RequestError(ServerError.ServiceNotReady, message)

    def close(self) -> None:
        """Stop dispatch and write remaining changes; consumers are disconnected and reconnect."""
        self._closed = True
        self.unread.close()
        self.disconnect_consumers()
        self.flushes.now()
        self.cursor.close()


def _close_each(consumers: Iterator[Consumer]) -> Generator[None, None, None]:
    for consumer in consumers:
        consumer.close()
        yield
