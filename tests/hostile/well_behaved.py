"""The well-behaved client: one producer and one consumer of the official client in a process of their own.

``python -m tests.hostile.well_behaved PUBLISH_URL CONSUME_URL TOPIC JOURNAL`` publishes RATE messages a second until it
is stopped. The two URLs are of one broker, or of two clusters that replicate the topic.
Each event is one record in the journal: its kind, the number of the message, and the monotonic clock, which all
processes of a machine share. Messages are due at fixed times, so that a delay of one shows in all that wait behind it.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading
import time
from typing import TYPE_CHECKING

import pulsar

from tests.kit.messages import connect

if TYPE_CHECKING:
    from collections.abc import Sequence

RATE = 100
"""Messages a second."""

SIZE = 100
"""Bytes of a message."""

PENDING_MAX = 100_000
"""Messages without a receipt that the client keeps, far more than any test publishes in a row."""

SUBSCRIPTION = "well-behaved"
EVENT = struct.Struct("<cQd")
DUE, RECEIPT, RECEIVED = b"D", b"R", b"M"
SWITCH_INTERVAL_S = 0.0005
"""Switch interval of Python's threads: the default of 5 ms would show in the figures."""


class Journal:
    """What happened, written at once; a write of one record is one system call."""

    def __init__(self, path: str) -> None:
        """Append to ``path``."""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, kind: bytes, number: int, at: float) -> None:
        """Write one event."""
        os.write(self._descriptor, EVENT.pack(kind, number, at))


def publish(producer: pulsar.Producer, journal: Journal, stopping: threading.Event) -> None:
    """Publish each message when it is due, whatever became of those before."""

    def answered(number: int, result: pulsar.Result) -> None:
        if result == pulsar.Result.Ok:
            journal.note(RECEIPT, number, time.monotonic())

    started, number = time.monotonic(), 0
    while not stopping.wait(max(0.0, started + number / RATE - time.monotonic())):
        journal.note(DUE, number, started + number / RATE)
        producer.send_async(
            b"%d" % number + bytes(SIZE),
            lambda result, _id, number=number: answered(number, result),
        )
        number += 1


def main(arguments: Sequence[str]) -> int:
    """Run until SIGTERM."""
    publish_url, consume_url, topic, path = arguments
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    journal = Journal(path)

    def received(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        journal.note(RECEIVED, int(message.data().rstrip(b"\0")), time.monotonic())
        consumer.acknowledge(message)

    consuming, publishing = connect(consume_url), connect(publish_url)
    consumer = consuming.subscribe(topic, SUBSCRIPTION, message_listener=received)
    producer = publishing.create_producer(
        topic,
        batching_enabled=False,
        block_if_queue_full=True,
        max_pending_messages=PENDING_MAX,
        max_pending_messages_across_partitions=PENDING_MAX,
        send_timeout_millis=0,
    )
    publish(producer, journal, stopping)
    assert consumer.topic() == topic  # it is kept for as long as the process lives
    os._exit(0)  # the close of the client waits for a broker that may be gone


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
