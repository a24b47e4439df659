"""A cluster that is reached for as long as a task lasts: its connection is opened again whenever it was lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.base.tasks import start_task
from magnetar.client.client import PulsarClient
from magnetar.client.options import ClientOptions
from magnetar.pipeline import limits
from magnetar.pipeline.connections.flow import Backoff

if TYPE_CHECKING:
    from random import Random

RECONNECT = Backoff(limits.RECONNECT_INITIAL_SECONDS, limits.RECONNECT_MAX_SECONDS)
"""How long to wait before a cluster is dialled again."""

OPTIONS = ClientOptions(
    connect_timeout_s=limits.CONNECT_TIMEOUT_SECONDS,
    request_timeout_s=limits.REQUEST_TIMEOUT_SECONDS,
    replicator=True,
)
"""How the pipeline connects to brokers."""


class Listener(Protocol):
    """Who uses a cluster."""

    def cluster_up(self) -> None:
        """The cluster can be reached."""
        ...

    def cluster_down(self, reason: str) -> None:
        """The cluster cannot be reached. The owners of producers and consumers were told of their end before."""
        ...


class ClusterSession:
    """Keeps the connection to a cluster's URL open."""

    def __init__(self, loop: asyncio.AbstractEventLoop, url: str, listener: Listener, rng: Random) -> None:
        """Reach the cluster at broker URL ``url`` once `start` is called."""
        self.client = PulsarClient(url, OPTIONS)
        self._loop = loop
        self._listener = listener
        self._rng = rng
        self._task: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        """Whether the cluster can be reached."""
        return self.client.service is not None

    @property
    def is_foreign(self) -> bool:
        """Whether the cluster can be reached, and knows nothing of what Magnetar adds to the protocol."""
        service = self.client.service
        return service is not None and not service.peer_is_magnetar

    def start(self) -> None:
        """Connect, and go on trying."""
        self._task = start_task(self._loop, self._keep_up(), f"connection to {self.client.url}")

    def close(self) -> None:
        """Drop all connections; the listener is told nothing more."""
        if self._task is not None:
            self._task.cancel()
        self.client.close()

    async def _keep_up(self) -> None:
        attempt = 0
        while True:
            try:
                service = await self.client.connect()
            except (MagnetarError, OSError) as error:
                self._listener.cluster_down(f"{self.client.url}: {error}")
            else:
                attempt = 0
                self._listener.cluster_up()
                await service.wait_ended()
                self._listener.cluster_down(str(service.failure))
            await asyncio.sleep(RECONNECT.delay(attempt, self._rng))
            attempt += 1
