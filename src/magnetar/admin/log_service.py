"""Interface between the handlers and the broker for the logs of topics, and for settings that change at run time."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import AdminError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.admin.models.logs import (
        AnalyzedBacklog,
        FormerCluster,
        ManagedLedgerInfo,
        MessageLocation,
        MessageOrigin,
        ProducerState,
    )
    from magnetar.admin.models.topics import MessageId
    from magnetar.base.names import TopicName
    from magnetar.base.position import Position


class DynamicSettings(Protocol):
    """Settings that operators change at run time."""

    @property
    def names(self) -> Sequence[str]:
        """Settings that can be changed."""
        ...

    def values(self) -> Mapping[str, str]:
        """Return the values that were set at run time."""
        ...

    async def set(self, name: str, value: str) -> None:
        """Set a setting, durably; refuses with 412 one that cannot be changed, or an invalid value."""
        ...

    async def remove(self, name: str) -> None:
        """Return to the value of the start, durably; refuses with 412 a setting that cannot be changed."""
        ...


class LogOperations(Protocol):
    """Operations on the logs and properties of topics, except partitioned ones; refusals as in ``TopicOperations``."""

    async def properties(self, topic: TopicName) -> Mapping[str, str]:
        """Return the properties that clients have set."""
        ...

    async def update_properties(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        """Set properties; the others stay."""
        ...

    async def remove_property(self, topic: TopicName, key: str) -> None:
        """Remove a property, if it exists."""
        ...

    async def info(self, topic: TopicName) -> ManagedLedgerInfo:
        """Return the list of ledgers and cursors."""
        ...

    async def examine(self, topic: TopicName, number: int, *, from_latest: bool) -> tuple[Position, bytes]:
        """Return the ``number``-th entry (from 1) from either end of the log; the farthest one if there are fewer.

        Refuses with ``no_entries``.
        """
        ...

    async def location(self, topic: TopicName, cluster: str, position: Position) -> MessageLocation:
        """Return the place here of the entry that ``cluster`` published at ``position``."""
        ...

    async def origin(self, topic: TopicName, position: Position) -> MessageOrigin:
        """Return where the entry at ``position`` was published."""
        ...

    async def producer_state(self, topic: TopicName) -> ProducerState:
        """Return what the next producers continue, as far as it is durable."""
        ...

    async def add_producer_state(self, topic: TopicName, state: ProducerState) -> None:
        """Raise the epoch and sequence ids to those of another cluster, durably; lower ones change nothing.

        Refuses sequence ids with 412 if deduplication is off.
        """
        ...

    async def former_cluster(self, topic: TopicName) -> FormerCluster | None:
        """Return the cluster whose message ids are translated; None without one."""
        ...

    async def set_former_cluster(self, topic: TopicName, cluster: str) -> None:
        """Translate message ids of ``cluster``, durably; refuses with 412 if they cannot be told from those here."""
        ...

    async def remove_former_cluster(self, topic: TopicName) -> None:
        """Translate no message ids any more, durably."""
        ...

    async def raise_ledger_ids(self) -> int:
        """Give new ledgers the ids of a data directory that is created now, durably; return the lowest one."""
        ...

    async def analyze(self, topic: TopicName, subscription: str, start: Position | None) -> AnalyzedBacklog:
        """Count the unacknowledged entries of a subscription, beginning at ``start`` if it is given."""
        ...

    async def backlog_size(self, topic: TopicName, start: Position) -> int:
        """Return the bytes of the entries after ``start``."""
        ...

    async def trim(self, topic: TopicName) -> None:
        """Delete the ledgers that are consumed and that retention does not keep, now."""
        ...

    async def truncate(self, topic: TopicName) -> None:
        """Acknowledge all entries for all subscriptions, and delete the ledgers that no link needs any more."""
        ...

    async def terminate(self, topic: TopicName) -> MessageId:
        """Take no more entries, durably; return the id of the last one."""
        ...


def no_entries() -> AdminError:
    """Return the refusal to examine an empty log."""
    message = "Could not examine messages due to the total message is zero"
    return AdminError(HTTPStatus.PRECONDITION_FAILED, message)
