"""Read the topic without a subscription: to time what arrives, and to count what a cluster holds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulsar

from magnetar.demo.messages import connect, entry_of, now_ms
from magnetar.demo.plan import TOPIC
from magnetar.demo.processes.workers import REPORT_SECONDS, Arrival, Arrived, Holding
from magnetar.wire.entries.origin import SOURCE_POSITION

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.demo.processes.workers import Controls, Report

READ_TIMEOUT_MS = 50
"""How long one wait for a message may be."""

READER_QUEUE = 5_000
"""Messages that the client fetches ahead when a whole log is read."""

_ORIGIN_COLUMN = 12


@dataclass(frozen=True, slots=True)
class Probe:
    """Notes when messages of other clusters arrive in this one, from the moment it starts."""

    service_url: str

    def __call__(self, controls: Controls, report: Callable[[Report], None]) -> None:
        """Read until told to stop."""
        client = connect(self.service_url)
        reader = client.create_reader(TOPIC, pulsar.MessageId.latest)
        arrivals: list[Arrival] = []
        reported_at = time.monotonic()
        while not controls.stop.is_set():
            try:
                message = reader.read_next(timeout_millis=READ_TIMEOUT_MS)
            except pulsar.Timeout:
                pass
            else:
                if SOURCE_POSITION in message.properties():
                    origin = message.data().split(b",")[_ORIGIN_COLUMN].decode().lower()
                    arrivals.append(Arrival(origin, message.publish_timestamp(), now_ms()))
            if time.monotonic() - reported_at >= REPORT_SECONDS:
                report(Arrived(arrivals))
                arrivals, reported_at = [], time.monotonic()
        client.close()


@dataclass(frozen=True, slots=True)
class Census:
    """Counts everything that ``cluster`` holds, from its first message to its last."""

    cluster: str
    service_url: str

    def __call__(self, controls: Controls, report: Callable[[Report], None]) -> None:
        """Read the whole log, unless told to stop, and report the count."""
        client = connect(self.service_url)
        reader = client.create_reader(TOPIC, pulsar.MessageId.earliest, receiver_queue_size=READER_QUEUE)
        positions: dict[int, list[str]] = {}
        messages = repeated = 0
        while not controls.stop.is_set() and reader.has_message_available():
            number, position = entry_of(reader.read_next())
            messages += 1
            known = positions.setdefault(number, [])
            if position in known:
                repeated += 1
            else:
                known.append(position)
        client.close()
        resent = messages - repeated - len(positions)
        report(Holding(self.cluster, messages, len(positions), resent, repeated))
