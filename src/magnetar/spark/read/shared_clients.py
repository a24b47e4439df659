"""Clients of a task that reads many ranges, one after the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self, TypeVar

from magnetar.base.tasks import start_task
from magnetar.spark.connecting import pulsar_client

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from magnetar.client.client import PulsarClient
    from magnetar.spark.options import Options

Result = TypeVar("Result")


class SharedClients:
    """One client for each cluster, all on one event loop, which runs only during ``run``."""

    def __init__(self) -> None:
        """Create it without a client."""
        self._runner = asyncio.Runner()
        self._clients: dict[str, PulsarClient] = {}
        """By service URL."""

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """See ``close``."""
        self.close()

    def close(self) -> None:
        """Close all connections, and cancel what was begun."""
        self._runner.run(self._close())
        self._runner.close()

    def run(self, work: Coroutine[object, object, Result]) -> Result:
        """Return the result of ``work``. What was begun before goes on meanwhile."""
        return self._runner.run(work)

    def begin(self, work: Coroutine[object, object, Result], name: str) -> asyncio.Task[Result]:
        """Begin ``work``, which goes on during calls of ``run``; a failure is logged with the ``name``."""
        return start_task(self._runner.get_loop(), work, name)

    def client(self, options: Options) -> PulsarClient:
        """Return the client of the cluster with these options; raises as ``pulsar_client``."""
        found = self._clients.get(options.service_url)
        if found is None:
            found = self._clients[options.service_url] = pulsar_client(options)
        return found

    async def _close(self) -> None:
        for client in self._clients.values():
            await client.aclose()
