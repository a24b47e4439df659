"""Replicated subscriptions by PIP-33: a topic's snapshots, what its subscriptions make of them, and the others' news.

For clusters that take no progress markers, and for all where ``replicated_subscription_sync`` says so. What is decided
is in ``geo.snapshots``; here it is given the topic's events, and its effects are carried out.

Markers are not kept in the log: they travel between its entries (``broker.replication.outbound.marker_queue``). So none
is ever counted, dispatched or acknowledged.
"""

from __future__ import annotations

import itertools
import uuid
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from magnetar.admin.models.topics import SnapshotStats
from magnetar.base.errors import MagnetarError, RequestError, ServerError, StorageError
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.broker.replication.outbound.marker_queue import QueuedMarker
from magnetar.broker.replication.subscription_updates import SubscriptionUpdates, UpdatedTopic
from magnetar.geo.snapshots.cache import SnapshotCache
from magnetar.geo.snapshots.claims import claims_of
from magnetar.geo.snapshots.codec import decode_snapshots, encode_snapshots
from magnetar.geo.snapshots.controller import Answer, Ask, Completed, Effect, SnapshotController, SnapshotOptions
from magnetar.geo.snapshots.markers import SnapshotRequest, SnapshotResponse, decode
from magnetar.wire.entries import markers

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Iterable, Mapping

    from magnetar.broker.replication.interfaces import AllowedTopic
    from magnetar.broker.replication.outbound.replicator import Replicator
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.geo.snapshots.cache import Snapshot

log = structlog.get_logger(__name__)

SNAPSHOTS_PROPERTY: Final = "magnetar.snapshots"
"""Managed-ledger property: the newest snapshots, so that after a restart a backlog need not be consumed to its end."""

SAVE_INTERVAL_S: Final = 30.0
"""Shortest time between two writes of the property, but for that of closing. A crash forgets that much."""


class SnapshotTopic(UpdatedTopic, Protocol):
    """The topic that snapshots are taken of."""

    @property
    def replicators(self) -> Mapping[str, Replicator]:
        """The links, by the other cluster."""
        ...


def marker_peers(topic: AllowedTopic) -> list[str]:
    """The clusters that a topic's subscriptions reach by markers."""
    if not takes_markers(topic):
        return []
    targets = topic.environment.targets_of(topic.name.namespace_name)
    if topic.policies.replicated_subscription_sync == "markers":
        return targets
    return [target for target in targets if topic.environment.links.is_unable(target)]


def takes_markers(topic: AllowedTopic) -> bool:
    """Whether other clusters may ask and tell a topic by markers."""
    return not topic.replication_forbidden and topic.policies.replicated_subscription_sync != "exact"


