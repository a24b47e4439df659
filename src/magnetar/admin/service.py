"""What a broker offers to administration; handlers know nothing else of it."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol, TypeVar

from magnetar.base.errors import AdminError

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Mapping

    from magnetar.admin.models.internal import PersistentTopicInternalStats
    from magnetar.admin.models.protection import SubscriptionProtection
    from magnetar.admin.models.topics import MessageId, TopicStats
    from magnetar.base.histogram import Histogram
    from magnetar.base.limits import Limit
    from magnetar.base.memory_share import Share
    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.base.position import Position
    from magnetar.metadata.effective import EffectivePolicies

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsOptions:
    """How much of a topic's statistics to compute."""

    precise_backlog: bool = False
    subscription_backlog_size: bool = True
    earliest_time_in_backlog: bool = False
    exclude_publishers: bool = False
    exclude_consumers: bool = False


class TopicOperations(Protocol):
    """What operators do with topics.

    A topic is one that has a log: not a partitioned topic, whose partitions are topics of their own, unless the
    method says so. Refusals are AdminErrors; the functions below make those that Pulsar's clients know.
    The namespace was checked by the caller.
    """

    def names(self, namespace: NamespaceName) -> list[TopicName]:
        """The topics of ``namespace``, partitions included."""
        ...

    def partitioned_names(self, namespace: NamespaceName) -> list[TopicName]:
        """The partitioned topics of ``namespace``."""
        ...

    def partitions_of(self, topic: TopicName) -> int | None:
        """How many partitions a partitioned topic has, 0 for a topic, None for neither."""
        ...

    def applied_policies(self, topic: TopicName) -> EffectivePolicies:
        """What holds for a topic, or for the partitions of a partitioned one."""
        ...

    async def create(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        """Create a topic; refuses with ``topic_exists``."""
        ...

    async def create_partitioned(self, topic: TopicName, partitions: int, properties: Mapping[str, str]) -> None:
        """Create a partitioned topic and its partitions, at least one; refuses with ``topic_exists``.

        Of a topic with so many partitions, of which some are missing, those are created.
        """
        ...

    async def update_partitioned(self, topic: TopicName, partitions: int) -> None:
        """Add partitions to a partitioned topic, and create those that are missing; see ``check_not_fewer``."""
        ...

    async def delete(self, topic: TopicName, *, force: bool) -> None:
        """Delete a topic; without ``force`` refuses with ``topic_in_use`` while anyone is connected.

        A topic that cannot be loaded is deleted only with ``force``: it is not known whether clients use it.
        """
        ...

    async def delete_partitioned(self, topic: TopicName, *, force: bool) -> None:
        """Delete a partitioned topic and its partitions, as ``delete`` does."""
        ...

    async def unload(self, topic: TopicName) -> None:
        """Close the topic and disconnect its clients; it is opened again on the next use."""
        ...

    async def stats(self, topic: TopicName, options: StatsOptions) -> TopicStats:
        """Statistics of a topic."""
        ...

    async def protection(self, topic: TopicName) -> Mapping[str, SubscriptionProtection]:
        """How well off each durable subscription is towards the other clusters, by name."""
        ...

    async def internal_stats(self, topic: TopicName) -> PersistentTopicInternalStats:
        """The state of a topic's managed ledger."""
        ...

    def open_names(self) -> list[TopicName]:
        """The topics that are open, in no order."""
        ...

    def open_stats(self, topic: TopicName) -> Generator[None, None, TopicStats | None]:
        """Gather the statistics of a topic for metrics, a subscription a step; returns None if it is not open.

        Producers and consumers are counted only.
        """
        ...

    async def skip_entries(self, topic: TopicName, cluster: str, through: Position) -> None:
        """Let the link to ``cluster`` go past the damaged entries at which it has stopped; durable on return.

        ``through`` is the last entry to skip. Refuses unless every entry from ``damagedAt`` to it is damaged.
        """
        ...

    async def begin_snapshot(self, topic: TopicName, without: Collection[str]) -> None:
        """Begin a snapshot for replicated subscriptions (PIP-33) now, without some clusters.

        Refuses where the topic takes none, a cluster that is not left out is away, or one must not be left out.
        """
        ...

    async def read_entry(self, topic: TopicName, position: Position) -> bytes:
        """The entry at ``position``; refuses with ``message_id_not_found``."""
        ...

    async def last_message_id(self, topic: TopicName) -> MessageId:
        """The id of the newest message; -1:-1 in a topic that has none."""
        ...

    async def message_id_by_time(self, topic: TopicName, timestamp_ms: int) -> MessageId:
        """The id of the first entry published at or after the time, else of the last one."""
        ...


class SubscriptionOperations(Protocol):
    """What operators do with subscriptions; refuses as ``TopicOperations`` does."""

    async def names(self, topic: TopicName) -> list[str]:
        """Names of the subscriptions, without the cursors of replication and deduplication."""
        ...

    async def create(self, topic: TopicName, subscription: str, position: Position, *, replicated: bool) -> None:
        """Create a subscription whose first message is at or after ``position``; EARLIEST and LATEST are valid.

        Refuses with ``subscription_exists``.
        """
        ...

    async def delete(self, topic: TopicName, subscription: str, *, force: bool) -> None:
        """Delete a subscription; without ``force`` refuses with ``subscription_in_use``."""
        ...

    async def skip(self, topic: TopicName, subscription: str, count: int) -> None:
        """Acknowledge the next ``count`` unacknowledged entries."""
        ...

    async def skip_all(self, topic: TopicName, subscription: str) -> None:
        """Acknowledge everything that is in the log now."""
        ...

    async def reset_to_time(self, topic: TopicName, subscription: str, timestamp_ms: int) -> None:
        """Go to the first entry published at or after the time."""
        ...

    async def reset(self, topic: TopicName, subscription: str, position: Position, *, is_excluded: bool) -> None:
        """Go to ``position``, or after it if ``is_excluded``; EARLIEST and LATEST are valid."""
        ...

    async def expire(self, topic: TopicName, subscription: str, seconds: int) -> None:
        """Acknowledge all entries published more than ``seconds`` ago."""
        ...

    async def set_replicated(self, topic: TopicName, subscription: str, *, replicated: bool) -> None:
        """Start or stop to carry the subscription's progress to the other clusters."""
        ...

    async def is_replicated(self, topic: TopicName, subscription: str) -> bool:
        """Whether the subscription's progress is carried to the other clusters."""
        ...

    async def peek(self, topic: TopicName, subscription: str, message: int) -> tuple[Position, bytes]:
        """The ``message``-th (from 1) unacknowledged entry; refuses with ``message_not_found`` beyond the end."""
        ...


class AdminService(Protocol):
    """A broker."""

    @property
    def topics(self) -> TopicOperations:
        """Its topics."""
        ...

    @property
    def subscriptions(self) -> SubscriptionOperations:
        """The subscriptions of its topics."""
        ...

    @property
    def cluster_name(self) -> str:
        """The name of this cluster."""
        ...

    @property
    def service_url(self) -> str:
        """Where clients connect, ``pulsar://host:port``."""
        ...

    @property
    def admin_url(self) -> str:
        """Where this API is served, ``http://host:port``."""
        ...

    @property
    def name_length_max(self) -> int:
        """Bytes that the name of something new may have (``maxNameLength``)."""
        ...

    @property
    def version(self) -> str:
        """The release of the broker."""
        ...

    async def in_slices(self, steps: Generator[None, None, Result]) -> Result:
        """Run all steps and return what they return; between two slices of them other work has its turn."""
        ...

    def runtime_configuration(self) -> dict[str, str]:
        """Every setting in effect, as text."""
        ...

    def load_failures(self) -> Mapping[TopicName, str]:
        """The topics that could not be loaded when they were last asked for, each with the reason."""
        ...

    def storage_refuses(self) -> tuple[bool, bool]:
        """Whether storage has failed for good, and whether publishing is paused because the disk is full."""
        ...

    def limit_hits(self) -> Mapping[str, int]:
        """How often each limit was hit since the start of the broker, by its name; 0 for one that was not."""
        ...

    def limit_hit(self, limit: Limit) -> None:
        """Count a hit of a limit of this API."""
        ...

    @property
    def bodies(self) -> Share:
        """The memory of the bodies of all requests that are being read."""
        ...

    def memory(self) -> Mapping[str, tuple[int, int]]:
        """By share, the bytes that are held and the limit; ``total`` is the whole process."""
        ...

    def loop_stalls(self) -> Histogram:
        """How late the event loop was."""
        ...

    def commit_times(self) -> Histogram:
        """How long it took to write and sync groups of entries, see LedgerStore."""
        ...

    async def health(self) -> None:
        """Return if the broker can store and serve messages; else refuse, saying why."""
        ...


def topic_not_found(topic: TopicName) -> AdminError:
    """There is no such topic."""
    return AdminError(HTTPStatus.NOT_FOUND, f"Topic {topic} not found")


def topic_exists() -> AdminError:
    """A topic or partitioned topic of that name is there."""
    return AdminError(HTTPStatus.CONFLICT, "This topic already exists")


def check_not_fewer(partitions: int, current: int) -> None:
    """Refuse to take partitions away."""
    if partitions < current:
        message = f"Desired partitions {partitions} can't be less than the current partitions {current}."
        raise AdminError(HTTPStatus.UNPROCESSABLE_ENTITY, message)


def topic_in_use() -> AdminError:
    """The topic cannot be deleted while clients use it."""
    return AdminError(HTTPStatus.PRECONDITION_FAILED, "Topic has active producers/subscriptions")


def subscription_not_found(topic: TopicName, subscription: str) -> AdminError:
    """The topic has no such subscription."""
    return AdminError(HTTPStatus.NOT_FOUND, f"Subscription {subscription} not found for topic {topic}")


def subscription_exists() -> AdminError:
    """The topic has that subscription already."""
    return AdminError(HTTPStatus.CONFLICT, "Subscription already exists for topic")


def subscription_in_use() -> AdminError:
    """The subscription cannot be deleted while consumers use it."""
    return AdminError(HTTPStatus.PRECONDITION_FAILED, "Subscription has active connected consumers")


def message_not_found() -> AdminError:
    """The subscription has no so many unacknowledged entries."""
    return AdminError(HTTPStatus.NOT_FOUND, "Message not found")


def message_id_not_found() -> AdminError:
    """The topic has no entry at that position."""
    return AdminError(HTTPStatus.NOT_FOUND, "Message id not found")
