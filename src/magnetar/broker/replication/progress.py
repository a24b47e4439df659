"""Exact progress: what ties a subscription's cursor to its replicated state and to the other clusters."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import MagnetarError, RequestError, ServerError
from magnetar.base.parts import Part
from magnetar.base.position import Position
from magnetar.broker.publish.producer import answer_duplicate, answer_failed, publish_rest
from magnetar.broker.replication.incoming_progress import IncomingProgress
from magnetar.broker.replication.lives import lives_to_name
from magnetar.broker.replication.lost_entries import LostEntries
from magnetar.broker.replication.switched_off import SwitchedOff
from magnetar.broker.replication.tombstones import Tombstones
from magnetar.broker.subscription.names import is_reserved
from magnetar.geo.confirmations import Acknowledged
from magnetar.geo.effects import effects_of_all, effects_of_merge, effects_on_arrival
from magnetar.geo.link import ProgressLink
from magnetar.geo.origins import PartialClaim
from magnetar.geo.progress import Kind, SubscriptionProgress
from magnetar.geo.progress_codec import decode_marker, encode_state, restore_state
from magnetar.geo.protection import ProgressFacts
from magnetar.geo.seeking import sought
from magnetar.wire import entry as wire_entry
from magnetar.wire import markers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.base.life import Life
    from magnetar.broker.publish.producer import ProducerOptions, SendHead
    from magnetar.broker.session.session import Session
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.topic import Topic
    from magnetar.cursor.ranges import Range
    from magnetar.geo.annotation import Annotation
    from magnetar.geo.confirmations import Unconfirmed
    from magnetar.geo.effects import LocalEffects
    from magnetar.geo.epochs import Epoch
    from magnetar.geo.progress_codec import ProgressReport
    from magnetar.wire.proto import pulsar_api_pb2 as pb

log = structlog.get_logger(__name__)

HEARD_FROM_PROPERTY = "magnetar.heard.from."
"""Cursor properties, followed by a cluster: that one has, or had, this very subscription, for it sent a state of it."""

APPLIED_SAMPLES_MAX = 4096
"""How many of the newest delays between acknowledgement and application are kept for each source cluster."""


class SubscriptionProgressKeeper:
    """Keeps a replicated subscription's cursor and its state in origin terms in step, both ways.

    Acknowledgements made here become claims and are published once they are durable; what others claim is acknowledged
    here, at once for entries that are held, on arrival for the rest. The state is kept in the cursor's own records.
    """

    def __init__(self, topic: Topic, subscription: Subscription, state: SubscriptionProgress) -> None:
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
    def begin(cls, topic: Topic, subscription: Subscription) -> SubscriptionProgressKeeper:
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
        cls, topic: Topic, subscription: Subscription, incoming: SubscriptionProgress
    ) -> SubscriptionProgressKeeper:
        """Take over a state that arrived for a subscription that did not exist here."""
        state = SubscriptionProgress(subscription.name, incoming.starts(), incoming.epoch)
        keeper = subscription.progress = cls(topic, subscription, state)
        state.merge(incoming)
        keeper.rebuild()
        keeper.replaced()
        return keeper

    @classmethod
    def recover(cls, topic: Topic, subscription: Subscription) -> SubscriptionProgressKeeper:
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

    def prepare(self) -> Callable[[StorageError | None], None] | None:
        """Put what changed into the cursor's next record; what to do once that is durable, or never will be."""
        if not (self._unclaimed or self._narrowed or self._news or self._moved):
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
        """Entries of another cluster were appended: what is acknowledged already is never dispatched."""
        for extent in origin.extents:
            ledger_id, entry_id = extent.origin_first
            last = Position(ledger_id, entry_id + extent.count - 1)
            effects = effects_on_arrival(self._topic.log.index, self.state, origin.cluster, extent.floor, last)
            if effects.ranges or effects.partial:
                self._take_effect(effects)
                self._subscription.flush_soon()

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

    # -- telling --------------------------------------------------------------------------------------------------

    def note_applied(self, source: str, delay_s: float) -> None:
        """An acknowledgement of ``source`` took effect here this long after it was made."""
        self._applied.setdefault(source, deque(maxlen=APPLIED_SAMPLES_MAX)).append(delay_s)

    def unconfirmed(self) -> dict[str, Unconfirmed | None]:
        """For each remote cluster, what it has not confirmed; None: that is not known."""
        return self._topic.progress.unconfirmed(self)

    def lost(self) -> dict[str, int | None]:
        """For each remote cluster, what it published, lost with its data and has not got back; None: not known."""
        state = self._cursor.state
        lost = self._topic.progress.lost
        return {peer: lost.unacknowledged(peer, state) for peer in self.unconfirmed()}

    def unavailable(self) -> dict[str, str]:
        """The remote clusters that cannot have exact progress: why, and what applies instead."""
        return self._topic.progress.unavailable()

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


