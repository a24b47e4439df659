"""HTTP of a lookup service: lookups, partitions, topics and schemas of the owning cluster, health and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httpx
import uvicorn
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from magnetar.base.errors import ConfigurationError, InvalidTopicNameError, RequestError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.tasks import start_task
from magnetar.security.exposure import ListeningPort

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from magnetar.lookup.knowledge import Knowledge
    from magnetar.lookup.metrics import Metrics
    from magnetar.lookup.options import LookupOptions
    from magnetar.security.exposure import Finding

_OF_TOPICS = (
    "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}",
    "/admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions",
)
_OF_SCHEMAS = (
    "/admin/v2/schemas/{tenant}/{namespace}/{topic}/schema",
    "/admin/v2/schemas/{tenant}/{namespace}/{topic}/schema/{version}",
)

_PASSED = ("content-type", "location")
"""Headers of an answer that the client gets."""


class Web:
    """The handlers. Questions go to the cluster that serves the topic, with the credentials of the client."""

    def __init__(
        self,
        knowledge: Knowledge,
        options: LookupOptions,
        metrics: Metrics,
        failures: Callable[[], dict[str, str]],
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Answer as ``knowledge`` says, through ``transport``, by default the network.

        ``failures`` returns the brokers that are not followed, with the reasons.
        """
        self.risks: list[Finding] = []
        """What the instance has found at its start that its operator may not know."""
        self._knowledge = knowledge
        self._metrics = metrics
        self._failures = failures
        self._http = httpx.AsyncClient(
            timeout=options.answer_timeout_s, trust_env=False, verify=options.credentials.tls(), transport=transport
        )
        self.app = _RawPath(
            Starlette(
                routes=[
                    *(Route(path, self._of_topic) for path in _OF_TOPICS),
                    *(Route(path, self._of_schema) for path in _OF_SCHEMAS),
                    Route("/admin/v2/namespaces/{tenant}/{namespace}/topics", self._topics),
                    Route("/health", self._health),
                    Route("/metrics", self._show_metrics),
                    Route("/metrics/", self._show_metrics),
                ],
                exception_handlers={RequestError: _refused},
            )
        )

    async def close(self) -> None:
        """Close the connections to brokers."""
        await self._http.aclose()

    async def _of_topic(self, request: Request) -> Response:
        found = request.path_params
        return await self._ask(request, self._knowledge.cluster_of(_topic(found, found["domain"])))

    async def _of_schema(self, request: Request) -> Response:
        return await self._ask(request, self._knowledge.cluster_of(_topic(request.path_params, "persistent")))

    async def _topics(self, request: Request) -> Response:
        namespace = NamespaceName.parse(f"{request.path_params['tenant']}/{request.path_params['namespace']}")
        clusters = list(self._knowledge.clusters_of(namespace))
        if len(clusters) == 1:
            return await self._ask(request, clusters[0])
        names: list[str] = []
        for cluster, answer in zip(
            clusters, await asyncio.gather(*(self._send(request, each) for each in clusters)), strict=True
        ):
            if not answer.is_success:
                return _passed(answer)
            names += [name for name in answer.json() if self._knowledge.cluster_of(TopicName.parse(name)) == cluster]
        return JSONResponse(sorted(names))

    async def _ask(self, request: Request, cluster: str) -> Response:
        return _passed(await self._send(request, cluster))

    async def _send(self, request: Request, cluster: str) -> httpx.Response:
        addresses = self._knowledge.addresses(cluster)
        url = addresses.serviceUrl or addresses.serviceUrlTls
        if not url:
            return _failure(f"cluster {cluster} has no serviceUrl")
        query = f"?{request.url.query}" if request.url.query else ""
        headers = {name: value for name, value in request.headers.items() if name == "authorization"}
        try:
            return await self._http.get(f"{url.rstrip('/')}{request.url.path}{query}", headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return _failure(f"cluster {cluster} does not answer: {str(error) or type(error).__name__}")

    async def _health(self, _: Request) -> Response:
        """Answer 200 while there are routes or addresses to answer with; the body tells which brokers are followed."""
        failures = self._failures()
        is_ready = self._knowledge.is_known
        found = {
            "ready": is_ready,
            "version": self._knowledge.table.version,
            "notFollowed": failures,
            "risks": [str(risk) for risk in self.risks],
        }
        return JSONResponse(found, HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)

    async def _show_metrics(self, _: Request) -> Response:
        return PlainTextResponse(generate_latest(self._metrics.registry), media_type=CONTENT_TYPE_LATEST)


class _RawPath:
    """Route on the encoded path, so that names can contain an encoded slash."""

    def __init__(self, app: Starlette) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": scope["raw_path"].decode("latin-1")}
        await self._app(scope, receive, send)


class WebServer(uvicorn.Server):
    """Uvicorn in the event loop of the service, which handles signals and the end of the process."""

    def __init__(self, web: Web, options: LookupOptions) -> None:
        """Create a server that does not listen yet."""
        config = uvicorn.Config(
            web.app, ws="none", log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=1
        )
        super().__init__(config)
        self._options = options
        self._task: asyncio.Task[None] | None = None
        self._is_listening = asyncio.Event()

    async def start(self) -> ListeningPort:
        """Listen; return the port. Raises ConfigurationError if that is not possible."""
        host, port = self._options.host, self._options.web_port
        try:
            listening = socket.create_server((host, port), backlog=1024)
        except OSError as error:
            message = f"cannot listen on port {port} of {host}: {error}\nhint: name another --web-port"
            raise ConfigurationError(message) from error
        self._task = start_task(asyncio.get_running_loop(), self.serve([listening]), "web server")
        await self._is_listening.wait()
        address, number = listening.getsockname()[:2]
        return ListeningPort("--web-port", number, (address,))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; ``start`` returns then."""
        await super().startup(sockets)
        self._is_listening.set()

    async def stop(self) -> None:
        """Close the listener and all connections."""
        self.should_exit = True
        if self._task is not None:
            await self._task

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the process."""
        yield


def _topic(found: dict[str, Any], domain: str) -> TopicName:
    return TopicName.parse(f"{domain}://{found['tenant']}/{found['namespace']}/{unquote(found['topic'])}")


def _passed(answer: httpx.Response) -> Response:
    headers = {name: answer.headers[name] for name in _PASSED if name in answer.headers}
    return Response(answer.content, answer.status_code, headers)


def _failure(reason: str) -> httpx.Response:
    return httpx.Response(HTTPStatus.SERVICE_UNAVAILABLE, json={"reason": reason})


async def _refused(_: Request, error: Exception) -> Response:
    is_name = isinstance(error, InvalidTopicNameError)
    status = HTTPStatus.PRECONDITION_FAILED if is_name else HTTPStatus.SERVICE_UNAVAILABLE
    return JSONResponse({"reason": str(error)}, status)
