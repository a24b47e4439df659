"""Replicated subscriptions by PIP-33: snapshots of a topic, and updates of its subscriptions.

Used for clusters that do not support exact progress, and for all clusters if ``replicated_subscription_sync`` requires
it. ``geo.snapshots`` makes the decisions; this module passes the events of the topic to it, and performs its effects.

Markers are not stored in the log: they are sent between its entries (``broker.replication.outbound.marker_queue``). So
they are never counted, dispatched or acknowledged.
"""

from __future__ import annotations

import itertools
import uuid
from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.admin.models.topics import SnapshotStats
from magnetar.base.errors import MagnetarError, RequestError, ServerError
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.broker.replication.lives import lives_to_name
from magnetar.broker.replication.outbound.marker_queue import QueuedMarker
from magnetar.broker.replication.stored_snapshots import StoredSnapshots
from magnetar.broker.replication.subscription_updates import SubscriptionUpdates, UpdatedTopic
from magnetar.geo.snapshots.cache import SnapshotCache
from magnetar.geo.snapshots.claims import claims_of
from magnetar.geo.snapshots.controller import Answer, Ask, Completed, Effect, SnapshotController, SnapshotOptions
from magnetar.geo.snapshots.markers import SnapshotRequest, SnapshotResponse, decode
from magnetar.wire.entries import markers

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Iterable, Mapping

    from magnetar.broker.replication.interfaces import AllowedTopic
    from magnetar.broker.replication.outbound.marker_queue import MarkerQueue
    from magnetar.broker.replication.outbound.replicator import Replicator
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.geo.snapshots.cache import Snapshot

log = structlog.get_logger(__name__)


class SnapshotTopic(UpdatedTopic, Protocol):
    """The topic of the snapshots."""

    @property
    def replicators(self) -> Mapping[str, Replicator]:
        """The links, by target cluster."""
        ...


def marker_peers(topic: AllowedTopic) -> list[str]:
    """Return the clusters that a topic's subscriptions reach by markers."""
    if not takes_markers(topic):
        return []
    targets = topic.environment.targets_of_topic(topic.name)
    if topic.policies.replicated_subscription_sync == "markers":
        return targets
    return [target for target in targets if topic.environment.links.is_unable(target)]


def takes_markers(topic: AllowedTopic) -> bool:
    """Return whether a topic's subscriptions may use markers."""
    return not topic.replication_forbidden and topic.policies.replicated_subscription_sync != "exact"


