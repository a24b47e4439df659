"""The producers of one topic with a log: those of clients and of links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.names import check_length
from magnetar.broker.log.refusal import check_publishable
from magnetar.broker.publish.arrivals import Arrivals
from magnetar.broker.publish.client_producer import ClientProducer
from magnetar.broker.publish.connected_producers import ConnectedProducers
from magnetar.broker.publish.producer import LocalProducer
from magnetar.broker.replication.lives import check_life
from magnetar.broker.replication.progress.progress_producer import ProgressProducer
from magnetar.broker.replication.receiver import ReceivingTopic, ReplicatedProducer
from magnetar.broker.subscription.admission import check_room_for_subscription, may_create_subscription
from magnetar.broker.topic.lifecycle import Event
from magnetar.wire.links import PROGRESS_PREFIX, REPLICATOR_PREFIX, source_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from magnetar.base.errors import StorageError
    from magnetar.base.position import Position
    from magnetar.broker.publish.deduplication import Deduplication
    from magnetar.broker.publish.interfaces import Producer, ProducerOptions, ProducerSession
    from magnetar.broker.publish.lag_limit import LagLimit
    from magnetar.broker.replication.progress.topic_progress import TopicProgress
    from magnetar.broker.topic.lifecycle import Lifecycle

_EPOCH_PROPERTY = "pulsar.topic.epoch"
"""Managed-ledger property: the epoch of the last exclusive producer."""


class Quotas(Protocol):
    """The quotas of the backlog."""

    def check_producer(self) -> None:
        """Raise RequestError if a quota that refuses producers is exceeded."""
        ...


class ProducedTopic(ReceivingTopic, Protocol):
    """The topic of the producers."""

    @property
    def lifecycle(self) -> Lifecycle:
        """State of the topic, which determines whether it accepts entries."""
        ...

    @property
    def is_being_recorded(self) -> bool:
        """Whether metadata of the topic are not durable yet; answers to clients depend on them."""
        ...

    @property
    def deduplication(self) -> Deduplication:
        """Deduplication of the topic."""
        ...

    @property
    def lag_limit(self) -> LagLimit:
        """Gate of withheld receipts."""
        ...

    @property
    def backlog_quotas(self) -> Quotas:
        """The quotas of the backlog."""
        ...

    @property
    def progress(self) -> TopicProgress:
        """Progress shared with other clusters."""
        ...

    def create_subscription(self, name: str, mark_delete: Position) -> object:
        """Create a durable subscription that starts after ``mark_delete``."""
        ...


class TopicProducers(ConnectedProducers):
    """The connected producers of one topic, by name. Used on the event loop's thread."""

    def __init__(self, topic: ProducedTopic) -> None:
        """Create the collection, without producers."""
        self._topic = topic
        ledger = topic.ledger
        epoch = ledger.properties.get(_EPOCH_PROPERTY)
        super().__init__(
            topic,
            None if epoch is None else int(epoch),
            lambda epoch: ledger.set_property(_EPOCH_PROPERTY, str(epoch)),
        )
        self.sources: dict[str, Arrivals] = {}
        """Clusters that attached a link since the topic was loaded, with the messages from them."""

    def arrivals_from(self, source: str) -> Arrivals:
        """Return the counters of messages from another cluster, which outlive the connections of its link."""
        return self.sources.setdefault(source, Arrivals())

    def of_source(self, source: str) -> ReplicatedProducer | None:
        """Return the connected producer of the link from a cluster, if there is one."""
        for producer in self._connected.values():
            if isinstance(producer, ReplicatedProducer) and producer.source == source:
                return producer
        return None

    # -- attaching and leaving ----------------------------------------------------------------------------------

    def awaited(self, *, is_link: bool) -> Awaitable[None] | None:
        """Return the event that a new producer must await; None if there is none."""
        topic = self._topic
        if not is_link and topic.log.migration_fence.is_set:
            return topic.log.migration_fence.end()
        if topic.departures:
            return topic.departures.over()
        terminated = topic.log.termination.awaited()
        if terminated is not None:
            return terminated
        if topic.is_being_recorded:
            return topic.environment.recorded()
        return None if topic.deduplication.is_ready else topic.deduplication.recovered()

    def prepare(self, options: ProducerOptions, initial_subscription: str) -> Awaitable[None] | None:
        """Record the life of a link, and ensure that the producer's initial subscription exists.

        Returns the event to await if one of them is new. Entries of a new life must not be durable before that life is.
        """
        if options.name.startswith((REPLICATOR_PREFIX, PROGRESS_PREFIX)):
            check_life(self._topic, source_of(options.name), options.metadata)
        if initial_subscription:
            self._ensure_subscription(initial_subscription)
        return self._topic.environment.recorded() if self._topic.is_being_recorded else None

    def _ensure_subscription(self, name: str) -> None:
        """Create a durable subscription at the earliest position unless it exists."""
        topic = self._topic
        if name not in topic.subscriptions:
            if not may_create_subscription(topic):
                message = f"Subscription {name} does not exist and may not be created automatically"
                raise RequestError(ServerError.NotAllowedError, message)
            check_length("subscription", name, topic.environment.config.maxNameLength)
            check_room_for_subscription(topic)
            topic.create_subscription(name, topic.log.before_first())

    def make(self, session: ProducerSession, options: ProducerOptions) -> Producer:
        """Return a new producer, which is not admitted yet; raises RequestError if the topic accepts none."""
        topic, name = self._topic, options.name
        if name.startswith(PROGRESS_PREFIX):
            topic.progress.check_allowed()
            return ProgressProducer(topic, session, options, source_of(name))
        topic.log.termination.check()
        check_publishable(topic.environment.store.state)
        topic.backlog_quotas.check_producer()
        now = topic.environment.clock.now()
        if name.startswith(REPLICATOR_PREFIX):
            return ReplicatedProducer(topic, session, options, source_of(name), now=now)
        topic.log.migration_fence.check_clients()
        return LocalProducer(topic, session, options, now=now)

    def replace(self, producer: Producer) -> None:
        """Admit the producer of a link; it replaces one of the same name unless that has a newer epoch."""
        other = self._connected.get(producer.options.name)
        if other is not None:
            if other.options.epoch > producer.options.epoch:
                message = f"{other.options.name} is connected with the newer epoch {other.options.epoch}"
                raise RequestError(ServerError.ProducerBusy, message)
            other.session.close_producer(other)
        self._enter(producer)

    def settled(self, producer: Producer) -> Callable[[Callable[[StorageError | None], None]], None] | None:
        """Return the barrier that the answer to a new producer must await; None without one.

        Its epoch must be durable, and the topic's entries if the answer states a last position.
        """
        topic = self._topic
        has_last_position = not isinstance(producer, ClientProducer) or topic.deduplication.sequence_ids is not None
        return topic.log.barrier if has_last_position or topic.ledger.is_being_listed else None

    def last_sequence_id(self, name: str) -> int:
        """Return the last sequence id of a producer; -1 if it is unknown."""
        return self._topic.deduplication.last_sequence_id(name)

    def _enter(self, producer: Producer) -> None:
        super()._enter(producer)
        if isinstance(producer, ClientProducer):
            self._topic.deduplication.joined(producer.options.name)

    def remove(self, producer: Producer) -> None:
        """Remove a producer; a waiting producer may get access now."""
        super().remove(producer)
        self._topic.lag_limit.left()

    def _give_access(self) -> None:
        """Admit a waiting producer if nobody has the topic, but not while entries are dropped, or clients kept away."""
        if not (self._topic.lifecycle.drops_entries or self._topic.log.migration_fence.is_set):
            super()._give_access()

    def _left(self, producer: Producer) -> None:
        super()._left(producer)
        self._topic.deduplication.left(producer.options.name)

    def behind_receipts(self, session: ProducerSession, write: Callable[[], None]) -> None:
        """Call ``write`` after the receipts of earlier SENDs, which may be withheld."""
        topic = self._topic
        topic.log.behind_appends(lambda _: topic.lag_limit.behind_receipts(session, write))

    # -- disconnecting -----------------------------------------------------------------------------------------

    def dismiss(self, *, also_waiting: bool = False) -> None:
        """Disconnect all producers after the receipts of accepted entries; they may reconnect.

        With ``also_waiting``, producers that wait for exclusive access are disconnected as well.
        """
        lifecycle = self._topic.lifecycle
        if not lifecycle.apply(Event.DISMISS):
            return
        self._topic.lag_limit.release_all()

        def over() -> None:
            lifecycle.apply(Event.DISMISSED)
            self._give_access()

        def dismissed(_: StorageError | None) -> None:
            waiting = tuple(self.access.waiting) if also_waiting else ()
            publishers = [
                each
                for each in (*waiting, *self._connected.values())
                if isinstance(each, ClientProducer | ReplicatedProducer)
            ]
            self._send_away((), publishers, [("dismissal", over)])

        self._topic.log.barrier(dismissed)
