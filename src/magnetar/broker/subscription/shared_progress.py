"""Exact progress of one subscription: what ties its cursor to its replicated state and to the other clusters."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from magnetar.base.position import Position
from magnetar.broker.log.interfaces import LoggedTopic
from magnetar.geo.origins.index import PartialClaim
from magnetar.geo.progress.codec import encode_state, restore_state
from magnetar.geo.progress.confirmations import Acknowledged
from magnetar.geo.progress.effects import effects_of_all, effects_of_merge, effects_on_arrival
from magnetar.geo.progress.seeking import sought
from magnetar.geo.progress.state import Kind, SubscriptionProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.cursor.cursor import Cursor
    from magnetar.cursor.ranges import Range
    from magnetar.cursor.state import CursorState
    from magnetar.geo.origins.annotation import Annotation
    from magnetar.geo.origins.intervals import IntervalSet
    from magnetar.geo.progress.effects import LocalEffects
    from magnetar.geo.progress.epochs import Epoch

HEARD_FROM_PROPERTY = "magnetar.heard.from."
"""Cursor properties, followed by a cluster: that one has, or had, this very subscription, for it sent a state of it."""

APPLIED_SAMPLES_MAX = 4096
"""How many of the newest delays between acknowledgement and application are kept for each source cluster."""


class Deleted(Protocol):
    """The replicated subscriptions of a topic that were deleted."""

    def get(self, name: str) -> SubscriptionProgress | None:
        """The tombstone of a subscription; None when it was not deleted, or that is forgotten."""
        ...

    def epoch_for_new(self, name: str) -> Epoch:
        """The epoch of a subscription that is created now."""
        ...


class ProgressOfTopic(Protocol):
    """What goes to the other clusters."""

    @property
    def tombstones(self) -> Deleted:
        """The deleted subscriptions."""
        ...

    @property
    def switched_off(self) -> Container[str]:
        """The subscriptions whose replication an operator switched off in this cluster."""
        ...

    def publish(self, delta: SubscriptionProgress, count: int, oldest_at: float | None) -> None:
        """Send durable news to every other cluster."""
        ...


class SharingTopic(LoggedTopic, Protocol):
    """The topic of a replicated subscription."""

    @property
    def progress(self) -> ProgressOfTopic:
        """The way to the other clusters."""
        ...

    @property
    def subscriptions(self) -> Mapping[str, object]:
        """The subscriptions, by name."""
        ...


class Flushing(Protocol):
    """What writes acknowledgements."""

    def soon(self) -> None:
        """Write what changed."""
        ...


class SharedSubscription(Protocol):
    """A replicated subscription."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def cursor(self) -> Cursor:
        """What is acknowledged here."""
        ...

    @property
    def is_replicated(self) -> bool:
        """Whether its progress is to go to the other clusters."""
        ...

    @property
    def claims_applied(self) -> dict[str, tuple[Mapping[str, IntervalSet], Position]]:
        """What updates of PIP-33 have acknowledged here."""
        ...

    def free(self, deleted: Sequence[Range]) -> None:
        """Entries were newly acknowledged: nobody holds them any more."""
        ...

    @property
    def flushes(self) -> Flushing:
        """What writes its acknowledgements."""
        ...

    def disconnect_consumers(self) -> None:
        """Make every consumer subscribe again, and start over from the cursor."""
        ...


