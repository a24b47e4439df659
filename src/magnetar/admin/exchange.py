"""Functions that all handlers share: reading a request, finding its object, writing the answer."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, wraps
from http import HTTPStatus
from inspect import isawaitable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from pydantic import TypeAdapter, ValidationError
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route

from magnetar.admin.json_bodies import validated
from magnetar.admin.models.encoding import encoding, encoding_names
from magnetar.admin.models.model import Model
from magnetar.admin.openapi.description import QUERY, TEXT
from magnetar.admin.service import topic_not_found
from magnetar.base.errors import AdminError, RequestError
from magnetar.base.limits import BODY_SIZE_MAX, BODY_VALUES_MAX, Limit
from magnetar.base.names import (
    PERSISTENT,
    NamespaceName,
    TopicName,
    check_cluster_name,
    check_length,
    is_named_entity,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from typing import Unpack

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from magnetar.admin.openapi.description import Description
    from magnetar.admin.service import AdminService
    from magnetar.admin.topic_service import DomainTopicOperations
    from magnetar.metadata.policies import Policies, TenantInfo
    from magnetar.metadata.resources import Resources

Kind = TypeVar("Kind")


_SHOWN_MAX = 100
"""Maximum number of characters of a parameter in a refusal."""


LARGE_ANSWERS_AT_ONCE = 4
"""Large answers in progress; further requests wait in order. An answer takes memory until it is sent."""


@dataclass(frozen=True, slots=True)
class Context:
    """The broker and the metadata that handlers use."""

    service: AdminService
    resources: Resources
    domain: str = PERSISTENT
    """Domain of the topics in paths."""
    large_answers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LARGE_ANSWERS_AT_ONCE))

    @property
    def topics(self) -> DomainTopicOperations:
        """Operations on the topics of the domain."""
        return self.service.topics if self.domain == PERSISTENT else self.service.non_persistent

    def tenant(self, name: str) -> TenantInfo:
        """Return the tenant; refuses with 404 if it does not exist."""
        found = self.resources.tenants.get(name)
        if found is None:
            raise AdminError(HTTPStatus.NOT_FOUND, "Tenant does not exist")
        return found

    def check_new_name(self, kind: str, name: str) -> None:
        """Refuse with 412 a name of a new ``kind`` that is too long. Existing names are not checked."""
        try:
            if kind == "cluster":
                check_cluster_name(name)
            check_length(kind, name, self.service.name_length_max)
        except RequestError as error:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, str(error), error.limit) from None

    def policies(self, namespace: NamespaceName) -> Policies:
        """Return the policies of a namespace; refuses with 404 if it does not exist."""
        found = self.resources.namespaces.get(namespace)
        if found is None:
            raise AdminError(HTTPStatus.NOT_FOUND, "Namespace does not exist")
        return found

    def topic(self, request: Request) -> TopicName:
        """Return the topic in a path, in a namespace of this cluster (protocol: Clusters of a namespace)."""
        name = topic_name(request, self.domain)
        self.check_lives_here(name.namespace_name)
        return name

    def existing(self, request: Request) -> TopicName:
        """Return the topic in a path, which may be partitioned; refuses with ``topic_not_found``."""
        topic = self.topic(request)
        if self.topics.partitions_of(topic) is None:
            raise topic_not_found(topic)
        return topic

    def single(self, request: Request, refusal: str) -> TopicName:
        """Return the topic in a path; refuses with 405 a partitioned topic, for which ``refusal`` is the reason."""
        topic = self.existing(request)
        if self.topics.partitions_of(topic):
            raise AdminError(HTTPStatus.METHOD_NOT_ALLOWED, refusal)
        return topic

    def unpartitioned(self, request: Request) -> TopicName:
        """Return the topic in a path; refuses a partitioned topic with ``topic_not_found``."""
        topic = self.topic(request)
        if self.topics.partitions_of(topic) != 0:
            raise topic_not_found(topic)
        return topic

    def check_lives_here(self, namespace: NamespaceName) -> None:
        """Refuse with 404 or 412 unless the namespace exists and may have topics in this cluster."""
        policies = self.policies(namespace)
        clusters = policies.allowed_clusters or policies.replication_clusters
        here = self.service.cluster_name
        if not clusters:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, "Namespace does not have any clusters configured")
        if here not in clusters:
            raise AdminError(
                HTTPStatus.PRECONDITION_FAILED,
                "Namespace missing local cluster name in clusters list: "
                f"local_cluster={here} ns={namespace} clusters=[{', '.join(clusters)}]",
            )

    def parts(self, topic: TopicName) -> list[TopicName]:
        """Return the partitions of ``topic``, or ``topic`` itself if it is not partitioned."""
        return topic.parts(self.topics.partitions_of(topic) or 0)

    async def answer(self, document: Model | Mapping[str, Any] | Sequence[Model]) -> Response:
        """Return an answer that may be large, encoded in slices."""
        text = await self.service.in_slices(encoding(document))
        return Response(text.encode(), media_type="application/json")

    async def answer_names(self, names: Generator[None, None, Sequence[str]]) -> Response:
        """Return an answer with names, gathered and encoded in slices."""
        text = await self.service.in_slices(encoding_names(await self.service.in_slices(names)))
        return Response(text.encode(), media_type="application/json")

    async def in_turn(self, topics: Iterable[TopicName]) -> AsyncIterator[TopicName]:
        """Yield topics such that the work for them is done in slices."""
        for topic in topics:
            yield topic
            await self.service.in_slices(_one_step())


def large_answer(
    handler: Callable[[Any, Request], Awaitable[Response]],
) -> Callable[[Any, Request], Awaitable[Response]]:
    """Decorate a handler with large answers: at most LARGE_ANSWERS_MAX of them are in progress."""

    @wraps(handler)
    async def answer(noun: Any, request: Request) -> Response:  # noqa: ANN401 - any class with a context
        async with noun._context.large_answers:  # noqa: SLF001 - every noun has one
            return await handler(noun, request)

    return answer


def _one_step() -> Generator[None, None, None]:
    yield


@contextmanager
def unless_deleted() -> Iterator[None]:
    """End the work for one topic or subscription of several without an error if it was deleted meanwhile."""
    try:
        yield
    except AdminError as error:
        if error.status is not HTTPStatus.NOT_FOUND:
            raise


def path_text(request: Request, name: str) -> str:
    """Return a part of the path, decoded."""
    return unquote(request.path_params[name])


def entity_name(request: Request, kind: str) -> str:
    """Return the ``cluster`` or ``tenant`` in a path; refuses an invalid name with 412."""
    name = path_text(request, kind)
    if not is_named_entity(name):
        raise AdminError(HTTPStatus.PRECONDITION_FAILED, f"{kind.capitalize()} name is not valid")
    return name


def namespace_name(request: Request) -> NamespaceName:
    """Return the namespace in a path; refuses an invalid name with 412."""
    tenant, namespace = path_text(request, "tenant"), path_text(request, "namespace")
    if not (is_named_entity(tenant) and is_named_entity(namespace)):
        raise AdminError(HTTPStatus.PRECONDITION_FAILED, "Namespace name is not valid")
    return NamespaceName(tenant, namespace)


def topic_name(request: Request, domain: str = PERSISTENT) -> TopicName:
    """Return the topic in a path; refuses an invalid name with 412."""
    namespace = namespace_name(request)
    local_name = path_text(request, "topic")
    if local_name.strip() == "" or "/" in local_name:
        raise AdminError(HTTPStatus.PRECONDITION_FAILED, "Topic name is not valid")
    return TopicName(domain, namespace.tenant, namespace.namespace, local_name)


def query_texts(request: Request, name: str) -> list[str]:
    """Return the values of a query parameter, which the route must declare."""
    assert name in _description(request).get("query", ()), name
    return request.query_params.getlist(name)


def query_text(request: Request, name: str) -> str | None:
    """Return the last value of a query parameter, which the route must declare; None if it is absent."""
    return next(reversed(query_texts(request, name)), None)


def flag(request: Request, name: str, *, default: bool = False) -> bool:
    """Return a boolean query parameter; every value except ``true`` is false, as in Pulsar."""
    value = query_text(request, name)
    return default if value is None else value.lower() == "true"


def number(request: Request, name: str) -> int | None:
    """Return a number in the query, None if it is absent; refuses other text with 400."""
    value = query_text(request, name)
    if value is None:
        return None
    try:
        return _number_of_query(name).validate_strings(value)
    except ValidationError:
        raise AdminError(HTTPStatus.BAD_REQUEST, f"{name}={value[:_SHOWN_MAX]!r} is not a number") from None


@cache
def _number_of_query(name: str) -> TypeAdapter[int]:
    return TypeAdapter(QUERY[name])


async def body(request: Request, kind: TypeAdapter[Kind]) -> Kind:
    """Return the JSON body of a request as ``kind``, which the route must declare; no body counts as null.

    Refuses an invalid body with 400, a body above BODY_SIZE_MAX or BODY_VALUES_MAX with 413, and a body that does not
    fit into the memory that other bodies leave with 503. The rest of a refused body is not read.
    """
    assert _description(request).get("takes") is kind
    async with _content(request) as content:
        return _validated(kind, content)


async def text_body(request: Request) -> str:
    """Return the body of a request, which is text as Pulsar's clients send it, or a JSON string."""
    assert _description(request).get("takes") is TEXT
    async with _content(request) as content:
        try:
            value = json.loads(content or b'""')
        except (ValueError, RecursionError):
            return content.decode(errors="replace")
        return value.encode(errors="replace").decode() if isinstance(value, str) else ""


