"""A fake broker with dictionaries behind the admin API."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from functools import cache, lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

import httpx

from magnetar.admin.api import build_app
from magnetar.admin.log_service import no_entries
from magnetar.admin.metrics.measurements import AuditTotals, AuthenticationTotals, Durations, Totals
from magnetar.admin.metrics.options import MetricsOptions
from magnetar.admin.models.acknowledgements import AcknowledgementState, FencedSubscription, FencedTopic, SetFence
from magnetar.admin.models.clients import ConsumerStats, PublisherStats
from magnetar.admin.models.internal import CursorStats, LedgerInfo, PersistentTopicInternalStats
from magnetar.admin.models.logs import (
    AnalyzedBacklog,
    FormerCluster,
    ManagedLedgerInfo,
    MessageLocation,
    MessageOrigin,
    ProducerState,
)
from magnetar.admin.models.protection import ClusterProtection, SubscriptionProtection
from magnetar.admin.models.subscriptions import AckHole, SubscriptionStats
from magnetar.admin.models.topics import MessageId, ReplicatorStats, SnapshotStats, TopicStats
from magnetar.admin.service import (
    NO_PROPERTIES,
    subscription_exists,
    subscription_in_use,
    subscription_not_found,
    topic_exists,
    topic_in_use,
    topic_not_found,
)
from magnetar.admin.topic_service import message_id_not_found, message_not_found
from magnetar.base.errors import AdminError, AuthenticationFailure, StorageError
from magnetar.base.histogram import Histogram, RecentDurations
from magnetar.base.limits import NAME_LENGTH_MAX
from magnetar.base.memory_share import Share
from magnetar.base.names import NON_PERSISTENT, NamespaceName
from magnetar.base.position import Position
from magnetar.base.real import SystemClock
from magnetar.broker.loop.slices import at_once
from magnetar.broker.resources.limit_hits import LimitHits
from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.policies import broker_policies
from magnetar.geo.snapshots.controller import SnapshotCounts
from magnetar.ledger.statistics import LedgerStatistics
from magnetar.metadata.effective import EffectivePolicies, effective
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.policies import Addresses, ClusterData, PartitionedTopicMetadata, Policies, TenantInfo
from magnetar.metadata.resources import Resources
from magnetar.metadata.schemas import StoredSchema
from magnetar.schema.compatibility import check
from magnetar.schema.parsing import parse
from magnetar.schema.strategy import SchemaCompatibilityStrategy
from magnetar.wire.entries.entry import replicate_to

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence

    from starlette.applications import Starlette

    from magnetar.admin.fence_service import FenceOperations, WantedFence
    from magnetar.admin.metrics.tls import TlsState
    from magnetar.admin.models.links import LinkTotals
    from magnetar.admin.models.metadata_sync import StrandedTopic
    from magnetar.admin.service import MetadataSync
    from magnetar.admin.topic_service import StatsOptions
    from magnetar.base.limits import Limit
    from magnetar.base.names import TopicName
    from magnetar.schema.info import SchemaInfo
    from magnetar.security.exposure import Finding

Result = TypeVar("Result")

FLIGHTS = NamespaceName("nyc", "flights")


@dataclass
class FakeSubscription:
    position: Position
    replicated: bool = False
    consumers: int = 0
    properties: dict[str, str] = field(default_factory=dict)


@dataclass
class FakeTopic:
    entries: list[bytes] = field(default_factory=list)
    subscriptions: dict[str, FakeSubscription] = field(default_factory=dict)
    producers: int = 0
    unloads: int = 0
    snapshots: list[list[str]] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    skipped: list[tuple[str, Position]] = field(default_factory=list)
    locations: dict[tuple[str, Position], Position] = field(default_factory=dict)
    """Positions of entries by their origins."""
    former: FormerCluster | None = None
    topic_epoch: int | None = None
    sequence_ids: dict[str, int] | None = None
    fence: SetFence | None = None


def histogram(*durations: float) -> Histogram:
    """Return one of ``durations``, in seconds."""
    observed = Histogram()
    for each in durations:
        observed.observe(each)
    return observed


class FakeTopicOperations:
    def __init__(self, resources: Resources) -> None:
        self.held: dict[TopicName, FakeTopic] = {}
        self._resources = resources

    def each(self, namespace: NamespaceName) -> Iterator[TopicName]:
        return (topic for topic in tuple(self.held) if topic.namespace_name == namespace)

    def each_partitioned(self, namespace: NamespaceName) -> Iterator[TopicName]:
        return self._resources.partitioned_topics.of_namespace(namespace)

    def names(self, namespace: NamespaceName) -> Generator[None, None, Sequence[str]]:
        yield
        return sorted(map(str, self.each(namespace)))

    def partitions_of(self, topic: TopicName) -> int | None:
        metadata = self._resources.partitioned_topics.get(topic)
        if metadata is not None:
            return metadata.partitions
        return 0 if topic in self.held else None

    async def partitions_for_client(self, topic: TopicName) -> int:
        return self.partitions_of(topic) or 0

    def applied_policies(self, topic: TopicName) -> EffectivePolicies:
        namespace = self._resources.namespaces.get(topic.namespace_name)
        return effective(
            broker_policies(BrokerConfig()), namespace, self._resources.topic_policies.get(topic), cluster="A"
        )

    def link_totals(self) -> Generator[None, None, dict[str, dict[str, LinkTotals]]]:
        raise NotImplementedError
        yield

    async def create(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        self.held[topic] = FakeTopic()

    async def create_partitioned(self, topic: TopicName, partitions: int, properties: Mapping[str, str]) -> None:
        if self.partitions_of(topic) is not None:
            raise topic_exists()
        metadata = PartitionedTopicMetadata(partitions=partitions, properties=dict(properties) or None)
        self._resources.partitioned_topics.create(topic, metadata)
        self.held |= {topic.partition(index): FakeTopic() for index in range(partitions)}

    async def update_properties(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        added = {"properties": dict(properties)}
        self._resources.partitioned_topics.update(topic, lambda stored: stored.model_copy(update=added))

    async def update_partitioned(self, topic: TopicName, partitions: int) -> None:
        changed = {"partitions": partitions}
        self._resources.partitioned_topics.update(topic, lambda stored: stored.model_copy(update=changed))
        for index in range(partitions):
            self.held.setdefault(topic.partition(index), FakeTopic())

    async def delete(self, topic: TopicName, *, force: bool) -> None:
        if self.of(topic).producers and not force:
            raise topic_in_use()
        del self.held[topic]

    async def delete_partitioned(self, topic: TopicName, *, force: bool) -> None:
        for index in range(self.partitions_of(topic) or 0):
            del self.held[topic.partition(index)]
        self._resources.partitioned_topics.delete(topic)

    async def unload(self, topic: TopicName) -> None:
        self.of(topic).unloads += 1

    async def skip_entries(self, topic: TopicName, cluster: str, through: Position) -> None:
        self.of(topic).skipped.append((cluster, through))

    async def begin_snapshot(self, topic: TopicName, without: Collection[str]) -> None:
        self.of(topic).snapshots.append(sorted(without))

    async def stats(self, topic: TopicName, options: StatsOptions) -> TopicStats:
        return self._stats(self.of(topic))

    async def internal_stats(self, topic: TopicName) -> PersistentTopicInternalStats:
        found = self.of(topic)
        cursors = {
            name: CursorStats(mark_delete_position=each.position, read_position=Position(3, each.position.entry_id + 1))
            for name, each in found.subscriptions.items()
        }
        last = Position(3, len(found.entries) - 1)
        return PersistentTopicInternalStats(
            number_of_entries=len(found.entries),
            last_confirmed_entry=last,
            current_ledger_entries=len(found.entries),
            ledgers=[LedgerInfo(ledger_id=3, entries=len(found.entries))],
            cursors=cursors,
        )

    async def protection(self, topic: TopicName) -> Mapping[str, SubscriptionProtection]:
        reasons = ["B: the progress link is down"]
        since = "2026-01-02T03:04:05.000Z"
        cluster = ClusterProtection(status="at risk", since=since, reasons=reasons, unreplicated_messages=7)
        return {
            name: SubscriptionProtection(
                status="at risk", since=since, since_at_least=True, reasons=reasons, clusters={"B": cluster}
            )
            for name in self.of(topic).subscriptions
        }

    def is_loaded(self, topic: TopicName) -> bool:
        return topic in self.held

    def open_names(self) -> list[TopicName]:
        return list(self.held)

    def open_stats(self, topic: TopicName, options: StatsOptions) -> Generator[None, None, TopicStats | None]:
        yield
        stats = self._stats(self.held[topic]) if topic in self.held else None
        if stats is not None and not options.exclude_publishers:
            stats.publishers = [
                PublisherStats(producer_name="p", producer_id=3, msg_rate_in=2.0, average_msg_size=10.0)
            ]
        if stats is not None and not options.exclude_consumers:
            for each in stats.subscriptions.values():
                each.consumers = [ConsumerStats(consumer_name="c", consumer_id=7, msg_rate_out=1.5, unacked_messages=6)]
        return stats

    async def read_entry(self, topic: TopicName, position: Position) -> bytes:
        entries = self.of(topic).entries
        if position.ledger_id != 3 or position.entry_id >= len(entries):
            raise message_id_not_found()
        return entries[position.entry_id]

    async def last_message_id(self, topic: TopicName) -> MessageId:
        return MessageId.of(Position(3, len(self.of(topic).entries) - 1), topic)

    async def message_id_by_time(self, topic: TopicName, timestamp_ms: int) -> MessageId:
        return MessageId.of(Position(3, timestamp_ms), topic)

    def of(self, topic: TopicName) -> FakeTopic:
        if topic not in self.held:
            raise topic_not_found(topic)
        return self.held[topic]

    def _stats(self, topic: FakeTopic) -> TopicStats:
        subscriptions = {
            name: SubscriptionStats(
                msg_backlog=len(topic.entries) - 1 - each.position.entry_id,
                message_ack_rate=1.25,
                last_acked_timestamp=1_700_000_000_000,
                last_consumed_timestamp=1_700_000_000_000,
                last_consumed_flow_timestamp=1_700_000_000_000,
                last_mark_delete_advanced_timestamp=1_700_000_000_000,
                is_replicated=each.replicated,
                is_blocked_on_ack_state_persistent=True,
                non_contiguous_deleted_messages_ranges=12,
                ack_state_used=1.2,
                unpersisted_acks=4,
                oldest_holes=[AckHole(entries="(3:4..3:6]", consumers=["slow"])],
                progress_age_seconds={"B": 1.5, "C": None} if each.replicated else None,
                progress_unconfirmed={"B": 8, "C": None} if each.replicated else None,
                progress_lost={"B": 6, "C": None} if each.replicated else None,
                progress_unavailable={"apache": "because"} if each.replicated else None,
            )
            for name, each in topic.subscriptions.items()
        }
        log = LedgerStatistics()
        log.written([100, 5000], 0.0125)
        log.refresh(0, 0)
        log.cache_hits, log.cache_misses = 30, 10
        log.refresh(10, 20)
        log.written([100, 5000], 0.0125)
        log.refresh(10, 20)
        return TopicStats(
            log=log,
            msg_in_counter=len(topic.entries),
            bytes_out_counter=70,
            msg_rate_in=2.0,
            msg_throughput_in=20.0,
            at_risk_messages=12,
            withheld_receipts=5,
            publishing_throttled="12 are",
            replicated_subscription_snapshots=SnapshotStats(pending=1),
            deduplicated_entries=4,
            deduplication_producers=9,
            subscriptions=subscriptions,
            replication={"B": ReplicatorStats(msg_rate_in=0.5, replication_backlog=7, connected=True, handovers=3)},
            owner_broker="127.0.0.1:18080",
        )


class FakeNonPersistentOperations(FakeTopicOperations):
    def each_partitioned(self, namespace: NamespaceName) -> Iterator[TopicName]:
        return self._resources.partitioned_topics.of_namespace(namespace, NON_PERSISTENT)

    def subscriptions(self, topic: TopicName) -> list[str]:
        return sorted(self.of(topic).subscriptions)

    def delete_subscription(self, topic: TopicName, subscription: str) -> None:
        if self.of(topic).subscriptions.pop(subscription, None) is None:
            raise subscription_not_found(topic, subscription)


class FakeSubscriptionOperations:
    def __init__(self, topics: FakeTopicOperations) -> None:
        self._topics = topics

    async def names(self, topic: TopicName) -> list[str]:
        return list(self._topics.of(topic).subscriptions)

    async def create(
        self,
        topic: TopicName,
        subscription: str,
        position: Position,
        *,
        replicated: bool,
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> None:
        subscriptions = self._topics.of(topic).subscriptions
        if subscription in subscriptions:
            raise subscription_exists()
        subscriptions[subscription] = FakeSubscription(position, replicated, properties=dict(properties))

    async def delete(self, topic: TopicName, subscription: str, *, force: bool) -> None:
        if self._subscription(topic, subscription).consumers and not force:
            raise subscription_in_use()
        del self._topics.of(topic).subscriptions[subscription]

    async def skip(self, topic: TopicName, subscription: str, count: int) -> None:
        found = self._subscription(topic, subscription)
        found.position = Position(3, found.position.entry_id + count)

    async def skip_all(self, topic: TopicName, subscription: str) -> None:
        self._subscription(topic, subscription).position = Position(3, len(self._topics.of(topic).entries) - 1)

    async def reset_to_time(self, topic: TopicName, subscription: str, timestamp_ms: int) -> None:
        self._subscription(topic, subscription).position = Position(3, timestamp_ms)

    async def reset(
        self, topic: TopicName, subscription: str, position: Position, *, is_excluded: bool, batch_index: int = -1
    ) -> None:
        assert batch_index == -1
        entry_id = position.entry_id if is_excluded else position.entry_id - 1
        self._subscription(topic, subscription).position = Position(position.ledger_id, entry_id)

    async def expire(self, topic: TopicName, subscription: str, seconds: int) -> None:
        self._subscription(topic, subscription).position = Position(3, -seconds)

    async def expire_through(self, topic: TopicName, subscription: str, position: Position) -> None:
        self._subscription(topic, subscription).position = position

    async def properties(self, topic: TopicName, subscription: str) -> Mapping[str, str]:
        return self._subscription(topic, subscription).properties

    async def set_properties(self, topic: TopicName, subscription: str, properties: Mapping[str, str]) -> None:
        self._subscription(topic, subscription).properties = dict(properties)

    async def set_replicated(self, topic: TopicName, subscription: str, *, replicated: bool) -> None:
        self._subscription(topic, subscription).replicated = replicated

    async def is_replicated(self, topic: TopicName, subscription: str) -> bool:
        return self._subscription(topic, subscription).replicated

    async def acknowledgements(self, topic: TopicName, subscription: str, after: Position) -> AcknowledgementState:
        found = self._subscription(topic, subscription)
        return AcknowledgementState(mark_delete_position=max(found.position, after))

    async def peek(self, topic: TopicName, subscription: str, message: int) -> tuple[Position, bytes]:
        known = self._topics.of(topic).subscriptions.get(subscription)
        entry_id = (known.position.entry_id if known is not None else -1) + message
        entries = self._topics.of(topic).entries
        if entry_id >= len(entries):
            raise message_not_found()
        return Position(3, entry_id), entries[entry_id]

    def _subscription(self, topic: TopicName, subscription: str) -> FakeSubscription:
        found = self._topics.of(topic).subscriptions.get(subscription)
        if found is None:
            raise subscription_not_found(topic, subscription)
        return found


class FakeLogOperations:
    """Logs that are never trimmed."""

    def __init__(self, topics: FakeTopicOperations) -> None:
        self._topics = topics

    async def properties(self, topic: TopicName) -> Mapping[str, str]:
        return self._topics.of(topic).properties

    async def update_properties(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        self._topics.of(topic).properties |= properties

    async def remove_property(self, topic: TopicName, key: str) -> None:
        self._topics.of(topic).properties.pop(key, None)

    async def info(self, topic: TopicName) -> ManagedLedgerInfo:
        self._topics.of(topic)
        return ManagedLedgerInfo(version=1)

    async def examine(self, topic: TopicName, number: int, *, from_latest: bool) -> tuple[Position, bytes]:
        entries = self._topics.of(topic).entries
        if not entries:
            raise no_entries()
        index = len(entries) - number if from_latest else number - 1
        return Position(3, index), entries[index]

    async def location(self, topic: TopicName, cluster: str, position: Position) -> MessageLocation:
        found = self._topics.of(topic)
        local = found.locations.get((cluster, position))
        if local is None:
            return MessageLocation(state="notArrived")
        clusters = list(replicate_to(found.entries[local.entry_id]))
        return MessageLocation(state="present", position=local, replicate_to=clusters)

    async def origin(self, topic: TopicName, position: Position) -> MessageOrigin:
        for (cluster, origin), local in self._topics.of(topic).locations.items():
            if local == position:
                return MessageOrigin(state="present", cluster=cluster, position=origin)
        return MessageOrigin(state="absent")

    async def raise_ledger_ids(self) -> int:
        return 1_700_000_000_000

    async def producer_state(self, topic: TopicName) -> ProducerState:
        found = self._topics.of(topic)
        return ProducerState(topic_epoch=found.topic_epoch, sequence_ids=found.sequence_ids)

    async def add_producer_state(self, topic: TopicName, state: ProducerState) -> None:
        found = self._topics.of(topic)
        if state.sequence_ids:
            if found.sequence_ids is None:
                raise AdminError(HTTPStatus.PRECONDITION_FAILED, f"deduplication of {topic} is off")
            found.sequence_ids.update(state.sequence_ids)
        found.topic_epoch = state.topic_epoch

    async def former_cluster(self, topic: TopicName) -> FormerCluster | None:
        return self._topics.of(topic).former

    async def set_former_cluster(self, topic: TopicName, cluster: str) -> None:
        self._topics.of(topic).former = FormerCluster(cluster=cluster, ledgers_below=3)

    async def remove_former_cluster(self, topic: TopicName) -> None:
        self._topics.of(topic).former = None

    async def analyze(self, topic: TopicName, subscription: str, start: Position | None) -> AnalyzedBacklog:
        entries = len(self._topics.of(topic).entries)
        return AnalyzedBacklog(entries=entries)

    async def backlog_size(self, topic: TopicName, start: Position) -> int:
        return sum(map(len, self._topics.of(topic).entries[start.entry_id + 1 :]))

    async def trim(self, topic: TopicName) -> None:
        self._topics.of(topic)

    async def truncate(self, topic: TopicName) -> None:
        found = self._topics.of(topic)
        for each in found.subscriptions.values():
            each.position = Position(3, len(found.entries) - 1)

    async def terminate(self, topic: TopicName) -> MessageId:
        return MessageId.of(Position(3, len(self._topics.of(topic).entries) - 1), topic)


class FakeFenceOperations:
    """Fences without rules."""

    def __init__(self, topics: FakeTopicOperations) -> None:
        self._topics = topics

    async def get(self, topic: TopicName, *, digests: bool) -> FencedTopic:
        found = self._topics.of(topic)
        subscriptions = {
            name: FencedSubscription(
                unacknowledged_messages=0,
                unacknowledged_entries=len(found.entries),
                is_replicated=False,
                digest="00" if digests else None,
            )
            for name in found.subscriptions
        }
        last = Position(3, len(found.entries) - 1)
        return FencedTopic(last_position=last, fence=found.fence, subscriptions=subscriptions)

    async def set(self, topic: TopicName, wanted: WantedFence, *, digests: bool) -> FencedTopic:
        self._topics.of(topic).fence = SetFence(migration=wanted.migration, epoch=wanted.epoch, phase=wanted.phase)
        return await self.get(topic, digests=digests)

    async def remove(self, topic: TopicName, migration: str, epoch: int, *, is_decision: bool) -> None:
        del migration, epoch, is_decision
        self._topics.of(topic).fence = None


class FakeDynamicSettings:
    """Settings of which one can be changed."""

    names = ("allowAutoTopicCreation",)

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def values(self) -> Mapping[str, str]:
        return self._values

    async def set(self, name: str, value: str) -> None:
        self._values[name] = value

    async def remove(self, name: str) -> None:
        self._values.pop(name, None)


class FakeSchemaOperations:
    """The schemas of all topics, compared with the latest."""

    def __init__(self) -> None:
        self._stored: dict[TopicName, list[StoredSchema]] = {}

    async def versions(self, topic: TopicName) -> list[StoredSchema]:
        return self._stored.get(topic, [])

    async def register(self, topic: TopicName, schema: SchemaInfo) -> int:
        await self.check(topic, schema, SchemaCompatibilityStrategy.FULL)
        stored = self._stored.setdefault(topic, [])
        stored.append(StoredSchema(len(stored), schema, 1_700_000_000_000))
        return len(stored) - 1

    async def check(self, topic: TopicName, schema: SchemaInfo, strategy: SchemaCompatibilityStrategy) -> None:
        latest = self._stored.get(topic, [])[-1:]
        check([parse(each.info) for each in latest], parse(schema), strategy)

    async def delete(self, topic: TopicName, *, force: bool) -> int | None:
        deleted = self._stored.pop(topic, [])
        return None if force else len(deleted)


class FakeStrandedOperations:
    def __init__(self) -> None:
        self.topics: dict[str, StrandedTopic] = {}

    def all(self) -> Generator[None, None, Mapping[str, StrandedTopic]]:
        yield
        return self.topics

    async def delete(self, topic: TopicName) -> None:
        if self.topics.pop(str(topic), None) is None:
            raise topic_not_found(topic)


class FakeAdminService:
    """An AdminService with ledger 3 only."""

    cluster_name = "A"
    metadata_sync: MetadataSync | None = None
    addresses = Addresses(
        ClusterData(serviceUrl="http://127.0.0.1:18080", brokerServiceUrl="pulsar://127.0.0.1:16650"),
        {"external": ClusterData(brokerServiceUrl="pulsar://broker.example:6650")},
    )
    admin_url = "http://127.0.0.1:18080"
    version = "4.0.7"
    name_length_max = NAME_LENGTH_MAX

    def __init__(self, resources: Resources) -> None:
        self.tls: Callable[[], TlsState | None] = lambda: None
        self.risks: Sequence[Finding] = ()
        self.metrics_options = MetricsOptions()
        self.resources = resources
        self.topics = FakeTopicOperations(resources)
        self.non_persistent = FakeNonPersistentOperations(resources)
        self.subscriptions = FakeSubscriptionOperations(self.topics)
        self.logs = FakeLogOperations(self.topics)
        self.fences: FenceOperations = FakeFenceOperations(self.topics)
        self.dynamic = FakeDynamicSettings()
        self.schemas = FakeSchemaOperations()
        self.stranded = FakeStrandedOperations()
        self.healthy = True
        self.unloadable: dict[TopicName, str] = {}
        self.hits = LimitHits()
        self.bodies = Share(8 << 20)

    async def in_slices(self, steps: Generator[None, None, Result]) -> Result:
        return at_once(steps)

    def runtime_configuration(self) -> dict[str, str]:
        return {
            "clusterName": self.cluster_name,
            "allowAutoTopicCreationType": "non-partitioned",
            "defaultNumPartitions": "1",
            "enableNonPersistentTopics": "true",
            "enablePersistentTopics": "true",
            "maxMessageSize": "5242880",
        }

    def load_failures(self) -> Mapping[TopicName, str]:
        return self.unloadable

    def connections(self) -> Mapping[str, int]:
        return {
            "active_connections": 2,
            "connection_created_total_count": 5,
            "connection_create_success_count": 4,
            "connection_create_fail_count": 1,
            "connection_closed_total_count": 3,
        }

    def limit_hits(self) -> Mapping[str, int]:
        return self.hits.counts()

    def limit_hit(self, limit: Limit) -> None:
        self.hits.hit(limit)

    def memory(self) -> dict[str, tuple[int, int]]:
        return {"total": (70, 1000), "publishes": (3, 60), "caches": (9, 80)}

    def storage_refuses(self) -> tuple[bool, bool]:
        return not self.healthy, False

    def durations(self) -> Durations:
        writes = RecentDurations()
        for eighths in range(100):
            writes.observe(eighths / 8)
        snapshots = SnapshotCounts()
        snapshots.completed, snapshots.timed_out, snapshots.took_s = 3, 2, 0.045
        return Durations(histogram(0.02, 0.08, 1.4), histogram(0.003), writes, histogram(0.3), snapshots)

    def totals(self) -> Totals:
        clients = AuthenticationTotals({"token": 7}, {("token", AuthenticationFailure.EXPIRED): 2})
        audit = AuditTotals({"allowed": 3, "denied": 9}, suppressed=4, lost=1, is_failing=True)
        return Totals({FLIGHTS: 8}, {(FLIGHTS, "B"): 6}, clients, audit)

    async def health(self) -> None:
        if not self.healthy:
            message = "the log cannot be written: no space left"
            raise StorageError(message)


@lru_cache(maxsize=16)
def _app(service: FakeAdminService) -> Starlette:
    """Return the application of a service, which takes some 20 ms to build."""
    return build_app(service, service.resources)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop of all applications, which have objects that wait in one loop. It runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="fake-services", daemon=True).start()
    return loop


class AppTransport(httpx.BaseTransport):
    """A transport that passes requests to an ASGI application without a network."""

    def __init__(self, service: FakeAdminService) -> None:
        self._application = httpx.ASGITransport(_app(service), raise_app_exceptions=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return asyncio.run_coroutine_threadsafe(self._call(request), _loop()).result()

    async def _call(self, request: httpx.Request) -> httpx.Response:
        forwarded = httpx.Request(request.method, request.url, headers=request.headers, content=request.read())
        answer = await self._application.handle_async_request(forwarded)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())


def new_service() -> FakeAdminService:
    """Return cluster A with the namespace nyc/flights, replicated with B, as in the recorded conversation."""
    resources = Resources.over(MemoryMetadataStore(SystemClock()))
    urls = {"serviceUrl": "http://127.0.0.1:18080", "brokerServiceUrl": "pulsar://127.0.0.1:16650"}
    for name in ("A", "B"):
        resources.clusters.create(name, ClusterData.model_validate(urls))
    resources.tenants.create("nyc", TenantInfo(allowedClusters=["A", "B"]))
    resources.namespaces.create(FLIGHTS, Policies(replication_clusters=["A", "B"]))
    return FakeAdminService(resources)
