"""Delayed delivery with the official client: punctual, in order, and exact after kills."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import pulsar
import pytest
from pulsar import ConsumerType

from magnetar.wire import commands
from magnetar.wire.entries.entry import build_entry, parse_metadata
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.broker import Broker
from tests.kit.messages import nothing_comes, publish, receive, receive_data, send_all
from tests.kit.raw import RawConnection
from tests.kit.rest import topic_path
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOON_S = 1.5


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker for one test, with a small cache, so that its memory shows the cost of delayed messages."""
    with Broker(tmp_path, settings={"delayedDeliveryTickTimeMillis": 20, "managedLedgerCacheSizeMB": 4}) as running:
        yield running


def publish_delayed(client: pulsar.Client, topic: str, delays_s: list[float]) -> dict[bytes, float]:
    """Publish a message for each delay at once; return the delivery times."""
    producer = client.create_producer(topic)
    now = time.time()
    due_ms = {b"%d" % number: int((now + delay_s) * 1000) for number, delay_s in enumerate(delays_s)}
    send_all(producer, [(payload, {"deliver_at": at_ms}) for payload, at_ms in due_ms.items()])
    producer.close()
    return {payload: at_ms / 1000 for payload, at_ms in due_ms.items()}


def receive_on_time(consumer: pulsar.Consumer, due: dict[bytes, float]) -> list[bytes]:
    """Receive all messages, none of which may be early."""
    received = []
    for _ in due:
        (message,) = receive(consumer, 1)
        assert time.time() >= due[message.data()]
        received.append(message.data())
        consumer.acknowledge(message)
    return received


def in_order(due: dict[bytes, float]) -> list[bytes]:
    return sorted(due, key=lambda payload: due[payload])


def delayed(broker: Broker, topic: str, subscription: str = "s") -> int:
    found: int = broker.rest.stats(topic)["subscriptions"][subscription]["msgDelayed"]
    return found


def test_after_and_at(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    producer = client.create_producer(topic)
    at_ms, after_ms = (int((time.time() + delay_s) * 1000) for delay_s in (SOON_S, 2 * SOON_S))
    producer.send_async(b"after", None, deliver_after=timedelta(seconds=2 * SOON_S))
    producer.send_async(b"at", None, deliver_at=at_ms)
    producer.send(b"now")
    assert receive_data(consumer, 1) == [b"now"]
    assert delayed(broker, topic) == 2
    assert broker.rest.stats(topic)["subscriptions"]["s"]["msgBacklogNoDelayed"] == 1
    assert receive_data(consumer, 1) == [b"at"]
    assert time.time() * 1000 >= at_ms
    assert receive_data(consumer, 1) == [b"after"]
    assert time.time() * 1000 >= after_ms
    assert nothing_comes(consumer)


def test_each_subscription_gets_each_in_order(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, name, ConsumerType.Shared) for name in ("a", "b")]
    due = publish_delayed(client, topic, [SOON_S + number * 37 % 100 / 100 for number in range(100)])
    for consumer in consumers:
        assert receive_on_time(consumer, due) == in_order(due)
        assert nothing_comes(consumer)