@asynccontextmanager
async def _content(request: Request) -> AsyncIterator[bytearray]:
    content, bodies = bytearray(), request.app.state.bodies
    try:
        async for part in request.stream():
            content += part
            bodies.used += len(part)
            if len(content) > BODY_SIZE_MAX:
                limit = Limit.HTTP_BODY_SIZE
                text = f"The body is larger than {BODY_SIZE_MAX} bytes ({limit})"
                raise AdminError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, limit)
            if len(content) > bodies.room:
                limit = Limit.HTTP_BODIES_SIZE
                text = f"The bodies of other requests take up the memory for bodies; try again later ({limit})"
                raise AdminError(HTTPStatus.SERVICE_UNAVAILABLE, text, limit)
        yield content
    finally:
        bodies.used -= len(content)


_SEPARATORS = b" \t\n\r\f\v,:]}"

_VALUE = re.compile(rb'(?:"(?:[^"\\]++|\\.)*+"?|[\[{]|[^\s",:\[\]{}]++)[\s,:\]}]*+', re.DOTALL)
"""A key or a value of JSON (a string, the beginning of an array or an object, or any other word), and the separators
behind it. These are matched because a search would examine each of them, which takes 50 ms for a million."""


def values_in(content: bytes | bytearray) -> Iterator[re.Match[bytes]]:
    """Find the keys and values of JSON, valid or not."""
    return _VALUE.finditer(content.lstrip(_SEPARATORS))


