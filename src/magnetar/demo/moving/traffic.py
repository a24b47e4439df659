"""Stock clients that publish and consume all the time, and are never told about a move."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import pulsar

from magnetar.demo.account import DemoError
from magnetar.demo.messages import Access, connect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.demo.moving.account import Account

SUBSCRIPTIONS: Final = {"billing": pulsar.ConsumerType.KeyShared, "audit": pulsar.ConsumerType.Exclusive}
KEYS: Final = 4
RECEIVE_MS: Final = 200
QUIET_S: Final = 1.0
"""Time after the last message in which a repeated one would arrive."""


class Traffic:
    """Publishes to topics at a rate, and consumes them with all subscriptions, until ``stop``."""

    def __init__(self, service_url: str, topics: Sequence[str], per_second: float, account: Account) -> None:
        """Connect, and begin."""
        self._account = account
        self._pause_s = len(topics) / per_second
        self._client = connect(Access(service_url))
        self._ends = threading.Event()
        self._is_over = threading.Event()
        self._failures: list[str] = []
        consumers = [
            (self._client.subscribe(topic, name, consumer_type=kind), name)
            for topic in topics
            for name, kind in SUBSCRIPTIONS.items()
        ]
        self._threads = [threading.Thread(target=self._guarded, args=(self._publish, each)) for each in topics]
        self._threads += [threading.Thread(target=self._guarded, args=(self._consume, *each)) for each in consumers]
        for thread in self._threads:
            thread.start()

    def check(self) -> None:
        """Raise DemoError if an application has got an error."""
        if self._failures:
            raise DemoError(self._failures[0])

    def stop(self, phases: Sequence[str], timeout_s: float) -> None:
        """Stop publishing, and wait until everything has arrived, at most ``timeout_s`` seconds."""
        self._ends.set()
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and any(self._account.lost(each, tuple(SUBSCRIPTIONS)) for each in phases):
            time.sleep(RECEIVE_MS / 1000)
        time.sleep(QUIET_S)
        self.close()

    def close(self) -> None:
        """End all threads, and the connections. A second call has no effect."""
        if self._is_over.is_set():
            return
        self._ends.set()
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        self._client.close()

    def _guarded(self, job: object, *arguments: object) -> None:
        assert callable(job)
        try:
            job(*arguments)
        except pulsar.PulsarException as error:
            self._failures.append(f"an application got an error: {error!r}")

    def _publish(self, topic: str) -> None:
        producer = self._client.create_producer(topic, send_timeout_millis=0)
        turn = 0
        while not self._ends.wait(self._pause_s):
            key = str(turn % KEYS)
            stream = f"{topic} {key}"
            producer.send(f"{stream} {self._account.next_number(stream)}".encode(), partition_key=key)
            self._account.sent(stream)
            turn += 1

    def _consume(self, consumer: pulsar.Consumer, subscription: str) -> None:
        while not self._is_over.is_set():
            try:
                message = consumer.receive(RECEIVE_MS)
            except pulsar.Timeout:
                continue
            stream, _, number = message.data().decode().rpartition(" ")
            self._account.received(subscription, stream, int(number))
            consumer.acknowledge(message)
