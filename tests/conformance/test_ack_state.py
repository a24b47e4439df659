"""Acknowledgement state above the persistence limit, and ``kill -9`` during it (PIP-299)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulsar
import pytest
from pulsar import ConsumerType

from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.broker import Broker
from tests.kit.messages import close_after_kill, connect, entry_of, numbered, receive_until_quiet
from tests.kit.raw import RawConnection
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.kit.raw import Part

RANGES_MAX = 1_000
MESSAGES = 5_000
QUEUE = 200
"""The client's receiver queue size."""

UNACKED_MAX = 2_500
"""Maximum number of unacknowledged messages: each can become a hole after dispatch pauses, because the client sends
acknowledgements ten times a second.
"""

SETTINGS = {"managedLedgerMaxUnackedRangesToPersist": RANGES_MAX}
PAUSING = {
    **SETTINGS,
    "dispatcherPauseOnAckStatePersistentEnabled": "true",
    "maxUnackedMessagesPerSubscription": UNACKED_MAX,
}


def publish_all(client: pulsar.Client, topic: str) -> None:
    """Publish ``MESSAGES`` entries with one message each."""
    producer = client.create_producer(topic, block_if_queue_full=True, batching_enabled=False)
    for payload in numbered(MESSAGES):
        producer.send_async(payload, None)
    producer.flush()
    producer.close()


def subscribe(client: pulsar.Client, topic: str, kind: ConsumerType = ConsumerType.Shared) -> pulsar.Consumer:
    return client.subscribe(
        topic,
        "s",
        kind,
        initial_position=pulsar.InitialPosition.Earliest,
        receiver_queue_size=QUEUE,
    )


def leave_holes(consumer: pulsar.Consumer) -> tuple[list[pulsar.Message], list[pulsar.Message]]:
    """Acknowledge every second message until no more arrive; return (acknowledged, the others)."""
    acknowledged: list[pulsar.Message] = []
    others: list[pulsar.Message] = []
    while True:
        try:
            message = consumer.receive(1_000)
        except pulsar.Timeout:
            return acknowledged, others
        if int(message.data()) % 2:
            consumer.acknowledge(message)
            acknowledged.append(message)
        else:
            others.append(message)


def drain(consumer: pulsar.Consumer) -> set[int]:
    """Acknowledge all messages until no more arrive; return their numbers."""
    drained: set[int] = set()
    while True:
        try:
            message = consumer.receive(1_000)
        except pulsar.Timeout:
            return drained
        consumer.acknowledge(message)
        drained.add(int(message.data()))


def stats(broker: Broker, topic: str) -> Any:  # noqa: ANN401 - decoded JSON
    return broker.rest.stats(topic)["subscriptions"]["s"]


def make_durable(broker: Broker, topic: str, message: pulsar.Message) -> Part:
    """Wait until all acknowledgements that the broker has received so far are durable."""
    with RawConnection.connected(broker.service_url) as connection:
        connection.subscribe(topic, "s", consumer_id=7)
        ledger_id, entry_id = entry_of(message.message_id())
        return connection.acknowledge(pb.MessageIdData(ledgerId=ledger_id, entryId=entry_id), consumer_id=7)


def numbers(messages: Iterable[pulsar.Message]) -> set[int]:
    return {int(message.data()) for message in messages}


@pytest.mark.parametrize(
    "kind", [ConsumerType.Shared, ConsumerType.KeyShared, ConsumerType.Exclusive, ConsumerType.Failover], ids=str
)
def test_dispatch_pauses_and_goes_on_when_the_holes_are_filled(tmp_path: Path, topic: str, kind: ConsumerType) -> None:
    with Broker(tmp_path, settings=PAUSING) as broker:
        client = connect(broker.service_url)
        consumer = subscribe(client, topic, kind)
        publish_all(client, topic)
        acknowledged, others = leave_holes(consumer)
        found = stats(broker, topic)
        assert found["isBlockedOnAckStatePersistent"]
        assert RANGES_MAX < found["nonContiguousDeletedMessagesRanges"] <= UNACKED_MAX
        assert found["oldestHoles"][0]["consumers"] == [found["consumers"][0]["consumerName"]]
        if kind in (ConsumerType.Shared, ConsumerType.KeyShared):
            assert len(others) <= UNACKED_MAX
        assert len(acknowledged) + len(others) < MESSAGES
        assert 'magnetar_subscription_ack_state_blocked{cluster="standalone"' in broker.rest.metrics()
        for message in others:
            consumer.acknowledge(message)
        assert numbers(acknowledged) | numbers(others) | drain(consumer) == set(range(MESSAGES))
        assert not stats(broker, topic)["isBlockedOnAckStatePersistent"]
        client.close()


def test_nothing_acknowledged_comes_again_after_kill_9_in_the_pause(tmp_path: Path, topic: str) -> None:
    with Broker(tmp_path, settings=PAUSING) as broker:
        client = connect(broker.service_url)
        consumer = subscribe(client, topic)
        publish_all(client, topic)
        acknowledged, others = leave_holes(consumer)
        wait_until(lambda: stats(broker, topic)["nonContiguousDeletedMessagesRanges"] == len(acknowledged))
        assert stats(broker, topic)["unpersistedAcks"] == 0
        make_durable(broker, topic, acknowledged[0])
        broker.kill()
        close_after_kill(client)
        broker.start()
        client = connect(broker.service_url)
        consumer = subscribe(client, topic)
        again = receive_until_quiet(consumer)
        # A message after the last acknowledged one was sent before the kill and is new afterwards: it waits for the
        # holes.
        holes = {number for number in numbers(others) if number < max(numbers(acknowledged))}
        assert numbers(again) == holes
        assert stats(broker, topic)["isBlockedOnAckStatePersistent"]
        for message in again:
            consumer.acknowledge(message)
        assert drain(consumer) == set(range(MESSAGES)) - numbers(acknowledged) - holes
        client.close()


def test_without_the_pause_as_many_come_again_as_were_announced(tmp_path: Path, topic: str) -> None:
    with Broker(tmp_path, settings=SETTINGS) as broker:
        client = connect(broker.service_url)
        consumer = subscribe(client, topic)
        publish_all(client, topic)
        acknowledged, others = leave_holes(consumer)
        assert len(acknowledged) + len(others) == MESSAGES
        wait_until(lambda: stats(broker, topic)["nonContiguousDeletedMessagesRanges"] == len(acknowledged))
        make_durable(broker, topic, acknowledged[0])
        announced = stats(broker, topic)["unpersistedAcks"]
        assert announced == MESSAGES // 2 - RANGES_MAX
        broker.kill()
        close_after_kill(client)
        broker.start()
        client = connect(broker.service_url)
        again = numbers(receive_until_quiet(subscribe(client, topic)))
        assert len(again & numbers(acknowledged)) == announced
        assert numbers(others) <= again
        client.close()
