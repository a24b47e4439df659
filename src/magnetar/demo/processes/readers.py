"""Readers without a subscription, to measure arrival times and to count the messages of a cluster.

Readers observe the demo. They use Magnetar's own client; processes that represent an application use the official one.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.client.client import PulsarClient
from magnetar.demo.messages import now_ms
from magnetar.demo.plan import FLIGHT_PROPERTY, TOPIC
from magnetar.demo.processes.workers import REPORT_SECONDS, Arrival, Arrived, Holding
from magnetar.wire.entries.entry import payload_of
from magnetar.wire.entries.origin import SOURCE_POSITION

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.client.consumer import Consumer, Received
    from magnetar.demo.messages import Access
    from magnetar.demo.processes.workers import Controls, Report

READ_TIMEOUT_S = 0.05
"""Time limit for one receive, and the delay before a reconnection."""

READ_AHEAD = 5_000
"""Permits for reading a whole log."""

_ORIGIN_COLUMN = 12


@dataclass(frozen=True, slots=True)
class Probe:
    """Reports the arrivals of other clusters' messages in this cluster, from its start on."""

    access: Access

    def __call__(self, controls: Controls, report: Callable[[Report], None]) -> None:
        """Read until stopped."""
        asyncio.run(self._read(controls, report))

    async def _read(self, controls: Controls, report: Callable[[Report], None]) -> None:
        log = _Log(self.access)
        arrivals: list[Arrival] = []
        reported_at = time.monotonic()
        while not controls.stop.is_set():
            received = await log.next()
            if received is not None and SOURCE_POSITION in _properties(received):
                origin = bytes(payload_of(received.entry)).split(b",")[_ORIGIN_COLUMN].decode().lower()
                arrivals.append(Arrival(origin, received.metadata.publish_time, now_ms()))
            if time.monotonic() - reported_at >= REPORT_SECONDS:
                report(Arrived(arrivals))
                arrivals, reported_at = [], time.monotonic()
        log.close()


@dataclass(frozen=True, slots=True)
class Census:
    """Counts all messages of ``cluster``, from first to last."""

    cluster: str
    access: Access

    def __call__(self, controls: Controls, report: Callable[[Report], None]) -> None:
        """Read the whole log, unless stopped, and report the count."""
        asyncio.run(self._read(controls, report))

    async def _read(self, controls: Controls, report: Callable[[Report], None]) -> None:
        client = PulsarClient(self.access.service_url, self.access.options)
        reader = await client.read(TOPIC, EARLIEST, read_ahead=READ_AHEAD)
        last, position = await reader.last_position(), EARLIEST
        positions: dict[int, list[str]] = {}
        messages = repeated = 0
        while not controls.stop.is_set() and position < last:
            received = await reader.receive()
            position = received.position
            properties = _properties(received)
            messages += 1
            known = positions.setdefault(int(properties[FLIGHT_PROPERTY]), [])
            # absent in the cluster where the message was published
            origin = properties.get(SOURCE_POSITION, str(position))
            if origin in known:
                repeated += 1
            else:
                known.append(origin)
        client.close()
        resent = messages - repeated - len(positions)
        report(Holding(self.cluster, messages, len(positions), resent, repeated))


class _Log:
    """The entries of the topic from now on; resumes after the newest one when the connection was lost."""

    def __init__(self, access: Access) -> None:
        self._client = PulsarClient(access.service_url, access.options)
        self._reader: Consumer | None = None
        self._position: Position = LATEST

    async def next(self) -> Received | None:
        """Return the next entry; None after the time limit."""
        try:
            if self._reader is None:
                self._reader = await self._client.read(TOPIC, self._position)
            async with asyncio.timeout(READ_TIMEOUT_S):
                received = await self._reader.receive()
        except TimeoutError:
            return None
        except (OSError, MagnetarError):
            self._reader = None
            await asyncio.sleep(READ_TIMEOUT_S)
            return None
        self._position = received.position
        return received

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _properties(received: Received) -> dict[str, str]:
    """Return the properties of an entry with a single message; the demo's publishers send no batches."""
    return {pair.key: pair.value for pair in received.metadata.properties}
