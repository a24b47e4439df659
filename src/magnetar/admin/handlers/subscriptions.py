"""``/admin/v2/persistent/…/subscription``: subscriptions and their cursors."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Literal

from pydantic import TypeAdapter

from magnetar.admin.exchange import AdminRoute, Context, body, flag, path_text, query_text, route, unless_deleted
from magnetar.admin.messages import entry_response
from magnetar.admin.models.acknowledgements import AcknowledgementState
from magnetar.admin.models.positions import MESSAGE_ID, MessageIdData
from magnetar.admin.openapi.description import ENTRY
from magnetar.admin.topic_service import message_not_found
from magnetar.base.errors import AdminError
from magnetar.base.position import EARLIEST, LATEST, LONG_MAX, Position

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from magnetar.base.names import TopicName


_Place = Literal["earliest", "latest"] | MessageIdData
_START: TypeAdapter[_Place | None] = TypeAdapter(_Place | None)
_PROPERTIES: TypeAdapter[dict[str, str] | None] = TypeAdapter(dict[str, str] | None)
_REPLICATED: TypeAdapter[bool] = TypeAdapter(bool)


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for subscriptions."""
    handlers = _Subscriptions(context)
    topic = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
    one = f"{topic}/subscription/{{subscription}}"
    return [
        route("GET", f"{topic}/subscriptions", handlers.names, gives=list[str]),
        route("PUT", one, handlers.create, takes=_START, query=["replicated"], refuses=[405]),
        route("DELETE", one, handlers.delete, query=["force"]),
        route("POST", f"{one}/skip/{{count:int}}", handlers.skip, refuses=[405]),
        route("POST", f"{one}/skip_all", handlers.skip_all),
        route("POST", f"{one}/resetcursor", handlers.reset_to_position, takes=MESSAGE_ID, refuses=[405]),
        route("POST", f"{one}/resetcursor/{{timestamp:int}}", handlers.reset_to_time),
        route("POST", f"{one}/expireMessages/{{seconds:int}}", handlers.expire),
        route("POST", f"{one}/expireMessages", handlers.expire_through, takes=MESSAGE_ID, refuses=[405]),
        route(
            "GET",
            f"{one}/acknowledgements",
            handlers.acknowledgements,
            query=["after"],
            gives=AcknowledgementState,
            refuses=[405],
        ),
        route("GET", f"{one}/properties", handlers.properties, gives=dict[str, str]),
        route("PUT", f"{one}/properties", handlers.set_properties, takes=_PROPERTIES),
        route("POST", f"{topic}/all_subscription/expireMessages/{{seconds:int}}", handlers.expire_all),
        route("GET", f"{one}/replicatedSubscriptionStatus", handlers.replicated, gives=dict[str, bool]),
        route("POST", f"{one}/replicatedSubscriptionStatus", handlers.set_replicated, takes=_REPLICATED, refuses=[405]),
        route("GET", f"{one}/position/{{message:int}}", handlers.peek, gives=ENTRY, refuses=[405]),
        route(
            "GET", f"{topic}/ledger/{{ledger:int}}/entry/{{entry:int}}", handlers.read_entry, gives=ENTRY, refuses=[405]
        ),
    ]


