"""One broker, killed at random moments under load and during recovery: its log and its cursors stay correct.

Ledgers and segments are tiny, so that publishing, acknowledging with holes, rollover, trimming and snapshots are in
progress at any moment. ``MAGNETAR_CHAOS_SEED`` repeats the random choices of a run, ``MAGNETAR_CHAOS_KILLS`` sets the
number of kills.
"""

from __future__ import annotations

import os
import random
import time
from functools import partial
from typing import TYPE_CHECKING

import pulsar
import pytest

from magnetar.offline.check import check
from magnetar.wire.entries.entry import payload_of
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.chaos.mesh import SEED, say
from tests.chaos.test_kills import has_at_least
from tests.kit.background import Background, within
from tests.kit.broker import Broker
from tests.kit.messages import connect
from tests.kit.raw import ClosedByPeerError, RawConnection, name_of, part_of
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.wire.frame import Frame

KILLS = int(os.environ.get("MAGNETAR_CHAOS_KILLS", "200"))
RATE = 400
"""Messages per second on each topic."""

SETTINGS = {
    "managedLedgerMaxEntriesPerLedger": 60,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "logSizeLimit": 150_000,
    "retentionCheckIntervalInSeconds": 1,
    "brokerDeduplicationEnabled": "true",
    "brokerDeduplicationEntriesInterval": 50,
    "brokerDeduplicationSnapshotIntervalSeconds": 1,
}
KEPT, TRIMMED = "persistent://public/kept/t", "persistent://public/trimmed/t"
RECOVERY_TIMEOUT_S = 60.0
RECEIPTS_TIMEOUT_S = 120.0
"""Time limit for calls of the official client without a time-out of their own."""

LEFT_FOR_LATER = 0.1
"""Fraction of the messages that a consumer acknowledges only after a redelivery."""

KILLED_AGAIN = 0.2
"""Probability that a broker is killed again during its start."""

INDIVIDUAL = pb.CommandAck.Individual

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300 + KILLS * 15)]


class Publisher(Background):
    """A named producer that publishes numbers despite broker failures."""

    def __init__(self, service_url: str, topic: str) -> None:
        """Start publishing."""
        super().__init__()
        self.receipted: list[int] = []
        self.failures: list[str] = []
        self._client = connect(service_url, operation_timeout_seconds=120)
        self._producer = self._client.create_producer(
            topic, f"publisher of {topic}", block_if_queue_full=True, send_timeout_millis=0
        )
        self.begin()

    def stop(self) -> None:
        """Stop, and wait for all receipts."""
        self.end()
        within(RECEIPTS_TIMEOUT_S, self._producer.flush, what=f"receipts of {len(self.receipted)} and more messages")

    def abandon(self) -> None:
        """Stop without waiting for receipts."""
        self.stopping.set()
        within(RECEIPTS_TIMEOUT_S, self._client.shutdown, what="the end of a publisher's client")
        self.end()

    def work(self) -> None:
        """See Background."""
        started, sent = time.monotonic(), 0
        while not self.stopping.is_set():
            while sent < (time.monotonic() - started) * RATE:
                self._producer.send_async(b"%d" % sent, partial(self._on_receipt, sent))
                sent += 1
            self.stopping.wait(0.01)

    def _on_receipt(self, number: int, result: pulsar.Result, _id: pulsar.MessageId) -> None:
        if result == pulsar.Result.Ok:
            self.receipted.append(number)
        else:
            self.failures.append(f"{number}: {result}")


class Acknowledger(Background):
    """A consumer that acknowledges with receipts and leaves holes, and records wrong redeliveries."""

    def __init__(self, service_url: str, topic: str, chance: random.Random, *, leaves_holes: bool = True) -> None:
        """Start consuming."""
        super().__init__()
        self.delivered: set[int] = set()
        self.acknowledged: set[int] = set()
        """Numbers with a receipt of their acknowledgement."""
        self.repeated: list[int] = []
        """Numbers delivered again after that."""
        self.leaves_holes = leaves_holes
        self._service_url = service_url
        self._topic = topic
        self._chance = chance
        self._requests = 1000
        self._under_way: dict[int, list[int]] = {}
        """By request id, the numbers that it acknowledges."""
        self.begin()

    def work(self) -> None:
        """See Background."""
        while not self.stopping.is_set():
            try:
                with RawConnection.connected(self._service_url) as connection:
                    connection.subscribe(self._topic, "s")
                    connection.flow(1000)
                    self._under_way.clear()
                    while not self.stopping.is_set():
                        self._handle(connection, connection.gather(0.05))
            except (OSError, ClosedByPeerError):
                self.stopping.wait(0.02)

    def _handle(self, connection: RawConnection, frames: list[Frame]) -> None:
        messages = [frame for frame in frames if name_of(frame) == "MESSAGE"]
        chosen = []
        for message in messages:
            number = int(bytes(payload_of(message.body)))
            self.delivered.add(number)
            if number in self.acknowledged:
                self.repeated.append(number)
            if not self.leaves_holes or self._chance.random() > LEFT_FOR_LATER:
                chosen.append((number, part_of(message).message_id))
        for part in (part_of(frame) for frame in frames if name_of(frame) == "ACK_RESPONSE"):
            numbers = self._under_way.pop(part.request_id)
            if not part.HasField("error"):
                self.acknowledged.update(numbers)
        if chosen:
            self._requests += 1
            self._under_way[self._requests] = [number for number, _ in chosen]
            ids = [message_id for _, message_id in chosen]
            connection.send("ACK", consumer_id=1, ack_type=INDIVIDUAL, message_id=ids, request_id=self._requests)
        if messages:
            connection.flow(len(messages))


