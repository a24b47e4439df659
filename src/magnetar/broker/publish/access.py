"""Access modes of producers (protocol: Producers)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from magnetar.base.errors import RequestError, ServerError
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from magnetar.broker.publish.client_producer import ClientProducer
    from magnetar.broker.publish.interfaces import Producer

BEYOND_NAMES: Final = (pb.ExclusiveWithFencing, pb.WaitForExclusive)
"""Access modes that replace, or await, a producer with the same name. The others are refused while there is one."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Decision about a producer."""

    ready: bool
    """Whether the producer may publish now."""
    fenced: Sequence[ClientProducer] = ()
    """Producers that it fences: they may no longer publish."""
    refusals: Sequence[Callable[[], None]] = ()
    """Callbacks that refuse producers that waited for exclusive access."""


class ProducerAccess:
    """At most one exclusive producer per topic; each new one raises the topic's epoch, from 0."""

    def __init__(self, topic_epoch: int | None, remember: Callable[[int], None]) -> None:
        """All producers may publish. ``remember`` stores an epoch durably, so that fenced producers stay refused."""
        self.topic_epoch = topic_epoch
        """Epoch; None before the first exclusive producer. All later producers get it, as in Pulsar."""
        self._remember = remember
        self._exclusive: Producer | None = None
        self._waiting: dict[Producer, Callable[[RequestError | None], None]] = {}
        """Producers that wait for exclusive access, in order, with their callbacks."""

    def is_waiting(self, producer: Producer) -> bool:
        """Whether a producer waits for exclusive access."""
        return producer in self._waiting

    @property
    def waiting(self) -> list[Producer]:
        """Producers that wait for exclusive access, in the order in which they will get it."""
        return list(self._waiting)

    def admit(self, producer: Producer, others: Iterator[ClientProducer], topic_epoch: int | None) -> Admission:
        """Decide about a new producer.

        ``others`` is read only as far as the decision requires. Raises RequestError with ProducerBusy or ProducerFenced
        if the producer is refused.
        """
        mode = producer.options.access_mode
        if mode == pb.Shared:
            if self._exclusive is not None or self._waiting:
                raise RequestError(ServerError.ProducerBusy, "Topic has an existing exclusive producer")
            return Admission(ready=True)
        if topic_epoch is not None and self.topic_epoch is not None and topic_epoch < self.topic_epoch:
            raise RequestError(ServerError.ProducerFenced, "Topic epoch has already moved on")
        if mode == pb.ExclusiveWithFencing:
            waiting, self._waiting = self._waiting, {}
            refusal = RequestError(ServerError.ProducerFenced, "Fenced out by a producer with exclusive access")
            self._take(producer, topic_epoch)
            return Admission(
                ready=True, fenced=list(others), refusals=[partial(tell, refusal) for tell in waiting.values()]
            )
        if not self._waiting and next(others, None) is None:
            self._take(producer, topic_epoch)
            return Admission(ready=True)
        if mode == pb.Exclusive:
            raise RequestError(ServerError.ProducerFenced, "Topic has an existing producer")
        self._waiting[producer] = lambda _: None
        return Admission(ready=False)

    def raise_epoch(self, topic_epoch: int) -> None:
        """Refuse the exclusive producers of earlier epochs, which have connected in another cluster."""
        if self.topic_epoch is None or topic_epoch > self.topic_epoch:
            self._remember(topic_epoch)
            self.topic_epoch = topic_epoch

    def leave(self, producer: Producer) -> None:
        """Remove a producer; ``succeed`` follows."""
        self._waiting.pop(producer, None)
        if producer is self._exclusive:
            self._exclusive = None

    def succeed(self, others: Iterator[Producer]) -> Producer | None:
        """Return the waiting producer that gets the topic now; None if there is none, or while there are ``others``.

        In Apache Pulsar, a producer that waits for shared ones waits forever, and shared ones are refused meanwhile.
        """
        if self._exclusive is not None or not self._waiting or next(others, None) is not None:
            return None
        successor = next(iter(self._waiting))
        tell = self._waiting.pop(successor)
        self._take(successor, None)
        tell(None)
        return successor

    def when_decided(self, producer: Producer, tell: Callable[[RequestError | None], None]) -> None:
        """Call ``tell`` once: when this waiting producer gets the topic, or with the reason why it cannot."""
        self._waiting[producer] = tell

    def _take(self, producer: Producer, topic_epoch: int | None) -> None:
        if topic_epoch is None:
            topic_epoch = 0 if self.topic_epoch is None else self.topic_epoch + 1
        self.raise_epoch(topic_epoch)
        self._exclusive = producer
