"""Operations on the topics of one domain, persistent or non-persistent: a part of the interface to the broker."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import AdminError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from magnetar.admin.models.internal import PersistentTopicInternalStats
    from magnetar.admin.models.metadata_sync import StrandedTopic
    from magnetar.admin.models.topics import TopicStats
    from magnetar.base.names import NamespaceName, TopicName


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsOptions:
    """Options for the statistics of a topic."""

    precise_backlog: bool = False
    subscription_backlog_size: bool = True
    earliest_time_in_backlog: bool = False
    exclude_publishers: bool = False
    exclude_consumers: bool = False
    for_metrics: bool = False
    """Omit fields of subscriptions that are no metrics."""


class DomainTopicOperations(Protocol):
    """Operations on topics.

    *Topic* means a partition, or a topic that is not partitioned. Methods for partitioned topics say so. A refusal is
    an AdminError; functions of ``service`` create the errors that Pulsar's clients expect. The caller checks the
    namespace.
    """

    def each(self, namespace: NamespaceName) -> Iterator[TopicName]:
        """Yield the topics of ``namespace``, including partitions, in no particular order, while they come and go."""
        ...

    def each_partitioned(self, namespace: NamespaceName) -> Iterator[TopicName]:
        """Yield the partitioned topics of ``namespace`` like ``each``."""
        ...

    def names(self, namespace: NamespaceName) -> Generator[None, None, Sequence[str]]:
        """Return the full names of the topics of ``namespace``, including partitions, sorted; in steps."""
        ...

    def partitions_of(self, topic: TopicName) -> int | None:
        """Return the number of partitions of a partitioned topic, 0 for a topic, None if neither exists."""
        ...

    async def partitions_for_client(self, topic: TopicName) -> int:
        """Return the number of partitions for a client; a missing topic is created if that is allowed.

        Refuses with ``topic_not_found``.
        """
        ...

    async def create(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        """Create a topic; refuses with ``topic_exists``."""
        ...

    async def create_partitioned(self, topic: TopicName, partitions: int, properties: Mapping[str, str]) -> None:
        """Create a partitioned topic and its partitions, at least one; refuses with ``topic_exists``.

        If the topic exists with the same number of partitions, missing ones are created.
        """
        ...

    async def update_partitioned(self, topic: TopicName, partitions: int) -> None:
        """Add partitions to a partitioned topic and create missing ones; see ``check_not_fewer``."""
        ...

    async def delete(self, topic: TopicName, *, force: bool) -> None:
        """Delete a topic; without ``force``, refuses with ``topic_in_use`` while clients are connected.

        A topic that cannot be loaded is deleted only with ``force``, since it is unknown whether clients use it.
        """
        ...

    async def delete_partitioned(self, topic: TopicName, *, force: bool) -> None:
        """Delete a partitioned topic and its partitions, like ``delete``."""
        ...

    async def unload(self, topic: TopicName) -> None:
        """Close the topic and disconnect its clients; the next use loads it again."""
        ...

    async def stats(self, topic: TopicName, options: StatsOptions) -> TopicStats:
        """Return the statistics of a topic."""
        ...

    async def internal_stats(self, topic: TopicName) -> PersistentTopicInternalStats:
        """Return the state of a topic's managed ledger."""
        ...

    def is_loaded(self, topic: TopicName) -> bool:
        """Return whether the topic is in memory."""
        ...

    def open_names(self) -> list[TopicName]:
        """Return the loaded topics, in no particular order."""
        ...

    def open_stats(self, topic: TopicName, options: StatsOptions) -> Generator[None, None, TopicStats | None]:
        """Gather the statistics of a topic for metrics, one subscription per step; None if it is not loaded."""
        ...


class NonPersistentOperations(DomainTopicOperations, Protocol):
    """Operations on non-persistent topics, which exist while they have clients."""

    def subscriptions(self, topic: TopicName) -> list[str]:
        """Return the names of the subscriptions."""
        ...

    def delete_subscription(self, topic: TopicName, subscription: str) -> None:
        """Disconnect the consumers of a subscription, which ends it; refuses with ``subscription_not_found``."""
        ...


class StrandedOperations(Protocol):
    """Topics whose namespace does not exist: another cluster deleted it, and the deletion arrived here.

    Clients cannot use them, and their messages are kept.
    """

    def all(self) -> Generator[None, None, Mapping[str, StrandedTopic]]:
        """Return the topics by name, in steps."""
        ...

    async def delete(self, topic: TopicName) -> None:
        """Delete a topic with its messages; refuses with ``topic_not_found`` unless it is stranded."""
        ...


def message_not_found() -> AdminError:
    """Return the refusal for an entry beyond the backlog."""
    return AdminError(HTTPStatus.NOT_FOUND, "Message not found")


def message_id_not_found() -> AdminError:
    """Return the refusal for a position without an entry."""
    return AdminError(HTTPStatus.NOT_FOUND, "Message id not found")
