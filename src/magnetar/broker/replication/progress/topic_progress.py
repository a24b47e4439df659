"""Exact progress of one topic: its links to brokers of other clusters, and the states that these send."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.errors import MagnetarError, RequestError, ServerError
from magnetar.base.parts import Part
from magnetar.broker.environment import settle
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
    import asyncio
    from collections.abc import Callable, Generator, Mapping

    from magnetar.base.errors import StorageError
    from magnetar.base.life import Life
    from magnetar.broker.publish.interfaces import Producer
    from magnetar.broker.subscription.shared_progress import SharedProgress
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.geo.progress.codec import ProgressReport
    from magnetar.geo.progress.confirmations import Unconfirmed
    from magnetar.metadata.store import OnDurable

log = structlog.get_logger(__name__)


class ProgressTopic(MarkedTopic, LosingTopic, ReplicatingTopic, Protocol):
    """The topic of the progress."""

    @property
    def progress(self) -> TopicProgress:
        """Exact progress of the topic."""
        ...

    @property
    def producers(self) -> Mapping[str, Producer]:
        """Connected producers, including links, by name."""
        ...

    def remove_subscription(
        self,
        subscription: Subscription,
        tombstone: SubscriptionProgress | None = None,
        done: OnDurable = ...,
    ) -> None:
        """Remove a subscription here, and store ``tombstone``; ``done`` is called when that is durable."""
        ...

    def follow_snapshots(self) -> None:
        """Start or stop snapshots."""
        ...


class TopicProgress(Part):
    """Progress links of a topic: one to each other cluster while a subscription is replicated, none otherwise."""

    def __init__(self, topic: ProgressTopic) -> None:
        """Create it without links."""
        self._topic = topic
        self._environment = topic.environment
        self._links: dict[str, ProgressLink] = {}
        self.lost = LostEntries(topic)
        self.tombstones = Tombstones(topic.ledger, topic.environment.limit_hits)
        self.switched_off = SwitchedOff(topic.ledger, topic.environment.limit_hits)
        self._incoming = IncomingProgress(topic, self._take)
        self._withheld: dict[str, SubscriptionProgress] = {}
        """States of subscriptions whose names non-durable ones have. A restart needs none: senders repeat all then."""

    def changed(self) -> None:
        """Open and close links after a change of subscriptions or policies."""
        wanted: list[str] = []
        sync = self._topic.policies.replicated_subscription_sync
        if self._topic.replication_forbidden:
            self._dismiss_peers()
        elif sync != "markers" and (self._replicated() or self.tombstones):
            wanted = self._environment.targets_of_topic(self._topic.name)
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
        """Handle the capabilities and the life that a peer reported."""
        self._topic.follow_snapshots()
        link = self._topic.replicators.get(peer)
        if link is not None:
            link.foreign.copies.request_return()

    def check_allowed(self) -> None:
        """Raise RequestError if progress is not allowed; the peer reports the reason and retries much later."""
        if self._topic.replication_forbidden:
            raise RequestError(ServerError.NotAllowedError, self._topic.replication_forbidden)

    def _dismiss_peers(self) -> None:
        for producer in tuple(self._topic.producers.values()):
            if isinstance(producer, ProgressProducer):
                producer.session.close_producer(producer)

    def publish(self, delta: SubscriptionProgress, count: int, oldest_at: float | None) -> None:
        """Send durable changes to all other clusters.

        The oldest acknowledgement in them was made at ``oldest_at``; all of the first ``count`` acknowledgements are
        sent.
        """
        for link in self._links.values():
            link.add(delta, oldest_at)
            if not delta.deleted:
                link.confirmations.published(delta.name, count, oldest_at)

    async def full_states(self) -> list[SubscriptionProgress]:
        """Return the complete durable state: all replicated subscriptions and the tombstones.

        Raises StorageError, also for a topic that is fenced: its last tombstone may not have been stored.
        """
        states: list[SubscriptionProgress] = []
        await self._environment.slices.run(self._copy_each(states))
        states += self.tombstones.states()
        durable: asyncio.Future[None] = self._environment.loop.create_future()
        self._topic.log.barrier(partial(settle, durable))
        await durable
        return states

    def _copy_each(self, states: list[SubscriptionProgress]) -> Generator[None, None, None]:
        """Copy the states of all replicated subscriptions, each in the step that writes it.

        A subscription that is deleted meanwhile has a tombstone with a higher epoch.
        """
        for subscription in tuple(self._topic.subscriptions.values()):
            if self._topic.subscriptions.get(subscription.name) is not subscription:
                continue
            if subscription.progress is not None:
                subscription.flushes.now()
            keeper = subscription.shared_progress
            if keeper is not None:
                states.append(keeper.state.copy())
            yield

    def receive(
        self,
        source: str,
        payload: bytes,
        done: Callable[[MagnetarError | None], None],
        refused: Callable[[MagnetarError], None],
    ) -> None:
        """Apply a progress marker of ``source``, a large one in several turns; see ``IncomingProgress.take``.

        Raises RemoteProtocolError for an unreadable marker. ``refused`` is called with RequestError, among others, for
        positions that cannot be distinguished from those of another life of their cluster.
        """
        marker = decode_marker(payload)
        if source in self._links:
            self._links[source].heard()
        self._incoming.take(source, marker, done, refused)

    def _take(self, source: str, marker: ProgressReport, incoming: SubscriptionProgress) -> None:
        """Apply a state, or part of one, from a marker of ``source``."""
        if is_reserved(incoming.name):
            log.warning("progress_of_reserved_name", topic=str(self._topic.name), source=source, name=incoming.name)
            return
        subscription = self._topic.subscriptions.get(incoming.name)
        if incoming.name in self.switched_off:
            self._remember(incoming)
            return
        if subscription is not None and not subscription.is_durable:
            self._withhold(incoming)  # a client's own non-durable subscription with the same name
            return
        if incoming.name in self._withheld:
            self._withhold(incoming)
            incoming = self._withheld.pop(incoming.name)
        keeper = None if subscription is None else subscription.shared_progress
        if subscription is None or keeper is None:
            self._begin(source, subscription, incoming)
        elif incoming.deleted:
            self._delete(subscription, keeper, incoming)
        else:
            self._apply(source, subscription, keeper, incoming)
        subscription = self._topic.subscriptions.get(incoming.name)
        if subscription is not None:
            if marker.oldest_acknowledged_at_ms and subscription.shared_progress is not None:
                delay_s = max(0.0, self._environment.clock.now() - marker.oldest_acknowledged_at_ms / 1000)
                subscription.shared_progress.note_applied(source, delay_s)
            subscription.flushes.now()

    def delete_subscription(self, subscription: Subscription, done: OnDurable) -> None:
        """Delete a subscription; if it is replicated, store a tombstone and inform the other clusters.

        ``done`` is called when that is durable.
        """
        if subscription.shared_progress is None:
            self._topic.remove_subscription(subscription, done=done)
            return
        tombstone = subscription.shared_progress.state.tombstone(self._environment.cluster)

        def deleted(error: StorageError | None) -> None:
            if error is None:
                self.publish(tombstone, 0, None)
            done(error)

        self._topic.remove_subscription(subscription, tombstone, deleted)

    def unconfirmed(self, keeper: SharedProgress) -> dict[str, Unconfirmed | None]:
        """Return the entries of a subscription that each other cluster has not confirmed; None: unknown."""
        return {
            peer: keeper.made.unconfirmed(keeper.state.name, link.confirmations) if link.is_known else None
            for peer, link in sorted(self._links.items())
        }

    def lost_in(self, keeper: SharedProgress) -> dict[str, int | None]:
        """Return the entries that each other cluster published, lost and has not got back; None: unknown."""
        return {peer: self.lost.unacknowledged(peer, keeper.acknowledgements) for peer in self.unconfirmed(keeper)}

    def facts(self, keeper: SharedProgress) -> dict[str, ProgressFacts]:
        """Return how a subscription's acknowledgements reach each other cluster."""
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
        """Return the life of ``peer``; None while no progress link to it is up, or if it names none."""
        link = self._links.get(peer)
        return None if link is None else link.peer_life

    def last_life_of(self, peer: str) -> Life | None:
        """Return the life that ``peer`` named last, also while its progress link is down; None if it named none."""
        link = self._links.get(peer)
        return None if link is None else link.last_peer_life

    def unavailable(self) -> dict[str, str]:
        """Return the clusters that cannot have exact progress, with the reason and the method used instead."""
        return {peer: link.unavailable for peer, link in sorted(self._links.items()) if link.unavailable}

    def close(self) -> None:
        """Close all links, and drop pending markers."""
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

    def _apply(
        self, source: str, subscription: Subscription, keeper: SharedProgress, incoming: SubscriptionProgress
    ) -> None:
        if keeper.apply(incoming) is not Kind.IGNORED:
            keeper.heard_from(source)
            return
        if source not in self._links:
            return
        # The sender does not know the newer epoch yet; it may know it when it is durable here.
        link, state = self._links[source], keeper.state.copy()
        subscription.flushes.then(lambda error: link.add(state, None) if error is None else None)

    def _withhold(self, incoming: SubscriptionProgress) -> None:
        """Keep a state until it can be applied: later ones may be changes to it."""
        if incoming.name in self._withheld:
            self._withheld[incoming.name].merge(incoming)
        else:
            self._withheld[incoming.name] = incoming.copy()

    def _remember(self, incoming: SubscriptionProgress) -> None:
        """Handle a state of a disabled subscription: only a deletion matters, after which it would resume later."""
        known = self.tombstones.get(incoming.name)
        if incoming.deleted and (known is None or known.epoch < incoming.epoch):
            self.tombstones.add(incoming)

    def _begin(self, source: str, subscription: Subscription | None, incoming: SubscriptionProgress) -> None:
        """Handle a state of a subscription that does not exist here, or that is not replicated here yet.

        The latter remains after a loss of power that preserved only the first record of a replicated subscription.
        """
        tombstone = self.tombstones.get(incoming.name)
        newer = tombstone is None or tombstone.epoch < incoming.epoch
        if incoming.deleted and newer:
            self.tombstones.add(incoming)
        elif newer and subscription is None:
            self._topic.create_replicated(incoming).heard_from(source)
        elif newer and subscription is not None:
            self._topic.set_replicated(subscription, replicated=True)
            if subscription.shared_progress is not None:
                self._apply(source, subscription, subscription.shared_progress, incoming)
        elif tombstone is not None and not incoming.deleted:
            # The sender does not know the deletion yet; it may know it when it is durable here.
            self._topic.log.barrier(lambda error: self.publish(tombstone, 0, None) if error is None else None)

    def _delete(self, subscription: Subscription, keeper: SharedProgress, incoming: SubscriptionProgress) -> None:
        """Delete a subscription that was deleted in another cluster, unless it is a different one or in use.

        A consumer here keeps the subscription, in all clusters, as a subscription with other consumers cannot be
        deleted within one cluster either. A consumer that a seek has disconnected keeps it as well: it will reconnect,
        and would find a new subscription at its initial position. A cluster that has never sent a state of this
        subscription cannot have deleted it: its tombstone belongs to an earlier subscription with the same name, for
        example of a topic that was deleted and created again.
        """
        if incoming.epoch < keeper.state.epoch:
            return
        topic, name = str(self._topic.name), subscription.name
        if subscription.is_in_use or not keeper.is_known_to(incoming.epoch.cluster):
            log.info("subscription_kept_after_remote_deletion", topic=topic, subscription=name)
            keeper.outlive(incoming.epoch)
        else:
            log.info("subscription_deleted_elsewhere", topic=topic, subscription=name)
            self._topic.remove_subscription(subscription, incoming)
