"""Clients that publish and consume without an end while the tenant of their topics moves between clusters."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pulsar

from tests.kit.messages import connect
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

KEYS = 5
BILLING, AUDIT = "billing", "audit"


class Traffic:
    """Producers and consumers that stay connected during all moves."""

    def __init__(self, service_url: str, publishing_to: Sequence[str]) -> None:
        self.client = connect(service_url)
        self.sent: dict[str, int] = defaultdict(int)
        """By topic and key: the number of the last message."""
        self.received: dict[str, Counter[str]] = {BILLING: Counter(), AUDIT: Counter()}
        self.out_of_order: list[str] = []
        self.failures: list[BaseException] = []
        self._stop = threading.Event()
        self._over = threading.Event()
        kinds = {BILLING: pulsar.ConsumerType.KeyShared, AUDIT: pulsar.ConsumerType.Shared}
        topics = [(topic, name) for topic in publishing_to for name in kinds]
        consumers = [self.client.subscribe(topic, name, consumer_type=kinds[name]) for topic, name in topics]
        jobs = [threading.Thread(target=self._publish, args=(topic,)) for topic in publishing_to]
        jobs += [
            threading.Thread(target=self._consume, args=(consumer, name))
            for consumer, (_, name) in zip(consumers, topics, strict=True)
        ]
        self._jobs = jobs
        for job in jobs:
            job.start()

    @property
    def published(self) -> int:
        return sum(self.sent.values())

    def stop(self) -> None:
        """Stop publishing, and wait until everything is delivered."""
        self._stop.set()
        wait_until(lambda: self.failures or self._has_everything(), 60, what="all messages delivered")
        time.sleep(1)  # a repetition would arrive now
        self._over.set()
        for job in self._jobs:
            job.join()
        self.client.close()

    def _has_everything(self) -> bool:
        return all(len(each) >= self.published for each in self.received.values())

    def repeated(self, subscription: str) -> int:
        return sum(count - 1 for count in self.received[subscription].values())

    def _publish(self, topic: str) -> None:
        try:
            producer = self.client.create_producer(topic, block_if_queue_full=True)
            while not self._stop.wait(0.01):
                for key in map(str, range(KEYS)):
                    number = self.sent[f"{topic} {key}"] + 1
                    producer.send(f"{topic} {key} {number}".encode(), partition_key=key)
                    self.sent[f"{topic} {key}"] = number
            producer.close()
        except BaseException as error:  # noqa: BLE001 - the test fails with it
            self.failures.append(error)

    def _consume(self, consumer: pulsar.Consumer, subscription: str) -> None:
        newest: dict[str, int] = defaultdict(int)
        received = self.received[subscription]
        try:
            while not self._over.is_set():
                try:
                    message = consumer.receive(200)
                except pulsar.Timeout:
                    continue
                text = message.data().decode()
                key, _, number = text.rpartition(" ")
                if text not in received and int(number) != newest[key] + 1:
                    self.out_of_order.append(f"{subscription}: {text} after {newest[key]}")
                newest[key] = max(newest[key], int(number))
                received[text] += 1
                consumer.acknowledge(message)
        except BaseException as error:  # noqa: BLE001 - the test fails with it
            self.failures.append(error)
