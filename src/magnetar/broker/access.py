"""Who may publish: the access modes of producers (protocol, 2.8)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.broker.producer import LocalProducer, Producer


class ProducerAccess:
    """At most one exclusive producer a topic; each new one raises the topic's epoch (first 0)."""

    def __init__(self) -> None:
        """Everybody may publish."""
        self.topic_epoch: int | None = None
        self._exclusive: Producer | None = None
        self._waiting: deque[LocalProducer] = deque()
        self._ready: dict[int, Callable[[], None]] = {}

    @property
    def waiting_count(self) -> int:
        """Producers that wait for exclusive access."""
        return len(self._waiting)

    def admit(
        self, producer: LocalProducer, others: Sequence[LocalProducer], topic_epoch: int | None
    ) -> tuple[bool, Sequence[LocalProducer]]:
        """Decide on a newcomer: whether it may publish now, and which producers it drives out.

        Raises RequestError with ProducerBusy or ProducerFenced when it may not come in at all.
        """
        mode = producer.options.access_mode
        if mode == pb.Shared:
            if self._exclusive is not None or self._waiting:
                raise RequestError(ServerError.ProducerBusy, "Topic has an existing exclusive producer")
            return True, ()
        if topic_epoch is not None and self.topic_epoch is not None and topic_epoch < self.topic_epoch:
            raise RequestError(ServerError.ProducerFenced, "Topic epoch has already moved on")
        if mode == pb.ExclusiveWithFencing:
            self._waiting.clear()
            self._ready.clear()
            self._take(producer, topic_epoch)
            return True, others
        if not others and not self._waiting:
            self._take(producer, topic_epoch)
            return True, ()
        if mode == pb.Exclusive:
            raise RequestError(ServerError.ProducerFenced, "Topic has an existing producer")
        self._waiting.append(producer)
        return False, ()

    def leave(self, producer: Producer) -> LocalProducer | None:
        """A producer left; the waiting one that has the topic now, if any."""
        self._waiting = deque(waiting for waiting in self._waiting if waiting is not producer)
        if producer is not self._exclusive:
            return None
        self._exclusive = None
        if not self._waiting:
            return None
        successor = self._waiting.popleft()
        self._take(successor, None)
        ready = self._ready.pop(id(successor), None)
        if ready is not None:
            ready()
        return successor

    def when_ready(self, producer: Producer, ready: Callable[[], None]) -> None:
        """Call ``ready`` when this waiting producer has the topic."""
        self._ready[id(producer)] = ready

    def epoch_for(self, producer: Producer) -> int | None:
        """The topic's epoch, for the exclusive producer only."""
        return self.topic_epoch if producer is self._exclusive else None

    def _take(self, producer: LocalProducer, topic_epoch: int | None) -> None:
        self._exclusive = producer
        if topic_epoch is not None:
            self.topic_epoch = topic_epoch
        else:
            self.topic_epoch = 0 if self.topic_epoch is None else self.topic_epoch + 1
