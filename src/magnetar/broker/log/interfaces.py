"""The protocols of a topic that all its parts share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.log.topic_log import TopicLog
    from magnetar.broker.resources.topic_rates import TopicRates
    from magnetar.ledger.managed_ledger import ManagedLedger
    from magnetar.metadata.effective import EffectivePolicies


class AnyTopic(Protocol):
    """A topic, whether its entries are stored or not."""

    @property
    def environment(self) -> Environment:
        """Objects that all parts of the broker share."""
        ...

    @property
    def name(self) -> TopicName:
        """Its name."""
        ...

    @property
    def rates(self) -> TopicRates:
        """The limits of rates."""
        ...

    @property
    def policies(self) -> EffectivePolicies:
        """The current policies."""
        ...


class LoggedTopic(AnyTopic, Protocol):
    """A topic with a log. Each part declares further attributes that it needs in its own protocol."""

    @property
    def ledger(self) -> ManagedLedger:
        """The managed ledger that stores the entries."""
        ...

    @property
    def log(self) -> TopicLog:
        """The log: appends entries, and keeps their origins and the damaged ones."""
        ...
