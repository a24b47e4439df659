"""Interface between the handlers and the broker."""

from __future__ import annotations

from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from magnetar.admin.topic_service import DomainTopicOperations
from magnetar.base.errors import AdminError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping, Sequence

    from magnetar.admin.fence_service import FenceOperations
    from magnetar.admin.log_service import DynamicSettings, LogOperations
    from magnetar.admin.metrics.measurements import Durations, Totals
    from magnetar.admin.metrics.options import MetricsOptions
    from magnetar.admin.metrics.tls import TlsState
    from magnetar.admin.models.acknowledgements import AcknowledgementState
    from magnetar.admin.models.links import LinkTotals
    from magnetar.admin.models.metadata_sync import (
        HistoryEdit,
        LocalValue,
        MetadataSyncStatus,
        PreviewedChange,
        RefusedEvent,
        UndoneEdit,
        UnknownField,
    )
    from magnetar.admin.models.protection import SubscriptionProtection
    from magnetar.admin.models.topics import MessageId
    from magnetar.admin.schema_service import SchemaOperations
    from magnetar.admin.topic_service import NonPersistentOperations, StrandedOperations
    from magnetar.base.limits import Limit
    from magnetar.base.memory_share import Share
    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.base.position import Position
    from magnetar.metadata.effective import EffectivePolicies
    from magnetar.metadata.policies import Addresses
    from magnetar.metasync.places import Resource
    from magnetar.metasync.timestamps import Timestamp
    from magnetar.security.exposure import Finding

Result = TypeVar("Result")

NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


