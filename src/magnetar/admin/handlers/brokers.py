"""``/admin/v2/brokers``, ``/lookup/v2`` and metrics."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from time import monotonic
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse

from magnetar.admin.exchange import AdminRoute, Context, path_text, query_text, route, text_answer, topic_name
from magnetar.admin.metrics.exposition import CONTENT_TYPE, exposition
from magnetar.admin.openapi.description import EMPTY, METRICS, TEXT, Raw
from magnetar.base.errors import AdminError
from magnetar.base.names import NON_PERSISTENT, PERSISTENT
from magnetar.base.tasks import start_task
from magnetar.metadata.policies import ClusterData
from magnetar.security.exposure import HEADER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

    from starlette.requests import Request


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for brokers, lookups and metrics."""
    handlers = _Brokers(context)
    root = "/admin/v2/brokers"
    topic = "{tenant}/{namespace}/{topic}"
    return [
        route("GET", root, handlers.names, gives=list[str]),
        route("GET", f"{root}/health", handlers.health, gives=TEXT),
        route("GET", f"{root}/ready", handlers.ready, gives=TEXT),
        route("GET", f"{root}/version", handlers.version, gives=TEXT),
        route("GET", f"{root}/leaderBroker", handlers.leader, gives=dict[str, str]),
        route("GET", f"{root}/configuration/runtime", handlers.runtime_configuration, gives=dict[str, str]),
        route("POST", f"{root}/ledgerIds", handlers.raise_ledger_ids, gives=dict[str, int]),
        route("GET", f"{root}/{{cluster}}", handlers.of_cluster, gives=list[str]),
        *(
            route(
                "GET",
                f"/lookup/v2/topic/{domain}/{topic}",
                handlers.lookup,
                query=["listenerName"],
                gives=dict[str, str],
            )
            for domain in (PERSISTENT, NON_PERSISTENT)
        ),
        route("GET", "/metrics", handlers.metrics_redirect, gives=EMPTY, status=302),
        route("GET", "/metrics/", handlers.metrics, gives=METRICS),
        route("GET", "/status.html", handlers.status, gives=Raw("OK", "text/plain")),
    ]


_DOMAIN_PART = 4
"""Index of the domain in the path of a lookup."""

_LISTENER_HEADER = "X-Pulsar-ListenerName"

_SHOWN_MAX = 100
"""Maximum number of characters of a listener's name in a refusal."""


class _Brokers:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._service = context.service
        self._scraping = asyncio.Lock()
        self._last: tuple[float, list[bytes]] | None = None
        """Monotonic time and answer of the last scrape, if answers are reused."""
        self._next_scrape: asyncio.Task[list[bytes]] | None = None
        """The next scrape, shared by the requests that arrive before it starts; None if there is none."""

    def names(self, _: Request) -> list[str]:
        return [self._broker_id]

    def of_cluster(self, request: Request) -> list[str]:
        if path_text(request, "cluster") != self._service.cluster_name:
            raise AdminError(HTTPStatus.NOT_FOUND, "Cluster does not exist")
        return [self._broker_id]

    def leader(self, _: Request) -> dict[str, str]:
        return {"serviceUrl": self._service.admin_url, "brokerId": self._broker_id}

    async def health(self, _: Request) -> Response:
        await self._service.health()
        answer = text_answer("ok")  # clients of Pulsar accept no other text
        for risk in self._service.risks:
            answer.headers.append(HEADER, str(risk).encode("unicode_escape").decode())
        return answer

    def ready(self, _: Request) -> Response:
        return text_answer("ok")

    def version(self, _: Request) -> Response:
        return text_answer(self._service.version)

    def runtime_configuration(self, _: Request) -> dict[str, str]:
        return self._service.runtime_configuration()

    async def raise_ledger_ids(self, _: Request) -> dict[str, int]:
        return {"lowest": await self._service.logs.raise_ledger_ids()}

    def lookup(self, request: Request) -> Response | dict[str, str]:
        domain = request.url.path.split("/")[_DOMAIN_PART]
        elsewhere = self._context.resources.routes.find(topic_name(request, domain))
        if elsewhere is not None and elsewhere.cluster != self._service.cluster_name:
            query = f"?{request.url.query}" if request.url.query else ""
            base = self._admin_url_of(elsewhere.cluster, is_encrypted=request.url.scheme == "https")
            url = f"{base}{request.url.path}{query}"
            return RedirectResponse(url, HTTPStatus.TEMPORARY_REDIRECT)
        self._context.topic(request)
        found = self._addresses(query_text(request, "listenerName") or request.headers.get(_LISTENER_HEADER, ""))
        urls = {
            "brokerUrl": found.brokerServiceUrl,
            "brokerUrlTls": found.brokerServiceUrlTls,
            "httpUrl": found.serviceUrl,
            "httpUrlTls": found.serviceUrlTls,
            "nativeUrl": found.brokerServiceUrl,
        }
        return {name: url for name, url in urls.items() if url} | {"brokerUrlSsl": ""}

    def _addresses(self, listener: str) -> ClusterData:
        found = self._service.addresses.of(listener.strip())
        if found is None:
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, f"The broker has no listener {listener[:_SHOWN_MAX]}")
        return found

    def _admin_url_of(self, cluster: str, *, is_encrypted: bool) -> str:
        data = self._context.resources.clusters.get(cluster) or ClusterData()
        urls = (data.serviceUrlTls, data.serviceUrl) if is_encrypted else (data.serviceUrl, data.serviceUrlTls)
        found = urls[0] or urls[1]
        if not found:
            here = self._service.cluster_name
            text = f"A route leads to cluster {cluster}, whose serviceUrl is not registered in {here}"
            raise AdminError(HTTPStatus.SERVICE_UNAVAILABLE, text)
        return found

    def metrics_redirect(self, request: Request) -> Response:
        return RedirectResponse(request.url.replace(path="/metrics/"), HTTPStatus.FOUND)

    async def metrics(self, _: Request) -> Response:
        if self._next_scrape is None:
            self._next_scrape = start_task(asyncio.get_running_loop(), self._scrape(), "metrics")
        chunks = await asyncio.shield(self._next_scrape)
        return StreamingResponse(self._each(chunks), media_type=CONTENT_TYPE)

    async def _each(self, chunks: list[bytes]) -> AsyncIterator[bytes]:
        """Yield chunks in slices: a client that reads fast takes all of them in one turn otherwise."""
        for chunk in chunks:
            yield chunk
            await self._service.in_slices(_one_step())

    async def _scrape(self) -> list[bytes]:
        """Gather the metrics after the current scrape; requests that arrive meanwhile share the result."""
        async with self._scraping:
            self._next_scrape = None
            reused_s, now = self._service.metrics_options.reused_s, monotonic()
            if self._last is not None and now < self._last[0] + reused_s:
                return self._last[1]
            chunks = await exposition(self._service)
            if reused_s:
                self._last = now, chunks
            return chunks

    def status(self, _: Request) -> Response:
        return PlainTextResponse("OK")

    @property
    def _broker_id(self) -> str:
        return self._service.admin_url.partition("://")[2]


def _one_step() -> Generator[None, None, None]:
    yield
