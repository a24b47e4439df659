"""The checks of one topic in all clusters, with its model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.base.position import EARLIEST, Position
from magnetar.geo.progress.codec import decode_marker
from magnetar.sim.checks.checker import Checker
from magnetar.sim.checks.key_holders import KeyHolders
from magnetar.sim.checks.lifetimes import Lifetimes
from magnetar.sim.checks.model import ATTEMPT, CHUNK, ClientAcknowledgements, Model
from magnetar.sim.checks.operations import Operations
from magnetar.sim.checks.readings import Readings
from magnetar.sim.checks.receipts import Receipts
from magnetar.sim.checks.unloads import Unloads
from magnetar.sim.checks.unsynced import Unsynced
from magnetar.sim.checks.updates import Updates
from magnetar.sim.scenario import SHARING
from magnetar.wire.entries import ack_set
from magnetar.wire.entries.entry import payload_of
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.names import TopicName
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.session.session import Session
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.topic import Topic
    from magnetar.geo.progress.epochs import Epoch
    from magnetar.geo.progress.state import SubscriptionProgress
    from magnetar.sim.checks.lifetimes import Unsubscribing
    from magnetar.sim.checks.model import Entry, Starts
    from magnetar.sim.clients.consumer import Held, SimConsumer
    from magnetar.sim.clients.reader import SimReader
    from magnetar.sim.scenario import Scenario
    from magnetar.sim.site import Replica

    Then = Callable[[], None]


class AllChecks(Protocol):
    """The interface to the checks of all topics."""

    deliveries: int
    """The number of entries that consumers received."""

    @property
    def scenario(self) -> Scenario:
        """Return the scenario of the run."""
        ...

    def violate(self, what: str) -> None:
        """Record a violation."""
        ...

    def note(self, source: str, target: str, text: str) -> None:
        """Record an event in the trace."""
        ...


class TopicChecks:
    """Updates the model from frames to brokers, and compares frames from brokers with the model."""

    def __init__(self, checks: AllChecks, name: TopicName) -> None:
        """Begin without frames."""
        self.name = name
        scenario = checks.scenario
        self.model = Model(list(scenario.clusters), apart=scenario.markers is not None)
        self.violate = checks.violate
        self.unsynced = Unsynced(self.model, sync=scenario.sync)
        self.checker = Checker(self.model, self.violate, self.unsynced, deduplicated=scenario.deduplication)
        self._checks = checks
        self._lifetimes = Lifetimes(self.model, self.checker, self.note)
        self.updates = Updates(self.model, self.checker, self.note) if scenario.markers is not None else None
        """The updates in mode ``markers``; None in mode ``exact``."""
        self._unloads = Unloads(self.model, self.checker)
        self._seeks: dict[tuple[str, str, Epoch], tuple[Topic, Callable[[], None]]] = {}
        """By cluster, subscription and new epoch: what records a seek that waits at a fence, again at each look."""
        self._holders = KeyHolders(self.checker.is_left)
        self.lost_at: dict[str, float] = {}
        """By cluster: when its last loss of the topic was durable, on its monotonic clock."""
        self.readings = Readings(self.model, self.checker, self.violate)
        self.operations = Operations(self.model, self.checker, self.readings, self.note)
        self.receipts = Receipts(self.model, self.checker, scenario.lag, self.violate)
        self._prefix = f"{name.local_name}: " if len(scenario.topics) > 1 else ""

    def note(self, source: str, target: str, text: str) -> None:
        """Record an event in the trace."""
        self._checks.note(source, target, self._prefix + text)

    def look_at(self, replica: Replica) -> None:
        """Record created subscriptions and a loaded topic."""
        self._lifetimes.look_at(replica)
        self._unloads.look_at(replica)
        self._look_at_seeks(replica)

    def look_at_log(self, replica: Replica) -> None:
        """Read new durable entries; record new epochs, which others may know, seeks that wait and received updates."""
        if replica.topic is not None:
            self.checker.look_at_log(replica)
            self._lifetimes.look_for_outlived(replica)
            self._look_at_seeks(replica)
            if self.updates is not None:
                self.updates.look_at(replica)

    def _look_at_seeks(self, replica: Replica) -> None:
        """Record waiting seeks again: entries and acknowledgements may have come since the last look."""
        for key, (topic, record) in [each for each in self._seeks.items() if each[0][0] == replica.cluster]:
            _, name, raised = key
            subscription = topic.subscriptions.get(name) if replica.topic is topic else None
            progress = subscription.progress if subscription is not None else None
            if progress is not None and progress.state.epoch < raised:
                record()
            else:
                del self._seeks[key]

    def lose(self, replica: Replica) -> None:
        """Record that a cluster just lost the topic; its log was read right before."""
        self._lifetimes.look_at(replica)  # others may know a subscription that was created since the last look
        self.lost_at[replica.cluster] = replica.site.clock.monotonic()
        self.model.lose(replica.cluster)
        self.checker.lose(replica.cluster)
        self.unsynced.lose(replica.cluster)
        self._lifetimes.lose(replica.cluster)
        self.readings.lose(replica.cluster)
        if self.updates is not None:
            self.updates.lose(replica.cluster)
        self._unloads.lose(replica.cluster)
        self.receipts.lose(replica.cluster)
        self.note(replica.cluster, "", "the topic is lost, with all that it held")

    def started(self, replica: Replica) -> None:
        """Check a cluster whose broker has recovered its disk and has not loaded the topic."""
        self.checker.started(replica)
        self._lifetimes.started(replica)

    def damaged(self, cluster: str, position: Position) -> None:
        """Record an unreadable entry of a cluster: readers skip it, and the cluster accepts it again."""
        entry = self.model.logs[cluster].at[position]
        self.model.damaged.add(entry.whole)
        self.readings.may_miss(cluster, [entry])

    def check(self, replica: Replica) -> None:
        """Check everything about one cluster."""
        self.look_at(replica)
        self.checker.check(replica, awaited=self._lifetimes.awaited(replica.cluster))

    # -- results of clients
    # ---------------------------------------------------------------------------------------------

    def published(self, text: str, entry: bytes) -> None:
        """Record a published entry."""
        self.model.contents[text] = entry
        whole, chunk, _ = text.partition(ATTEMPT)[0].partition(CHUNK)
        if chunk:
            self.model.chunked.add(whole)

    def receipted(self, cluster: str, text: str, position: Position) -> None:
        """Record a receipt: the cluster must hold the entry at the position, also after a crash."""
        self.model.receipts[cluster][text] = position

    def delivered(self, consumer: SimConsumer, held: Held, entry: bytes) -> None:
        """Count a received entry, and compare it with the published one."""
        self._checks.deliveries += 1
        self.checker.check_content(f"{consumer.name} of {consumer.subscription} got", held.text, entry)
        self.note(consumer.cluster, consumer.machine, f"{consumer.subscription}: {held.text} ({held.remaining:b})")

    def unloads(self, replica: Replica) -> None:
        """Record the start of an unload in a cluster; without faults it preserves all acknowledgements."""
        self._unloads.begin(replica)

    def read(self, reader: SimReader, position: Position, entry: bytes) -> None:
        """See ReaderObserver."""
        self.checker.look_at_log(reader.replica)
        self.readings.read(reader, position, entry)
        self.note(reader.cluster, reader.machine, f"read at {position}")

    # -- frames to brokers
    # ----------------------------------------------------------------------------------------------

    def subscribed(self, replica: Replica, subscription: str) -> Then | None:
        """Handle SUBSCRIBE for a replicated subscription; the result is called after the broker handled it."""
        return self._lifetimes.subscribe(replica, subscription)

    def unsubscribed(self, replica: Replica, subscription: Subscription) -> Unsubscribing | None:
        """Handle UNSUBSCRIBE."""
        return self._lifetimes.unsubscribe(replica, subscription)

    def acknowledging(
        self, replica: Replica, session: Session, subscription: Subscription, ack: pb.CommandAck
    ) -> Then | None:
        """Handle ACK; the result is called at its confirmation."""
        if subscription.progress is None or replica.topic is None:
            return None
        cumulative = ack.ack_type == pb.CommandAck.Cumulative
        if cumulative and subscription.consumers.type in SHARING:
            return None  # Shared consumers cannot acknowledge cumulatively, as in Pulsar
        self.checker.look_at_log(replica)
        log, state = self.model.logs[replica.cluster], subscription.progress.state
        lifetime, starts = self.model.lifetime(replica.cluster, subscription.name, state.epoch), state.starts()
        first = replica.topic.ledger.first_position  # trimmed entries may be wanted elsewhere, but not in this cluster
        meant: dict[str, int] = {}
        for each in ack.message_id:
            position = position_of(each)
            entry = log.at.get(position)
            if entry is None or position < first:
                continue
            meant[entry.text] = entry.every & ~(ack_set.words_to_int(each.ack_set) if each.ack_set else 0)
            if cumulative:
                unread = replica.topic.log.damaged
                before = (other for at, other in log.entries if first <= at < position and at not in unread)
                meant.update((other.text, other.every) for other in before)
        for text, mask in meant.items():
            lifetime.acknowledge(text, mask)
        self.operations.acknowledged_otherwise(replica, subscription.name, meant)
        inside = {text: mask for text, mask in meant.items() if _is_inside(self.model.texts[text], starts)}
        texts = " ".join(f"{text}({mask:b})" for text, mask in list(inside.items())[-4:])
        self.note(session_name(session), replica.cluster, f"{subscription.name}: ack {texts} in epoch {state.epoch}")
        promise, epoch = self.model.promise(replica.cluster, subscription.name), state.epoch
        # Entries that are acknowledged already are propagated by the cluster that acknowledged them.
        new = {
            text: mask & self.checker.left(replica, subscription, self.model.texts[text])
            for text, mask in inside.items()
        }
        made = self.model.made.setdefault((replica.cluster, subscription.name), ClientAcknowledgements())

        def confirmed() -> None:
            promise.add(epoch, inside)
            made.add_at(epoch, new, replica.site.clock.monotonic())

        return self.model.unless_lost(replica.cluster, confirmed)

    def refused(self, consumer: Consumer, positions: list[Position]) -> None:
        """Handle a redelivery request for entries, or for all entries of the consumer if ``positions`` is empty."""
        self._holders.give_back(consumer, positions)

    def progress_came(self, replica: Replica, body: bytes) -> tuple[Then, Then] | None:
        """Handle a progress marker; the results are called after the broker handled it, and at its receipt."""
        if replica.topic is None:
            return None
        try:
            marker = decode_marker(bytes(payload_of(body)))
        except MagnetarError as error:
            self.violate(f"{replica.cluster} received an invalid progress marker: {error}")
            return None
        known = [(state, self._claimed(state)) for state in marker.states]
        told = ", ".join(
            f"{state.name}@{state.epoch}{' deleted' if state.deleted else ''}: {len(claims)}" for state, claims in known
        )
        self.note(marker.source_cluster, replica.cluster, f"progress {told}")
        for state, claims in known:
            self.operations.acknowledged_otherwise(replica, state.name, claims)
            if state.deleted:
                self._lifetimes.deletion_came(replica, state.name, state.epoch)
        # The sender has its progress durably, unless it lost the topic or power since: the marker may be older.
        is_current = self.unsynced.keeps(marker.source_cluster) and not self.model.generations[marker.source_cluster]
        for state, claims in known if is_current else ():
            self.model.promise(marker.source_cluster, state.name).add(state.epoch, claims)

        def confirmed() -> None:
            for state, claims in known:
                promise = self.model.promise(replica.cluster, state.name)
                promise.add(state.epoch, {} if state.deleted else claims)

        self._lifetimes.look_for_outlived(replica)
        return lambda: self._lifetimes.look_for_outlived(replica), self.model.unless_lost(replica.cluster, confirmed)

    def _claimed(self, state: SubscriptionProgress) -> dict[str, int]:
        """Return the acknowledged messages in a received state, by text."""
        claims: dict[str, int] = {}
        for cluster, origin in state.origins.items():
            for entry in self.model.published.get(cluster, []):
                if entry.position in origin.acknowledged:
                    claims[entry.text] = entry.every
                else:
                    left = origin.partial.get(entry.position)
                    if left is not None:
                        claims[entry.text] = entry.every & ~left
        return claims

    def seeking(
        self, replica: Replica, session: Session, subscription: Subscription, seek: pb.CommandSeek
    ) -> Then | None:
        """Handle SEEK; the result is called at its confirmation."""
        if subscription.progress is None or replica.topic is None:
            return None
        epoch, target = subscription.progress.state.epoch, position_of(seek.message_id)
        raised = epoch.raised_by(replica.cluster)
        record = partial(self._sought, replica, replica.topic, subscription.name, epoch, target)
        self.note(session_name(session), replica.cluster, f"{subscription.name}: seek to {target} in epoch {epoch}")
        record()
        if replica.topic.log.migration_fence.is_set:
            self._seeks[replica.cluster, subscription.name, raised] = replica.topic, record
        promise = self.model.promise(replica.cluster, subscription.name)
        return self.model.unless_lost(replica.cluster, lambda: promise.add(raised, {}))

    def _sought(self, replica: Replica, topic: Topic, name: str, epoch: Epoch, target: Position) -> None:
        """Record the effect that a seek in ``epoch`` would have now."""
        self.checker.look_at_log(replica)
        ledger = topic.ledger
        is_behind_end = target > ledger.last_confirmed_entry
        through = ledger.last_confirmed_entry if is_behind_end else ledger.previous_position(target)
        mark_delete = max(topic.log.before_first(), through)
        raised = epoch.raised_by(replica.cluster)
        self.model.begin_lifetime(replica.cluster, name, raised).sought(
            self.model.lifetime(replica.cluster, name, epoch),
            self.model.logs[replica.cluster],
            ledger.first_position,
            mark_delete,
            to_end=mark_delete >= ledger.last_confirmed_entry,
        )

    # -- frames from brokers
    # --------------------------------------------------------------------------------------------

    def dispatched(
        self, replica: Replica, consumer: Consumer, subscription: Subscription, message: pb.CommandMessage
    ) -> None:
        """P1, P3: a delivered entry is durable, and not known to be acknowledged here."""
        if subscription.progress is None:
            return
        self.checker.look_at_log(replica)
        position = position_of(message.message_id)
        entry = self.model.logs[replica.cluster].at.get(position)
        where = f"{position} of {subscription.name} in {replica.cluster}"
        if entry is None:
            self.violate(f"P1: {where} was sent to a consumer before it was durable")
            return
        sent = ack_set.words_to_int(message.ack_set) if message.ack_set else entry.every
        if sent & ~self.checker.left(replica, subscription, entry):
            self.violate(f"P3: {where}, {entry.text}, was sent to a consumer, but is acknowledged here")
        active = replica.topic.policies.replicated_subscription_active_cluster if replica.topic is not None else ""
        if subscription.is_replicated and active not in ("", replica.cluster):
            self.violate(f"A: {where}, {entry.text}, was sent to a consumer, but {active} is the active cluster")
        sharing = subscription.consumers.type in SHARING
        if sharing and entry.deliver_at_ms > replica.site.clock.highest * 1000:
            early_s = entry.deliver_at_ms / 1000 - replica.site.clock.highest
            self.violate(f"T: {where}, {entry.text}, was sent to a consumer {early_s:.3f} s before its time")
        held = self._holders.send(consumer, subscription, position, entry)
        if held is not None:
            self.violate(
                f"K: {where}, {entry.text}, was sent to a consumer, but another one has {held.text} of its key"
            )
        promise = self.model.promise(replica.cluster, subscription.name)
        if subscription.progress.state.epoch == promise.epoch and sent & promise.acknowledged.get(entry.text, 0):
            self.violate(f"P3: {where}, {entry.text}, was redelivered after its acknowledgement was confirmed here")


def _is_inside(entry: Entry, starts: Starts) -> bool:
    return entry.position > starts.get(entry.cluster, EARLIEST)


def session_name(session: Session) -> str:
    """Return the name of the connected machine."""
    return session.address.strip("/").partition(":")[0]
