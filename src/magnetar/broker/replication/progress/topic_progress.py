"""Exact progress of one topic: its links to the brokers of other clusters, and what these say."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.errors import MagnetarError, RequestError, ServerError
from magnetar.base.parts import Part
from magnetar.broker.replication.interfaces import ReplicatingTopic
from magnetar.broker.replication.lives import lives_to_name
from magnetar.broker.replication.progress.incoming_progress import IncomingProgress, MarkedTopic
from magnetar.broker.replication.progress.lost_entries import LosingTopic, LostEntries
from magnetar.broker.replication.progress.progress_producer import ProgressProducer
from magnetar.broker.replication.progress.switched_off import SwitchedOff
from magnetar.broker.replication.progress.tombstones import Tombstones
from magnetar.broker.subscription.names import is_reserved
from magnetar.geo.progress.codec import decode_marker
from magnetar.geo.progress.link import ProgressLink
from magnetar.geo.progress.state import Kind, SubscriptionProgress
from magnetar.geo.protection import ProgressFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.base.life import Life
    from magnetar.broker.publish.interfaces import Producer
    from magnetar.broker.subscription.shared_progress import SharedProgress
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.geo.progress.codec import ProgressReport
    from magnetar.geo.progress.confirmations import Unconfirmed

log = structlog.get_logger(__name__)


class ProgressTopic(MarkedTopic, LosingTopic, ReplicatingTopic, Protocol):
    """The topic whose subscriptions make progress in several clusters."""

    @property
    def progress(self) -> TopicProgress:
        """Its exact progress."""
        ...

    @property
    def producers(self) -> Mapping[str, Producer]:
        """The connected producers, links among them, by name."""
        ...

    def remove_subscription(self, subscription: Subscription, tombstone: SubscriptionProgress | None = None) -> None:
        """Remove a subscription here, and keep ``tombstone``; durable on return."""
        ...

    def follow_snapshots(self) -> None:
        """Take snapshots if somebody needs them now."""
        ...


class TopicProgress(Part):
    """A topic's progress links: one to each other cluster while a subscription is replicated, none otherwise."""

    def __init__(self, topic: ProgressTopic) -> None:
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
                subscription.flushes.now()
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
            subscription.flushes.now()

    def delete_subscription(self, subscription: Subscription) -> None:
        """Delete a subscription here and, when it is replicated, everywhere: leave a tombstone and tell the others."""
        if subscription.shared_progress is None:
            self._topic.remove_subscription(subscription)
            return
        tombstone = subscription.shared_progress.state.tombstone(self._environment.cluster)
        self._topic.remove_subscription(subscription, tombstone)
        self.publish(tombstone, 0, None)

    def unconfirmed(self, keeper: SharedProgress) -> dict[str, Unconfirmed | None]:
        """What each other cluster has not confirmed of a subscription; None: that is not known."""
        return {
            peer: keeper.made.unconfirmed(keeper.state.name, link.confirmations) if link.is_known else None
            for peer, link in sorted(self._links.items())
        }

    def lost_in(self, keeper: SharedProgress) -> dict[str, int | None]:
        """What each other cluster published, lost with its data and has not got back; None: that is not known."""
        return {peer: self.lost.unacknowledged(peer, keeper.acknowledgements) for peer in self.unconfirmed(keeper)}

    def facts(self, keeper: SharedProgress) -> dict[str, ProgressFacts]:
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

    def _replicated(self) -> list[SharedProgress]:
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
        subscription.flushes.then(lambda error: link.add(state, None) if error is None else None)

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
