"""``/admin/v2/persistent``: the logs and properties of topics."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter
from starlette.responses import Response

from magnetar.admin.exchange import AdminRoute, Context, body, number, path_text, query_text, route
from magnetar.admin.messages import entry_response
from magnetar.admin.models.logs import (
    AnalyzedBacklog,
    FormerCluster,
    MessageLocation,
    MessageOrigin,
    ProducerState,
)
from magnetar.admin.models.positions import MESSAGE_ID, OPTIONAL_MESSAGE_ID
from magnetar.admin.models.topics import MessageId
from magnetar.admin.openapi.description import EMPTY, ENTRY, Raw
from magnetar.admin.topic_service import message_not_found
from magnetar.base.errors import AdminError
from magnetar.base.position import LONG_MAX, Position
from magnetar.metadata.policy.document import Document

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request

    from magnetar.base.names import TopicName
    from magnetar.metadata.policies import PartitionedTopicMetadata


class NewProducerState(Document):
    """What the producers of a topic continue that come from another cluster."""

    model_config = ConfigDict(extra="forbid")

    topicEpoch: Annotated[int, Field(ge=0, le=LONG_MAX)] | None = None  # noqa: N815 - the name in JSON
    sequenceIds: dict[str, Annotated[int, Field(ge=-LONG_MAX - 1, le=LONG_MAX)]] = Field(default_factory=dict)  # noqa: N815 - the name in JSON


_PRODUCER_STATE: TypeAdapter[NewProducerState] = TypeAdapter(NewProducerState)
_PROPERTIES: TypeAdapter[dict[str, str] | None] = TypeAdapter(dict[str, str] | None)

_PROPERTIES_SHOWN = Raw("The properties as a JSON object; nothing for a partitioned topic without properties", "")

_NOT_PARTITIONED = "Each partition of a partitioned topic has positions of its own: name a partition"

_NOT_OFFLOADED = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1, "batchIndex": -1, "batchSize": 0}


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for the logs of topics."""
    handlers = _Logs(context)
    one = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
    return [
        route("GET", f"{one}/properties", handlers.properties, gives=_PROPERTIES_SHOWN),
        route("PUT", f"{one}/properties", handlers.update_properties, takes=_PROPERTIES),
        route("DELETE", f"{one}/properties", handlers.remove_property, query=["key"]),
        route("GET", f"{one}/internal-info", handlers.info, gives=dict[str, Any]),
        route(
            "GET",
            f"{one}/examinemessage",
            handlers.examine,
            query=["initialPosition", "messagePosition"],
            gives=ENTRY,
            refuses=[405],
        ),
        route(
            "GET",
            f"{one}/ledger/{{ledger:int}}/entry/{{entry:int}}/origin",
            handlers.origin,
            gives=MessageOrigin,
            refuses=[405],
        ),
        route(
            "GET",
            f"{one}/origin/{{cluster}}/ledger/{{ledger:int}}/entry/{{entry:int}}",
            handlers.location,
            gives=MessageLocation,
            refuses=[405],
        ),
        route("GET", f"{one}/producerState", handlers.producer_state, gives=ProducerState, refuses=[405]),
        route("PUT", f"{one}/producerState", handlers.add_producer_state, takes=_PRODUCER_STATE, refuses=[405]),
        route("GET", f"{one}/formerCluster", handlers.former_cluster, gives=FormerCluster | None, refuses=[405]),
        route("PUT", f"{one}/formerCluster/{{cluster}}", handlers.set_former_cluster, refuses=[405]),
        route("DELETE", f"{one}/formerCluster", handlers.remove_former_cluster, refuses=[405]),
        route(
            "POST",
            f"{one}/subscription/{{subscription}}/analyzeBacklog",
            handlers.analyze,
            takes=OPTIONAL_MESSAGE_ID,
            gives=AnalyzedBacklog,
            refuses=[405],
        ),
        route("PUT", f"{one}/backlogSize", handlers.backlog_size, takes=MESSAGE_ID, gives=int, refuses=[405]),
        route("POST", f"{one}/trim", handlers.trim, gives=EMPTY),
        route("DELETE", f"{one}/truncate", handlers.truncate),
        route("POST", f"{one}/terminate", handlers.terminate, gives=MessageId, refuses=[405]),
        route(
            "POST",
            f"{one}/terminate/partitions",
            handlers.terminate_partitions,
            gives=dict[str, MessageId],
            refuses=[405],
        ),
        route("GET", f"{one}/offload", handlers.offload_status, gives=dict[str, Any]),
        route("GET", f"{one}/compaction", handlers.compaction_status, gives=dict[str, str]),
    ]


