"""The losses of a writer's target, for the reader (protocol: Resting links)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.base.tasks import start_task
from magnetar.client.link_reports import watch_losses
from magnetar.pipeline.connections.reports import Report, TargetLost, TargetUp

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection

    from magnetar.client.client import PulsarClient
    from magnetar.client.connection import PulsarConnection


class TargetLosses:
    """Reports the target as connected, and its losses from then on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: PulsarClient, report: Callable[[Report], None]) -> None:
        """Do nothing before ``connected``."""
        self._loop = loop
        self._client = client
        self._report = report
        self._request: asyncio.Task[None] | None = None

    def connected(self) -> None:
        """Report the new connection of the client, with the state of the target if it reports losses."""
        service = self._client.service
        assert service is not None, "the connection is open"
        if service.peer_features.supports_resting_links:
            self._request = start_task(self._loop, self._watch(service), f"losses of {service.url}")
        else:
            self._report(TargetUp())

    def close(self) -> None:
        """Cancel the request for reports."""
        if self._request is not None:
            self._request.cancel()

    async def _watch(self, service: PulsarConnection) -> None:
        is_up = False

        def lost(state: str, topics: Collection[str]) -> None:
            nonlocal is_up
            if service is self._client.service:
                takes_custody = service.peer_features.supports_custody
                self._report(TargetLost(state, tuple(topics)) if is_up else TargetUp(state, takes_custody))
                is_up = True

        try:
            await watch_losses(service, lost)
        except (MagnetarError, OSError):
            service.close()  # the next connection watches again