class TopicSnapshots:
    """The snapshots of one topic; this object exists only while a subscription or a cluster needs it.

    Snapshots are taken while a subscription is replicated and may use markers. Requests of other clusters are answered
    in any case.
    """

    def __init__(self, topic: SnapshotTopic) -> None:
        """Load the stored snapshots, and start a snapshot when every cluster can be reached."""
        config = topic.environment.config
        self._topic = topic
        self._environment = topic.environment
        self._frequency_s = self._frequency_now_s
        self._cached_max = config.replicatedSubscriptionsSnapshotMaxCachedPerSubscription
        options = SnapshotOptions(
            config.replicatedSubscriptionsSnapshotTimeoutSeconds,
            config.replicatedSubscriptionsSnapshotWithoutClusterAfterSeconds,
        )
        self.controller = SnapshotController(options, self._new_id, self._environment.snapshots)
        self._numbers = itertools.count()
        self._moved_at = self._now()
        self._ticked_at = float("-inf")
        self._away_since: dict[str, float] = {}
        """Clusters whose link has no holder, each with the start of that time."""
        self._timer: asyncio.TimerHandle | None = None
        self._has_ended = False
        self._stored = StoredSnapshots(topic.ledger, self._cached_max, self._now())
        self._caches: dict[str, SnapshotCache] = {}
        self._take_claims: set[str] = set()
        """Clusters whose last answer announced support for claims."""
        self._updates = SubscriptionUpdates(topic)
        self._newest_marker: dict[str, Position] = {}
        """Last marker position of each cluster with markers in its log; Apache Pulsar's replicator may repeat one."""
        self.changed()

    def changed(self) -> None:
        """Apply the current subscriptions, clusters, links and policies of the topic."""
        if self._frequency_s != self._frequency_now_s:
            self._frequency_s = self._frequency_now_s
            self._disarm()  # it is set again below, counted from the last tick
        replicated = {each.name: each for each in self._replicated()}
        for name in [name for name in self._caches if name not in replicated]:
            del self._caches[name]
            self._forget(name)
        for name, subscription in replicated.items():
            if name not in self._caches:
                self._caches[name] = SnapshotCache(self._cached_max, self._stored.recent)
                self._flush(subscription)
        self._arm()

    def moved(self) -> None:
        """Handle appended entries."""
        self._moved_at = self._now()
        if self._timer is None:
            self._arm()

    def handed_over(self, peer: str) -> None:
        """Handle a new holder of the link to ``peer``; the next tick repeats requests that may be lost."""
        self.controller.handed_over(peer)
        self._arm()

    def went_back(self) -> None:
        """Start a new snapshot after a target lost confirmed entries, since its positions changed."""
        self.controller.went_back()
        self._arm()

    def stop(self) -> None:
        """Stop taking snapshots."""
        self._disarm()
        self._has_ended = True

    def close(self) -> None:
        """Stop taking snapshots, and store the present ones; drop the updates that wait.

        If no update waits or may be lost, the snapshots that all subscriptions have passed are not needed again.
        """
        self.stop()
        queues = self._queues()
        is_done = not any(queue.has_updates for queue in queues)
        for queue in queues:
            queue.forget_updates()
        if is_done:
            self._stored.save_unpassed(self._caches.values())
        else:
            self._stored.save(self._passed)

    # -- taking snapshots ---------------------------------------------------------------------------------------

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        """Set the timer for the next action, if there is one."""
        if self._has_ended:  # links that are closed later still report it
            return
        if self._timer is None and self._caches and not self.controller.is_idle(self._moved_at):
            left_s = self._ticked_at + self._frequency_s - self._now()
            self._timer = self._environment.loop.call_later(max(0.0, left_s), self._tick)

    @property
    def _frequency_now_s(self) -> float:
        """Shortest interval between two snapshots, from the current policies."""
        return self._topic.policies.replicated_subscriptions_snapshot_frequency_ms / 1000

    def _tick(self) -> None:
        self._timer = None
        self._ticked_at = now = self._now()
        leaves_out = self._topic.policies.replicated_subscription_sync == "markers"  # else answers are useless
        self._carry_out(self.controller.tick(now, self._moved_at, self._away(now), leaves_out=leaves_out))
        self._arm()

    def begin(self, without: Collection[str]) -> None:
        """Start a snapshot now, regardless of others in progress; the clusters in ``without`` are left out.

        Raises RequestError if a cluster that is not left out cannot be reached, no cluster would remain, or one must
        not be left out because another one runs Apache Pulsar.
        """
        if without and self._topic.policies.replicated_subscription_sync != "markers":
            what = "a cluster can be left out only in mode markers, between clusters of Magnetar"
            raise RequestError(ServerError.NotAllowedError, f"{self._topic.name}: {what}")
        away = self._away(self._now())
        asked = [peer for peer in away if peer not in without]
        missing = [peer for peer in asked if away[peer] is not None]
        if missing or not asked:
            what = f"the link to {', '.join(missing)} has no holder" if missing else "no cluster remains"
            raise RequestError(ServerError.NotAllowedError, f"{self._topic.name}: {what}")
        self._carry_out(self.controller.begin(self._now(), asked, [peer for peer in away if peer in without]))
        self._arm()

    def _away(self, now: float) -> dict[str, float | None]:
        """Return for how long the link to each other cluster has had no holder; None while it has one."""
        links = self._topic.replicators
        since = {peer: self._away_since.get(peer, now) for peer, link in links.items() if not link.is_carried}
        self._away_since = since
        return {peer: now - since[peer] if peer in since else None for peer in links}

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Ask(snapshot_id, targets, without):
                    last = self._topic.log.index.last_position
                    held = {cluster: last(cluster) or EARLIEST for cluster in without}
                    payload = markers.snapshot_request(snapshot_id, self._environment.cluster, held)
                    self._send(markers.SNAPSHOT_REQUEST, payload, targets)
                case Answer(snapshot_id, target, position, without):
                    payload = markers.snapshot_response(
                        snapshot_id, self._environment.cluster, position, without, takes_claims=True
                    )
                    self._send(markers.SNAPSHOT_RESPONSE, payload, [target], replicate_to=[target])
                case Completed(snapshot):
                    self._completed(snapshot)

    def _completed(self, snapshot: Snapshot) -> None:
        if self._stored.add(snapshot, self._now()):
            self._stored.save(self._passed)
        for cache in self._caches.values():
            cache.add(snapshot, self._topic.ledger.count)
        for subscription in self._replicated():
            self._flush(subscription)

    @property
    def _passed(self) -> Position | None:
        """Position up to which all replicated subscriptions have acknowledged everything; None without any."""
        return min((each.cursor.state.mark_delete_position for each in self._replicated()), default=None)

    # -- subscriptions here --------------------------------------------------------------------------------------

    def _flush(self, subscription: Subscription) -> None:
        """Send an update of a subscription when its position is durable, if there is a suitable snapshot."""
        subscription.flushes.now()

    def reached(self, subscription: Subscription, mark_delete: Position) -> None:
        """Send the update for the durable position ``mark_delete``, in the positions of the other clusters."""
        is_current = self._topic.subscriptions.get(subscription.name) is subscription
        cache = self._caches.get(subscription.name) if is_current else None
        if cache is None or subscription.cursor.state.mark_delete_position < mark_delete:
            return  # the subscription was deleted, is not replicated, or was moved back meanwhile
        snapshot = cache.advance(mark_delete)
        if snapshot is None or subscription.progress is None:
            return
        claims = claims_of(subscription.progress.state, self._topic.log.index.reached_at(snapshot.local))
        peers = [peer for peer in marker_peers(self._topic) if peer in snapshot.positions]
        if not claims.acknowledged:
            # Only entries before the start count as acknowledged. A cluster without support for claims would
            # acknowledge all of them.
            peers = [peer for peer in peers if peer in self._take_claims]
        claims = claims.with_lives(lives_to_name(self._topic))
        payload = markers.subscription_update(subscription.name, snapshot.positions, claims)
        self._send(markers.UPDATE, payload, peers, update_of=subscription.name)

    def forget(self, subscription: Subscription) -> None:
        """Drop the waiting updates of a subscription that was moved back, because they are outdated."""
        self._forget(subscription.name)

    def _forget(self, name: str) -> None:
        for queue in self._queues():
            queue.forget(name)

    def _queues(self) -> list[MarkerQueue]:
        return [link.markers for link in self._topic.replicators.values() if link.markers is not None]

    # -- markers of other clusters --------------------------------------------------------------------------------

    def take(self, source: str, place: Position | None, kind: int, payload: bytes) -> None:
        """Handle a marker of ``source``; all earlier entries are durable.

        ``place`` is its position in the source's log; None if the source does not store markers.
        """
        if place is not None:
            newest = self._newest_marker.get(source)
            if newest is not None and place <= newest:
                return
            self._newest_marker[source] = place
        end, now = self._topic.ledger.last_confirmed_entry, self._now()
        try:
            match decode(kind, payload):
                case SnapshotRequest() as request if request.source in self._topic.replicators:
                    self._carry_out(self.controller.asked(request, self._end_without(request.without)))
                case SnapshotRequest() as request:
                    log.warning(
                        "snapshot_request_from_unknown_cluster", topic=str(self._topic.name), source=request.source
                    )
                case SnapshotResponse() as response:
                    self._take_claims.discard(response.cluster)
                    if response.takes_claims and response.cluster in self._topic.replicators:
                        self._take_claims.add(response.cluster)
                    self._carry_out(self.controller.answered(response, now, end))
                    self._arm()
                case None:
                    pass
                case update:
                    self._updates.apply(source, update, end)
        except MagnetarError as error:
            self._topic.environment.limit_hits.note(error)
            log.warning("marker_ignored", topic=str(self._topic.name), source=source, error=str(error))

    def _end_without(self, without: Mapping[str, Position]) -> Position:
        """Return the newest entry before the first entry of these clusters that is newer than the named ones."""
        log, end = self._topic.log, self._topic.ledger.last_confirmed_entry
        beyond = [
            held.first
            for cluster, position in without.items()
            for held in log.index.to_local(cluster, position, LATEST)[:1]
        ]
        return min([end, *map(self._topic.ledger.previous_position, beyond)])

    # -- statistics ------------------------------------------------------------------------------------------------

    def stats(self) -> SnapshotStats:
        """Return the statistics of the snapshots."""
        controller, counts = self.controller, self.controller.counts
        return SnapshotStats(
            pending=controller.pending,
            completed=counts.completed,
            timed_out=counts.timed_out,
            took_ms=round(counts.took_s * 1000, 3),
            age_seconds=controller.age_s(self._now()),
        )

    # -- the rest ----------------------------------------------------------------------------------------------------

    def _replicated(self) -> list[Subscription]:
        if not takes_markers(self._topic):
            return []
        return [each for each in self._topic.subscriptions.values() if each.is_replicated]

    def _send(
        self,
        kind: int,
        payload: bytes,
        targets: Iterable[str],
        *,
        replicate_to: Iterable[str] = (),
        update_of: str | None = None,
    ) -> None:
        """Send a marker to clusters, after all present entries of the log."""
        publish_time_ms = int(self._environment.clock.now() * 1000)
        entry = markers.build_marker(kind, payload, publish_time_ms=publish_time_ms, replicate_to=list(replicate_to))
        is_answer = kind == markers.SNAPSHOT_RESPONSE
        marker = QueuedMarker(entry, self._topic.ledger.last_confirmed_entry, update_of, is_answer)
        for target in targets:
            replicator = self._topic.replicators.get(target)
            if replicator is not None:
                replicator.send_marker(marker)

    def _new_id(self) -> str:
        """Return an id, in Pulsar's form, that is unique among the snapshots of all clusters and runs of the broker."""
        environment = self._environment
        begun = f"{environment.cluster} {self._topic.name} {environment.clock.now()} {next(self._numbers)}"
        return str(uuid.uuid5(uuid.NAMESPACE_OID, begun))

    def _now(self) -> float:
        return self._environment.clock.monotonic()
