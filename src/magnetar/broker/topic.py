"""A topic: its log, whose entries are whose, and who publishes to and consumes from it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import RequestError, ServerError, StorageError
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.access import ProducerAccess
from magnetar.broker.backlog_quotas import BacklogQuotas
from magnetar.broker.deduplication import CURSOR_NAME, Deduplication
from magnetar.broker.delayed.index import DelayedIndex
from magnetar.broker.origin_summaries import OriginSummaries
from magnetar.broker.producer import REPLICATOR_PREFIX, LocalProducer
from magnetar.broker.progress import SubscriptionProgressKeeper, TopicProgress
from magnetar.broker.rates import Rates
from magnetar.broker.receiver import ReplicatedProducer
from magnetar.broker.replicator import Replicator
from magnetar.broker.subscription import REPLICATED_PROPERTY, Subscription
from magnetar.cursor.ranges import DeletedEntries, Range
from magnetar.cursor.store import CursorStore
from magnetar.geo.annotation import encode_annotation
from magnetar.geo.origins import OriginIndex
from magnetar.wire import entry as wire_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.errors import DamagedEntriesError
    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.producer import Producer
    from magnetar.cursor.cursor import Cursor
    from magnetar.geo.annotation import Annotation
    from magnetar.geo.progress import SubscriptionProgress
    from magnetar.ledger.managed_ledger import ManagedLedger

log = structlog.get_logger(__name__)

_ORIGINS_PROPERTY = "magnetar.origins"
"""Managed-ledger property: the newest position of each origin when entries were last trimmed, as JSON."""

_EPOCH_PROPERTY = "pulsar.topic.epoch"
"""Managed-ledger property: the epoch of the last exclusive producer."""


@dataclass(slots=True)
class TopicCounters:
    """What went in since the topic was loaded."""

    messages_in: int = 0
    bytes_in: int = 0


class Topic:
    """One topic of this cluster, the only writer of its log. Everything happens on the event loop's thread."""

    def __init__(self, environment: Environment, name: TopicName, ledger: ManagedLedger) -> None:
        """Recover the topic from its log and its cursors."""
        self.environment = environment
        self.name = name
        self.ledger = ledger
        self.policies = environment.policies_of(name)
        self.backlog_quotas = BacklogQuotas(self)
        self.counters = TopicCounters()
        self.rates_in = Rates()
        stored_epoch = ledger.properties.get(_EPOCH_PROPERTY)
        self.access = ProducerAccess(
            None if stored_epoch is None else int(stored_epoch),
            lambda epoch: ledger.set_property(_EPOCH_PROPERTY, str(epoch)),
        )
        self.producers: dict[str, Producer] = {}
        trimmed: dict[str, str] = json.loads(ledger.properties.get(_ORIGINS_PROPERTY, "{}"))
        self.index = OriginIndex(
            environment.cluster, {cluster: Position.parse(position) for cluster, position in trimmed.items()}
        )
        self.delayed = DelayedIndex(
            environment.delayed, ledger, environment.clock, lambda: self.policies.delayed_delivery, self.notify
        )
        self.subscriptions: dict[str, Subscription] = {}
        self.replicators: dict[str, Replicator] = {}
        self.progress = TopicProgress(self)
        self.cursors = CursorStore(
            environment.store, environment.metadata, str(name), ledger, environment.cursor_limits
        )
        self.deduplication = Deduplication(self)
        self.damaged = DeletedEntries()
        """Entries that were found not to be what was written: nobody gets them, and nobody acknowledges them."""
        self.is_closing = False
        """Set when it, or its producers, are about to be closed: entries that come then are dropped, unanswered."""
        self._is_dismissing = False
        self._dispatch_scheduled = False
        self._failure: StorageError | None = None
        self.origins = OriginSummaries(environment.metadata, name, ledger)
        self._recover_index()
        for cursor in self.cursors.open_all():
            if cursor.name != CURSOR_NAME and not cursor.name.startswith(REPLICATOR_PREFIX):
                self._add_subscription(Subscription(self, cursor))
        self.apply_policies()

    # -- publishing ---------------------------------------------------------------------------------------------

    def append_own(self, entries: list[bytes], durable: Callable[[Position, StorageError | None], None]) -> None:
        """Append entries that were produced in this cluster; ``durable`` gets the first one's position."""
        if self._refuses(durable):
            return
        first = self._append(entries, durable)
        if first is not None:
            self.index.append(self.environment.cluster, first, len(entries), first)

    def append_replicated(
        self,
        origin: Annotation,
        entries: list[bytes],
        durable: Callable[[Position, StorageError | None], None],
    ) -> None:
        """Append entries of another cluster; what is acknowledged already is never dispatched."""
        if self._refuses(durable):
            return
        annotation = encode_annotation(origin.cluster, origin.extents, link_start=origin.link_start)
        first = self._append(entries, durable, annotation)
        if first is None:
            return
        self._index_replicated(origin, first)
        for subscription in self.subscriptions.values():
            if subscription.progress is not None:
                subscription.progress.arrived(origin)

    def _append(
        self, entries: list[bytes], durable: Callable[[Position, StorageError | None], None], annotation: bytes = b""
    ) -> Position | None:
        """Append a run; None if not even a ledger could be begun for it."""
        try:
            return self.ledger.append(entries, self._when_durable(entries, durable, annotation), annotation)
        except StorageError as error:
            log.exception("publish_failed", topic=str(self.name))
            self.environment.loop.call_soon(durable, EARLIEST, error)
            self.dismiss_publishers()
            return None

    def barrier(self, done: Callable[[StorageError | None], None]) -> None:
        """Call ``done`` once everything appended until now is durable, or with why something never will be."""
        self.environment.store.barrier(lambda error: done(error or self._failure))

    def _when_durable(
        self, entries: list[bytes], durable: Callable[[Position, StorageError | None], None], annotation: bytes
    ) -> Callable[[Position, StorageError | None], None]:
        def confirmed(first: Position, error: StorageError | None) -> None:
            durable(first, error)
            if error is None:
                self.counters.bytes_in += sum(map(len, entries))
                self.origins.appended(first, len(entries), annotation)
                if self.delayed.is_expecting:
                    self.delayed.appended(first, entries)
                self.notify()
            elif self._failure is None:
                log.error("publish_failed", topic=str(self.name), error=str(error))
                self._failure = error
                self.environment.unload(self.name)

        return confirmed

    def _refuses(self, durable: Callable[[Position, StorageError | None], None]) -> bool:
        """After a failed write nothing is appended until the topic has started over from its log.

        What is in memory is ahead of the log, and the positions that failed would be given to other entries.
        """
        failure = self._failure or self.environment.store.state.refusal
        if failure is not None:
            self.environment.loop.call_soon(durable, EARLIEST, failure)
            self.dismiss_publishers()
        return failure is not None

    def notify(self) -> None:
        """There may be something to dispatch: look at the end of this turn."""
        if not self._dispatch_scheduled:
            self._dispatch_scheduled = True
            self.environment.loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._dispatch_scheduled = False
        for subscription in tuple(self.subscriptions.values()):
            subscription.dispatch()
        for replicator in tuple(self.replicators.values()):
            replicator.dispatch()

    # -- producers ----------------------------------------------------------------------------------------------

    def admit_producer(self, producer: LocalProducer, topic_epoch: int | None) -> bool:
        """Let a client's producer in; False: it waits for exclusive access. Raises RequestError."""
        if producer.options.name in self.producers:
            message = f"Producer with name '{producer.options.name}' is already connected to topic"
            raise RequestError(ServerError.ProducerBusy, message)
        others = [other for other in self.producers.values() if isinstance(other, LocalProducer)]
        ready, fenced = self.access.admit(producer, others, topic_epoch)
        for other in fenced:
            other.session.close_producer(other)
        if ready:
            self._enter(producer)
        return ready

    def _enter(self, producer: Producer) -> None:
        self.producers[producer.options.name] = producer
        if isinstance(producer, LocalProducer):
            self.deduplication.joined(producer.options.name)

    def replace_producer(self, producer: Producer) -> None:
        """Let a link's producer in; an older one of the same name is told to go, a newer one stays."""
        other = self.producers.get(producer.options.name)
        if other is not None:
            if other.options.epoch > producer.options.epoch:
                message = f"{other.options.name} is connected with the newer epoch {other.options.epoch}"
                raise RequestError(ServerError.ProducerBusy, message)
            other.session.close_producer(other)
        self._enter(producer)

    def remove_producer(self, producer: Producer) -> None:
        """A producer left; one that waits for the topic may have it now."""
        if self.producers.get(producer.options.name) is producer:
            del self.producers[producer.options.name]
            self.deduplication.left(producer.options.name)
        successor = self.access.leave(producer)
        if successor is not None:
            self._enter(successor)

    def dismiss_publishers(self) -> None:
        """Send everybody away who publishes, behind the receipts of what was taken; they may come again."""
        if self.is_closing:
            return
        self.is_closing = self._is_dismissing = True

        def dismissed(_: StorageError | None) -> None:
            for producer in tuple(self.producers.values()):
                if isinstance(producer, LocalProducer | ReplicatedProducer):
                    producer.session.close_producer(producer)
            if self._is_dismissing:
                self.is_closing = self._is_dismissing = False

        self.barrier(dismissed)

    def begin_closing(self) -> None:
        """Take no entries from now on: what comes is dropped, unanswered, and sent again to the topic's next run."""
        self.is_closing, self._is_dismissing = True, False

    # -- subscriptions ------------------------------------------------------------------------------------------

    def before_first(self) -> Position:
        """The position before the oldest entry there is."""
        return self.ledger.previous_position(self.ledger.first_position)

    def create_subscription(
        self, name: str, mark_delete: Position, *, durable: bool = True, properties: dict[str, str] | None = None
    ) -> Subscription:
        """Create a subscription that starts after ``mark_delete``."""
        cursor = self.cursors.create(name, mark_delete, durable=durable, subscription_properties=properties or {})
        subscription = Subscription(self, cursor)
        self._add_subscription(subscription)
        if durable:
            subscription.flush()
        return subscription

    def ensure_subscription(self, name: str) -> None:
        """Create a durable subscription at the earliest position unless it is there."""
        if name not in self.subscriptions:
            if not self.environment.config.allowAutoSubscriptionCreation:
                message = f"Subscription {name} does not exist and may not be created automatically"
                raise RequestError(ServerError.NotAllowedError, message)
            self.create_subscription(name, self.before_first())

    def delete_subscription(self, subscription: Subscription) -> None:
        """Delete a subscription here and, when it is replicated, everywhere; durable on return."""
        self.progress.bury(subscription)

    def create_replicated(self, incoming: SubscriptionProgress) -> None:
        """Create a subscription whose state arrived from another cluster: it starts where that says."""
        cursor = self.cursors.create(incoming.name, self.before_first())
        cursor.set_property(REPLICATED_PROPERTY, 1)
        subscription = Subscription(self, cursor)
        self.subscriptions[incoming.name] = subscription
        SubscriptionProgressKeeper.adopt(self, subscription, incoming)
        self.progress.changed()

    def remove_subscription(self, subscription: Subscription) -> None:
        """Remove a subscription and its cursor here."""
        subscription.close()
        self.subscriptions.pop(subscription.name, None)
        self.cursors.delete(subscription.name)
        self.progress.changed()

    def forget_subscription(self, subscription: Subscription) -> None:
        """A non-durable subscription ended with its consumer."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            subscription.close()

    def set_replicated(self, subscription: Subscription, *, replicated: bool) -> None:
        """Carry the subscription's progress to the other clusters, or stop doing so."""
        if replicated == subscription.is_replicated:
            return
        subscription.cursor.set_property(REPLICATED_PROPERTY, 1 if replicated else None)
        if replicated:
            subscription.progress = SubscriptionProgressKeeper.begin(self, subscription)
        else:
            subscription.progress = None
            subscription.cursor.checkpoint_attachment = None
        subscription.flush()
        self.progress.changed()

    def _add_subscription(self, subscription: Subscription) -> None:
        self.subscriptions[subscription.name] = subscription
        if subscription.is_replicated:
            subscription.progress = SubscriptionProgressKeeper.recover(self, subscription)

    # -- links --------------------------------------------------------------------------------------------------

    def replicator(self, target: str) -> Replicator:
        """The link to ``target``; raises RequestError if the namespace does not replicate there."""
        replicator = self.replicators.get(target)
        if replicator is None:
            message = f"{self.name} is not replicated to {target}: its namespace's replication clusters do not have it"
            raise RequestError(ServerError.SubscriptionNotFound, message)
        return replicator

    def apply_policies(self) -> None:
        """Follow the policies as they are now, and bring the links in line with the replication clusters."""
        self.policies = self.environment.policies_of(self.name)
        self.deduplication.apply(enabled=self.policies.deduplication_enabled)
        self.delayed.policies_changed()
        targets = self.environment.targets_of(self.name.namespace_name)
        for target in [target for target in self.replicators if target not in targets]:
            self.replicators.pop(target).close()
        for name in [name for name in self.cursors.names() if name.startswith(REPLICATOR_PREFIX)]:
            if name.removeprefix(REPLICATOR_PREFIX) not in targets:
                self.cursors.delete(name)
        for target in targets:
            if target not in self.replicators:
                name = f"{REPLICATOR_PREFIX}{target}"
                cursor = self.cursors.open(name) or self.cursors.create(name, self._link_start())
                cursor.flush(lambda _: None)
                self.replicators[target] = Replicator(self, target, cursor)
        for subscription in self.subscriptions.values():
            subscription.apply_policies()
        self.progress.changed()

    def _link_start(self) -> Position:
        if self.environment.config.replicationStartAt == "latest":
            return self.ledger.last_confirmed_entry
        return self.before_first()

    def inbound_sources(self) -> list[str]:
        """The clusters whose entries a connected producer brings."""
        return [producer.source for producer in self.producers.values() if isinstance(producer, ReplicatedProducer)]

    def inbound(self, source: str) -> ReplicatedProducer | None:
        """The producer that brings the entries of ``source``, while it is connected."""
        for producer in self.producers.values():
            if isinstance(producer, ReplicatedProducer) and producer.source == source:
                return producer
        return None

    # -- damage -------------------------------------------------------------------------------------------------

    def note_damage(self, error: DamagedEntriesError) -> None:
        """Entries turned out to be damaged: say so once, and have consumers sent what lies behind them."""
        found = Range(Position(error.ledger_id, error.first), Position(error.ledger_id, error.end - 1))
        if self.damaged.add_range(found):
            first, last = map(str, found)
            log.error("entries_damaged", topic=str(self.name), first=first, last=last, error=str(error))

    # -- looking ------------------------------------------------------------------------------------------------

    async def read_entry(self, position: Position) -> bytes:
        """One entry; raises RequestError if there is none at ``position``."""
        if not self.ledger.contains(position) or position > self.ledger.last_confirmed_entry:
            raise RequestError(ServerError.MetadataError, f"Message id {position} not found")
        entries = self.ledger.read_cached(position, 1, 1) or await self.ledger.read(position, 1, 1)
        return entries[0][1]

    async def last_message(self) -> tuple[Position, int | None]:
        """The newest durable entry and the size of its batch (None: no batch); ``-1:-1`` when the topic is empty."""
        position = self.ledger.last_confirmed_entry
        if not self.ledger.contains(position):
            return EARLIEST, None
        metadata = wire_entry.parse_metadata(await self.read_entry(position))
        return position, metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else None

    async def position_before_time(self, time_ms: int) -> Position:
        """The position after which every entry was published at ``time_ms`` or later (by their producers' clocks)."""
        first, last = self.ledger.first_position, self.ledger.last_confirmed_entry
        before = self.before_first()
        low, high = 0, self.ledger.count(before, last)
        while low < high:
            middle = (low + high) // 2
            position = self.ledger.position_at(first, middle)
            if wire_entry.publish_time_ms(await self.read_entry(position)) < time_ms:
                low = middle + 1
            else:
                high = middle
        return before if low == 0 else self.ledger.position_at(first, low - 1)

    # -- housekeeping -------------------------------------------------------------------------------------------

    def consumer_cursors(self) -> list[Cursor]:
        """The durable cursors of those who consume: subscriptions and links."""
        cursors = [subscription.cursor for subscription in self.subscriptions.values() if subscription.is_durable]
        return cursors + [replicator.cursor for replicator in self.replicators.values()]

    def all_cursors(self) -> list[Cursor]:
        """The cursors that hold entries back from being trimmed: consumers', and that of deduplication."""
        cursors = self.consumer_cursors()
        return cursors if self.deduplication.cursor is None else [*cursors, self.deduplication.cursor]

    def measure(self, now: float) -> None:
        """Update the rates, and tidy up what is delayed; ``now`` in monotonic seconds."""
        self.rates_in.update(now, self.counters.messages_in, self.counters.bytes_in)
        for subscription in self.subscriptions.values():
            subscription.rates_out.update(now, *subscription.sent())
        for replicator in self.replicators.values():
            replicator.rates_out.update(now, replicator.entries_out, replicator.bytes_out)
        self.delayed.tidy()

    def trim(self, *, by_age: bool = True) -> None:
        """Delete ledgers that everybody has acknowledged and that retention does not keep.

        Without ``by_age`` those whose time is over stay. Happens once all claims on what may go are durable: afterwards
        the index no longer knows it.
        """
        self.deduplication.snapshot()
        consumed = min(
            (cursor.state.mark_delete_position for cursor in self.all_cursors()),
            default=self.ledger.last_confirmed_entry,
        )
        for subscription in self.subscriptions.values():
            subscription.flush()
        self.barrier(lambda error: self._trim(consumed, by_age=by_age) if error is None else None)

    def _trim(self, consumed: Position, *, by_age: bool) -> None:
        # A subscription may have been created, or moved back, in the meantime.
        consumed = min([consumed, *(cursor.state.mark_delete_position for cursor in self.all_cursors())])
        now_ms = int(self.environment.clock.now() * 1000)
        retained = self.policies.retention
        minutes = retained.retentionTimeInMinutes if by_age or retained.retentionTimeInMinutes == 0 else -1
        first = self.ledger.trim(consumed, now_ms, (minutes, retained.retentionSizeInMB), self._remember_origins)
        if first is not None:
            self.index.trim(first)
            self.origins.trimmed()
            self.delayed.trim(first)
        self.origins.save()

    def _remember_origins(self, trimmed_through: Position) -> dict[str, str]:
        """What is trimmed can no longer tell how far each origin has come."""
        positions = self.index.positions_at(trimmed_through)
        return {_ORIGINS_PROPERTY: json.dumps({cluster: str(position) for cluster, position in positions.items()})}

    def close(self) -> None:
        """Make every client look the topic up again, and write what is left."""
        self.begin_closing()
        for producer in (*self.access.waiting, *self.producers.values()):
            producer.session.close_producer(producer)
        self.progress.close()
        self.deduplication.close()
        for replicator in self.replicators.values():
            replicator.close()
        for subscription in tuple(self.subscriptions.values()):
            subscription.close()
        self.delayed.close()
        self.ledger.close()
        self.origins.save()

    def delete(self) -> None:
        """Remove the topic, its log and its cursors for good."""
        self.close()
        for name in self.cursors.names():
            self.cursors.delete(name)
        self.origins.delete()
        self.delayed.delete()
        self.ledger.delete()

    def _recover_index(self) -> None:
        for first, (count, origin) in self.origins.recover():
            if origin is not None:
                self._index_replicated(origin, first)
            else:
                self.index.append(self.environment.cluster, first, count, first)

    def _index_replicated(self, origin: Annotation, first: Position) -> None:
        for extent in origin.extents:
            self.index.append(origin.cluster, extent.origin_first, extent.count, first, extent.floor)
            first = first._replace(entry_id=first.entry_id + extent.count)
