"""A connection to a cluster that is reopened after each loss, for the duration of a task."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.base.tasks import start_task
from magnetar.client.client import PulsarClient
from magnetar.client.options import ClientOptions
from magnetar.pipeline import limits
from magnetar.pipeline.connections.flow import Backoff
from magnetar.security.client_conf import credentials_in

if TYPE_CHECKING:
    from random import Random

RECONNECT = Backoff(limits.RECONNECT_INITIAL_SECONDS, limits.RECONNECT_MAX_SECONDS)
"""The delay before a reconnection."""

OPTIONS = ClientOptions(
    connect_timeout_s=limits.CONNECT_TIMEOUT_SECONDS,
    request_timeout_s=limits.REQUEST_TIMEOUT_SECONDS,
    replicator=True,
)
"""Options of all connections of the pipeline to brokers, without credentials."""


def client_of(url: str, client_conf: str) -> PulsarClient:
    """Return a client of a cluster; raises ConfigurationError if its credentials cannot be read."""
    return PulsarClient(url, replace(OPTIONS, credentials=credentials_in(client_conf)))


class Listener(Protocol):
    """The user of a cluster session."""

    def cluster_up(self) -> None:
        """Handle an opened connection."""
        ...

    def cluster_down(self, reason: str) -> None:
        """Handle a lost connection. The owners of producers and consumers were notified before."""
        ...


class ClusterSession:
    """Keeps the connection to a cluster's URL open."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, url: str, listener: Listener, rng: Random, client_conf: str = ""
    ) -> None:
        """Create a session with the broker URL ``url``; `start` connects. Raises as ``client_of``."""
        self.client = client_of(url, client_conf)
        self._loop = loop
        self._listener = listener
        self._rng = rng
        self._task: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        """Return whether the cluster is connected."""
        return self.client.service is not None

    @property
    def is_foreign(self) -> bool:
        """Return whether the cluster is connected and does not support Magnetar's additions to the protocol."""
        service = self.client.service
        return service is not None and not service.peer_is_magnetar

    def start(self) -> None:
        """Connect, and reconnect after each loss."""
        self._task = start_task(self._loop, self._keep_up(), f"connection to {self.client.url}")

    def close(self) -> None:
        """Close all connections without notifying the listener."""
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
                if service.failure is None:  # otherwise it was lost before this task went on
                    attempt = 0
                    self._listener.cluster_up()
                await service.wait_ended()
                self._listener.cluster_down(str(service.failure))
            await asyncio.sleep(RECONNECT.delay(attempt, self._rng))
            attempt += 1