class TopicSnapshots:
    """The snapshots of one topic; there is none while no subscription and no cluster needs it.

    Snapshots are taken while a subscription is replicated; what other clusters ask and tell is answered and applied in
    any case.
    """

    def __init__(self, topic: SnapshotTopic) -> None:
        """Begin with what was saved, and with a snapshot as soon as every cluster can be asked."""
        config = topic.environment.config
        self._topic = topic
        self._environment = topic.environment
        self._frequency_s = self._frequency_now_s
        self._cached_max = config.replicatedSubscriptionsSnapshotMaxCachedPerSubscription
        options = SnapshotOptions(
            config.replicatedSubscriptionsSnapshotTimeoutSeconds,
            config.replicatedSubscriptionsSnapshotWithoutClusterAfterSeconds,
        )
        self.controller = SnapshotController(options, self._new_id)
        self._numbers = itertools.count()
        self._moved_at = self._now()
        self._ticked_at = float("-inf")
        self._away_since: dict[str, float] = {}
        """The clusters to which nobody carries the link, and since when that is known."""
        self._timer: asyncio.TimerHandle | None = None
        self._has_ended = False
        self._recent = SnapshotCache(
            self._cached_max, decode_snapshots(topic.ledger.properties.get(SNAPSHOTS_PROPERTY))
        )
        self._saved_at = self._now()
        self._unsaved = False
        self._caches: dict[str, SnapshotCache] = {}
        self._take_claims: set[str] = set()
        """The clusters whose last answer said that they honour the claims of an update."""
        self._updates = SubscriptionUpdates(topic)
        self._newest_marker: dict[str, Position] = {}
        """Of each cluster whose markers have a place in its log: a replicator of Apache Pulsar may send one again."""
        self.changed()

    def changed(self) -> None:
        """Follow subscriptions, clusters, their links and the topic's policies as they are now."""
        if self._frequency_s != self._frequency_now_s:
            self._frequency_s = self._frequency_now_s
            self._disarm()  # it is armed anew below, counted from the last tick
        replicated = {each.name: each for each in self._replicated()}
        for name in [name for name in self._caches if name not in replicated]:
            del self._caches[name]
        for name, subscription in replicated.items():
            if name not in self._caches:
                self._caches[name] = SnapshotCache(self._cached_max, self._recent)
                self._look(subscription)
        self._arm()

    def moved(self) -> None:
        """Entries came."""
        self._moved_at = self._now()
        if self._timer is None:
            self._arm()

    def handed_over(self, peer: str) -> None:
        """Somebody else carries the link to ``peer`` now; the next tick asks again what may have been lost."""
        self.controller.handed_over(peer)
        self._arm()

    def went_back(self) -> None:
        """A link sends again what its target confirmed and lost: take a snapshot with where that is now."""
        self.controller.went_back()
        self._arm()

    def stop(self) -> None:
        """Take no more snapshots."""
        self._disarm()
        self._has_ended = True

    def close(self) -> None:
        """Take no more snapshots, and keep those there are."""
        self.stop()
        if self._unsaved:
            self._save()

    # -- taking snapshots ---------------------------------------------------------------------------------------

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        """Look again when something is to be done, and never otherwise."""
        if self._has_ended:  # links that are closed after it still report that they were
            return
        if self._timer is None and self._caches and not self.controller.is_idle(self._moved_at):
            left_s = self._ticked_at + self._frequency_s - self._now()
            self._timer = self._environment.loop.call_later(max(0.0, left_s), self._tick)

    @property
    def _frequency_now_s(self) -> float:
        """Shortest time between two snapshots, as the policies are now."""
        return self._topic.policies.replicated_subscriptions_snapshot_frequency_ms / 1000

    def _tick(self) -> None:
        self._timer = None
        self._ticked_at = now = self._now()
        leaves_out = self._topic.policies.replicated_subscription_sync == "markers"  # else no answer would be worth it
        self._carry_out(self.controller.tick(now, self._moved_at, self._away(now), leaves_out=leaves_out))
        self._arm()

    def begin(self, without: Collection[str]) -> None:
        """Begin a snapshot now, whatever else is under way; the clusters in ``without`` are left out.

        Raises RequestError when a cluster that is not left out cannot be asked, none would be left, or one must not be
        left out because another one is Apache Pulsar's.
        """
        if without and self._topic.policies.replicated_subscription_sync != "markers":
            what = "only in mode markers, between clusters of Magnetar, can one be left out"
            raise RequestError(ServerError.NotAllowedError, f"{self._topic.name}: {what}")
        away = self._away(self._now())
        asked = [peer for peer in away if peer not in without]
        missing = [peer for peer in asked if away[peer] is not None]
        if missing or not asked:
            what = f"nobody carries the link to {', '.join(missing)}" if missing else "no cluster is left to ask"
            raise RequestError(ServerError.NotAllowedError, f"{self._topic.name}: {what}")
        self._carry_out(self.controller.begin(self._now(), asked, [peer for peer in away if peer in without]))
        self._arm()

    def _away(self, now: float) -> dict[str, float | None]:
        """For how long nobody is known to have carried the link to each other cluster; None while somebody does."""
        links = self._topic.replicators
        since = {peer: self._away_since.get(peer, now) for peer, link in links.items() if link.consumer is None}
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
        count = self._topic.ledger.count
        for cache in (self._recent, *self._caches.values()):
            cache.add(snapshot, count)
        self._unsaved = True
        if self._now() >= self._saved_at + SAVE_INTERVAL_S:
            self._save()
        for subscription in self._replicated():
            self._look(subscription)

    def _save(self) -> None:
        """Keep the snapshots that some subscription has not passed, and the last one that all have."""
        self._saved_at, self._unsaved = self._now(), False
        passed = min((each.cursor.state.mark_delete_position for each in self._replicated()), default=None)
        kept = list(self._recent)
        while passed is not None and len(kept) > 1 and kept[1].local <= passed:
            del kept[0]
        try:
            self._topic.ledger.set_property(SNAPSHOTS_PROPERTY, encode_snapshots(kept))
        except StorageError as error:
            log.warning("snapshots_not_kept", topic=str(self._topic.name), error=str(error))

    # -- subscriptions here --------------------------------------------------------------------------------------

    def _look(self, subscription: Subscription) -> None:
        """Tell the others where a subscription is once that is durable, if there is a snapshot that says it."""
        subscription.flushes.now()

    def reached(self, subscription: Subscription, mark_delete: Position) -> None:
        """Everything up to ``mark_delete`` is durably acknowledged: tell the others what that is in their logs."""
        cache = self._caches.get(subscription.name)
        if cache is None or subscription.cursor.state.mark_delete_position < mark_delete:
            return  # it is not replicated, or was moved back meanwhile
        snapshot = cache.advance(mark_delete)
        if snapshot is None or subscription.progress is None:
            return
        claims = claims_of(subscription.progress.state, self._topic.log.index.positions_at(snapshot.local))
        peers = [peer for peer in marker_peers(self._topic) if peer in snapshot.positions]
        if not claims.acknowledged:
            # Nothing is acknowledged but what lies before the start. A cluster that does not know claims would
            # acknowledge all of that.
            peers = [peer for peer in peers if peer in self._take_claims]
        payload = markers.subscription_update(subscription.name, snapshot.positions, claims)
        self._send(markers.UPDATE, payload, peers, update_of=subscription.name)

    def forget(self, subscription: Subscription) -> None:
        """Drop the updates of a subscription that was moved back and that wait to be sent: they are out of date."""
        for replicator in self._topic.replicators.values():
            if replicator.markers is not None:
                replicator.markers.forget(subscription.name)

    # -- what others say ------------------------------------------------------------------------------------------

    def take(self, source: str, place: Position | None, kind: int, payload: bytes) -> None:
        """Take a marker of ``source``; everything that came before it is durable.

        ``place`` is where it stands in the source's log; None where markers have no place.
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
                    log.warning("snapshot_request_of_no_peer", topic=str(self._topic.name), source=request.source)
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
            log.warning("marker_ignored", topic=str(self._topic.name), source=source, error=str(error))

    def _end_without(self, without: Mapping[str, Position]) -> Position:
        """The newest entry before the first of these clusters' that lies beyond what is named."""
        log, end = self._topic.log, self._topic.ledger.last_confirmed_entry
        beyond = [
            held.first
            for cluster, position in without.items()
            for held in log.index.to_local(cluster, position, LATEST)[:1]
        ]
        return min([end, *map(self._topic.ledger.previous_position, beyond)])

    # -- telling --------------------------------------------------------------------------------------------------

    def stats(self) -> SnapshotStats:
        """How taking snapshots goes."""
        controller = self.controller
        return SnapshotStats(
            pending=controller.pending,
            completed=controller.completed,
            timed_out=controller.timed_out,
            took_ms=round(controller.took_s * 1000, 3),
            age_seconds=controller.age_s(self._now()),
        )

    # -- the rest ----------------------------------------------------------------------------------------------------

    def _replicated(self) -> list[Subscription]:
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
        """Send a marker to clusters, behind everything that is in the log now."""
        publish_time_ms = int(self._environment.clock.now() * 1000)
        entry = markers.build_marker(kind, payload, publish_time_ms=publish_time_ms, replicate_to=list(replicate_to))
        is_answer = kind == markers.SNAPSHOT_RESPONSE
        marker = QueuedMarker(entry, self._topic.ledger.last_confirmed_entry, update_of, is_answer)
        for target in targets:
            replicator = self._topic.replicators.get(target)
            if replicator is not None:
                replicator.send_marker(marker)

    def _new_id(self) -> str:
        """An id that no snapshot of any cluster has had, of this run of the broker or another, in Pulsar's form."""
        environment = self._environment
        begun = f"{environment.cluster} {self._topic.name} {environment.clock.now()} {next(self._numbers)}"
        return str(uuid.uuid5(uuid.NAMESPACE_OID, begun))

    def _now(self) -> float:
        return self._environment.clock.monotonic()
