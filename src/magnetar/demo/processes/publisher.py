"""Publishes one airport's flights in its cluster, at a constant rate."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pulsar

from magnetar.demo.flights import Flight, data_file, read_flights
from magnetar.demo.messages import connect
from magnetar.demo.plan import FLIGHT_PROPERTY, TOPIC, Pace
from magnetar.demo.processes.workers import REPORT_SECONDS, Published

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.demo.messages import Access
    from magnetar.demo.processes.workers import Controls, Report

STEP_SECONDS = 0.005
"""Interval between two checks for due messages."""

PENDING_MAX = 20_000
"""Maximum number of messages without a receipt: more than become due during a broker restart."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """Publishes those of the first ``flights`` flights that departed from ``origin``, in ``seconds``."""

    origin: str
    access: Access
    flights: int
    seconds: float

    def __call__(self, controls: Controls, report: Callable[[Report], None]) -> None:
        """Publish all flights, and wait for all receipts."""
        flights = list(read_flights(data_file(), self.flights, self.origin))
        client = connect(self.access)
        outbox = _Outbox(
            client.create_producer(
                TOPIC, send_timeout_millis=0, max_pending_messages=PENDING_MAX, block_if_queue_full=True
            )
        )
        pace = Pace(len(flights), self.seconds)
        start = reported_at = time.monotonic()
        sent = reported = 0
        while outbox.receipts < len(flights) and not controls.stop.wait(STEP_SECONDS):
            now = time.monotonic()
            due = pace.due(now - start)
            for flight in flights[sent:due]:
                outbox.send(flight)
            sent = due
            outbox.send_failed_again()
            if now - reported_at >= REPORT_SECONDS:
                receipts = outbox.receipts
                report(Published(self.origin, receipts - reported))
                reported, reported_at = receipts, now
        report(Published(self.origin, outbox.receipts - reported))
        client.close()


class _Outbox:
    """A producer with the results of its messages; the client calls back in a thread of its own."""

    def __init__(self, producer: pulsar.Producer) -> None:
        self._producer = producer
        self._failed: deque[Flight] = deque()
        self.receipts = 0

    def send(self, flight: Flight) -> None:
        """Publish a flight without waiting for the receipt."""
        self._producer.send_async(
            flight.row,
            partial(self._answered, flight),
            properties={FLIGHT_PROPERTY: str(flight.number)},
            partition_key=flight.tail_number,
            event_timestamp=flight.scheduled_ms,
        )

    def send_failed_again(self) -> None:
        """Publish refused messages again."""
        while self._failed:
            self.send(self._failed.popleft())

    def _answered(self, flight: Flight, result: pulsar.Result, _message_id: pulsar.MessageId) -> None:
        if result == pulsar.Result.Ok:
            self.receipts += 1
        else:
            self._failed.append(flight)
