"""What all parts of a topic share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.log.topic_log import TopicLog
    from magnetar.ledger.managed_ledger import ManagedLedger
    from magnetar.metadata.effective import EffectivePolicies


class LoggedTopic(Protocol):
    """A topic as its parts see it. Each part adds in a protocol of its own what else it needs."""

    @property
    def environment(self) -> Environment:
        """What every part of the broker shares."""
        ...

    @property
    def name(self) -> TopicName:
        """Its name."""
        ...

    @property
    def ledger(self) -> ManagedLedger:
        """Where entries are stored and read."""
        ...

    @property
    def log(self) -> TopicLog:
        """Where entries are appended, with their origins and what is known of damaged ones."""
        ...

    @property
    def policies(self) -> EffectivePolicies:
        """The policies as they are now."""
        ...
