"""Exact progress of one subscription: synchronization of its cursor, its replicated state and other clusters."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from magnetar.base.position import Position
from magnetar.broker.log.interfaces import LoggedTopic
from magnetar.geo.origins.index import PartialClaim
from magnetar.geo.progress.codec import encode_state, restoring
from magnetar.geo.progress.confirmations import Acknowledged
from magnetar.geo.progress.effects import each_effect, effects_of_all, effects_of_merge, effects_on_arrival
from magnetar.geo.progress.seeking import begun, sought
from magnetar.geo.progress.state import Kind, SubscriptionProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Mapping, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.cursor.cursor import Cursor
    from magnetar.cursor.ranges import Range
    from magnetar.cursor.state import CursorState
    from magnetar.geo.origins.annotation import Annotation
    from magnetar.geo.origins.intervals import IntervalSet
    from magnetar.geo.progress.effects import LocalEffects
    from magnetar.geo.progress.epochs import Epoch

HEARD_FROM_PROPERTY = "magnetar.heard.from."
"""Prefix of cursor properties, followed by a cluster that has sent a state of this subscription."""

APPLIED_SAMPLES_MAX = 4096
"""Number of newest delays, from acknowledgement to application, that are kept for each source cluster."""


class Deleted(Protocol):
    """The deleted replicated subscriptions of a topic."""

    def get(self, name: str) -> SubscriptionProgress | None:
        """Return the tombstone of a subscription; None if it was not deleted, or if the tombstone was evicted."""
        ...

    def epoch_for_new(self, name: str) -> Epoch:
        """Return the epoch of a subscription that is created now."""
        ...


class ProgressOfTopic(Protocol):
    """The exact progress of a topic."""

    @property
    def tombstones(self) -> Deleted:
        """The deleted subscriptions."""
        ...

    @property
    def switched_off(self) -> Container[str]:
        """The subscriptions whose replication an operator disabled in this cluster."""
        ...

    def publish(self, delta: SubscriptionProgress, count: int, oldest_at: float | None) -> None:
        """Send durable changes to all other clusters."""
        ...


class SharingTopic(LoggedTopic, Protocol):
    """The topic of a replicated subscription."""

    @property
    def progress(self) -> ProgressOfTopic:
        """Progress to and from the other clusters."""
        ...

    @property
    def subscriptions(self) -> Mapping[str, object]:
        """The subscriptions, by name."""
        ...


class Flushing(Protocol):
    """The writer of acknowledgements."""

    def soon(self) -> None:
        """Write the changes."""
        ...


class SharedSubscription(Protocol):
    """A replicated subscription."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def cursor(self) -> Cursor:
        """The cursor of this cluster."""
        ...

    @property
    def is_replicated(self) -> bool:
        """Whether the subscription is replicated."""
        ...

    @property
    def claims_applied(self) -> dict[str, tuple[Mapping[str, IntervalSet], Position]]:
        """Claims of the updates of PIP-33 applied here."""
        ...

    def free(self, deleted: Sequence[Range]) -> None:
        """Release newly acknowledged entries from the consumers that hold them."""
        ...

    @property
    def flushes(self) -> Flushing:
        """The writer of its acknowledgements."""
        ...

    def disconnect_consumers(self) -> None:
        """Disconnect all consumers, which subscribe again, and restart dispatch from the cursor."""
        ...


