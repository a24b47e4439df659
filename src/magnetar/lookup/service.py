"""The composition root: one instance of the lookup service."""

from __future__ import annotations

import asyncio
import gc
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import StorageError
from magnetar.base.lock import DirectoryLock
from magnetar.base.real import SystemFiles
from magnetar.base.tasks import start_task
from magnetar.lookup.clusters import Clusters
from magnetar.lookup.following import Following
from magnetar.lookup.kept import KeptKnowledge
from magnetar.lookup.knowledge import Knowledge
from magnetar.lookup.metrics import Metrics
from magnetar.lookup.questions import Questions
from magnetar.lookup.risks import find_risks
from magnetar.lookup.server import LookupServer
from magnetar.lookup.shared import Shared
from magnetar.lookup.web import Web, WebServer

if TYPE_CHECKING:
    from magnetar.lookup.options import LookupOptions
    from magnetar.metadata.routes.atlas import Atlas

log = structlog.get_logger(__name__)

FIRST_ROUTES_S = 5.0
"""Seconds for which an instance without kept routes waits for those of a broker before it listens."""


class LookupService:
    """One instance. It can be started and stopped once."""

    def __init__(self, options: LookupOptions) -> None:
        """Create a stopped instance."""
        self.options = options
        self.metrics = Metrics()
        self.port = self.web_port = 0
        """The ports on which it listens, once it is started."""
        self._opened = AsyncExitStack()
        self._is_news = asyncio.Event()

    async def start(self) -> None:
        """Read the kept routes, follow the brokers, and listen; raises ConfigurationError, StorageError."""
        async with AsyncExitStack() as opened:
            await self._start(opened)
            self._opened = opened.pop_all()

    async def _start(self, opened: AsyncExitStack) -> None:
        loop, options = asyncio.get_running_loop(), self.options
        self._kept = KeptKnowledge(SystemFiles(), options.data_directory)
        opened.callback(DirectoryLock(options.data_directory).release)
        self.knowledge = self._kept.read(options.default_cluster) or Knowledge(options.default_cluster)
        clusters = Clusters(self.knowledge, options)
        opened.callback(clusters.close)
        self.questions = Questions(self.knowledge, clusters, options)
        self._following = [Following(url, options.credentials, self._learn) for url in options.broker_urls]
        for each in self._following:
            opened.push_async_callback(_cancelled, start_task(loop, each.run(), f"routes of {each.url}"))
        opened.push_async_callback(_cancelled, start_task(loop, self._keep(), "kept routes"))
        if not self.knowledge.is_known:
            await self._first_routes()
        self._measure()
        self.metrics.waiting.set_function(lambda: self.questions.waiting)
        for each in self._following:
            self.metrics.followed.labels(each.url).set_function(each.is_followed)
        web = Web(self.knowledge, options, self.metrics, self.failures)
        opened.push_async_callback(web.close)
        server, web_server = LookupServer(Shared(options, self.questions, self.metrics)), WebServer(web, options)
        opened.push_async_callback(server.stop)
        self.port = await server.start()
        web_port = await web_server.start()
        self.web_port = web_port.number
        opened.push_async_callback(web_server.stop)
        web.risks = find_risks(options, [*server.ports, web_port])
        for risk in web.risks:
            log.warning("security_risk", risk=risk.risk.value, reason=risk.text, remedy=risk.hint)
        self.metrics.note(web.risks)
        log.info("lookup_service_started", port=self.port, web_port=self.web_port, routes=len(self.knowledge.table))

    async def stop(self) -> None:
        """Close all connections. A second call has no effect."""
        opened, self._opened = self._opened, AsyncExitStack()
        await opened.aclose()
        log.info("lookup_service_stopped")

    async def run(self) -> None:
        """Serve until SIGINT or SIGTERM."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ended.set)
        await self.start()
        gc.collect()
        gc.freeze()  # else each collection looks at all modules, and lookups wait for some 50 ms
        await ended.wait()
        await self.stop()

    def failures(self) -> dict[str, str]:
        """Return the brokers whose routes are not followed, with the reasons."""
        return {each.url: each.failure for each in self._following if each.failure is not None}

    def _learn(self, atlas: Atlas) -> None:
        if self.knowledge.learn(atlas):
            log.info("routes_changed", by=atlas.cluster, version=self.knowledge.table.version)
            self._measure()
            self._is_news.set()

    def _measure(self) -> None:
        self.metrics.routes.set(len(self.knowledge.table))

    async def _first_routes(self) -> None:
        """Wait a while for a broker: without routes, all clients would be refused."""
        try:
            async with asyncio.timeout(FIRST_ROUTES_S):
                await self._is_news.wait()
        except TimeoutError:
            log.warning("no_routes_yet", brokers=self.failures())

    async def _keep(self) -> None:
        """Write what is new to the disk. A failure is repeated with the next change, and the service goes on."""
        while True:
            await self._is_news.wait()
            self._is_news.clear()
            try:
                await asyncio.to_thread(self._kept.write, self.knowledge.to_json())
            except StorageError as error:
                log.warning("routes_not_kept", reason=str(error))


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