class _Subscriptions:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._service = context.service

    async def names(self, request: Request) -> list[str]:
        found: dict[str, None] = {}
        async for part in self._parts(request):
            found |= dict.fromkeys(await self._service.subscriptions.names(part))
        return list(found)

    async def create(self, request: Request) -> None:
        start = await body(request, _START)
        properties: dict[str, str] = {}
        match start:
            case "earliest":
                position = EARLIEST
            case MessageIdData():
                position, properties = start.position, start.properties or {}
            case _:
                position = LATEST
        replicated, name, create = flag(request, "replicated"), _name(request), self._service.subscriptions.create
        await self._each(
            self._context.in_turn(self._context.parts(await self._existing_or_new(request))),
            lambda part: create(part, name, position, replicated=replicated, properties=properties),
            HTTPStatus.CONFLICT,
            some_suffice=True,
        )

    async def delete(self, request: Request) -> None:
        name, force = _name(request), flag(request, "force")
        await self._each(self._parts(request), lambda part: self._service.subscriptions.delete(part, name, force=force))

    async def skip(self, request: Request) -> None:
        topic = self._context.single(request, "Skip messages on a partitioned topic is not allowed")
        await self._service.subscriptions.skip(topic, _name(request), request.path_params["count"])

    async def skip_all(self, request: Request) -> None:
        name = _name(request)
        await self._each(self._parts(request), lambda part: self._service.subscriptions.skip_all(part, name))

    async def reset_to_position(self, request: Request) -> None:
        data = await body(request, MESSAGE_ID)
        topic = self._context.single(request, "Reset-cursor at position is not allowed for partitioned-topic")
        await self._service.subscriptions.reset(
            topic, _name(request), data.position, is_excluded=data.isExcluded, batch_index=data.batchIndex
        )

    async def reset_to_time(self, request: Request) -> None:
        name, timestamp_ms = _name(request), request.path_params["timestamp"]
        reset = self._service.subscriptions.reset_to_time
        await self._each(self._parts(request), lambda part: reset(part, name, timestamp_ms), some_suffice=True)

    async def expire(self, request: Request) -> None:
        name, seconds = _name(request), request.path_params["seconds"]
        await self._each(self._parts(request), lambda part: self._service.subscriptions.expire(part, name, seconds))

    async def expire_all(self, request: Request) -> None:
        async for part in self._parts(request):
            for subscription in await self._service.subscriptions.names(part):
                with unless_deleted():
                    await self._service.subscriptions.expire(part, subscription, request.path_params["seconds"])

    async def expire_through(self, request: Request) -> None:
        data = await body(request, MESSAGE_ID)
        topic = self._context.single(request, "Expire message at position is not supported for partitioned-topic")
        await self._service.subscriptions.expire_through(topic, _name(request), data.position)

    async def acknowledgements(self, request: Request) -> Response:
        topic = self._context.single(request, "Acknowledgements of a partitioned topic are those of its partitions")
        text = query_text(request, "after")
        try:
            after = EARLIEST if text is None else Position.parse(text)
        except ValueError as error:
            raise AdminError(HTTPStatus.BAD_REQUEST, f"after: {error}") from None
        return await self._context.answer(
            await self._service.subscriptions.acknowledgements(topic, _name(request), after)
        )

    async def properties(self, request: Request) -> dict[str, str]:
        found: dict[str, str] = {}
        async for part in self._parts(request):
            found |= await self._service.subscriptions.properties(part, _name(request))
        return found

    async def set_properties(self, request: Request) -> None:
        properties = await body(request, _PROPERTIES) or {}
        name = _name(request)
        await self._each(
            self._parts(request), lambda part: self._service.subscriptions.set_properties(part, name, properties)
        )

    async def replicated(self, request: Request) -> dict[str, bool]:
        name = _name(request)
        return {
            str(part): await self._service.subscriptions.is_replicated(part, name)
            async for part in self._parts(request)
        }

    async def set_replicated(self, request: Request) -> None:
        replicated = await body(request, _REPLICATED)
        name, set_replicated = _name(request), self._service.subscriptions.set_replicated
        await self._each(self._parts(request), lambda part: set_replicated(part, name, replicated=replicated))

    async def peek(self, request: Request) -> Response:
        topic = self._context.single(request, "Peek messages on a partitioned topic is not allowed")
        message = request.path_params["message"]
        if message < 1:
            raise AdminError(HTTPStatus.BAD_REQUEST, "Message position must be at least 1")
        position, entry = await self._service.subscriptions.peek(topic, _name(request), message)
        return entry_response(position, entry)

    async def read_entry(self, request: Request) -> Response:
        topic = self._context.single(request, "GetMessageById is not allowed on partitioned-topic")
        position = Position(request.path_params["ledger"], request.path_params["entry"])
        if max(position) > LONG_MAX:
            raise message_not_found()
        return entry_response(position, await self._service.topics.read_entry(topic, position))

    async def _each(
        self,
        parts: AsyncIterator[TopicName],
        work: Callable[[TopicName], Awaitable[None]],
        refused: HTTPStatus = HTTPStatus.NOT_FOUND,
        *,
        some_suffice: bool = False,
    ) -> None:
        """Do ``work`` for each partition, also if some have no subscription, or have it already, as in Pulsar.

        The work for these is refused with the status ``refused``. That is the answer, with ``some_suffice`` only if
        the work was done for no partition.
        """
        refusal: AdminError | None = None
        is_done = False
        async for part in parts:
            try:
                await work(part)
                is_done = True
            except AdminError as error:
                if error.status is not refused:
                    raise
                refusal = error
        if refusal is not None and not (is_done and some_suffice):
            raise refusal

    async def _existing_or_new(self, request: Request) -> TopicName:
        """Return the topic in a path; a missing one is created with the subscription if clients may create it."""
        topic = self._context.topic(request)
        if self._context.topics.partitions_of(topic) is None:
            await self._context.topics.partitions_for_client(topic)
        return topic

    def _parts(self, request: Request) -> AsyncIterator[TopicName]:
        return self._context.in_turn(self._context.parts(self._context.existing(request)))


def _name(request: Request) -> str:
    return path_text(request, "subscription")
