"""``/admin/v2/schemas``: the schemas of topics."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import BaseModel, TypeAdapter
from starlette.responses import JSONResponse

from magnetar.admin.exchange import AdminRoute, Context, body, flag, large_answer, path_text, route
from magnetar.admin.models.schemas import (
    GetAllVersionsSchemaResponse,
    GetSchemaResponse,
    IsCompatibilityResponse,
    LongSchemaVersion,
    PostSchemaResponse,
)
from magnetar.base.errors import AdminError, IncompatibleSchemaError, InvalidSchemaError
from magnetar.base.names import NON_PERSISTENT
from magnetar.schema.info import SchemaInfo, SchemaType
from magnetar.schema.key_value import from_text, to_text

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from magnetar.base.names import TopicName
    from magnetar.metadata.schemas import StoredSchema

_NO_VERSION = -1
"""Pulsar's answer if there is no version."""


class PostSchemaPayload(BaseModel):
    """A schema as a client of the REST API sends it."""

    type: str
    schema_: str = ""
    properties: dict[str, str] = {}

    model_config = {"alias_generator": lambda name: name.rstrip("_"), "extra": "ignore"}


_PAYLOAD: TypeAdapter[PostSchemaPayload] = TypeAdapter(PostSchemaPayload)


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for schemas."""
    handlers = _Schemas(context)
    topic = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
    return [
        route("GET", f"{topic}/schema", handlers.latest, gives=GetSchemaResponse),
        route("POST", f"{topic}/schema", handlers.register, takes=_PAYLOAD, gives=PostSchemaResponse, refuses=[422]),
        route("DELETE", f"{topic}/schema", handlers.delete, query=["force"], gives=LongSchemaVersion),
        route("GET", f"{topic}/schema/{{version}}", handlers.version, gives=GetSchemaResponse),
        route("GET", f"{topic}/schemas", handlers.all, gives=GetAllVersionsSchemaResponse),
        route(
            "POST",
            f"{topic}/compatibility",
            handlers.compatibility,
            takes=_PAYLOAD,
            gives=IsCompatibilityResponse,
            status=202,
            refuses=[422],
        ),
        route("POST", f"{topic}/version", handlers.version_of, takes=_PAYLOAD, gives=LongSchemaVersion, refuses=[422]),
    ]


class _Schemas:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._schemas = context.service.schemas

    def _topic(self, request: Request) -> TopicName:
        """Return the topic in the path: the persistent one, unless only the non-persistent one exists."""
        topic, service = self._context.topic(request), self._context.service
        other = replace(topic, domain=NON_PERSISTENT)
        is_other = (
            service.topics.partitions_of(topic) is None and service.non_persistent.partitions_of(other) is not None
        )
        return other if is_other else topic

    async def latest(self, request: Request) -> GetSchemaResponse:
        versions = await self._schemas.versions(self._topic(request))
        if not versions:
            raise _not_found()
        return _shown(versions[-1])

    async def version(self, request: Request) -> GetSchemaResponse:
        topic, text = self._topic(request), path_text(request, "version")
        try:
            number = int(text)
        except ValueError:
            raise AdminError(HTTPStatus.BAD_REQUEST, f"version={text!r} is not a number") from None
        versions = await self._schemas.versions(topic)
        found = next((each for each in versions if each.number == number), None)
        if found is None:
            raise _not_found()
        return _shown(found)

    @large_answer
    async def all(self, request: Request) -> Response:
        versions = await self._schemas.versions(self._topic(request))
        return await self._context.answer(
            GetAllVersionsSchemaResponse(get_schema_responses=list(map(_shown, versions)))
        )

    async def register(self, request: Request) -> PostSchemaResponse:
        topic, schema = self._topic(request), await _schema(request)
        try:
            version = await self._schemas.register(topic, schema)
        except IncompatibleSchemaError as error:
            raise AdminError(HTTPStatus.CONFLICT, str(error)) from None
        except InvalidSchemaError as error:
            raise _invalid(error) from None
        return PostSchemaResponse(version=LongSchemaVersion(version=version))

    async def delete(self, request: Request) -> LongSchemaVersion:
        topic = self._topic(request)
        version = await self._schemas.delete(topic, force=flag(request, "force"))
        return LongSchemaVersion(version=_NO_VERSION if version is None else version)

    async def compatibility(self, request: Request) -> Response:
        topic, schema = self._topic(request), await _schema(request)
        strategy = self._context.service.topics.applied_policies(topic).schema_compatibility_strategy
        try:
            await self._schemas.check(topic, schema, strategy)
        except IncompatibleSchemaError:
            is_compatible = False
        except InvalidSchemaError as error:
            raise _invalid(error) from None
        else:
            is_compatible = True
        answer = IsCompatibilityResponse(compatibility=is_compatible, schema_compatibility_strategy=strategy.value)
        return JSONResponse(answer.to_json(), HTTPStatus.ACCEPTED)  # Pulsar's status for it

    async def version_of(self, request: Request) -> LongSchemaVersion:
        topic, schema = self._topic(request), await _schema(request)
        versions = await self._schemas.versions(topic)
        same = (each.number for each in versions if (each.info.type, each.info.data) == (schema.type, schema.data))
        return LongSchemaVersion(version=next(same, _NO_VERSION))


async def _schema(request: Request) -> SchemaInfo:
    payload = await body(request, _PAYLOAD)
    try:
        kind = SchemaType[payload.type]
    except KeyError:
        raise AdminError(HTTPStatus.UNPROCESSABLE_ENTITY, f"Unknown schema type : {payload.type[:100]}") from None
    try:
        text = payload.schema_
        data = from_text(text) if kind is SchemaType.KEY_VALUE else text.encode("utf-8", "surrogatepass")
    except InvalidSchemaError as error:
        raise _invalid(error) from None
    return SchemaInfo(kind, data, payload.properties)


def _shown(schema: StoredSchema) -> GetSchemaResponse:
    info = schema.info
    return GetSchemaResponse(
        version=schema.number,
        type=info.type.name,
        timestamp=schema.timestamp_ms,
        data=to_text(info) if info.type is SchemaType.KEY_VALUE else info.data.decode(errors="replace"),
        properties=dict(info.properties),
    )


def _not_found() -> AdminError:
    return AdminError(HTTPStatus.NOT_FOUND, "Schema not found")


def _invalid(error: InvalidSchemaError) -> AdminError:
    return AdminError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error), error.limit)