class TopicProgress(Part):
    """A topic's progress links: one to each other cluster while a subscription is replicated, none otherwise."""

    def __init__(self, topic: Topic) -> None:
        """No link yet."""
        self._topic = topic
        self._environment = topic.environment
        self._links: dict[str, ProgressLink] = {}
        self.lost = LostEntries(topic)
        self.tombstones = Tombstones(topic.ledger, topic.environment.limit_hits)
        self.switched_off = SwitchedOff(topic.ledger, topic.environment.limit_hits)
        self._incoming = IncomingProgress(topic, self._take)

    def changed(self) -> None:
        """Subscriptions or policies changed: open the links that are needed, close those that are not."""
        wanted: list[str] = []
        sync = self._topic.policies.replicated_subscription_sync
        if self._topic.replication_forbidden:
            self._dismiss_peers()
        elif sync != "markers" and (self._replicated() or self.tombstones):
            wanted = self._environment.targets_of(self._topic.name.namespace_name)
        for peer in [peer for peer in self._links if peer not in wanted]:
            self._close(self._links.pop(peer), "no subscription or policy needs it any more")
        for peer in wanted:
            if peer not in self._links:
                link = ProgressLink(
                    self._environment.links,
                    peer,
                    str(self._topic.name),
                    self.full_states,
                    partial(self._peer_asked, peer),
                    lambda: lives_to_name(self._topic),
                )
                self._links[peer] = link
                for keeper in self._replicated():
                    link.confirmations.published(keeper.state.name, keeper.made.count, None)
        for link in self._links.values():
            link.confirmations.keep([keeper.state.name for keeper in self._replicated()])
        self._topic.follow_snapshots()

    def _peer_asked(self, peer: str) -> None:
        """A peer has said what it is able to do, and which life it is in."""
        self._topic.follow_snapshots()
        link = self._topic.replicators.get(peer)
        if link is not None:
            link.copies.look()

    def check_allowed(self) -> None:
        """Raise RequestError if no peer may bring progress; whoever hears it says so and asks again much later."""
        if self._topic.replication_forbidden:
            raise RequestError(ServerError.NotAllowedError, self._topic.replication_forbidden)

    def _dismiss_peers(self) -> None:
        for producer in tuple(self._topic.producers.values()):
            if isinstance(producer, ProgressProducer):
                producer.session.close_producer(producer)

    def publish(self, delta: SubscriptionProgress, count: int, oldest_at: float | None) -> None:
        """Send durable news to every other cluster.

        Its oldest acknowledgement was made here at ``oldest_at``; with it, all of the first ``count`` are sent.
        """
        for link in self._links.values():
            link.add(delta, oldest_at)
            if not delta.deleted:
                link.confirmations.published(delta.name, count, oldest_at)

    async def full_states(self) -> list[SubscriptionProgress]:
        """Everything, once it is durable: the states of all replicated subscriptions, and the tombstones."""
        for subscription in self._topic.subscriptions.values():
            if subscription.progress is not None:
                subscription.flush()
        states = [keeper.state.copy() for keeper in self._replicated()]
        states += self.tombstones.states()
        await self._environment.durable()
        return states

    def receive(
        self,
        source: str,
        payload: bytes,
        done: Callable[[MagnetarError | None], None],
        refused: Callable[[MagnetarError], None],
    ) -> None:
        """Apply a progress marker of ``source``, a large one in several turns; see ``IncomingProgress.take``.

        Raises RemoteProtocolError for a marker that cannot be read. ``refused`` gets, among others, RequestError for
        one whose positions cannot be told from those of another life of their cluster.
        """
        marker = decode_marker(payload)
        if source in self._links:
            self._links[source].heard()
        self._incoming.take(source, marker, done, refused)

    def _take(self, source: str, marker: ProgressReport, incoming: SubscriptionProgress) -> None:
        """Apply a state, or part of one, that a marker of ``source`` brought."""
        if is_reserved(incoming.name):
            log.warning("progress_of_a_reserved_name", topic=str(self._topic.name), source=source, name=incoming.name)
            return
        subscription = self._topic.subscriptions.get(incoming.name)
        if incoming.name in self.switched_off:
            self._remember(incoming)
            return
        if subscription is None:
            self._create(source, incoming)
        elif not subscription.is_durable:
            return  # somebody's own reader, by chance of the same name
        elif incoming.deleted:
            self._delete(subscription, incoming)
        else:
            self._apply(source, subscription, incoming)
        subscription = self._topic.subscriptions.get(incoming.name)
        if subscription is not None:
            if marker.oldest_acknowledged_at_ms and subscription.shared_progress is not None:
                delay_s = max(0.0, self._environment.clock.now() - marker.oldest_acknowledged_at_ms / 1000)
                subscription.shared_progress.note_applied(source, delay_s)
            subscription.flush()

    def bury(self, subscription: Subscription) -> None:
        """Delete a subscription here and, when it is replicated, everywhere: leave a tombstone and tell the others."""
        if subscription.shared_progress is None:
            self._topic.remove_subscription(subscription)
            return
        tombstone = subscription.shared_progress.state.tombstone(self._environment.cluster)
        self._topic.remove_subscription(subscription, tombstone)
        self.publish(tombstone, 0, None)

    def unconfirmed(self, keeper: SubscriptionProgressKeeper) -> dict[str, Unconfirmed | None]:
        """What each other cluster has not confirmed of a subscription; None: that is not known."""
        return {
            peer: keeper.made.unconfirmed(keeper.state.name, link.confirmations) if link.is_known else None
            for peer, link in sorted(self._links.items())
        }

    def facts(self, keeper: SubscriptionProgressKeeper) -> dict[str, ProgressFacts]:
        """How a subscription's acknowledgements get to each other cluster."""
        unconfirmed = self.unconfirmed(keeper)
        return {
            peer: ProgressFacts(
                unavailable=link.unavailable,
                down_since=link.down_since,
                failure=link.failure,
                unconfirmed=unconfirmed[peer],
                steady_since=link.steady_since,
                is_first=link.known_since is None or link.steady_since == link.known_since,
            )
            for peer, link in sorted(self._links.items())
        }

    def life_of(self, peer: str) -> Life | None:
        """Return the life that ``peer`` is in; None while no link to it is up, or where it names none."""
        link = self._links.get(peer)
        return None if link is None else link.peer_life

    def unavailable(self) -> dict[str, str]:
        """The clusters that cannot have exact progress: why, and what applies instead."""
        return {peer: link.unavailable for peer, link in sorted(self._links.items()) if link.unavailable}

    def close(self) -> None:
        """Close every link, and apply nothing any more."""
        self._incoming.stop()
        for link in self._links.values():
            self._close(link, "the topic is closed")
        self._links.clear()

    def _close(self, link: ProgressLink, reason: str) -> None:
        link.close(reason)
        self._environment.retired.add(link)

    def _replicated(self) -> list[SubscriptionProgressKeeper]:
        shared = (subscription.shared_progress for subscription in self._topic.subscriptions.values())
        return [keeper for keeper in shared if keeper is not None]

    def _apply(self, source: str, subscription: Subscription, incoming: SubscriptionProgress) -> None:
        if subscription.shared_progress is None:
            self._topic.set_replicated(subscription, replicated=True)
        keeper = subscription.shared_progress
        if keeper is None:
            return
        if keeper.apply(incoming) is not Kind.IGNORED:
            keeper.heard_from(source)
            return
        if source not in self._links:
            return
        # The sender does not know the newer epoch yet; it may, once that is durable here.
        link, state = self._links[source], keeper.state.copy()
        subscription.flush_with(lambda error: link.add(state, None) if error is None else None)

    def _remember(self, incoming: SubscriptionProgress) -> None:
        """Of one that is switched off here, only a deletion matters elsewhere: it goes on behind that, if ever."""
        known = self.tombstones.get(incoming.name)
        if incoming.deleted and (known is None or known.epoch < incoming.epoch):
            self.tombstones.add(incoming)

    def _create(self, source: str, incoming: SubscriptionProgress) -> None:
        tombstone = self.tombstones.get(incoming.name)
        newer = tombstone is None or tombstone.epoch < incoming.epoch
        if incoming.deleted and newer:
            self.tombstones.add(incoming)
        elif newer:
            self._topic.create_replicated(incoming).heard_from(source)
        elif tombstone is not None and not incoming.deleted:
            self.publish(tombstone, 0, None)  # the sender does not know yet that it was deleted

    def _delete(self, subscription: Subscription, incoming: SubscriptionProgress) -> None:
        """Delete a subscription that was deleted elsewhere, unless it is another one by now, or somebody uses it.

        Who consumes here keeps it, and with that every cluster does: in one cluster, too, a subscription is not deleted
        that has other consumers. A consumer that a seek has disconnected keeps it as well: it comes again, and would
        find a new subscription at its initial position. A cluster that has never sent a state of this one cannot have
        deleted it: its tombstone is of another of this name, as of one in a topic that was deleted here and made again.
        """
        keeper = subscription.shared_progress
        if keeper is None or incoming.epoch < keeper.state.epoch:
            return
        topic, name = str(self._topic.name), subscription.name
        if subscription.is_in_use or not keeper.is_known_to(incoming.epoch.cluster):
            log.info("subscription_deleted_elsewhere_goes_on_here", topic=topic, subscription=name)
            keeper.outlive(incoming.epoch)
        else:
            log.info("subscription_deleted_elsewhere", topic=topic, subscription=name)
            self._topic.remove_subscription(subscription, incoming)