class TopicOperations(DomainTopicOperations, Protocol):
    """Operations on persistent topics: those with a log, each a partition, or a topic that is not partitioned."""

    def applied_policies(self, topic: TopicName) -> EffectivePolicies:
        """Return the policies in effect for a topic, or for the partitions of a partitioned topic."""
        ...

    async def update_properties(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        """Set properties of a partitioned topic; the others stay."""
        ...

    async def protection(self, topic: TopicName) -> Mapping[str, SubscriptionProtection]:
        """Return the protection of each durable subscription, by name."""
        ...

    def link_totals(self) -> Generator[None, None, Mapping[str, Mapping[str, LinkTotals]]]:
        """Return the statistics of all links by namespace and remote cluster, in steps."""
        ...

    async def skip_entries(self, topic: TopicName, cluster: str, through: Position) -> None:
        """Let the link to ``cluster`` skip the damaged entries at which it has stopped; durable on return.

        ``through`` is the last entry to skip. Refuses unless all entries from ``damagedAt`` to ``through`` are damaged.
        """
        ...

    async def begin_snapshot(self, topic: TopicName, without: Collection[str]) -> None:
        """Start a snapshot for replicated subscriptions (PIP-33) now, and leave out the clusters ``without``.

        Refuses if the topic takes no snapshots, a cluster that is not left out is absent, or one must not be left out.
        """
        ...

    async def read_entry(self, topic: TopicName, position: Position) -> bytes:
        """Return the entry at ``position``; refuses with ``message_id_not_found``."""
        ...

    async def last_message_id(self, topic: TopicName) -> MessageId:
        """Return the id of the newest message; -1:-1 if the topic is empty."""
        ...

    async def message_id_by_time(self, topic: TopicName, timestamp_ms: int) -> MessageId:
        """Return the id of the first entry published at or after a time, else of the last entry."""
        ...


class SubscriptionOperations(Protocol):
    """Operations on subscriptions; refusals as in ``TopicOperations``."""

    async def names(self, topic: TopicName) -> list[str]:
        """Return the names of the subscriptions, without the cursors of replication and deduplication."""
        ...

    async def create(
        self,
        topic: TopicName,
        subscription: str,
        position: Position,
        *,
        replicated: bool,
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> None:
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
        """Acknowledge all entries that the log contains now."""
        ...

    async def reset_to_time(self, topic: TopicName, subscription: str, timestamp_ms: int) -> None:
        """Move a subscription to the first entry published at or after a time."""
        ...

    async def reset(
        self, topic: TopicName, subscription: str, position: Position, *, is_excluded: bool, batch_index: int = -1
    ) -> None:
        """Move to ``position``, or the member ``batch_index`` there, or after it; EARLIEST and LATEST are valid."""
        ...

    async def expire(self, topic: TopicName, subscription: str, seconds: int) -> None:
        """Acknowledge all entries older than ``seconds``."""
        ...

    async def expire_through(self, topic: TopicName, subscription: str, position: Position) -> None:
        """Acknowledge all entries up to and including ``position``."""
        ...

    async def properties(self, topic: TopicName, subscription: str) -> Mapping[str, str]:
        """Return the properties of a subscription."""
        ...

    async def set_properties(self, topic: TopicName, subscription: str, properties: Mapping[str, str]) -> None:
        """Replace the properties of a subscription."""
        ...

    async def set_replicated(self, topic: TopicName, subscription: str, *, replicated: bool) -> None:
        """Start or stop the replication of a subscription."""
        ...

    async def is_replicated(self, topic: TopicName, subscription: str) -> bool:
        """Return whether a subscription is replicated."""
        ...

    async def acknowledgements(self, topic: TopicName, subscription: str, after: Position) -> AcknowledgementState:
        """Return the acknowledgement state after a position, or the first page of it."""
        ...

    async def peek(self, topic: TopicName, subscription: str, message: int) -> tuple[Position, bytes]:
        """Return the ``message``-th (from 1) entry to be received; refuses with ``message_not_found`` without one."""
        ...


class MetadataSync(Protocol):
    """The metadata synchronizer."""

    @property
    def namespace(self) -> NamespaceName:
        """Namespace of the event topic. It is replicated to all registered clusters, as long as they are."""
        ...

    def status(self) -> Generator[None, None, MetadataSyncStatus]:
        """Return its state, in steps."""
        ...

    def last_edit(self, resource: Resource) -> Timestamp | None:
        """Return the time and the cluster of the newest edit of a resource; None if none is recorded."""
        ...

    async def local(self) -> Sequence[LocalValue]:
        """Return what is local in this cluster although its rules do not say so, by resource."""
        ...

    async def unknown(self) -> Sequence[UnknownField]:
        """Return the fields that this version does not know, by resource."""
        ...

    async def remove_local(self, resource: str, field: str) -> None:
        """Give a tenant, namespace or topic, or one of its fields, the values of the other clusters.

        Refuses with 404 if nothing of it is local, and with 400 an invalid name.
        """
        ...

    def refused(self) -> Sequence[RefusedEvent]:
        """Return the newest refused events, the oldest first."""
        ...

    async def snapshot(self) -> None:
        """Publish all metadata to the event topic; raises AdminError while it is not connected."""
        ...

    def events(self) -> Generator[None, None, Sequence[bytes]]:
        """Return the events that a snapshot would publish now, as JSON; in steps."""
        ...

    def preview(self, event: Mapping[str, Any]) -> Sequence[PreviewedChange]:
        """Return what an event would change here, without a change; refuses one that would be refused with 400."""
        ...

    def history(self, name: str) -> Generator[None, None, Sequence[HistoryEdit]]:
        """Return the kept edits of a tenant, a namespace, or a topic and its policies, the oldest first; in steps.

        Refuses an invalid name with 412, and a resource without edits with 404.
        """
        ...

    async def undo(self, name: str, edit: str | None, *, force: bool) -> UndoneEdit:
        """Restore the former values of what an edit changed, by default the newest one.

        Refusals as in ``history``; 409 if later edits changed the same fields, unless ``force`` replaces their values;
        412 if the edit cannot be undone.
        """
        ...


class AdminService(Protocol):
    """Operations of a broker."""

    @property
    def stranded(self) -> StrandedOperations:
        """Operations on topics whose namespace does not exist."""
        ...

    metadata_sync: MetadataSync | None
    """The metadata synchronizer; None if it is off."""

    fences: FenceOperations
    """Operations on the migration fences of topics."""

    tls: Callable[[], TlsState | None]
    """Returns the state of TLS; None if no port has it."""

    risks: Sequence[Finding]
    """What the broker found at its start that its operator may not know."""

    @property
    def topics(self) -> TopicOperations:
        """Operations on topics."""
        ...

    @property
    def non_persistent(self) -> NonPersistentOperations:
        """Operations on non-persistent topics."""
        ...

    @property
    def subscriptions(self) -> SubscriptionOperations:
        """Operations on subscriptions."""
        ...

    @property
    def logs(self) -> LogOperations:
        """Operations on the logs and properties of topics."""
        ...

    @property
    def dynamic(self) -> DynamicSettings:
        """Settings that can be changed at run time."""
        ...

    @property
    def schemas(self) -> SchemaOperations:
        """Operations on schemas."""
        ...

    @property
    def cluster_name(self) -> str:
        """Name of this cluster."""
        ...

    @property
    def addresses(self) -> Addresses:
        """URLs of this broker."""
        ...

    @property
    def admin_url(self) -> str:
        """URL of this API, ``http://host:port``, or ``https://host:port`` if it has no port without TLS."""
        ...

    @property
    def name_length_max(self) -> int:
        """Maximum length of new names in bytes (``maxNameLength``)."""
        ...

    @property
    def version(self) -> str:
        """Version of the broker."""
        ...

    @property
    def metrics_options(self) -> MetricsOptions:
        """Selection of the exposed metrics."""
        ...

    async def in_slices(self, steps: Generator[None, None, Result]) -> Result:
        """Run all steps in slices and return their result; other work runs between the slices."""
        ...

    def runtime_configuration(self) -> dict[str, str]:
        """Return all settings in effect, as text; secrets are hidden."""
        ...

    def load_failures(self) -> Mapping[TopicName, str]:
        """Return the topics whose last load failed, each with the reason."""
        ...

    def storage_refuses(self) -> tuple[bool, bool]:
        """Return whether storage has failed, and whether publishing is paused because the disk is full."""
        ...

    def limit_hits(self) -> Mapping[str, int]:
        """Return the number of hits since the start of the broker, by name of the limit, including zeros."""
        ...

    def limit_hit(self, limit: Limit) -> None:
        """Count a hit of a limit of this API."""
        ...

    @property
    def bodies(self) -> Share:
        """Memory of the request bodies that are being read."""
        ...

    def memory(self) -> Mapping[str, tuple[int, int]]:
        """Return the bytes in use and the limit, by share; ``total`` is the whole process."""
        ...

    def connections(self) -> Mapping[str, int]:
        """Return the numbers of connections, active and since the start of the broker, by Pulsar's names for them."""
        ...

    def durations(self) -> Durations:
        """Return the measured durations."""
        ...

    def totals(self) -> Totals:
        """Return the counters of the namespaces."""
        ...

    async def health(self) -> None:
        """Return if the broker can store and serve messages; otherwise refuse with the reason."""
        ...


def topic_not_found(topic: TopicName) -> AdminError:
    """Return the refusal for a topic that does not exist."""
    return AdminError(HTTPStatus.NOT_FOUND, f"Topic {topic} not found")


def topic_exists() -> AdminError:
    """Return the refusal for a topic or partitioned topic that exists."""
    return AdminError(HTTPStatus.CONFLICT, "This topic already exists")


def check_not_fewer(partitions: int, current: int) -> None:
    """Refuse to reduce the number of partitions."""
    if partitions < current:
        message = f"Desired partitions {partitions} can't be less than the current partitions {current}."
        raise AdminError(HTTPStatus.UNPROCESSABLE_ENTITY, message)


def topic_in_use() -> AdminError:
    """Return the refusal to delete a topic that clients use."""
    return AdminError(HTTPStatus.PRECONDITION_FAILED, "Topic has active producers/subscriptions")


def subscription_not_found(topic: TopicName, subscription: str) -> AdminError:
    """Return the refusal for a subscription that does not exist."""
    return AdminError(HTTPStatus.NOT_FOUND, f"Subscription {subscription} not found for topic {topic}")


def subscription_exists() -> AdminError:
    """Return the refusal for a subscription that exists."""
    return AdminError(HTTPStatus.CONFLICT, "Subscription already exists for topic")


def subscription_in_use() -> AdminError:
    """Return the refusal to delete a subscription that consumers use."""
    return AdminError(HTTPStatus.PRECONDITION_FAILED, "Subscription has active connected consumers")
