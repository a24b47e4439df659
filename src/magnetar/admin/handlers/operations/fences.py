"""Magnetar's own: the migration fences of topics."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from magnetar.admin.exchange import AdminRoute, Context, body, flag, number, query_text, route
from magnetar.admin.fence_service import WantedFence
from magnetar.admin.models.acknowledgements import FencedTopic
from magnetar.base.errors import AdminError
from magnetar.metadata.policy.document import Document
from magnetar.metadata.routes.table import EPOCH_MAX

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from magnetar.base.names import TopicName

MIGRATION_LENGTH_MAX = 200
"""Maximum number of characters of the name of a migration."""

LEASE_S_MAX = 600
"""Maximum seconds of a lease: the time for which a migration that was lost keeps clients away."""

_NOT_PARTITIONED = "Each partition of a partitioned topic has a fence of its own: name a partition"


class NewFence(Document):
    """A migration fence to be set."""

    model_config = ConfigDict(extra="forbid")

    migration: Annotated[str, Field(min_length=1, max_length=MIGRATION_LENGTH_MAX)]
    epoch: Annotated[int, Field(ge=0, lt=EPOCH_MAX)]
    """Number of the attempt; a later one begins anew."""
    phase: Literal["settling", "closed", "final"]
    leaseSeconds: Annotated[float, Field(ge=1, le=LEASE_S_MAX)] = 30.0  # noqa: N815 - the name in JSON
    """Duration of the lease, after which clients go on; each request begins a new one. A final fence has none."""


_NEW: TypeAdapter[NewFence] = TypeAdapter(NewFence)


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for migration fences."""
    handlers = _Fences(context)
    one = "/admin/v2/persistent/{tenant}/{namespace}/{topic}/fence"
    return [
        route("GET", one, handlers.get, query=["digests"], gives=FencedTopic, refuses=[405]),
        route("PUT", one, handlers.set, takes=_NEW, query=["digests"], gives=FencedTopic, refuses=[405, 409]),
        route("DELETE", one, handlers.remove, query=["migration", "epoch", "final"], refuses=[400, 405, 409]),
    ]


class _Fences:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._fences = context.service.fences

    async def get(self, request: Request) -> Response:
        found = await self._fences.get(self._topic(request), digests=flag(request, "digests"))
        return await self._context.answer(found)

    async def set(self, request: Request) -> Response:
        topic, new = self._topic(request), await body(request, _NEW)
        wanted = WantedFence(new.migration, new.epoch, new.phase, new.leaseSeconds)
        found = await self._fences.set(topic, wanted, digests=flag(request, "digests"))
        return await self._context.answer(found)

    async def remove(self, request: Request) -> None:
        topic, migration, epoch = self._topic(request), query_text(request, "migration"), number(request, "epoch")
        if migration is None or epoch is None:
            raise AdminError(HTTPStatus.BAD_REQUEST, "migration and epoch must name the fence that is to be removed")
        await self._fences.remove(topic, migration, epoch, is_decision=flag(request, "final"))

    def _topic(self, request: Request) -> TopicName:
        return self._context.single(request, _NOT_PARTITIONED)