class ProgressProducer:
    """A peer's progress link: its SENDs are applied and never enter the log."""

    def __init__(self, topic: Topic, session: Session, options: ProducerOptions, source: str) -> None:
        """A link of cluster ``source``."""
        self.check: Callable[[bytes], pb.MessageMetadata | None] = wire_entry.check
        self.topic = topic
        self.session = session
        self.options = options
        self._source = source

    def publish(self, heads: Sequence[SendHead], entries: list[bytes]) -> None:
        """Apply markers; each is receipted once its effect is durable."""
        for head, entry in zip(heads, entries, strict=True):
            self._apply(head, entry)

    def publish_around(self, heads: Sequence[SendHead], entries: Sequence[bytes | RequestError]) -> None:
        """Refuse what cannot be taken and apply the rest."""
        publish_rest(self, heads, entries)

    def _apply(self, head: SendHead, entry: bytes) -> None:
        sequence_id, highest, _ = head

        def done(error: MagnetarError | None) -> None:
            if error is None:
                answer_duplicate(self, sequence_id, highest)
            else:
                answer_failed(self, [head], error)

        def refused(error: MagnetarError) -> None:
            self.topic.environment.limit_hits.note(error)
            log.warning("progress_refused", topic=str(self.topic.name), source=self._source, error=str(error))
            answer_failed(self, [head], error)

        try:
            kind = markers.marker_type(wire_entry.parse_metadata(entry))
            if kind != markers.PROGRESS:
                message = f"a progress link carries markers of type {markers.PROGRESS}, not {kind}"
                raise RequestError(ServerError.NotAllowedError, message)
            self.topic.progress.receive(self._source, bytes(wire_entry.payload_of(entry)), done, refused)
        except MagnetarError as error:
            refused(error)
