"""A consumer that behaves like an application: most acknowledgements are immediate, some late, and a few never sent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import pulsar

from magnetar.demo.messages import connect, entry_of, now_ms
from magnetar.demo.plan import SUBSCRIPTION, TOPIC, patience_ms
from magnetar.demo.processes.workers import REPORT_SECONDS, Consumed

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.demo.messages import Access
    from magnetar.demo.processes.workers import Controls, Report
    from magnetar.demo.tally import Entry

RECEIVE_TIMEOUT_MS = 20
"""Time limit for one receive; it bounds the additional delay of late acknowledgements."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer of the shared, replicated subscription in the cluster of ``stage``."""

    access: Access
    stage: int
    holds: bool
    """Whether it never acknowledges some messages."""

    def __call__(self, controls: Controls, report: Callable[[Report], None]) -> None:
        """Consume until stopped; unacknowledged messages stay unacknowledged."""
        client = connect(self.access)
        consumer = client.subscribe(
            TOPIC,
            SUBSCRIPTION,
            consumer_type=pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
            replicate_subscription_state_enabled=True,
        )
        inbox = _Inbox(consumer, self.stage, self.holds)
        reported_at = time.monotonic()
        while not controls.stop.is_set():
            try:
                inbox.receive(consumer.receive(timeout_millis=RECEIVE_TIMEOUT_MS))
            except pulsar.Timeout:
                pass
            except pulsar.PulsarException:
                controls.stop.wait(REPORT_SECONDS)  # a killed broker ends this consumer too
            inbox.acknowledge_due(now_ms())
            if time.monotonic() - reported_at >= REPORT_SECONDS:
                report(inbox.take_report())
                reported_at = time.monotonic()
        if not controls.broker_lost.is_set():
            consumer.close()  # flushes the client's batched acknowledgements
            client.close()
        report(inbox.take_report())


@dataclass(slots=True)
class _Inbox:
    """The received messages that the application has not finished."""

    consumer: pulsar.Consumer
    stage: int
    holds: bool
    late: list[tuple[float, Entry, pulsar.MessageId]] = field(default_factory=list)
    delivered: list[Entry] = field(default_factory=list)
    acknowledged: list[tuple[Entry, float]] = field(default_factory=list)

    def receive(self, message: pulsar.Message) -> None:
        """Handle a message: acknowledge it at once, later or never."""
        entry = entry_of(message)
        self.delivered.append(entry)
        patience = patience_ms(entry[0], holds=self.holds)
        if patience == 0:
            self._acknowledge(entry, message.message_id())
        elif patience is not None:
            heappush(self.late, (now_ms() + patience, entry, message.message_id()))

    def acknowledge_due(self, now: float) -> None:
        """Send the late acknowledgements that are due."""
        while self.late and self.late[0][0] <= now:
            _, entry, message_id = heappop(self.late)
            self._acknowledge(entry, message_id)

    def take_report(self) -> Consumed:
        """Return the results since the last report."""
        report = Consumed(self.stage, self.delivered, self.acknowledged)
        self.delivered, self.acknowledged = [], []
        return report

    def _acknowledge(self, entry: Entry, message_id: pulsar.MessageId) -> None:
        self.consumer.acknowledge(message_id)
        self.acknowledged.append((entry, now_ms()))
