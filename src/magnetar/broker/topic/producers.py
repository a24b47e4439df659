"""The producers of one topic: admission, disconnection, and waiting producers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.broker.log.interfaces import LoggedTopic
from magnetar.broker.loop.closing import close_one
from magnetar.broker.publish.access import ProducerAccess
from magnetar.broker.publish.arrivals import Arrivals
from magnetar.broker.publish.producer import LocalProducer
from magnetar.broker.replication.receiver import ReplicatedProducer
from magnetar.broker.topic.admission import check_room_for_producer
from magnetar.broker.topic.lifecycle import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sized

    from magnetar.base.errors import StorageError
    from magnetar.broker.loop.closing import Step
    from magnetar.broker.loop.under_way import UnderWay
    from magnetar.broker.publish.deduplication import Deduplication
    from magnetar.broker.publish.interfaces import Producer
    from magnetar.broker.publish.lag_limit import LagLimit
    from magnetar.broker.topic.lifecycle import Lifecycle

_EPOCH_PROPERTY = "pulsar.topic.epoch"
"""Managed-ledger property: the epoch of the last exclusive producer."""


class ProducedTopic(LoggedTopic, Protocol):
    """The topic of the producers."""

    @property
    def lifecycle(self) -> Lifecycle:
        """State of the topic, which determines whether it accepts entries."""
        ...

    @property
    def departures(self) -> UnderWay:
        """Producers and consumers that are being removed."""
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
    def subscriptions(self) -> Sized:
        """The subscriptions."""
        ...


class TopicProducers(Mapping[str, "Producer"]):
    """The connected producers of one topic, by name. Used on the event loop's thread."""

    def __init__(self, topic: ProducedTopic) -> None:
        """Create the collection, without producers."""
        self._topic = topic
        self._connected: dict[str, Producer] = {}
        ledger = topic.ledger
        epoch = ledger.properties.get(_EPOCH_PROPERTY)
        self.access = ProducerAccess(
            None if epoch is None else int(epoch), lambda epoch: ledger.set_property(_EPOCH_PROPERTY, str(epoch))
        )
        """Access of producers, and the waiting producers."""
        self.sources: dict[str, Arrivals] = {}
        """Clusters that attached a link since the topic was loaded, with the messages from them."""

    def __getitem__(self, name: str) -> Producer:
        """Return the producer with this name; raises KeyError."""
        return self._connected[name]

    def __iter__(self) -> Iterator[str]:
        """Return the names, in the order of connection."""
        return iter(self._connected)

    def __len__(self) -> int:
        """Return the number of connected producers."""
        return len(self._connected)

    def arrivals_from(self, source: str) -> Arrivals:
        """Return the counters of messages from another cluster, which outlive the connections of its link."""
        return self.sources.setdefault(source, Arrivals())

    def of_source(self, source: str) -> ReplicatedProducer | None:
        """Return the connected producer of the link from a cluster, if there is one."""
        for producer in self._connected.values():
            if isinstance(producer, ReplicatedProducer) and producer.source == source:
                return producer
        return None

    def local(self) -> Iterator[LocalProducer]:
        """Return the producers of clients."""
        return (each for each in self._connected.values() if isinstance(each, LocalProducer))

    # -- attaching and leaving ----------------------------------------------------------------------------------

    def admit(self, producer: LocalProducer, topic_epoch: int | None) -> bool:
        """Admit the producer of a client; return False if it waits for exclusive access. Raises RequestError."""
        if producer.options.name in self._connected:
            message = f"Producer with name '{producer.options.name}' is already connected to topic"
            raise RequestError(ServerError.ProducerBusy, message)
        check_room_for_producer(self._topic, self)
        admission = self.access.admit(producer, self.local(), topic_epoch)
        for other in admission.fenced:
            other.stop()
        if admission.ready:
            self._enter(producer)
        if admission.fenced or admission.refusals:
            self._send_away([("waiting producer", tell) for tell in admission.refusals], admission.fenced)
        return admission.ready

    def replace(self, producer: Producer) -> None:
        """Admit the producer of a link; it replaces one of the same name unless that has a newer epoch."""
        other = self._connected.get(producer.options.name)
        if other is not None:
            if other.options.epoch > producer.options.epoch:
                message = f"{other.options.name} is connected with the newer epoch {other.options.epoch}"
                raise RequestError(ServerError.ProducerBusy, message)
            other.session.close_producer(other)
        self._enter(producer)

    def _enter(self, producer: Producer) -> None:
        self._connected[producer.options.name] = producer
        if isinstance(producer, LocalProducer):
            self._topic.deduplication.joined(producer.options.name)

    def remove(self, producer: Producer) -> None:
        """Remove a producer; a waiting producer may get access now."""
        if self._connected.get(producer.options.name) is producer:
            del self._connected[producer.options.name]
            self._topic.deduplication.left(producer.options.name)
        self._topic.lag_limit.left()
        successor = self.access.leave(producer, self.local())
        if successor is not None:
            self._enter(successor)

    # -- disconnecting -----------------------------------------------------------------------------------------

    def dismiss(self, *, also_waiting: bool = False) -> None:
        """Disconnect all producers after the receipts of accepted entries; they may reconnect.

        With ``also_waiting``, producers that wait for exclusive access are disconnected as well.
        """
        lifecycle = self._topic.lifecycle
        if not lifecycle.apply(Event.DISMISS):
            return
        self._topic.lag_limit.release_all()

        def dismissed(_: StorageError | None) -> None:
            waiting = tuple(self.access.waiting) if also_waiting else ()
            publishers = [
                each
                for each in (*waiting, *self._connected.values())
                if isinstance(each, LocalProducer | ReplicatedProducer)
            ]
            self._send_away((), publishers, [("dismissal", lambda: lifecycle.apply(Event.DISMISSED))])

        self._topic.log.barrier(dismissed)

    def closing(self) -> Iterator[Step]:
        """Close all producers in steps, waiting ones first."""
        for producer in (*self.access.waiting, *self._connected.values()):
            yield f"producer {producer.options.name}", partial(self._close, producer)

    def _send_away(self, steps: Iterable[Step], producers: Iterable[Producer], last: Iterable[Step] = ()) -> None:
        """Run ``steps``, close producers that lost access, and run the ``last`` steps, in slices if there are many.

        Clients that want to attach wait until then.
        """
        departures, environment = self._topic.departures, self._topic.environment
        departures.begin()
        closes = [(f"producer {each.options.name}", partial(self._close, each)) for each in producers]
        away = chain(steps, closes, last, [("departures", departures.end)])
        loop, name = environment.loop, self._topic.name
        environment.sliced.start(object(), away, lambda step: close_one(loop, name, *step))

    def _close(self, producer: Producer) -> None:
        """Close a producer unless it has left."""
        is_waiting = isinstance(producer, LocalProducer) and self.access.is_waiting(producer)
        if is_waiting or self._connected.get(producer.options.name) is producer:
            producer.session.close_producer(producer)