class SharedProgress:
    """Keeps a replicated subscription's cursor and its state in origin terms in step, both ways.

    Acknowledgements made here become claims and are published once they are durable; what others claim is acknowledged
    here, at once for entries that are held, on arrival for the rest. The state is kept in the cursor's own records.
    """

    def __init__(self, topic: SharingTopic, subscription: SharedSubscription, state: SubscriptionProgress) -> None:
        """Keep ``state``, which matches the cursor."""
        self.state = state
        self._topic = topic
        self._subscription = subscription
        self._cursor = subscription.cursor
        self._cursor.checkpoint_attachment = lambda: encode_state(self.state)
        self._unclaimed: list[Range] = []
        self._narrowed: dict[Position, None] = {}
        self._news: SubscriptionProgress | None = None
        """Claims that are attached to the cursor and not yet published."""
        self.made = Acknowledged()
        """What was acknowledged here."""
        self._moved = False
        self._applied: dict[str, deque[float]] = {}

    @classmethod
    def begin(cls, topic: SharingTopic, subscription: SharedSubscription) -> SharedProgress:
        """Start to replicate a subscription: where it stands is its start, what it deleted beyond are its claims."""
        cursor = subscription.cursor
        starts = topic.log.index.positions_at(cursor.state.mark_delete_position)
        state = SubscriptionProgress(subscription.name, starts, topic.progress.tombstones.epoch_for_new(cursor.name))
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
        """Take over a state that arrived for a subscription that did not exist here."""
        state = SubscriptionProgress(subscription.name, incoming.starts(), incoming.epoch)
        keeper = cls(topic, subscription, state)
        state.merge(incoming)
        keeper.rebuild()
        keeper.replaced()
        return keeper

    @classmethod
    def recover(cls, topic: SharingTopic, subscription: SharedSubscription) -> SharedProgress:
        """Read the state back from the cursor's records."""
        state = restore_state(subscription.cursor.attachments)
        if state is None:
            return cls.begin(topic, subscription)
        keeper = cls(topic, subscription, state)
        # An entry may have become durable without the record that it arrived acknowledged.
        keeper._take_effect(effects_of_all(topic.log.index, state))
        return keeper

    # -- from here to the others ----------------------------------------------------------------------------------

    def acknowledged(self, ranges: Sequence[Range]) -> None:
        """Entries were acknowledged here: claim them with the next flush."""
        self._unclaimed += ranges
        self.made.add(sum([each.entries for each in ranges]), self._now())

    def narrowed(self, position: Position) -> None:
        """Members of a batch were acknowledged here."""
        self._narrowed[position] = None
        self.made.add(0, self._now())

    def moved(self) -> None:
        """The cursor was sought: begin a new epoch, in which the others follow."""
        self._unclaimed.clear()
        self._narrowed.clear()
        self._news = None
        index, mark_delete = self._topic.log.index, self._cursor.state.mark_delete_position
        to_end = mark_delete >= self._topic.ledger.last_confirmed_entry
        self.state.reseek(self._topic.environment.cluster, sought(index, self.state, mark_delete, to_end=to_end))
        self.made.moved()
        self.replaced()

    def resume(self) -> None:
        """Go on after it was switched off: what was acknowledged meanwhile, or sought, is news for the others."""
        tombstone = self._topic.progress.tombstones.get(self.state.name)
        if tombstone is not None and self.state.epoch < tombstone.epoch:
            self.outlive(tombstone.epoch)  # it was deleted elsewhere, and is wanted here
        else:
            self.replaced()

    def outlive(self, tombstone: Epoch) -> None:
        """Go on behind a tombstone, as if created again where it stands."""
        self.state.epoch = tombstone.created_after()
        self.replaced()

    def replaced(self) -> None:
        """The whole state is new: persist and publish it whole with the next flush."""
        self._cursor.attach(encode_state(self.state))
        self._moved = True
        self.made.add(0, self._now())

    @property
    def is_unwritten(self) -> bool:
        """Whether anything changed that is still to be written and to be published."""
        return bool(self._unclaimed or self._narrowed or self._news or self._moved)

    def prepare(self) -> Callable[[StorageError | None], None] | None:
        """Put what changed into the cursor's next record; what to do once that is durable, or never will be."""
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
                # The counts of a deleted subscription say nothing about one that was created again under its name.
                is_current = self._topic.subscriptions.get(self._subscription.name) is self._subscription
                if is_current and self._subscription.is_replicated:
                    self._topic.progress.publish(news, count, oldest)
            elif news.epoch == self.state.epoch:  # they go with the next record, which holds what this one lacked
                if self._news is not None:
                    news.merge(self._news)
                self._news = news

        return written

    def partial(self, position: Position, remaining: int) -> list[PartialClaim]:
        """The claim that a partly acknowledged batch makes."""
        origin = self._topic.log.index.origin_of(position)
        return [PartialClaim(origin[0], origin[1], remaining)] if origin else []

    def _claim(self) -> None:
        """Turn what was acknowledged here into claims, in the state and in the news for the others."""
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

    # -- from the others to here ----------------------------------------------------------------------------------

    def heard_from(self, source: str) -> None:
        """A cluster sent a state of it: a deletion by that cluster may mean this subscription from now on."""
        if not self.is_known_to(source):
            self._cursor.set_property(f"{HEARD_FROM_PROPERTY}{source}", 1)

    def is_known_to(self, cluster: str) -> bool:
        """Whether a cluster has had this very subscription, not just one of its name."""
        return f"{HEARD_FROM_PROPERTY}{cluster}" in self._cursor.properties

    def apply(self, incoming: SubscriptionProgress) -> Kind:
        """Merge another cluster's state and acknowledge here what it says; the caller flushes."""
        self._claim()
        outcome = self.state.merge(incoming)
        if outcome.kind is Kind.REPLACED:
            self._news = None
            self.made.moved()
        if outcome.changed and outcome.kind is not Kind.DELETED:
            self._cursor.attach(encode_state(incoming))
            if outcome.rebuild:
                self.rebuild()
            else:
                self._take_effect(effects_of_merge(self._topic.log.index, outcome))
        return outcome.kind

    def arrived(self, origin: Annotation) -> None:
        """Entries of another cluster were appended: what is acknowledged already is never dispatched.

        It is cheap where nothing of them is acknowledged, since each run arrives for all subscriptions in one turn.
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
        """Make the cursor anew from the whole state: entries may have become unacknowledged.

        Consumers subscribe again, as after a seek made here: what they hold counts no more, nor does an acknowledgement
        of it that is on its way. Who kept it would hold messages of a key of which another consumer gets the same.
        """
        self._subscription.disconnect_consumers()
        effects = effects_of_all(self._topic.log.index, self.state)
        self._cursor.reset(self._topic.log.before_first(), effects.ranges, effects.partial)
        self._subscription.claims_applied.clear()

    def _take_effect(self, effects: LocalEffects) -> None:
        deleted = self._cursor.acknowledge_ranges(effects.ranges)
        for position, remaining in effects.partial:
            deleted += self._cursor.acknowledge_batch(position, remaining)
        # Claimed again, because who holds the entries may claim across floors that the other cluster did not know.
        self._unclaimed += deleted
        self._subscription.free(deleted)

    @property
    def acknowledgements(self) -> CursorState:
        """What is acknowledged here."""
        return self._cursor.state

    # -- telling --------------------------------------------------------------------------------------------------

    def note_applied(self, source: str, delay_s: float) -> None:
        """An acknowledgement of ``source`` took effect here this long after it was made."""
        self._applied.setdefault(source, deque(maxlen=APPLIED_SAMPLES_MAX)).append(delay_s)

    def applied(self) -> dict[str, dict[str, float]]:
        """For each source cluster: how many progress messages took effect here, and their delays in milliseconds."""
        return {source: _percentiles(samples) for source, samples in sorted(self._applied.items())}


def _percentiles(samples: deque[float]) -> dict[str, float]:
    ordered = sorted(samples)
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    values = {
        name: round(ordered[min(len(ordered) - 1, int(part * len(ordered)))] * 1000, 3) for name, part in at.items()
    }
    return {"count": len(ordered), **values}