def test_kill_9_changes_nothing(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    due = publish_delayed(client, topic, [10 + number * 37 % 50 / 50 for number in range(50)])
    publish(client, topic, [b"now"])
    assert receive_data(consumer, 1, acknowledge=True) == [b"now"]
    wait_until(lambda: broker.rest.backlog(topic, "s") == len(due))
    time.sleep(0.5)  # acknowledgements are durable after acknowledgmentFlushIntervalMs
    broker.restart()
    assert receive_on_time(consumer, due) == in_order(due)
    assert nothing_comes(consumer)


def test_unacknowledged_messages_are_redelivered_after_kill_9(
    broker: Broker, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    due = publish_delayed(client, topic, [0.3, 0.4, 0.5])
    messages = receive(consumer, 3)
    consumer.acknowledge(messages[1])
    wait_until(lambda: broker.rest.backlog(topic, "s") == 2)
    consumer.close()
    broker.restart()
    assert sorted(receive_data(client.subscribe(topic, "s", ConsumerType.Shared), 2)) == [b"0", b"2"]
    assert len(due) == 3


def test_a_damaged_index_is_made_again_from_the_log(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    due = publish_delayed(client, topic, [10 + number * 37 % 50 / 50 for number in range(50)])
    wait_until(lambda: broker.rest.stats(topic)["delayedMessageIndexSizeInBytes"] > 0)
    broker.stop()
    (file,) = (broker.directory / "data").glob("delayed.sqlite")
    file.write_bytes(b"not a database" * 1000)
    broker.start()
    assert receive_on_time(consumer, due) == in_order(due)
    assert "delayed_index_damaged" in (broker.directory / "broker.log").read_text()


def test_negative_acknowledgement_of_a_delayed_message(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared, negative_ack_redelivery_delay_ms=100)
    publish_delayed(client, topic, [0.5])
    (message,) = receive(consumer, 1)
    consumer.negative_acknowledge(message)
    (again,) = receive(consumer, 1)
    assert (again.data(), again.redelivery_count()) == (b"0", 1)
    consumer.acknowledge(again)
    assert nothing_comes(consumer)


def test_seek_brings_what_is_due_at_once_and_the_rest_in_its_time(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    due = publish_delayed(client, topic, [0.2, 5.0, 0.3])
    assert [message.data() for message in receive(consumer, 2, acknowledge=True)] == [b"0", b"2"]
    consumer.seek(pulsar.MessageId.earliest)
    assert sorted(receive_data(consumer, 2, acknowledge=True)) == [b"0", b"2"]
    assert receive_on_time(consumer, {b"1": due[b"1"]}) == [b"1"]
    assert nothing_comes(consumer)


def test_unsubscribing_and_deleting_leave_nothing(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    publish_delayed(client, topic, [3600.0] * 10)
    assert delayed(broker, topic) == 10
    consumer.unsubscribe()
    later = client.subscribe(topic, "s", ConsumerType.Shared, initial_position=pulsar.InitialPosition.Earliest)
    assert nothing_comes(later)
    assert delayed(broker, topic) == 10
    later.close()
    broker.rest.delete(topic_path(topic))
    client.subscribe(topic, "s", ConsumerType.Shared)
    assert delayed(broker, topic) == 0


@dataclass
class Flood:
    """Enough delayed messages that their memory cost is visible."""

    connection: RawConnection
    topic: str
    due_ms: dict[int, int] = field(default_factory=dict)

    def publish(self, count: int, due_ms: int, spread_ms: int) -> None:
        """Publish ``count`` messages with delivery times within the interval, in a different order."""
        window = 1000
        for first in range(0, count, window):
            frames = []
            for number in range(first, min(first + window, count)):
                self.due_ms[number] = due_ms + number * 7919 % count * spread_ms // count
                metadata = pb.MessageMetadata(
                    producer_name="flood", sequence_id=number, publish_time=1, deliver_at_time=self.due_ms[number]
                )
                stored = build_entry(metadata, b"x" * 50)
                frames.append(commands.send(producer_id=1, sequence_id=number, entry=stored))
            self.connection.socket.sendall(b"".join(frames))
            self.connection.expect("SEND_RECEIPT", lambda part: part.sequence_id == number)  # noqa: B023 - at once
            self.connection.received("SEND_RECEIPT")

    def receive(self, *, in_order: bool) -> None:
        """Receive all messages, each once and not early."""
        last, ids = 0, []
        left = dict(self.due_ms)
        while left:
            for frame in self.connection.gather(20):
                if frame.command.type != pb.BaseCommand.MESSAGE:
                    continue
                metadata = parse_metadata(frame.body)
                assert left.pop(metadata.sequence_id) == metadata.deliver_at_time
                assert metadata.deliver_at_time <= time.time() * 1000
                assert last <= metadata.deliver_at_time or not in_order
                last = metadata.deliver_at_time
                ids.append(frame.command.message.message_id)
            if len(ids) >= 300 or not left:
                self.connection.send("ACK", consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=ids)
                self.connection.flow(len(ids))
                ids = []


def is_due(due_ms: int) -> bool:
    return time.time() * 1000 >= due_ms


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("count", "wait_s", "growth_mib"),
    [
        pytest.param(20_000, 12, 20, id="20,000"),
        pytest.param(1_000_000, 300, 60, id="1,000,000", marks=pytest.mark.long),
    ],
)
def test_many_take_little_memory_and_all_come_in_order(
    broker: Broker, topic: str, count: int, wait_s: int, growth_mib: int
) -> None:
    due_ms = int((time.time() + wait_s) * 1000)
    with RawConnection.connected(broker.service_url) as connection:
        connection.subscribe(topic, "s")
        connection.create_producer(topic)
        before = broker.resident_bytes()
        flood = Flood(connection, topic)
        flood.publish(count, due_ms, spread_ms=1000)
        assert delayed(broker, topic) == count
        assert broker.resident_bytes() - before < growth_mib << 20
    broker.restart()
    with RawConnection.connected(broker.service_url) as connection:
        connection.subscribe(topic, "s")
        # Messages that are due when the index is rebuilt are delivered directly.
        wait_until(lambda: delayed(broker, topic) == count or is_due(due_ms), 600)
        assert broker.resident_bytes() - before < growth_mib << 20
        flood.connection = connection
        is_early = not is_due(due_ms)
        connection.flow(1000)
        flood.receive(in_order=is_early)
        wait_until(lambda: broker.rest.backlog(topic, "s") == 0)
        assert delayed(broker, topic) == 0
        # Delivery in a different order than the log leaves as many holes in the cursor, whose records are in memory
        # too.
        assert broker.resident_bytes() - before < 2 * growth_mib << 20
