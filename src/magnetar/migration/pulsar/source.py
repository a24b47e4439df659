"""Apache Pulsar as the cluster that clients leave.

It has no fences. So the fence of a topic is set in the target, whose route then leads clients there: the source unloads
the topic, its clients look it up again, and wait at the fence. When no client is left in the source, its
acknowledgement state does not change any more. It is read, and sent to the target.

::

    phase      the target's fence    the route leads to    clients
    -----      ------------------    -----------------     -------
    settling   settling              the source            publish, and acknowledge what they hold, in the source
    closed     final                 the target            wait at the fence
    final      final                 the target            wait at the fence

In ``settling``, the dispatch is paused.

The fence has no lease from ``closed`` on. One that ended would admit clients to a topic whose acknowledgements are not
complete. After the end of the migrator clients wait until it runs again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from magnetar.admin.cluster_metadata.reading import if_present
from magnetar.base.names import TopicName
from magnetar.migration.machine.partitions import route_scope
from magnetar.migration.pulsar.acknowledgements import acknowledged_in, cursors_in, end_of, first_mark, progress_in
from magnetar.migration.pulsar.pause import DispatchPause
from magnetar.migration.pulsar.requests import internal_stats, stats_if_any
from magnetar.migration.pulsar.statistics import clients_in, durable_in, held_in, link_backlog
from magnetar.migration.pulsar.topic_log import TopicLog
from magnetar.migration.switching.cluster import ProducerState
from magnetar.migration.switching.fence import Phase, Subscription, TopicState
from magnetar.wire.links import DEDUPLICATION_CURSOR

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from magnetar.base.position import Position
    from magnetar.geo.progress.state import SubscriptionProgress
    from magnetar.migration.pulsar.pause import World
    from magnetar.migration.pulsar.topic_log import Left
    from magnetar.migration.sides import Side
    from magnetar.migration.switching.admin_cluster import AdminCluster
    from magnetar.migration.switching.cluster import Cluster
    from magnetar.migration.switching.fence import Fence
    from magnetar.migration.switching.handover import Look

    Json = Mapping[str, Any]

FIRST_EPOCH: Final = 1
"""Number of the first attempt to switch a topic."""

UNLOAD_EVERY_S: Final = 1.0
"""Seconds between two attempts to send the clients of a topic away. An unload interrupts the link, too."""

LATE_S: Final = 0.5
"""Maximum time to wait for the acknowledgements of messages that were dispatched after the pause had begun.

Apache Pulsar tries to dispatch again one second after a subscription has reached its rate. One message passes if the
rate of another subscription of the topic was set meanwhile.
"""

NAMED_MAX: Final = 3
"""Maximum number of clients that a reason names."""


class Carrier(Protocol):
    """See ``ProgressCarrier``."""

    def send(self, topic: str, states: Sequence[SubscriptionProgress]) -> str:
        """Return when the target has applied the states durably, or why it has not."""
        ...


class LogReader(Protocol):
    """See ``magnetar.migration.pulsar.brokers``."""

    def read_on(self, topic: str, log: TopicLog) -> str:
        """Add the entries of a topic that ``log`` does not have yet; return why they cannot be read."""
        ...


class Wires(NamedTuple):
    """What uses Pulsar's binary protocol."""

    carrier: Carrier
    """Sends acknowledgements to the target."""
    reader: LogReader
    """Reads logs of the source."""


