"""A known load on a broker, to compare its metrics with: the rates at which official clients saw messages."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import pulsar
from prometheus_client.parser import text_string_to_metric_families

from tests.kit.messages import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.kit.clusters import Cluster
    from tests.kit.rest import Json

INTERVAL_S = 10.0
"""Interval in which a broker measures rates."""

LOAD_S = 2 * INTERVAL_S + 3
"""Seconds after which the last complete interval lies within the load."""

TOLERANCE = 0.05


class Seen:
    """Messages that a client sent or received, with their times."""

    def __init__(self) -> None:
        """Begin without messages."""
        self.times: list[float] = []

    def note(self) -> None:
        """Note a message."""
        self.times.append(time.monotonic())

    def explains(self, rate: float) -> bool:
        """Return whether the rate is within TOLERANCE of that of some interval; the load varies on a busy machine."""
        times = tuple(self.times)
        starts = [start for start in times if start + INTERVAL_S <= times[-1]]
        rates = [sum(start <= each < start + INTERVAL_S for each in times) / INTERVAL_S for start in starts]
        return min(rates) * (1 - TOLERANCE) <= rate <= max(rates) * (1 + TOLERANCE)


class KnownLoad:
    """Clients that publish and consume in threads until the end of the context."""

    def __init__(self) -> None:
        """Begin without clients."""
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        """Return the load."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop the clients."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def publish(self, producer: pulsar.Producer, per_second: int, size: int) -> Seen:
        """Publish messages of ``size`` bytes."""
        seen = Seen()

        def publish_next() -> None:
            producer.send_async(bytes(size), lambda *_: seen.note())
            time.sleep(1 / per_second)

        self._start(publish_next)
        return seen

    def consume(self, consumer: pulsar.Consumer) -> Seen:
        """Receive and acknowledge messages."""
        seen = Seen()

        def receive_next() -> None:
            try:
                message = consumer.receive(100)
            except pulsar.Timeout:
                return
            seen.note()
            consumer.acknowledge(message)

        self._start(receive_next)
        return seen

    def consume_twice(self, consumer: pulsar.Consumer) -> tuple[Seen, Seen]:
        """Let messages be redelivered twice per second; return all receipts, and those of redelivered messages."""
        seen, again = Seen(), Seen()
        redelivered_at = time.monotonic()

        def receive_next() -> None:
            nonlocal redelivered_at
            if time.monotonic() > redelivered_at + 0.5:
                redelivered_at = time.monotonic()
                consumer.redeliver_unacknowledged_messages()
            try:
                message = consumer.receive(100)
            except pulsar.Timeout:
                return
            seen.note()
            if message.redelivery_count():
                again.note()
                consumer.acknowledge(message)

        self._start(receive_next)
        return seen, again

    def _start(self, step: Callable[[], None]) -> None:
        def run() -> None:
            while not self._ended.is_set():
                step()

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()


class Scrape:
    """The samples of an exposition."""

    def __init__(self, text: str) -> None:
        """Parse the text."""
        families = text_string_to_metric_families(text)
        self._samples = [sample for family in families for sample in family.samples]

    def value(self, name: str, labels: Mapping[str, str]) -> float:
        """Return the value of the only sample with this name and these labels, besides others."""
        values = [each.value for each in self._samples if each.name == name and labels.items() <= each.labels.items()]
        assert len(values) == 1, (name, labels, values)
        return values[0]


SINGLE, BATCHED = "persistent://public/default/single", "persistent://public/default/batched"
SIZE = 3000
"""Bytes of a message of SINGLE: its entry is in the bucket up to 4 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What clients of two topics saw, and what the broker exposed."""

    single: Seen
    batched: Seen
    shared: Seen
    """Consumer ``c`` of the subscription ``shared`` of SINGLE."""
    twice: Seen
    again: Seen
    """All messages and redelivered messages of the subscription ``twice`` of SINGLE."""
    exclusive: Seen
    """Subscription ``exclusive`` of BATCHED; ``left`` has no consumer."""
    text: str
    stats: Json
    """Stats of SINGLE."""
    at_ms: float
    """Time of the scrape, in milliseconds since the epoch."""


def measure(broker: Cluster) -> Measured:
    """Apply a load, and scrape the metrics during it."""
    client = connect(broker.service_url)
    try:
        with KnownLoad() as load:
            shared = load.consume(client.subscribe(SINGLE, "shared", pulsar.ConsumerType.Shared, consumer_name="c"))
            twice, again = load.consume_twice(client.subscribe(SINGLE, "twice", pulsar.ConsumerType.Shared))
            exclusive = load.consume(client.subscribe(BATCHED, "exclusive"))
            client.subscribe(BATCHED, "left").close()
            single = load.publish(client.create_producer(SINGLE, producer_name="p"), 50, SIZE)
            batching = {"batching_enabled": True, "batching_max_publish_delay_ms": 100}
            batched = load.publish(client.create_producer(BATCHED, **batching), 100, 50)
            time.sleep(LOAD_S)
            return Measured(
                single=single,
                batched=batched,
                shared=shared,
                twice=twice,
                again=again,
                exclusive=exclusive,
                text=broker.rest.metrics(),
                stats=broker.rest.stats(SINGLE),
                at_ms=time.time() * 1000,
            )
    finally:
        client.close()