class _Logs:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._logs = context.service.logs

    async def properties(self, request: Request) -> Mapping[str, str] | Response:
        topic = self._context.existing(request)
        stored = self._context.resources.partitioned_topics.get(topic)
        if stored is None:
            return await self._logs.properties(topic)
        return Response(status_code=HTTPStatus.OK) if stored.properties is None else stored.properties

    async def update_properties(self, request: Request) -> None:
        topic = self._context.existing(request)
        added = await body(request, _PROPERTIES) or {}
        if self._context.resources.partitioned_topics.exists(topic):
            await self._context.service.topics.update_properties(topic, added)
        else:
            await self._logs.update_properties(topic, added)

    async def remove_property(self, request: Request) -> None:
        topic, key = self._context.existing(request), query_text(request, "key") or ""
        partitioned = self._context.resources.partitioned_topics
        if partitioned.exists(topic):
            await partitioned.update(topic, lambda stored: _without(stored, key))
        else:
            await self._logs.remove_property(topic, key)

    async def info(self, request: Request) -> Response:
        topic = self._context.existing(request)
        if not self._context.resources.partitioned_topics.exists(topic):
            return await self._context.answer(await self._logs.info(topic))
        partitions = {str(part): await self._logs.info(part) async for part in self._parts(topic)}
        return await self._context.answer({"version": 0, "partitions": partitions})

    async def examine(self, request: Request) -> Response:
        topic = self._context.single(
            request,
            "Examine messages on a partitioned topic is not allowed, please try examine message on specific topic "
            "partition",
        )
        position = max(number(request, "messagePosition") or 1, 1)
        from_latest = query_text(request, "initialPosition") != "earliest"
        return entry_response(*await self._logs.examine(topic, position, from_latest=from_latest))

    async def origin(self, request: Request) -> MessageOrigin:
        topic = self._context.single(request, _NOT_PARTITIONED)
        return await self._logs.origin(topic, _position(request))

    async def location(self, request: Request) -> MessageLocation:
        topic = self._context.single(request, _NOT_PARTITIONED)
        return await self._logs.location(topic, path_text(request, "cluster"), _position(request))

    async def producer_state(self, request: Request) -> Response:
        found = await self._logs.producer_state(self._context.single(request, _NOT_PARTITIONED))
        return await self._context.answer(found)

    async def add_producer_state(self, request: Request) -> None:
        topic, new = self._context.single(request, _NOT_PARTITIONED), await body(request, _PRODUCER_STATE)
        state = ProducerState(topic_epoch=new.topicEpoch, sequence_ids=new.sequenceIds)
        await self._logs.add_producer_state(topic, state)

    async def former_cluster(self, request: Request) -> FormerCluster | None:
        return await self._logs.former_cluster(self._context.single(request, _NOT_PARTITIONED))

    async def set_former_cluster(self, request: Request) -> None:
        topic = self._context.single(request, _NOT_PARTITIONED)
        await self._logs.set_former_cluster(topic, path_text(request, "cluster"))

    async def remove_former_cluster(self, request: Request) -> None:
        await self._logs.remove_former_cluster(self._context.single(request, _NOT_PARTITIONED))

    async def analyze(self, request: Request) -> AnalyzedBacklog:
        start = await body(request, OPTIONAL_MESSAGE_ID)
        topic = self._context.single(
            request,
            "Analyze backlog on a partitioned topic is not allowed, please try do it on specific topic partition",
        )
        position = None if start is None else start.position
        return await self._logs.analyze(topic, path_text(request, "subscription"), position)

    async def backlog_size(self, request: Request) -> int:
        start = await body(request, MESSAGE_ID)
        topic = self._context.single(request, "calculate backlog size is not allowed for partitioned-topic")
        return await self._logs.backlog_size(topic, start.position)

    async def trim(self, request: Request) -> Response:
        async for part in self._parts(self._context.existing(request)):
            await self._logs.trim(part)
        return Response(status_code=HTTPStatus.OK)

    async def truncate(self, request: Request) -> None:
        async for part in self._parts(self._context.existing(request)):
            await self._logs.truncate(part)

    async def terminate(self, request: Request) -> MessageId:
        topic = self._context.single(request, "Termination of a partitioned topic is not allowed")
        return await self._logs.terminate(topic)

    async def terminate_partitions(self, request: Request) -> dict[str, Any]:
        topic = self._context.topic(request)
        if not self._context.service.topics.partitions_of(topic):
            message = (
                "Termination of a non-partitioned topic is not allowed using partitioned-terminate, please use "
                "terminate commands"
            )
            raise AdminError(HTTPStatus.METHOD_NOT_ALLOWED, message)
        last: dict[str, Any] = {}
        async for part in self._parts(topic):
            last[str(part.partition_index)] = (await self._logs.terminate(part)).to_json()
        return last

    def offload_status(self, request: Request) -> dict[str, Any]:
        self._context.unpartitioned(request)
        return {"status": "NOT_RUN", "lastError": "", "firstUnoffloadedMessage": _NOT_OFFLOADED}

    def compaction_status(self, request: Request) -> dict[str, Any]:
        self._context.unpartitioned(request)
        return {"status": "NOT_RUN", "lastError": ""}

    def _parts(self, topic: TopicName) -> AsyncIterator[TopicName]:
        return self._context.in_turn(self._context.parts(topic))


def _position(request: Request) -> Position:
    """Return the position in a path; refuses one beyond 64 bits with 404."""
    position = Position(request.path_params["ledger"], request.path_params["entry"])
    if max(position) > LONG_MAX:
        raise message_not_found()
    return position


def _without(stored: PartitionedTopicMetadata, key: str) -> PartitionedTopicMetadata:
    left = {name: value for name, value in (stored.properties or {}).items() if name != key}
    return stored.model_copy(update={"properties": left})
