"""``/admin/v2/{domain}``: topics and partitioned topics."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from magnetar.admin.exchange import (
    AdminRoute,
    Context,
    body,
    entity_name,
    flag,
    large_answer,
    namespace_name,
    route,
    topic_name,
)
from magnetar.admin.handlers.last_edits import with_last_edit
from magnetar.admin.models.internal import PersistentTopicInternalStats
from magnetar.admin.models.positions import MESSAGE_ID
from magnetar.admin.models.topics import MessageId, NonPersistentTopicStats, TopicStats
from magnetar.admin.partitioned import PartitionedNonPersistentTopicStats, PartitionedTopicStats
from magnetar.admin.service import check_not_fewer, topic_exists
from magnetar.admin.topic_service import StatsOptions
from magnetar.base.errors import AdminError
from magnetar.base.limits import Limit
from magnetar.base.names import PERSISTENT
from magnetar.metadata.policies import PartitionedTopicMetadata
from magnetar.metasync.units import ResourceType
from magnetar.wire.transactions import COORDINATORS

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from starlette.requests import Request
    from starlette.responses import Response

    from magnetar.base.names import TopicName

_SHADOW_SOURCE = "PULSAR.SHADOW_SOURCE"
"""Property with which Pulsar's tools create a shadow topic."""

PARTITIONS_MAX = 10_000
"""Maximum number of partitions of a topic, since each has a log."""


_PROPERTIES: TypeAdapter[dict[str, str] | None] = TypeAdapter(dict[str, str] | None)
_CLUSTERS: TypeAdapter[list[str] | None] = TypeAdapter(list[str] | None)
_PARTITIONS: TypeAdapter[int] = TypeAdapter(int)
_PARTITIONED: TypeAdapter[int | PartitionedTopicMetadata] = TypeAdapter(int | PartitionedTopicMetadata)