class SharedProgress:
    """Synchronizes the cursor of a replicated subscription with its state in origin positions, in both directions.

    Acknowledgements made here become claims, which are sent when they are durable. Claims of other clusters are
    acknowledged here: at once for entries that this cluster holds, on arrival for the others. The records of the cursor
    contain the state.
    """

    def __init__(self, topic: SharingTopic, subscription: SharedSubscription, state: SubscriptionProgress) -> None:
        """Create it with ``state``, which matches the cursor."""
        self.state = state
        self._topic = topic
        self._subscription = subscription
        self._cursor = subscription.cursor
        self._cursor.checkpoint_attachment = lambda: encode_state(self.state)
        self._cursor.before_record = self._claim
        self._unclaimed: list[Range] = []
        self._narrowed: dict[Position, None] = {}
        self._news: SubscriptionProgress | None = None
        """Claims in the cursor's records that are not sent yet."""
        self.made = Acknowledged()
        """Entries acknowledged here since the last flush."""
        self._moved = False
        self._applied: dict[str, deque[float]] = {}

    @classmethod
    def begin(cls, topic: SharingTopic, subscription: SharedSubscription) -> SharedProgress:
        """Start replication: the mark-delete position is the start, individually deleted entries become claims."""
        cursor = subscription.cursor
        epoch = topic.progress.tombstones.epoch_for_new(cursor.name)
        state = SubscriptionProgress(subscription.name, epoch=epoch)
        state.origins = begun(topic.log.index, cursor.state.mark_delete_position)
        keeper = cls(topic, subscription, state)
        deleted = list(cursor.state.deleted())
        keeper.made = Acknowledged(sum(each.entries for each in deleted))
        state.claim(
            topic.log.index.claims(deleted),
            [claim for position, left in cursor.state.partial_batches() for claim in keeper.partial(position, left)],
        )
        keeper.replaced()
        return keeper

    @classmethod
    def adopt(
        cls, topic: SharingTopic, subscription: SharedSubscription, incoming: SubscriptionProgress
    ) -> SharedProgress:
        """Create it from the state of a subscription that did not exist here."""
        state = SubscriptionProgress(subscription.name, incoming.starts(), incoming.epoch)
        keeper = cls(topic, subscription, state)
        state.merge(incoming)
        keeper.rebuild()
        keeper.replaced()
        return keeper

    @classmethod
    def recovery(cls, topic: SharingTopic, subscription: SharedSubscription) -> Generator[None, None, SharedProgress]:
        """Read the state back from the cursor's records, in steps; nothing else may use the subscription meanwhile."""
        state = yield from restoring(subscription.cursor.attachments)
        if state is None:
            return cls.begin(topic, subscription)
        keeper = cls(topic, subscription, state)
        # An entry can be durable without the record that it arrived acknowledged.
        for effects in each_effect(topic.log.index, state):
            keeper._take_effect(effects)
            yield
        return keeper

    # -- to other clusters -----------------------------------------------------------------------------------------

    def acknowledged(self, ranges: Sequence[Range]) -> None:
        """Note entries that were acknowledged here; the next flush claims them."""
        self._unclaimed += ranges
        self.made.add(sum([each.entries for each in ranges]), self._now())

    def narrowed(self, position: Position) -> None:
        """Note members of a batch that were acknowledged here."""
        self._narrowed[position] = None
        self.made.add(0, self._now())

    def moved(self) -> None:
        """Begin a new epoch after a seek, which other clusters adopt."""
        self._unclaimed.clear()
        self._narrowed.clear()
        self._news = None
        index, mark_delete = self._topic.log.index, self._cursor.state.mark_delete_position
        to_end = mark_delete >= self._topic.ledger.last_confirmed_entry
        self.state.reseek(self._topic.environment.cluster, sought(index, self.state, mark_delete, to_end=to_end))
        self.made.moved()
        self.replaced()

    def resume(self) -> None:
        """Resume replication: acknowledgements and seeks made meanwhile are sent to the others."""
        tombstone = self._topic.progress.tombstones.get(self.state.name)
        if tombstone is not None and self.state.epoch < tombstone.epoch:
            self.outlive(tombstone.epoch)  # it was deleted in another cluster, but is used here
        else:
            self.replaced()

    def outlive(self, tombstone: Epoch) -> None:
        """Resume after a tombstone, as if the subscription were created at its present position."""
        self.state.epoch = tombstone.created_after()
        self.replaced()

    def replaced(self) -> None:
        """Persist and send the complete state with the next flush."""
        self._cursor.attach(encode_state(self.state))
        self._moved = True
        self.made.add(0, self._now())

    @property
    def is_unwritten(self) -> bool:
        """Whether there are changes to write and to send."""
        return bool(self._unclaimed or self._narrowed or self._news or self._moved)

    def prepare(self) -> Callable[[StorageError | None], None] | None:
        """Add the changes to the cursor's next record; return the callback for its success or failure."""
        if not self.is_unwritten:
            return None
        self._claim()
        news = self.state.copy() if self._moved else self._news
        self._news, self._moved = None, False
        if news is None:
            return None
        count, oldest = self.made.count, self.made.writing()

        def written(error: StorageError | None) -> None:
            self.made.written(durable=error is None)
            if error is None:
                # Counts of a deleted subscription do not apply to a new one with the same name.
                is_current = self._topic.subscriptions.get(self._subscription.name) is self._subscription
                if is_current and self._subscription.is_replicated:
                    self._topic.progress.publish(news, count, oldest)
            elif news.epoch == self.state.epoch:  # the next record includes the changes of this one
                if self._news is not None:
                    news.merge(self._news)
                self._news = news

        return written

    def partial(self, position: Position, remaining: int) -> list[PartialClaim]:
        """Return the claim of a partly acknowledged batch."""
        origin = self._topic.log.index.origin_of(position)
        return [PartialClaim(origin[0], origin[1], remaining)] if origin else []

    def _claim(self) -> None:
        """Convert acknowledgements made here to claims, in the state and in the changes for other clusters.

        No record of the cursor has an acknowledgement without its claim: after a restart nobody would send it.
        """
        if not (self._unclaimed or self._narrowed):
            return
        partials: list[PartialClaim] = []
        for position in self._narrowed:
            remaining = self._cursor.state.remaining(position)
            if remaining is not None:
                partials += self.partial(position, remaining)
        delta = self.state.claim(self._topic.log.index.claims(self._unclaimed), partials)
        self._unclaimed = []
        self._narrowed.clear()
        if delta is not None:
            self._cursor.attach(encode_state(delta))
            if self._news is None:
                self._news = delta
            else:
                self._news.merge(delta)

    def _now(self) -> float:
        return self._topic.environment.clock.now()

    # -- from other clusters ---------------------------------------------------------------------------------------

    def heard_from(self, source: str) -> None:
        """Note that a cluster sent a state of this subscription, so that its deletions apply from now on."""
        if not self.is_known_to(source):
            self._cursor.set_property(f"{HEARD_FROM_PROPERTY}{source}", 1)

    def is_known_to(self, cluster: str) -> bool:
        """Return whether a cluster has had this subscription, not only one with the same name."""
        return f"{HEARD_FROM_PROPERTY}{cluster}" in self._cursor.properties

    def apply(self, incoming: SubscriptionProgress) -> Kind:
        """Merge the state of another cluster and apply its acknowledgements; the caller flushes."""
        self._claim()
        outcome = self.state.merge(incoming)
        if outcome.kind is Kind.REPLACED:
            self._news = None
            self.made.moved()
        if outcome.rebuild:
            # A cluster that learns of the new epoch, or of an earlier start, from here must get the complete state.
            self._moved = True
        if outcome.changed and outcome.kind is not Kind.DELETED:
            self._cursor.attach(encode_state(incoming))
            if outcome.rebuild:
                self.rebuild()
            else:
                self._take_effect(effects_of_merge(self._topic.log.index, outcome))
        return outcome.kind

    def arrived(self, origin: Annotation) -> None:
        """Acknowledge appended entries of another cluster that are claimed already; they are never dispatched.

        The method is cheap if none of them is claimed, since it is called for all subscriptions with each run.
        """
        if self.state.is_untouched_after(origin.cluster, min([extent.floor for extent in origin.extents])):
            return
        for extent in origin.extents:
            ledger_id, entry_id = extent.origin_first
            last = Position(ledger_id, entry_id + extent.count - 1)
            effects = effects_on_arrival(self._topic.log.index, self.state, origin.cluster, extent.floor, last)
            if effects.ranges or effects.partial:
                self._take_effect(effects)
                self._subscription.flushes.soon()

    def rebuild(self) -> None:
        """Rebuild the cursor from the complete state, since entries may have become unacknowledged.

        Consumers subscribe again, as after a seek made here. The entries that they hold, and acknowledgements of them
        in transit, no longer count. Otherwise two consumers could hold messages of the same key.
        """
        self._subscription.disconnect_consumers()
        effects = effects_of_all(self._topic.log.index, self.state)
        self._cursor.reset(self._topic.log.before_first(), effects.ranges, effects.partial)
        self._subscription.claims_applied.clear()

    def _take_effect(self, effects: LocalEffects) -> None:
        deleted = self._cursor.acknowledge_ranges(effects.ranges)
        for position, remaining in effects.partial:
            deleted += self._cursor.acknowledge_batch(position, remaining)
        # Claimed again, because a holder of the entries can claim across floors that the other cluster did not know.
        self._unclaimed += deleted
        self._subscription.free(deleted)

    @property
    def acknowledgements(self) -> CursorState:
        """The cursor of this cluster."""
        return self._cursor.state

    # -- statistics -------------------------------------------------------------------------------------------------

    def note_applied(self, source: str, delay_s: float) -> None:
        """Record the delay between an acknowledgement in ``source`` and its application here."""
        self._applied.setdefault(source, deque(maxlen=APPLIED_SAMPLES_MAX)).append(delay_s)

    def applied(self) -> dict[str, dict[str, float]]:
        """Return, for each source cluster, the number of applied progress messages and their delays in milliseconds."""
        return {source: _percentiles(samples) for source, samples in sorted(self._applied.items())}


def _percentiles(samples: deque[float]) -> dict[str, float]:
    ordered = sorted(samples)
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    values = {
        name: round(ordered[min(len(ordered) - 1, int(part * len(ordered)))] * 1000, 3) for name, part in at.items()
    }
    return {"count": len(ordered), **values}
