"""Sends acknowledgements that were read from Apache Pulsar to a cluster of Magnetar, as a progress link does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from magnetar.client.client import PulsarClient
from magnetar.client.options import ClientOptions
from magnetar.geo.progress.codec import encode_markers
from magnetar.migration.pulsar.brokers import result_of
from magnetar.wire.entries import markers
from magnetar.wire.links import progress_producer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.world import Clock
    from magnetar.geo.progress.state import SubscriptionProgress
    from magnetar.security.credentials import Credentials

TIMEOUT_S: Final = 30.0
"""Maximum time for all acknowledgements of a topic."""


class ProgressCarrier:
    """Sends progress to the brokers of one cluster. Used by several threads."""

    def __init__(self, service_url: str, credentials: Credentials, source: str, clock: Clock) -> None:
        """Send the progress of the cluster ``source``; nothing is connected yet."""
        self._service_url = service_url
        self._options = ClientOptions(credentials=credentials)
        self._source = source
        self._clock = clock

    def send(self, topic: str, states: Sequence[SubscriptionProgress]) -> str:
        """Return when the broker has applied the states durably, or why it has not."""
        failure = f"its acknowledgements cannot be sent to {self._service_url}"
        return result_of(self._send(topic, states), failure) if states else ""

    async def _send(self, topic: str, states: Sequence[SubscriptionProgress]) -> str:
        now_ms = int(self._clock.now() * 1000)
        async with asyncio.timeout(TIMEOUT_S), PulsarClient(self._service_url, self._options) as client:
            producer = await client.create_producer(topic, progress_producer(self._source))
            for payload in encode_markers(self._source, states, full=True):
                marker = markers.build_marker(markers.PROGRESS, payload, publish_time_ms=now_ms)
                await producer.send(marker, marker=True)
            await producer.close()
        return ""
