"""Magnetar's own: the metadata synchronizer (PIP-136)."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from starlette.responses import Response

from magnetar.admin.exchange import AdminRoute, Context, body, flag, large_answer, path_text, query_text, route
from magnetar.admin.models.metadata_sync import (
    HistoryEdit,
    LocalValue,
    MetadataSyncStatus,
    PreviewedChange,
    RefusedEvent,
    StrandedTopic,
    UndoneEdit,
    UnknownField,
)
from magnetar.base.errors import AdminError, InvalidTopicNameError
from magnetar.base.names import TopicName

if TYPE_CHECKING:
    from starlette.requests import Request

    from magnetar.admin.service import MetadataSync


IS_OFF = "the metadata synchronizer is off: set metadataSyncEventTopic in the configuration of the broker"
"""The reason of a refusal."""

_EVENT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])

_OFF = [HTTPStatus.PRECONDITION_FAILED]


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for the metadata synchronizer."""
    handlers = _MetadataSync(context)
    root = "/admin/v2/metadata-sync"
    return [
        route("GET", f"{root}/status", handlers.status, gives=MetadataSyncStatus, refuses=_OFF),
        route("GET", f"{root}/refused", handlers.refused, gives=list[RefusedEvent], refuses=_OFF),
        route("GET", f"{root}/unknown", handlers.unknown, gives=list[UnknownField], refuses=_OFF),
        route("GET", f"{root}/local", handlers.local, gives=list[LocalValue], refuses=_OFF),
        route("DELETE", f"{root}/local", handlers.remove_local, query=["resource", "field"], refuses=[400, 404, *_OFF]),
        route("GET", f"{root}/stranded", handlers.stranded, gives=dict[str, StrandedTopic]),
        route("DELETE", f"{root}/stranded/{{resource}}", handlers.delete_stranded),
        route("GET", f"{root}/snapshot", handlers.events, gives=dict[str, list[dict[str, Any]]], refuses=_OFF),
        route("POST", f"{root}/preview", handlers.preview, takes=_EVENT, gives=list[PreviewedChange], refuses=_OFF),
        route("POST", f"{root}/snapshot", handlers.snapshot, refuses=_OFF),
        route("GET", f"{root}/history/{{resource}}", handlers.history, gives=list[HistoryEdit], refuses=_OFF),
        route(
            "POST",
            f"{root}/history/{{resource}}/{{edit}}/undo",
            handlers.undo,
            query=["force"],
            gives=UndoneEdit,
            refuses=[HTTPStatus.CONFLICT, *_OFF],
        ),
    ]


class _MetadataSync:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._service = context.service

    async def status(self, _: Request) -> MetadataSyncStatus:
        return await self._service.in_slices(self._synchronizer.status())

    def refused(self, _: Request) -> list[dict[str, Any]]:
        return [event.to_json() for event in self._synchronizer.refused()]

    @large_answer
    async def local(self, _: Request) -> Response:
        return await self._context.answer(await self._synchronizer.local())

    @large_answer
    async def unknown(self, _: Request) -> Response:
        return await self._context.answer(await self._synchronizer.unknown())

    async def remove_local(self, request: Request) -> None:
        resource = query_text(request, "resource")
        if not resource:
            raise AdminError(HTTPStatus.BAD_REQUEST, "name a tenant, namespace or topic: resource=acme/orders")
        await self._synchronizer.remove_local(resource, query_text(request, "field") or "")

    async def snapshot(self, _: Request) -> None:
        await self._synchronizer.snapshot()

    @large_answer
    async def stranded(self, _: Request) -> Response:
        return await self._context.answer(await self._service.in_slices(self._service.stranded.all()))

    async def delete_stranded(self, request: Request) -> None:
        try:
            topic = TopicName.parse(path_text(request, "resource"))
        except InvalidTopicNameError as error:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, str(error)) from error
        await self._service.stranded.delete(topic)

    @large_answer
    async def events(self, _: Request) -> Response:
        events = await self._service.in_slices(self._synchronizer.events())
        return Response(b'{"events":[%b]}' % b",".join(events), media_type="application/json")

    async def preview(self, request: Request) -> list[dict[str, Any]]:
        event = await body(request, _EVENT)
        return [change.to_json() for change in self._synchronizer.preview(event)]

    @large_answer
    async def history(self, request: Request) -> Response:
        steps = self._synchronizer.history(path_text(request, "resource"))
        return await self._context.answer(await self._service.in_slices(steps))

    async def undo(self, request: Request) -> UndoneEdit:
        name, edit = path_text(request, "resource"), path_text(request, "edit")
        return await self._synchronizer.undo(name, None if edit == "newest" else edit, force=flag(request, "force"))

    @property
    def _synchronizer(self) -> MetadataSync:
        found = self._service.metadata_sync
        if found is None:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, IS_OFF)
        return found
