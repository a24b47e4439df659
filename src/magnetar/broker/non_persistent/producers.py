"""The producers of a non-persistent topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError
from magnetar.broker.non_persistent.producer import DistributingTopic, NonPersistentProducer
from magnetar.broker.publish.connected_producers import ConnectedProducers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from magnetar.base.errors import StorageError
    from magnetar.base.names import TopicName
    from magnetar.broker.publish.interfaces import Producer, ProducerOptions, ProducerSession


class NonPersistentProducers(ConnectedProducers):
    """The connected producers, by name. Used on the event loop's thread."""

    def __init__(self, topic: DistributingTopic) -> None:
        """Create the collection; the epoch of exclusive producers lasts as long as the topic."""
        super().__init__(topic, None, lambda _: None)
        self._topic = topic

    def awaited(self, *, is_link: bool) -> Awaitable[None] | None:
        """Return the event that every new producer must await; None if there is none."""
        del is_link
        return self._topic.departures.over() if self._topic.departures else None

    def prepare(self, options: ProducerOptions, initial_subscription: str) -> Awaitable[None] | None:
        """Do nothing: a subscription without consumers would get no messages. Pulsar ignores it too."""
        del options, initial_subscription
        return None

    def make(self, session: ProducerSession, options: ProducerOptions) -> Producer:
        """Return a new producer, which is not admitted yet."""
        return NonPersistentProducer(self._topic, session, options, now=self._topic.environment.clock.now())

    def replace(self, producer: Producer) -> None:
        """Raise RequestError for the producer of a link."""
        del producer
        raise not_replicated(self._topic.name)

    def settled(self, producer: Producer) -> Callable[[Callable[[StorageError | None], None]], None] | None:
        """Return None: a producer can be answered at once."""
        del producer
        return None

    def last_sequence_id(self, name: str) -> int:
        """Return -1: no sequence id is known."""
        del name
        return -1

    def behind_receipts(self, session: ProducerSession, write: Callable[[], None]) -> None:
        """Call ``write`` after the receipts of earlier SENDs."""
        self._topic.distribution.add(session, (), 0, write)

    def dismiss(self) -> None:
        """Disconnect all producers, which may reconnect."""
        self._send_away((), tuple(self.clients()))


def not_replicated(name: TopicName) -> RequestError:
    """Return the refusal of a link."""
    return RequestError(ServerError.NotAllowedError, f"Non-persistent topics are not replicated: {name}")
