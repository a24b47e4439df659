"""End-to-end load with the official client: a producer at a constant rate, and consumers in other processes.

A message has the time right before the producer sends it; the consumer compares it with the time at which ``receive``
returns. Both clocks are the machine's monotonic clock.
"""

from __future__ import annotations

import struct
import time
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulsar

from tests.kit.messages import connect

if TYPE_CHECKING:
    import multiprocessing
    from multiprocessing.synchronize import Event

STAMP = struct.Struct(">Qq")
"""The number of the message and its send time in nanoseconds of the monotonic clock."""

MARK = b"magnetar bench"
"""Follows the stamp in each message, so that it can be found in a packet."""

DRAIN_TIMEOUT_S = 30.0
"""Time limit in seconds for the next message, after which the others count as missing."""

Samples = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Load:
    """A load at a constant rate."""

    topic: str
    rate: float
    """Messages per second."""

    seconds: float
    size: int
    """Bytes per message."""

    @property
    def total(self) -> int:
        """Return the number of messages."""
        return int(self.rate * self.seconds)


def produce(url: str, load: Load, results: multiprocessing.Queue[Samples]) -> None:
    """Publish at the given rate; report the times from send to receipt."""
    client = connect(url)
    producer = client.create_producer(load.topic, block_if_queue_full=True)
    receipts = array("d")
    padding = MARK.ljust(load.size - STAMP.size, b"\0")
    started = time.monotonic_ns()
    for number in range(load.total):
        due = started + int(number * 1e9 / load.rate)
        while (now := time.monotonic_ns()) < due:
            time.sleep(min((due - now) / 1e9, 0.001))

        def on_receipt(_result: pulsar.Result, _id: pulsar.MessageId, sent: int = now) -> None:
            receipts.append((time.monotonic_ns() - sent) / 1e6)

        producer.send_async(STAMP.pack(number, now) + padding, on_receipt)
    producer.flush()
    took = (time.monotonic_ns() - started) / 1e9
    client.close()
    results.put({"role": "producer", "published": load.total, "rate": load.total / took, "ms": receipts})


def consume(name: str, url: str, load: Load, ready: Event, results: multiprocessing.Queue[Samples]) -> None:
    """Receive and acknowledge all messages; report the times since they were sent."""
    client = connect(url)
    consumer = client.subscribe(load.topic, f"received-in-{name}-{load.rate:g}", pulsar.ConsumerType.Shared)
    ready.set()
    latencies, numbers = array("d"), array("Q")
    seen: set[int] = set()
    repeated = 0
    timeout_ms = int(DRAIN_TIMEOUT_S * 1000)
    while len(seen) < load.total:
        try:
            message = consumer.receive(timeout_ms)
        except pulsar.Timeout:
            break
        number, sent = STAMP.unpack_from(message.data())
        latencies.append((time.monotonic_ns() - sent) / 1e6)
        numbers.append(number)
        repeated += number in seen
        seen.add(number)
        consumer.acknowledge(message)
    client.close()
    missing = load.total - len(seen)
    results.put({"role": name, "missing": missing, "repeated": repeated, "ms": latencies, "numbers": numbers})
