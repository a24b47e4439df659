"""The protocol of a topic for sessions, whether its messages are stored or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.broker.publish.interfaces import ProducerTopic
from magnetar.broker.subscription.interfaces import ClientTopic

if TYPE_CHECKING:
    from magnetar.broker.replication.outbound.replicator import Replicator
    from magnetar.broker.subscription.interfaces import Entrance


class Links(Protocol):
    """The links of a topic."""

    def to(self, target: str) -> Replicator:
        """Return the link to ``target``; raises RequestError if there is none."""
        ...


class ServedTopic(ProducerTopic, ClientTopic, Protocol):
    """A topic of clients."""

    @property
    def is_being_recorded(self) -> bool:
        """Whether metadata of the topic are not durable yet; answers to clients depend on them."""
        ...

    @property
    def replicators(self) -> Links:
        """The links to other clusters."""
        ...

    @property
    def entrance(self) -> Entrance:
        """The admission of consumers."""
        ...
