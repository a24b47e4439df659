"""The official client at both ends: a producer at a steady rate and consumers elsewhere, each a process of its own.

A message is stamped just before the producer sends it, and again when ``receive`` returns it; both clocks are the
machine's one monotonic clock.
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
"""Number of the message, and when it was sent, in nanoseconds of the monotonic clock."""

DRAIN_TIMEOUT_S = 30.0
"""Seconds that a consumer waits for its next message before it takes the rest for missing."""

Samples = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Load:
    """A steady load."""

    topic: str
    rate: float
    """Messages a second."""

    seconds: float
    size: int
    """Bytes of a message."""

    @property
    def total(self) -> int:
        """Messages in all."""
        return int(self.rate * self.seconds)


def produce(url: str, load: Load, results: multiprocessing.Queue[Samples]) -> None:
    """Publish at the rate asked for; report the time from send to receipt."""
    client = connect(url)
    producer = client.create_producer(load.topic, block_if_queue_full=True)
    receipts = array("d")
    padding = bytes(load.size - STAMP.size)
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
    """Receive all messages, acknowledge them, and report the time since each was sent."""
    client = connect(url)
    consumer = client.subscribe(load.topic, f"received-in-{name}-{load.rate:g}", pulsar.ConsumerType.Shared)
    ready.set()
    latencies = array("d")
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
        repeated += number in seen
        seen.add(number)
        consumer.acknowledge(message)
    client.close()
    results.put({"role": name, "missing": load.total - len(seen), "repeated": repeated, "ms": latencies})
