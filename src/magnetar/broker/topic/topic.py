"""A topic: its log, producers, subscriptions and links."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import MagnetarError, RequestError, ServerError
from magnetar.base.parts import Part
from magnetar.broker.delayed.index import DelayedIndex
from magnetar.broker.log.skipped_entries import SkippedEntries
from magnetar.broker.log.topic_log import TopicLog
from magnetar.broker.loop.turns import Share
from magnetar.broker.loop.under_way import UnderWay
from magnetar.broker.publish.arrivals import Arrivals
from magnetar.broker.publish.deduplication import Deduplication
from magnetar.broker.publish.lag_limit import LagLimit
from magnetar.broker.replication.progress.topic_progress import TopicProgress
from magnetar.broker.replication.protection import note_protection
from magnetar.broker.replication.snapshots import TopicSnapshots, marker_peers, takes_markers
from magnetar.broker.resources.topic_rates import TopicRates
from magnetar.broker.settings.replication_policy import is_imposed, reason_against
from magnetar.broker.subscription.consumers import SentToRemoved
from magnetar.broker.subscription.entrance import TopicEntrance
from magnetar.broker.subscription.names import check_subscription_name, is_of_a_subscription
from magnetar.broker.subscription.shared_progress import SharedProgress
from magnetar.broker.subscription.subscription import REPLICATED_PROPERTY, Subscription
from magnetar.broker.topic.backlog_quotas import BacklogQuotas
from magnetar.broker.topic.lifecycle import Event
from magnetar.broker.topic.links import TopicLinks
from magnetar.broker.topic.producers import TopicProducers
from magnetar.cursor.store import CursorStore
from magnetar.wire.entries.markers import PROBE, SNAPSHOT_REQUEST

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from magnetar.base.errors import StorageError
    from magnetar.base.names import TopicName
    from magnetar.base.position import Position
    from magnetar.broker.environment import Environment
    from magnetar.broker.log.topic_log import Durable
    from magnetar.broker.replication.outbound.replicator import Replicator
    from magnetar.broker.topic.lifecycle import Lifecycle
    from magnetar.cursor.cursor import Cursor
    from magnetar.geo.origins.annotation import Annotation
    from magnetar.geo.progress.state import SubscriptionProgress
    from magnetar.ledger.managed_ledger import ManagedLedger
    from magnetar.metadata.store import OnDurable

log = structlog.get_logger(__name__)


class Topic(Part):
    """One topic of this cluster, the only writer of its log. Used on the event loop's thread."""

    OWNS = ("subscriptions", "replicators", "ledger", "progress")

    def __init__(self, environment: Environment, name: TopicName, ledger: ManagedLedger, lifecycle: Lifecycle) -> None:
        """Recover the topic from its log; call ``recovery`` next."""
        self.environment = environment
        self.name = name
        self.ledger = ledger
        self.lifecycle = lifecycle
        self.unstored: StorageError | None = None
        """The error if metadata of the topic could not be stored; None otherwise."""
        ledger.observe_fencing(self._not_stored)
        self.policies = environment.policies.of(name)
        self.loaded_at = environment.clock.now()
        self.backlog_quotas = BacklogQuotas(self)
        self.arrivals = Arrivals()
        self.rates = TopicRates(environment.tenant_rates.of(name.tenant))
        self.share = Share()
        """The topic's share of the turns of the event loop."""
        self.producers = TopicProducers(self)
        self.departures = UnderWay()
        self.log = TopicLog(
            environment, name, ledger, appended=self._appended, refused=self.producers.dismiss, failed=self.fence
        )
        self.log.migration_fence.when_lifted = self.notify
        self.subscriptions: dict[str, Subscription] = {}
        self.sent_to_removed = SentToRemoved()
        self.entrance = TopicEntrance(self)
        self.replicators = TopicLinks(self)
        self.skipped = SkippedEntries(ledger)
        self.lag_limit = LagLimit(self)
        self.progress = TopicProgress(self)
        self.snapshots: TopicSnapshots | None = None
        """Set while a subscription is replicated to a cluster that does not support exact progress."""
        self.cursors = CursorStore(
            environment.store, environment.metadata, str(name), ledger, environment.cursor_limits, self._not_stored
        )
        self.deduplication = Deduplication(self)
        self.delayed = DelayedIndex(
            environment.delayed, ledger, environment.clock, lambda: self.policies.delayed_delivery, self.notify
        )
        self._is_notified = False
        """Whether another round of dispatch is needed after the present one."""
        self._to_dispatch: Iterator[Subscription | Replicator] | None = None
        """Subscriptions and links that have not dispatched in this round; None outside a round."""

    def recovery(self) -> Iterator[None]:
        """Recover the subscriptions from their cursors, in steps. If the steps end early, call ``abandon``."""
        for cursor in self.cursors.open_all(is_of_a_subscription):
            if cursor is not None:
                subscription = self.subscriptions[cursor.name] = Subscription(self, cursor)
                if subscription.is_replicated or cursor.attachments:
                    subscription.progress = yield from SharedProgress.recovery(self, subscription)
            yield
        self.progress.switched_off.discard_each(name for name, each in self.subscriptions.items() if each.is_replicated)
        self.apply_policies()

    @property
    def is_being_recorded(self) -> bool:
        """Whether metadata of the topic are not durable yet; answers to clients depend on them."""
        return self.ledger.is_being_listed or self.cursors.is_recording

    @property
    def is_closing(self) -> bool:
        """Whether the topic or its producers are being closed: arriving entries are dropped without an answer."""
        return self.lifecycle.drops_entries

    def fence(self, error: MagnetarError) -> None:
        """Fence the topic because of ``error``: it confirms nothing more and is loaded again from durable data."""
        self.log.fence(error)
        if self.lifecycle.apply(Event.FENCE):
            log.error("topic_fenced", topic=str(self.name), error=str(error))

    def _not_stored(self, error: StorageError) -> None:
        self.unstored = error
        self.fence(error)

    # -- publishing ---------------------------------------------------------------------------------------------

    def append_replicated(self, origin: Annotation, entries: list[bytes], durable: Durable) -> None:
        """Append entries of another cluster; entries that are already acknowledged are never dispatched."""
        if self.log.append(entries, durable, origin):
            for subscription in self.subscriptions.values():
                if subscription.progress is not None:
                    subscription.progress.arrived(origin)
            link = self.replicators.get(origin.cluster)
            life = self.progress.life_of(origin.cluster)
            if link is not None and life is not None and origin.extents[0].origin_first[0] < life.first_ledger_id:
                link.foreign.copies.request_return()

    def _appended(self, first: Position, entries: list[bytes]) -> None:
        """Handle durable entries whose receipts are written."""
        self.arrivals.bytes_in += sum(map(len, entries))
        if self.snapshots is not None:
            self.snapshots.moved()
        if self.delayed.is_expecting:
            self.delayed.appended(first, entries)
        if self.subscriptions or self.replicators:
            self.notify()

    def notify(self) -> None:
        """Schedule dispatch for the next turn, or a later one under load."""
        if not self._is_notified:
            self._is_notified = True
            if self._to_dispatch is None:
                self.environment.turns.soon(self._dispatch, self.share)

    def _dispatch(self) -> None:
        """Dispatch for all subscriptions and links, some in this turn and the others in later ones."""
        turns, readers = self.environment.turns, self._to_dispatch
        if readers is None:
            self._is_notified = False
            both: list[Subscription | Replicator] = [*self.subscriptions.values(), *self.replicators.values()]
            readers = self._to_dispatch = iter(both)
        try:
            for reader in readers:
                reader.dispatch()
                if turns.is_over():
                    return
            self._to_dispatch = None
        finally:
            if self._to_dispatch is not None or self._is_notified:
                turns.soon(self._dispatch, self.share)

    # -- subscriptions ------------------------------------------------------------------------------------------

    def create_subscription(
        self, name: str, mark_delete: Position, *, durable: bool = True, properties: dict[str, str] | None = None
    ) -> Subscription:
        """Create a subscription that starts after ``mark_delete``; raises RequestError for a reserved name."""
        check_subscription_name(name)
        cursor = self.cursors.create(name, mark_delete, durable=durable, subscription_properties=properties or {})
        subscription = Subscription(self, cursor, is_new=True)
        self.subscriptions[name] = subscription
        self._impose_replication(subscription)
        note_protection(self, [subscription])
        if durable:
            subscription.flushes.now()
        return subscription

    def delete_subscription(self, subscription: Subscription, done: OnDurable) -> None:
        """Delete a subscription, in all clusters if it is replicated (see ``remove_subscription``)."""
        if self.subscriptions.get(subscription.name) is subscription:
            self.progress.delete_subscription(subscription, done)
        else:
            self.environment.metadata.barrier(done)  # it is gone already, perhaps not durably

    def create_replicated(self, incoming: SubscriptionProgress) -> SharedProgress:
        """Create a subscription whose state arrived from another cluster, at the start that the state contains."""
        cursor = self.cursors.create(incoming.name, self.log.before_first())
        cursor.set_property(REPLICATED_PROPERTY, 1)
        subscription = Subscription(self, cursor, is_new=True)
        self.subscriptions[incoming.name] = subscription
        keeper = subscription.progress = SharedProgress.adopt(self, subscription, incoming)
        self.progress.changed()
        note_protection(self, [subscription])
        return keeper

    def remove_subscription(
        self,
        subscription: Subscription,
        tombstone: SubscriptionProgress | None = None,
        done: OnDurable = lambda _: None,
    ) -> None:
        """Remove a subscription and its cursor here, and store ``tombstone``, in one transaction.

        ``done`` is called when that is durable. If it cannot be stored, the topic is fenced: its next load finds the
        subscription as it was. Raises MagnetarError where that is known at once.
        """
        commit = None if tombstone is None else partial(self.progress.tombstones.add, tombstone)
        subscription.close()
        del self.subscriptions[subscription.name]
        self.sent_to_removed.add(subscription.consumers)
        try:
            self.cursors.delete(subscription.name, done, commit)
        except MagnetarError as error:
            self.fence(error)
            raise
        self.progress.changed()
        self.environment.retired.add(subscription)

    def forget_subscription(self, subscription: Subscription) -> None:
        """Remove a non-durable subscription, whose consumer has left."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            subscription.close()
            self.sent_to_removed.add(subscription.consumers)
            self.environment.retired.add(subscription)

    @property
    def replication_forbidden(self) -> str:
        """Reason why no subscription may be replicated; empty if they may."""
        return reason_against(self.environment.config, self.policies)

    @property
    def replication_imposed(self) -> bool:
        """Whether every durable subscription is replicated, independent of its clients."""
        return is_imposed(self.environment.config, self.policies)

    def _impose_replication(self, subscription: Subscription) -> None:
        if subscription.is_durable and self.replication_imposed:
            self.set_replicated(subscription, replicated=True)

    def set_replicated(self, subscription: Subscription, *, replicated: bool) -> None:
        """Start or stop the replication of a subscription.

        While it is disabled, no progress is sent or applied; acknowledgements are kept and sent afterwards.
        """
        if replicated and subscription.is_replicated:
            return
        if replicated:
            self.progress.switched_off.discard(subscription.name)
        elif subscription.name not in self.progress.switched_off:
            self.progress.switched_off.add(subscription.name, self.subscriptions)
        subscription.cursor.set_property(REPLICATED_PROPERTY, 1 if replicated else None)
        if replicated and subscription.progress is None:
            subscription.progress = SharedProgress.begin(self, subscription)
        elif replicated and subscription.progress is not None:
            subscription.progress.resume()
        note_protection(self, [subscription])
        subscription.flushes.now()
        subscription.apply_policies()
        self.progress.changed()

    # -- links --------------------------------------------------------------------------------------------------

    def apply_policies(self) -> None:
        """Apply the current policies, and create or remove links accordingly."""
        self.policies = self.environment.policies.of(self.name)
        self.deduplication.apply(enabled=self.policies.deduplication_enabled)
        self.delayed.policies_changed()
        self.replicators.follow(self.environment.targets_of_topic(self.name))
        self.apply_rates()
        for subscription in self.subscriptions.values():
            self._impose_replication(subscription)
            subscription.apply_policies()
        note_protection(self, self.subscriptions.values())
        self.progress.changed()
        self.lag_limit.apply()

    def apply_rates(self) -> None:
        """Apply the limits of rates, some of which may depend on the rate of publishing."""
        self.rates.apply(self.policies, self.arrivals.rates.per_second, self.environment.clock.monotonic())
        for subscription in self.subscriptions.values():
            subscription.unread.apply_rates()
        for link in self.replicators.values():
            link.apply_rates()

    def follow_snapshots(self) -> None:
        """Start or stop snapshots after a change of subscriptions, policies or peers."""
        needed = any(each.is_replicated for each in self.subscriptions.values()) and marker_peers(self)
        if self.snapshots is not None and needed:
            self.snapshots.changed()
        elif self.snapshots is not None:
            self.snapshots.close()
            self.snapshots = None
        elif needed:
            self.snapshots = TopicSnapshots(self)

    def begin_snapshot(self, without: Collection[str]) -> None:
        """Start a snapshot by request of an operator (see ``TopicSnapshots.begin``); raises RequestError."""
        if self.snapshots is None or not takes_markers(self):
            message = f"{self.name} takes no snapshots: no replicated subscription or other cluster needs them"
            raise RequestError(ServerError.NotAllowedError, message)
        self.snapshots.begin(without)

    def take_marker(self, source: str, place: Position | None, kind: int, payload: bytes) -> None:
        """Handle a marker of another cluster (see ``TopicSnapshots.take``); the sender of a probe needs only a receipt.

        Requests are answered in any mode, because the snapshots of all other clusters need an answer of this one.
        """
        if kind == PROBE or not (takes_markers(self) or kind == SNAPSHOT_REQUEST):
            return
        if self.snapshots is None:
            self.snapshots = TopicSnapshots(self)
        self.snapshots.take(source, place, kind, payload)

    # -- housekeeping -------------------------------------------------------------------------------------------

    def consumer_cursors(self) -> list[Cursor]:
        """Return the durable cursors of subscriptions and links."""
        cursors = [each.cursor for each in self.subscriptions.values() if each.cursor.durable]
        return cursors + [each.cursor for each in self.replicators.values()] if self.replicators else cursors

    def all_cursors(self) -> list[Cursor]:
        """Return the cursors that prevent trimming: those of subscriptions, links and deduplication."""
        cursors = self.consumer_cursors()
        return cursors if self.deduplication.cursor is None else [*cursors, self.deduplication.cursor]

    def consumed_through(self, cursors: list[Cursor]) -> Position:
        """Return the position up to which, inclusive, all ``cursors`` have acknowledged all entries."""
        return min([each.state.mark_delete_position for each in cursors], default=self.ledger.last_confirmed_entry)

    def each_subscription(self) -> Iterator[Subscription]:
        """Yield the present subscriptions for work in steps; those that are deleted meanwhile are omitted."""
        for name, subscription in tuple(self.subscriptions.items()):
            if self.subscriptions.get(name) is subscription:
                yield subscription