class PulsarSource:
    """See ``Cluster`` and ``Handover``. Used by several threads."""

    def __init__(
        self, side: Side, topics: AdminCluster, target: Side, fences: AdminCluster, wires: Wires, world: World
    ) -> None:
        """Use the source by ``side`` and ``topics``, and the target by ``target`` and ``fences``."""
        self._side = side
        self._topics = topics
        self._target = target
        self._fences = fences
        self._wires = wires
        self._world = world
        self._unloaded_at: dict[str, float] = {}
        self._held: dict[str, int | None] = {}
        """By topic that is settling: what consumers held at the last look; None: unknown."""
        self._late_since: dict[str, float] = {}
        """By topic that is closed: when consumers were first seen to hold more."""
        self._pause = DispatchPause(side, world)
        self._logs: dict[str, TopicLog] = {}

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return self._topics.name

    # --- fences ------------------------------------------------------------------------------------------------------

    def fence(self, topic: str, epoch: int, phase: Phase) -> TopicState:
        """Set the fence in the target; from CLOSED on, send the clients there."""
        if phase is Phase.SETTLING:
            returned = self._fences.look(topic).fence
            if returned is not None and returned.phase is Phase.FINAL and returned.epoch < epoch:
                self._fences.remove_fence(topic, returned.epoch, final=True)
            stats = stats_if_any(self._side, topic)
            self._pause.begin(topic, [name for name, each in durable_in(stats).items() if each.get("consumers")])
            fence = self._fences.fence(topic, epoch, phase).fence
            self._late_since.pop(topic, None)
            return self._state(topic, fence, stats)
        known = self._fences.look(topic).fence
        if known is not None and known.phase is Phase.SETTLING:
            self._fences.fence(topic, epoch, Phase.CLOSED)
        fence = self._fences.fence(topic, epoch, Phase.FINAL).fence
        self._fences.set_route(route_scope(topic), self._fences.name)
        return TopicState(_as_seen_here(fence), {})

    def look(self, topic: str, *, digests: bool = False) -> TopicState:
        """Return the state of a topic, without digests."""
        del digests
        return self._state(topic, self._fences.look(topic).fence, stats_if_any(self._side, topic))

    def _state(self, topic: str, fence: Fence | None, stats: Json) -> TopicState:
        state = TopicState(_as_seen_here(fence), self._subscriptions(topic, stats))
        if fence is not None and fence.phase is Phase.SETTLING:
            self._held[topic] = state.unacknowledged
        return state

    def remove_fence(self, topic: str, epoch: int, *, final: bool = False) -> None:
        """Let clients go on here. After a return, which is final, the target keeps them away by its own fence."""
        self._end_pause(topic)
        if final:
            return
        self._fences.set_route(route_scope(topic), self.name)
        self._fences.remove_fence(topic, epoch, final=True)

    # --- handover ----------------------------------------------------------------------------------------------------

    def prepare(self, topic: str, entered: Cluster) -> None:
        """Read the policies, and the log, which takes a second for about 20,000 unacknowledged entries."""
        del entered
        found = internal_stats(self._side, topic)
        if found is None:
            return
        names = durable_in(stats_if_any(self._side, topic))
        self._pause.prepare(topic, names)
        self._log_of(topic, found, names)  # an error returns when the topic is closed

    def missing(self, topic: str, entered: Cluster, look: Look) -> str:
        """Send the acknowledgements when no client is left and the link has carried everything."""
        fence = look().fence
        before = internal_stats(self._side, topic)
        if before is None:
            return ""  # it was deleted
        stats = stats_if_any(self._side, topic)
        reason = self._attached(topic, stats) or link_backlog(stats, entered.name)
        if reason:
            return reason
        names = durable_in(stats)
        log, reason = self._log_of(topic, before, names)
        if reason:
            return reason
        left = {name: log.left(acknowledged_in(cursor)) for name, cursor in cursors_in(before, names)}
        through = {}
        if fence is not None and fence.epoch > FIRST_EPOCH:  # clients may have published in the target
            through = {entered.name: self._end_of_target(topic)}
        claims = partial(log.claims, all_through=through)
        states = progress_in(before, names, self.name, self._world.now(), claims)
        reason = self._withheld(left) or self._wires.carrier.send(topic, states)
        reason = reason or _difference(left, self._unacknowledged_in_target(topic))
        return reason or _change(before, internal_stats(self._side, topic), names)

    def _attached(self, topic: str, stats: Json) -> str:
        """Return which clients are still connected, and send them away."""
        found = sorted(clients_in(stats))
        if not found:
            return ""
        now = self._world.monotonic()
        if now - self._unloaded_at.get(topic, -UNLOAD_EVERY_S) >= UNLOAD_EVERY_S:
            late = self._late(topic, stats, now)
            if late:
                return late
            self._unloaded_at[topic] = now
            with self._side.answers():
                if_present(self._side.client.topics.unload, TopicName.parse(topic))
        named = ", ".join(found[:NAMED_MAX]) + (", ..." if len(found) > NAMED_MAX else "")
        return f"{len(found)} clients are connected to {self.name}: {named}"

    def _late(self, topic: str, stats: Json, now: float) -> str:
        """Return what consumers got after the pause and may still acknowledge."""
        told, held = self._held.get(topic), [held_in(each) for each in durable_in(stats).values()]
        if told is None or None in held:
            return ""
        late = sum(filter(None, held)) - told
        if late <= 0 or now - self._late_since.setdefault(topic, now) >= LATE_S:
            return ""
        return f"consumers hold {late} messages that were dispatched late"

    def _withheld(self, left: Mapping[str, Left]) -> str:
        """Return which unacknowledged messages the target does not get, because their producer restricts them."""
        for name, each in left.items():
            if each.withheld:
                first = f"{len(each.withheld):,} unacknowledged messages are not for {self._fences.name}"
                return f"{name}: {first}, the first one at {each.withheld[0]}"
        return ""

    def _log_of(self, topic: str, stats: Json, subscriptions: Collection[str]) -> tuple[TopicLog, str]:
        """Return the log from the first unacknowledged entry on, and why it could not be read."""
        start, log = first_mark(stats, subscriptions), self._logs.get(topic)
        if log is None or start < log.start:
            log = self._logs[topic] = TopicLog(self.name, self._fences.name, start)
        return log, self._wires.reader.read_on(topic, log)

    def _end_of_target(self, topic: str) -> Position:
        with self._target.answers():
            found: Json = self._target.client.topics.internal_stats(TopicName.parse(topic))
        return end_of(found)

    def _unacknowledged_in_target(self, topic: str) -> dict[str, int]:
        with self._target.answers():
            stats = self._target.client.topics.stats(TopicName.parse(topic), precise_backlog=True)
        return {name: each["msgBacklog"] for name, each in stats["subscriptions"].items()}

    # --- topics ------------------------------------------------------------------------------------------------------

    def replicate(self, topic: str, subscription: str) -> None:
        """Do nothing: the acknowledgements of all subscriptions are sent."""

    def producer_state(self, topic: str) -> ProducerState:
        """Return the epoch, and the sequence ids of the last snapshot; the link brings the entries after it."""
        stats = internal_stats(self._side, topic)
        if stats is None:
            return ProducerState()
        found = stats["cursors"].get(DEDUPLICATION_CURSOR, {}).get("properties", {})
        epoch = stats_if_any(self._side, topic).get("topicEpoch")
        return ProducerState(epoch, {name: int(each) for name, each in found.items()})

    def add_producer_state(self, topic: str, state: ProducerState) -> None:
        """Do nothing: Apache Pulsar takes none."""

    def set_former(self, topic: str, cluster: str) -> str:
        """Refuse: ids of another cluster mean nothing here."""
        del topic
        return f"{self.name} does not translate message ids of {cluster}"

    def topics(self) -> Sequence[str]:
        """Return the topics and partitions of the migration."""
        return self._topics.topics()

    def create_as_in(self, topic: str, other: Cluster) -> None:
        """Create a topic, or all partitions that the other cluster has."""
        self._topics.create_as_in(topic, other)

    def partitions_of(self, topic: TopicName) -> int:
        """Return the number of partitions of a topic; 0: none, or it does not exist."""
        return self._topics.partitions_of(topic)

    # --- routes ------------------------------------------------------------------------------------------------------

    def routes(self) -> dict[str, str]:
        """Return no routes: Apache Pulsar has none."""
        return {}

    def set_route(self, scope: str, cluster: str) -> None:
        """End the pause of a topic that clients have left. The routes of the target lead them.

        Each rate takes Apache Pulsar a part of a second, so they are not removed while clients wait.
        """
        if cluster == self.name or "://" not in scope:
            return
        topic = TopicName.parse(scope)
        for part in topic.parts(self._topics.partitions_of(topic)):
            self._end_pause(str(part))

    def _end_pause(self, topic: str) -> None:
        self._pause.end(topic, durable_in(stats_if_any(self._side, topic)))

    def delete_route(self, scope: str) -> None:
        """Do nothing."""

    # --- statistics --------------------------------------------------------------------------------------------------

    def _subscriptions(self, topic: str, stats: Json) -> dict[str, Subscription]:
        """Return the subscriptions of clients. Until the dispatch is paused, it is unknown what consumers hold."""
        attached = {name: each for name, each in durable_in(stats).items() if each.get("consumers")}
        dispatched = {name: each["msgOutCounter"] for name, each in attached.items()}
        is_paused = self._pause.is_effective(topic, dispatched)
        return {
            name: Subscription(
                unacknowledged=held_in(each) if is_paused else None, is_replicated=each.get("isReplicated", False)
            )
            for name, each in durable_in(stats).items()
        }


def _as_seen_here(fence: Fence | None) -> Fence | None:
    """Return the fence of the target as that of the source; see the table of this module."""
    return replace(fence, phase=Phase.CLOSED) if fence is not None and fence.phase is not Phase.SETTLING else fence


def _difference(here: Mapping[str, Left], there: Mapping[str, int]) -> str:
    """Compare the numbers of unacknowledged entries of all subscriptions."""
    for name, left in here.items():
        if name not in there:
            return f"{name}: the target does not have it"
        if there[name] != left.carried:
            return f"{name}: {left.carried:,} entries are unacknowledged, and {there[name]:,} in the target"
    return ""


def _change(before: Json, after: Json | None, subscriptions: Collection[str]) -> str:
    """Return whether the log or an acknowledgement state is another one than before."""
    if after is None or before["lastConfirmedEntry"] != after["lastConfirmedEntry"]:
        return "its log has changed"
    states = [
        {
            name: (cursor["markDeletePosition"], cursor["individuallyDeletedMessages"])
            for name, cursor in cursors_in(stats, subscriptions)
        }
        for stats in (before, after)
    ]
    return "" if states[0] == states[1] else "an acknowledgement state has changed"
