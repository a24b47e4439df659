"""The producer of a client: its counters, and the publish rate of its topic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from magnetar.base.rates import Rates
from magnetar.wire.entries import entry as wire_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.base.errors import RequestError
    from magnetar.broker.publish.interfaces import ProducerOptions, ProducerSession, ProducerTopic, SendHead
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class ClientProducer(ABC):
    """A producer of a client. Subclasses store or deliver its entries."""

    is_link: ClassVar = False

    def __init__(self, topic: ProducerTopic, session: ProducerSession, options: ProducerOptions, *, now: float) -> None:
        """Create a producer."""
        self.check: Callable[[bytes], pb.MessageMetadata | None] = wire_entry.check
        self.topic = topic
        self.session = session
        self.options = options
        self.connected_at = now
        self.messages_in = 0
        self.bytes_in = 0
        self.rates = Rates(2)
        """Rates of messages and bytes."""
        self._stopped = False
        """See ``stop``."""

    def stop(self) -> None:
        """Drop arriving entries without an answer from now on, until the client is informed of the end."""
        self._stopped = True

    @abstractmethod
    def publish(self, heads: Sequence[SendHead], entries: list[bytes]) -> None:
        """Publish the intact entries of one read of the socket as one run; each SEND is answered."""

    @abstractmethod
    def publish_with_refusals(self, heads: Sequence[SendHead], entries: Sequence[bytes | RequestError]) -> None:
        """Publish a run with invalid entries, each of which is replaced by the refusal of its SEND."""

    def _obey(self, messages: int, size: int) -> None:
        """Do not read the connection for a while, if these messages exceed the rate of the topic or of its tenant."""
        environment, rates = self.topic.environment, self.topic.rates
        now = environment.clock.monotonic()
        for limit in rates.publish_limits:
            limit.take(messages, size, now)
        exceeded = [limit for limit in rates.publish_limits if limit.wait_s(now)]
        rates.publish_limited += bool(exceeded)
        for limit in exceeded:
            for reached in limit.reached(now):
                environment.limit_hits.hit(reached)
            self.session.hold_back(limit)
