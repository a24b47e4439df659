"""Clients that publish and consume without an end while the tenant of their topics moves between clusters."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pulsar

from tests.kit.messages import Option, connect
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KEYS = 5
ROUND_S = 0.01
"""Default pause after a message of each key."""
BILLING, AUDIT = "billing", "audit"
KINDS = {BILLING: pulsar.ConsumerType.KeyShared, AUDIT: pulsar.ConsumerType.Shared}


class Traffic:
    """Producers and consumers that stay connected during all moves."""

    def __init__(
        self,
        service_url: str,
        publishing_to: Sequence[str],
        round_s: float = ROUND_S,
        *,
        shares_connections: bool = True,
        **options: Option,
    ) -> None:
        """Publish a message of each key to each topic, and pause for ``round_s`` seconds, again and again.

        Producers and consumers share connections or have connections of their own. ``options`` are those of the
        producers.
        """
        self._options = options
        self._round_s = round_s
        self.client = connect(service_url)
        self._publishing = self.client if shares_connections else connect(service_url)
        self.sent: dict[str, int] = defaultdict(int)
        """By topic and key: the number of the last message."""
        self.received: dict[str, Counter[str]] = {BILLING: Counter(), AUDIT: Counter()}
        self.out_of_order: list[str] = []
        self.again: list[tuple[float, str, str]] = []
        """Time, subscription and text of each message that was received before."""
        self.failures: list[BaseException] = []
        self._stop = threading.Event()
        for topic in publishing_to:
            for name, kind in KINDS.items():
                self.client.subscribe(topic, name, consumer_type=kind, message_listener=self._listener(name))
        self._publishers = [threading.Thread(target=self._publish, args=(topic,)) for topic in publishing_to]
        for publisher in self._publishers:
            publisher.start()

    @property
    def published(self) -> int:
        return sum(self.sent.values())

    def go_on(self, where: str) -> None:
        """Wait for more traffic, or a failure."""
        before = self.published
        wait_until(lambda: self.failures or self.published > before + 100, 60, what=f"traffic in {where}")

    def stop(self) -> None:
        """Stop publishing, and wait until everything is delivered."""
        self._stop.set()
        for publisher in self._publishers:
            publisher.join()
        try:
            wait_until(lambda: self.failures or self._has_everything(), 60, what="all messages delivered")
            time.sleep(1)  # a repetition would arrive now
        finally:
            self.client.close()
            if self._publishing is not self.client:
                self._publishing.close()

    def _has_everything(self) -> bool:
        return all(len(each) >= self.published for each in self.received.values())

    def repeated(self, subscription: str) -> int:
        return sum(count - 1 for count in self.received[subscription].values())

    def _publish(self, topic: str) -> None:
        try:
            producer = self._publishing.create_producer(topic, block_if_queue_full=True, **self._options)
            while not self._stop.wait(self._round_s):
                for key in map(str, range(KEYS)):
                    number = self.sent[f"{topic} {key}"] + 1
                    producer.send(f"{topic} {key} {number}".encode(), partition_key=key)
                    self.sent[f"{topic} {key}"] = number
            producer.close()
        except BaseException as error:  # noqa: BLE001 - the test fails with it
            self.failures.append(error)

    def _listener(self, subscription: str) -> Callable[[pulsar.Consumer, pulsar.Message], None]:
        """Return the listener of one consumer."""
        newest: dict[str, int] = defaultdict(int)
        received = self.received[subscription]

        def take(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
            try:
                text = message.data().decode()
                key, _, number = text.rpartition(" ")
                if text not in received and int(number) != newest[key] + 1:
                    self.out_of_order.append(f"{subscription}: {text} after {newest[key]}")
                newest[key] = max(newest[key], int(number))
                if text in received:
                    self.again.append((time.time(), subscription, text))
                received[text] += 1
                consumer.acknowledge(message)
            except BaseException as error:  # noqa: BLE001 - the test fails with it
                self.failures.append(error)

        return take