_STATS = (
    "excludeConsumers",
    "excludePublishers",
    "getEarliestTimeInBacklog",
    "getPreciseBacklog",
    "subscriptionBacklogSize",
)
_InternalStats = dict[str, dict[str, Any]]


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for persistent topics."""
    handlers = _Topics(context)
    one = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
    return [
        *domain_routes(context),
        route("POST", f"{one}/replicatedSubscriptionSnapshot", handlers.begin_snapshot, takes=_CLUSTERS),
        route(
            "POST", f"{one}/replication/{{cluster}}/skipEntries", handlers.skip_entries, takes=MESSAGE_ID, refuses=[405]
        ),
        route("GET", f"{one}/lastMessageId", handlers.last_message_id, gives=MessageId),
        route("GET", f"{one}/messageid/{{timestamp:int}}", handlers.message_id_by_time, gives=MessageId, refuses=[405]),
    ]


def domain_routes(context: Context) -> list[AdminRoute]:
    """Handlers for topics of either domain."""
    handlers, is_persistent = _Topics(context), context.domain == PERSISTENT
    stats = TopicStats if is_persistent else NonPersistentTopicStats
    root = f"/admin/v2/{context.domain}/{{tenant}}/{{namespace}}"
    one = f"{root}/{{topic}}"
    return [
        route("GET", root, handlers.names, gives=list[str]),
        route("GET", f"{root}/partitioned", handlers.partitioned_names, gives=list[str]),
        route("PUT", one, handlers.create, takes=_PROPERTIES, refuses=[501]),
        route("DELETE", one, handlers.delete, query=["force"]),
        route("PUT", f"{one}/unload", handlers.unload),
        route("GET", f"{one}/stats", handlers.stats, query=_STATS, gives=stats),
        route("GET", f"{one}/internalStats", handlers.internal_stats, gives=PersistentTopicInternalStats),
        route(
            "GET",
            f"{one}/partitions",
            handlers.partitions,
            query=["checkAllowAutoCreation"],
            gives=PartitionedTopicMetadata,
        ),
        route("PUT", f"{one}/partitions", handlers.create_partitioned, takes=_PARTITIONED, refuses=[406]),
        route("POST", f"{one}/partitions", handlers.update_partitioned, takes=_PARTITIONS, refuses=[406, 422]),
        route("DELETE", f"{one}/partitions", handlers.delete_partitioned, query=["force"], refuses=[422]),
        route("POST", f"{one}/createMissedPartitions", handlers.create_missed_partitions, refuses=[406, 422]),
        route(
            "GET",
            f"{one}/partitioned-stats",
            handlers.partitioned_stats,
            query=(*_STATS, "perPartition"),
            gives=PartitionedTopicStats if is_persistent else PartitionedNonPersistentTopicStats,
        ),
        route("GET", f"{one}/partitioned-internalStats", handlers.partitioned_internal_stats, gives=_InternalStats),
    ]


class _Topics:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._service = context.service

    @large_answer
    async def names(self, request: Request) -> Response:
        namespace = namespace_name(request)
        self._context.policies(namespace)
        return await self._context.answer_names(self._context.topics.names(namespace))

    @large_answer
    async def partitioned_names(self, request: Request) -> Response:
        namespace = namespace_name(request)
        self._context.policies(namespace)
        return await self._context.answer_names(_sorted_texts(self._context.topics.each_partitioned(namespace)))

    async def create(self, request: Request) -> None:
        topic = self._context.topic(request)
        properties = await body(request, _PROPERTIES) or {}
        if _SHADOW_SOURCE in properties:
            raise AdminError(HTTPStatus.NOT_IMPLEMENTED, "Magnetar does not support shadow topics yet")
        whole = topic.partitioned_topic
        if topic != whole and topic.partition_index >= (self._context.topics.partitions_of(whole) or 0):
            raise AdminError(
                HTTPStatus.PRECONDITION_FAILED,
                f'Can\'t create topic "{topic}" with "-partition-" followed by a number if there isn\'t a partitioned '
                f'topic "{whole}" created.',
            )
        if self._context.topics.partitions_of(topic) is not None:
            raise topic_exists()
        await self._context.topics.create(topic, properties)

    async def begin_snapshot(self, request: Request) -> None:
        topic = self._context.topic(request)
        without = await body(request, _CLUSTERS)
        await self._service.topics.begin_snapshot(topic, without or [])

    async def skip_entries(self, request: Request) -> None:
        topic = self._context.single(request, "Name a partition of the topic")
        through = await body(request, MESSAGE_ID)
        await self._service.topics.skip_entries(topic, entity_name(request, "cluster"), through.position)

    async def delete(self, request: Request) -> None:
        topic = self._context.topic(request)
        if self._partitions(topic) > 0:
            raise AdminError(
                HTTPStatus.CONFLICT,
                f"{topic} is a partitioned topic, instead of calling delete topic, please call "
                "delete-partitioned-topic.",
            )
        await self._context.topics.delete(topic, force=flag(request, "force"))

    async def unload(self, request: Request) -> None:
        topic = self._context.existing(request)
        async for part in self._context.in_turn(self._context.parts(topic)):
            await self._context.topics.unload(part)

    @large_answer
    async def stats(self, request: Request) -> Response:
        topic = self._context.unpartitioned(request)
        return await self._context.answer(await self._context.topics.stats(topic, _stats_options(request)))

    @large_answer
    async def internal_stats(self, request: Request) -> Response:
        topic = self._context.unpartitioned(request)
        return await self._context.answer(await self._context.topics.internal_stats(topic))

    async def last_message_id(self, request: Request) -> MessageId:
        return await self._service.topics.last_message_id(self._context.unpartitioned(request))

    async def message_id_by_time(self, request: Request) -> MessageId:
        topic = self._context.single(
            request,
            "Get message ID by timestamp on a partitioned topic is not allowed, please try do it on specific topic "
            "partition",
        )
        return await self._service.topics.message_id_by_time(topic, request.path_params["timestamp"])

    async def partitions(self, request: Request) -> dict[str, Any]:
        if flag(request, "checkAllowAutoCreation"):
            return {"partitions": await self._partitions_for_client(request), "deleted": False}
        topic = self._context.existing(request)
        stored = self._context.resources.partitioned_topics.get(topic)
        if stored is None:
            return PartitionedTopicMetadata(partitions=self._partitions(topic)).to_json()
        return with_last_edit(self._context, ResourceType.TOPICS, topic, stored.to_json())

    async def _partitions_for_client(self, request: Request) -> int:
        if topic_name(request, self._context.domain) == COORDINATORS:
            return 0
        return await self._context.topics.partitions_for_client(self._context.topic(request))

    async def create_partitioned(self, request: Request) -> None:
        topic = self._context.topic(request)
        wanted = await body(request, _PARTITIONED)
        partitions = wanted if isinstance(wanted, int) else wanted.partitions
        properties = {} if isinstance(wanted, int) else wanted.properties or {}
        _check_partitions(partitions)
        if topic.partition_index >= 0:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, "Partitioned Topic Name should not contain '-partition-'")
        await self._context.topics.create_partitioned(topic, partitions, properties)

    async def update_partitioned(self, request: Request) -> None:
        topic = self._partitioned(request)
        wanted = await body(request, _PARTITIONS)
        _check_partitions(wanted)
        check_not_fewer(wanted, self._partitions(topic))
        await self._context.topics.update_partitioned(topic, wanted)

    async def create_missed_partitions(self, request: Request) -> None:
        topic = self._context.topic(request)
        partitions = self._partitions(topic)
        if not partitions:
            raise AdminError(HTTPStatus.NOT_FOUND, f"Topic {topic} does not exist")
        await self._context.topics.update_partitioned(topic, partitions)

    async def delete_partitioned(self, request: Request) -> None:
        topic = self._partitioned(request)
        clusters = self._context.policies(topic.namespace_name).replication_clusters
        remote = [cluster for cluster in clusters if cluster != self._service.cluster_name]
        if remote:
            raise AdminError(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"Delete forbidden topic is replicated on clusters [{', '.join(remote)}]",
            )
        await self._context.topics.delete_partitioned(topic, force=flag(request, "force"))

    @large_answer
    async def partitioned_stats(self, request: Request) -> Response:
        topic = self._partitioned(request)
        options, is_shown = _stats_options(request), flag(request, "perPartition", default=True)
        stats: dict[str, TopicStats] = {}
        async for part in self._context.in_turn(self._context.parts(topic)):
            stats[str(part)] = await self._context.topics.stats(part, options)
        is_persistent = self._context.domain == PERSISTENT
        totals = PartitionedTopicStats if is_persistent else PartitionedNonPersistentTopicStats
        total = await self._service.in_slices(totals.steps(list(stats.values())))
        return await self._context.answer({**total.members(), "partitions": stats if is_shown else {}})

    @large_answer
    async def partitioned_internal_stats(self, request: Request) -> Response:
        topic = self._partitioned(request)
        stats: dict[str, PersistentTopicInternalStats] = {}
        async for part in self._context.in_turn(self._context.parts(topic)):
            stats[str(part)] = await self._context.topics.internal_stats(part)
        metadata = {"partitions": len(stats), "deleted": False}
        return await self._context.answer({"metadata": metadata, "partitions": stats})

    def _partitioned(self, request: Request) -> TopicName:
        topic = self._context.topic(request)
        if self._partitions(topic) == 0:
            raise AdminError(HTTPStatus.NOT_FOUND, f"Partitioned Topic not found: {topic}")
        return topic

    def _partitions(self, topic: TopicName) -> int:
        return self._context.topics.partitions_of(topic) or 0


def _sorted_texts(topics: Iterable[TopicName]) -> Generator[None, None, list[str]]:
    texts: list[str] = []
    for topic in topics:
        texts.append(str(topic))
        yield
    return sorted(texts)


def _check_partitions(count: int) -> None:
    if count <= 0:
        raise AdminError(HTTPStatus.NOT_ACCEPTABLE, "Number of partitions should be more than 0")
    if count > PARTITIONS_MAX:
        message = f"Number of partitions should be less than or equal to {PARTITIONS_MAX}"
        raise AdminError(HTTPStatus.NOT_ACCEPTABLE, message, Limit.PARTITIONS)


def _stats_options(request: Request) -> StatsOptions:
    return StatsOptions(
        precise_backlog=flag(request, "getPreciseBacklog"),
        subscription_backlog_size=flag(request, "subscriptionBacklogSize", default=True),
        earliest_time_in_backlog=flag(request, "getEarliestTimeInBacklog"),
        exclude_publishers=flag(request, "excludePublishers"),
        exclude_consumers=flag(request, "excludeConsumers"),
    )