def has_more_values(content: bytes | bytearray, values_max: int) -> bool:
    """Return whether JSON has more keys and values than ``values_max``; each takes more than one byte."""
    return len(content) > values_max and any(islice(values_in(content), values_max, None))


def _validated(kind: TypeAdapter[Kind], content: bytearray) -> Kind:
    if has_more_values(content, BODY_VALUES_MAX):
        limit = Limit.HTTP_BODY_VALUES
        text = f"The body has more than {BODY_VALUES_MAX} keys and values ({limit})"
        raise AdminError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, limit)
    try:
        return validated(kind, content or b"null")
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise AdminError(HTTPStatus.BAD_REQUEST, f"{place}: {first['msg']}" if place else first["msg"]) from None


def refusal(status: int, reason: str) -> JSONResponse:
    """Return the answer that refuses a request."""
    return JSONResponse({"reason": reason}, status)


def text_answer(text: str) -> Response:
    """Return plain text with Pulsar's content type."""
    return Response(text, media_type="application/json")


class AdminRoute(BaseRoute):
    """A route of the API."""

    def __init__(self, path: str, endpoint: Callable[..., Any], methods: list[str], description: Description) -> None:
        """Route ``methods`` of ``path``."""
        self.path = path
        self.methods = {*methods, "HEAD"} if "GET" in methods else {*methods}
        self.description = description
        self._endpoint = endpoint

    @property
    def is_without_effect(self) -> bool:
        """Whether the broker stores what the route sets, and ignores it."""
        return self.description.get("is_without_effect", False)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether the route matches, as Starlette's routes do."""
        with suppress(ValueError):  # a number with more digits than int() takes
            match, found = self._route.matches(scope)
            return match, {**found, ROUTE: self}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that matches, as Starlette's routes do."""
        await self._route.handle(scope, receive, send)

    @cached_property
    def _route(self) -> Route:
        return Route(self.path, self._endpoint, methods=self.methods)


ROUTE = "magnetar.route"
"""Key of the route in the scope of a request."""


def _description(request: Request) -> Description:
    found: AdminRoute = request.scope[ROUTE]
    return found.description


def route(methods: str, path: str, handler: Callable[[Request], Any], **description: Unpack[Description]) -> AdminRoute:
    """Route one method, or several separated by spaces, on ``path`` to ``handler``, which may be a coroutine.

    A Response from the handler is sent unchanged, None is answered with 204, a Model or JSON value with 200.
    """

    async def endpoint(request: Request) -> Response:
        request.app.state.check(request, request.scope[ROUTE])
        result = handler(request)
        if isawaitable(result):
            result = await result
        match result:
            case Response():
                return result
            case None:
                return Response(status_code=HTTPStatus.NO_CONTENT)
            case Model():
                return JSONResponse(result.to_json())
            case _:
                return JSONResponse(result)

    return AdminRoute(path, endpoint, methods.split(), description)
