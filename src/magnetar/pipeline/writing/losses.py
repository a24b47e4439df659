"""The losses of a writer's target, for the reader (protocol: Resting links)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.base.tasks import start_task
from magnetar.client.link_reports import watch_losses
from magnetar.pipeline.connections.reports import Report, TargetLost, TargetUp
from magnetar.wire.links import CUSTODY_IN_RUNS, CUSTODY_ONE_BY_ONE

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection

    from magnetar.client.client import PulsarClient
    from magnetar.client.connection import PulsarConnection
    from magnetar.wire.proto import pulsar_api_pb2 as pb


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
                custody = _custody(service.peer_features)
                self._report(TargetLost(state, tuple(topics)) if is_up else TargetUp(state, custody))
                is_up = True

        try:
            await watch_losses(service, lost)
        except (MagnetarError, OSError):
            service.close()  # the next connection watches again


def _custody(features: pb.FeatureFlags) -> str:
    """Return how a broker takes entries in custody, see CUSTODY_METADATA; empty: not at all."""
    if features.supports_custody_runs:
        return CUSTODY_IN_RUNS
    return CUSTODY_ONE_BY_ONE if features.supports_custody else ""
