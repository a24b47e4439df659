"""The connected producers of one topic, by name: admission, removal, and waiting producers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.broker.log.interfaces import AnyTopic
from magnetar.broker.loop.closing import close_one
from magnetar.broker.publish.access import BEYOND_NAMES, ProducerAccess
from magnetar.broker.publish.client_producer import ClientProducer
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from magnetar.broker.loop.closing import Step
    from magnetar.broker.loop.under_way import UnderWay
    from magnetar.broker.publish.interfaces import Producer


class EnteredTopic(AnyTopic, Protocol):
    """The topic of the producers."""

    @property
    def departures(self) -> UnderWay:
        """Producers and consumers that are being removed."""
        ...


class ConnectedProducers(Mapping[str, "Producer"]):
    """The connected producers of one topic. Used on the event loop's thread."""

    def __init__(self, topic: EnteredTopic, topic_epoch: int | None, remember: Callable[[int], None]) -> None:
        """Create the collection, without producers; see ``ProducerAccess``."""
        self._entered = topic
        self._connected: dict[str, Producer] = {}
        self.access = ProducerAccess(topic_epoch, remember)
        """Access of producers, and the waiting producers."""

    def __getitem__(self, name: str) -> Producer:
        """Return the producer with this name; raises KeyError."""
        return self._connected[name]

    def __iter__(self) -> Iterator[str]:
        """Return the names, in the order of connection."""
        return iter(self._connected)

    def __len__(self) -> int:
        """Return the number of connected producers."""
        return len(self._connected)

    def clients(self) -> Iterator[ClientProducer]:
        """Return the producers of clients."""
        return (each for each in self._connected.values() if isinstance(each, ClientProducer))

    def admit(self, producer: Producer, topic_epoch: int | None) -> bool:
        """Admit the producer of a client; return False if it waits for exclusive access. Raises RequestError."""
        owner = self._connected.get(producer.options.name)
        if owner is not None and producer.options.access_mode not in BEYOND_NAMES:
            message = f"Producer with name '{producer.options.name}' is already connected to topic"
            raise RequestError(ServerError.ProducerBusy, message)
        self._check_room(producer)
        admission = self.access.admit(producer, self.clients(), topic_epoch)
        for other in admission.fenced:
            other.stop()
        if admission.ready:
            if owner is not None:
                self._close(owner)  # at once, since it has the name
            self._enter(producer)
        if admission.fenced or admission.refusals:
            self._send_away([("waiting producer", tell) for tell in admission.refusals], admission.fenced)
        return admission.ready

    def _check_room(self, producer: Producer) -> None:
        """Raise RequestError with ProducerBusy at the limit of the topic's connected and waiting producers of clients.

        A producer that fences all others has room. Raises RequestError with ServiceNotReady if there is no memory.
        """
        self._entered.environment.objects.check()
        is_fencing = producer.options.access_mode == pb.ExclusiveWithFencing
        limit = 0 if is_fencing else self._entered.policies.max_producers
        if limit and sum(1 for _ in self.clients()) + len(self.access.waiting) >= limit:
            message = "Topic reached max producers limit (maxProducersPerTopic)"
            raise RequestError(ServerError.ProducerBusy, message, Limit.PRODUCERS)

    def _enter(self, producer: Producer) -> None:
        self._connected[producer.options.name] = producer

    def remove(self, producer: Producer) -> None:
        """Remove a producer; a waiting producer may get access now."""
        if self._connected.get(producer.options.name) is producer:
            self._left(producer)
        self.access.leave(producer)
        self._give_access()

    def _give_access(self) -> None:
        """Admit a waiting producer if nobody has the topic."""
        successor = self.access.succeed(self.clients())
        if successor is not None:
            self._enter(successor)

    def _left(self, producer: Producer) -> None:
        """Remove a connected producer."""
        del self._connected[producer.options.name]

    def closing(self) -> Iterator[Step]:
        """Close all producers in steps, waiting ones first."""
        for producer in (*self.access.waiting, *self._connected.values()):
            yield f"producer {producer.options.name}", partial(self._close, producer)

    def _send_away(self, steps: Iterable[Step], producers: Iterable[Producer], last: Iterable[Step] = ()) -> None:
        """Run ``steps``, close producers that lost access, and run the ``last`` steps, in slices if there are many.

        Clients that want to attach wait until then.
        """
        departures, environment = self._entered.departures, self._entered.environment
        departures.begin()
        closes = [(f"producer {each.options.name}", partial(self._close, each)) for each in producers]
        away = chain(steps, closes, last, [("departures", departures.end)])
        loop, name = environment.loop, self._entered.name
        environment.sliced.start(object(), away, lambda step: close_one(loop, name, *step))

    def _close(self, producer: Producer) -> None:
        """Close a producer unless it has left."""
        is_waiting = isinstance(producer, ClientProducer) and self.access.is_waiting(producer)
        if is_waiting or self._connected.get(producer.options.name) is producer:
            producer.session.close_producer(producer)