class LogReader:
    """Reads a topic's log from its last position, and requires consecutive numbers."""

    def __init__(self, service_url: str, topic: str) -> None:
        """Start at the beginning."""
        self._service_url = service_url
        self._topic = topic
        self._after = pulsar.MessageId.earliest
        self.following = 0
        """The next expected number."""

    def read_through(self, number: int) -> None:
        """Read through ``number``, which has a receipt."""
        client = connect(self._service_url)
        try:
            reader = client.create_reader(self._topic, self._after)
            while self.following <= number:
                message = reader.read_next(20_000)
                assert int(message.data()) == self.following, f"{message.data()!r} where {self.following} belongs"
                self._after = message.message_id()
                self.following += 1
        finally:
            within(RECEIPTS_TIMEOUT_S, client.close, what="the end of a reader's client")


def kill(broker: Broker, chance: random.Random) -> str:
    """Kill the broker after a random time, sometimes again during recovery; check its data; describe what was done."""
    time.sleep(chance.uniform(0.0, 1.0))
    broker.kill()
    said = "killed"
    while chance.random() < KILLED_AGAIN:
        broker.launch()
        time.sleep(chance.uniform(0.0, 1.0))
        broker.kill()
        said += ", and again while it started"
    report = check(broker.directory / "data")
    assert report.intact, report.problems
    assert not report.losses
    return f"{said}; {report.log.torn_bytes} torn bytes"


def test_no_kill_makes_the_log_or_a_cursor_lie(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    say(f"\nMAGNETAR_CHAOS_SEED={SEED} MAGNETAR_CHAOS_KILLS={KILLS}")
    with Broker(tmp_path, settings=SETTINGS) as broker:
        for namespace, limit in (("kept", -1), ("trimmed", 0)):
            broker.rest.put(f"namespaces/public/{namespace}", {})
            retention = {"retentionTimeInMinutes": limit, "retentionSizeInMB": limit}
            broker.rest.post(f"namespaces/public/{namespace}/retention", retention)
        consumers = {topic: Acknowledger(broker.service_url, topic, chance) for topic in (KEPT, TRIMMED)}
        publishers = {topic: Publisher(broker.service_url, topic) for topic in (KEPT, TRIMMED)}
        log = LogReader(broker.service_url, KEPT)
        try:
            for number in range(KILLS):
                said = kill(broker, chance)
                started = time.monotonic()
                broker.start()
                for publisher in publishers.values():
                    enough = len(publisher.receipted) + 1
                    wait_until(partial(has_at_least, publisher.receipted, enough), RECOVERY_TIMEOUT_S, what="a receipt")
                took = time.monotonic() - started
                log.read_through(publishers[KEPT].receipted[-1])
                say(f"kill {number + 1}: {said}; receipts again after {took:.1f} s; log counts to {log.following - 1}")
                for consumer in consumers.values():
                    assert consumer.repeated == []
            for publisher in publishers.values():
                publisher.stop()
            for consumer in consumers.values():
                consumer.leaves_holes = False
            broker.restart()  # delivers the holes again
            count(broker, publishers, consumers)
        finally:
            for publisher in publishers.values():
                publisher.abandon()
            for consumer in consumers.values():
                consumer.end()
    report = check(tmp_path / "data")
    assert report.intact, report.problems


def count(broker: Broker, publishers: dict[str, Publisher], consumers: dict[str, Acknowledger]) -> None:
    """Consume everything that is left, and check that it is exactly the expected set."""
    for topic, consumer in consumers.items():
        wait_until(lambda t=topic: broker.rest.backlog(t, "s") == 0, 120, what=f"all of {topic}")  # type: ignore[misc]
        receipted = publishers[topic].receipted
        assert consumer.repeated == []
        assert publishers[topic].failures == []
        assert receipted == list(range(len(receipted)))
        assert consumer.delivered == set(receipted)
    LogReader(broker.service_url, KEPT).read_through(publishers[KEPT].receipted[-1])
    wait_until(lambda: len(broker.rest.internal_stats(TRIMMED)["ledgers"]) <= 2, what="the other to be trimmed")
