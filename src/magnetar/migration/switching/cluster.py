"""What a switch needs of each of the two clusters."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from magnetar.base.errors import MigrationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.base.names import TopicName
    from magnetar.migration.switching.fence import Phase, TopicState


class FenceRefusedError(MigrationError):
    """The broker refuses a phase of a fence: it has ended meanwhile, or another migration has one."""


class ProducerState(NamedTuple):
    """What the next producers of a topic continue, although all messages may be trimmed."""

    topic_epoch: int | None = None
    """Epoch of the last exclusive producer; None before the first one."""
    sequence_ids: Mapping[str, int] = MappingProxyType({})
    """Highest sequence id of each producer; none without deduplication."""


class Cluster(Protocol):
    """One of the clusters. Methods raise UnansweredError. Each can be repeated, and may take effect after an error."""

    @property
    def name(self) -> str:
        """The name of the cluster."""
        ...

    def fence(self, topic: str, epoch: int, phase: Phase) -> TopicState:
        """Set the fence of a topic, durably; one that does not exist is created before SETTLING.

        Return its state; the subscriptions are complete in SETTLING only. Raises FenceRefusedError.
        """
        ...

    def look(self, topic: str, *, digests: bool = False) -> TopicState:
        """Return the state of a topic; without subscriptions if it does not exist."""
        ...

    def remove_fence(self, topic: str, epoch: int, *, final: bool = False) -> None:
        """Remove a fence, also one that is final if ``final``; raises FenceRefusedError, not if there is none."""
        ...

    def replicate(self, topic: str, subscription: str) -> None:
        """Replicate a subscription; nothing happens if it does not exist."""
        ...

    def set_former(self, topic: str, cluster: str) -> str:
        """Translate message ids of a cluster; return why this is not possible, empty: it is."""
        ...

    def producer_state(self, topic: str) -> ProducerState:
        """Return what the next producers of a topic continue."""
        ...

    def add_producer_state(self, topic: str, state: ProducerState) -> None:
        """Raise the epoch and sequence ids to those of the other cluster; the latter with deduplication only."""
        ...

    def routes(self) -> dict[str, str]:
        """Return the cluster of each route, by scope."""
        ...

    def set_route(self, scope: str, cluster: str) -> None:
        """Send clients of a scope to a cluster. A delayed request has no effect after a later change."""
        ...

    def delete_route(self, scope: str) -> None:
        """Delete a route, if it exists. A delayed request has no effect after a later change."""
        ...

    def topics(self) -> Sequence[str]:
        """Return the topics and partitions that are to be moved; raises MigrationError for an unknown namespace."""
        ...

    def partitions_of(self, topic: TopicName) -> int:
        """Return the number of partitions of a topic; 0: none, or it does not exist."""
        ...

    def create_as_in(self, topic: str, other: Cluster) -> None:
        """Create a topic, or the partitions that the other cluster has."""
        ...
