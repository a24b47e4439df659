"""Application of the updates of PIP-33 from other clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.errors import RequestError
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.replication.interfaces import ReplicatingTopic
from magnetar.broker.replication.lives import check_claims
from magnetar.broker.replication.trims import when_trims_are_stored
from magnetar.broker.subscription.names import check_subscription_name
from magnetar.cursor.ranges import Range
from magnetar.geo.snapshots.claims import changed_from, claimed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.base.errors import MagnetarError, StorageError
    from magnetar.broker.replication.progress.topic_progress import TopicProgress
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.geo.origins.intervals import IntervalSet
    from magnetar.geo.snapshots.markers import SubscriptionUpdate

log = structlog.get_logger(__name__)


class UpdatedTopic(ReplicatingTopic, Protocol):
    """The topic of the subscriptions."""

    @property
    def progress(self) -> TopicProgress:
        """Exact progress of the topic, with the tombstones of subscriptions."""
        ...

    @property
    def is_closing(self) -> bool:
        """Whether the topic is being closed."""
        ...

    def create_subscription(self, name: str, mark_delete: Position) -> Subscription:
        """Create a subscription that starts after ``mark_delete``; raises RequestError for a reserved name."""
        ...


class SubscriptionUpdates:
    """Applies updates of other clusters to one topic."""

    def __init__(self, topic: UpdatedTopic) -> None:
        """Create it; no update was applied."""
        self._topic = topic
        self._environment = topic.environment

    def apply(self, source: str, update: SubscriptionUpdate, end: Position) -> None:
        """Apply an update: acknowledge entries that the subscription has acknowledged in another cluster.

        A missing subscription is created, unless the snapshot may be older than its deletion here: such an update
        belongs to the deleted subscription.
        """
        position = update.positions.get(self._environment.cluster)
        if position is None:
            return
        if position > end:
            log.warning("update_beyond_log_end", topic=str(self._topic.name), source=source, position=str(position))
            return
        if update.name not in self._topic.progress.switched_off and self._has_known_lives(source, update):
            # A power loss may have taken the entry at this position: only entries in the log may be acknowledged.
            held = self._topic.ledger.previous_position(Position(position.ledger_id, position.entry_id + 1))
            self._apply_through(source, update, held)

    def _has_known_lives(self, source: str, update: SubscriptionUpdate) -> bool:
        """Return whether the update can be applied now; apply it later if it names a new life of a cluster.

        An update with positions that could be mistaken for those of another life is ignored.
        """
        if update.claims is None:
            return True
        try:
            names_new = check_claims(self._topic, source, update.claims)
        except RequestError as error:
            self._ignore(source, update, error)
            return False
        if names_new:
            self._apply_later(source, update)
        return not names_new

    def _apply_through(self, source: str, update: SubscriptionUpdate, position: Position) -> None:
        """Apply an update to the entries up to and including ``position``, which the log holds."""
        subscription = self._topic.subscriptions.get(update.name)
        if subscription is None:
            if self._topic.progress.tombstones.covers(update.name, position):
                return
            if self._topic.ledger.is_trim_unstored:
                self._apply_later(source, update)
                return
            subscription = self._create(update)
        elif not subscription.is_durable:
            return  # a client's own non-durable subscription with the same name
        if subscription.last_updates.get(source) != update:  # a repeated one must not undo a seek made meanwhile
            subscription.last_updates[source] = update
            self._acknowledge(source, subscription, update, position)
        subscription.flushes.now()

    def _acknowledge(
        self, source: str, subscription: Subscription, update: SubscriptionUpdate, position: Position
    ) -> None:
        if update.claims is None:
            subscription.acknowledge_through(position)
        else:
            self._acknowledge_claims(source, subscription, update.claims.acknowledged, position)

    def _apply_later(self, source: str, update: SubscriptionUpdate) -> None:
        """Apply an update when the trims of its topic, and the lives that it names, are durable."""

        def stored(error: StorageError | None) -> None:
            if self._topic.is_closing:
                return
            if error is None:
                self.apply(source, update, self._topic.ledger.last_confirmed_entry)
            else:
                self._ignore(source, update, error)

        when_trims_are_stored(self._topic, stored)

    def _ignore(self, source: str, update: SubscriptionUpdate, error: MagnetarError) -> None:
        what = str(error)
        log.warning("update_ignored", topic=str(self._topic.name), source=source, name=update.name, error=what)

    def _acknowledge_claims(
        self, source: str, subscription: Subscription, acknowledged: Mapping[str, IntervalSet], through: Position
    ) -> None:
        """Acknowledge entries that an update claims and the last update of ``source`` did not.

        Unclaimed entries stay holes; examining all of them again would take longer with each update.
        """
        index, (before, begin) = self._topic.log.index, subscription.claims_applied.get(source, ({}, EARLIEST))
        changed = changed_from(index, before, acknowledged)
        within = Range(begin if changed is None else min(begin, changed), through)
        subscription.acknowledge_ranges(claimed(index, subscription.cursor.state, within, acknowledged))
        subscription.claims_applied[source] = acknowledged, through

    def _create(self, update: SubscriptionUpdate) -> Subscription:
        """Create a subscription at the start in the update; for an update of Apache Pulsar, at the earliest entry.

        At the latest entry, it would skip messages (apache/pulsar#20767). Raises RequestError for a reserved name.
        """
        if update.claims is None:
            subscription = self._topic.create_subscription(update.name, self._topic.log.before_first())
            self._topic.set_replicated(subscription, replicated=True)
            return subscription
        check_subscription_name(update.name)
        epoch = self._topic.progress.tombstones.epoch_for_new(update.name)
        self._topic.create_replicated(update.claims.state(update.name, epoch))
        return self._topic.subscriptions[update.name]
