"""Acknowledgements: acknowledged messages are never delivered again, all others are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulsar
from pulsar import ConsumerType

from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.messages import (
    nothing_comes,
    numbered,
    publish,
    publish_in_batches,
    receive,
    receive_data,
)
from tests.kit.raw import RawConnection
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.broker import Broker


def test_acknowledged_messages_do_not_come_again(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(10))
    receive(consumer, 6, acknowledge=True)
    consumer.close()
    assert receive_data(client.subscribe(topic, "s"), 4) == numbered(4, first=6)


def test_out_of_order_acknowledgements_are_kept_one_by_one(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    publish(client, topic, numbered(10))
    messages = receive(consumer, 10)
    for number in (1, 3, 4, 8):
        consumer.acknowledge(messages[number])
    wait_until(lambda: broker.rest.backlog(topic, "s") == 6)
    consumer.close()
    again = client.subscribe(topic, "s", ConsumerType.Shared)
    assert receive_data(again, 6) == [b"0", b"2", b"5", b"6", b"7", b"9"]
    assert nothing_comes(again)


def test_deleted_ranges_are_shown_open_below_and_closed_above(
    broker: Broker, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    publish(client, topic, numbered(10))
    messages = receive(consumer, 10)
    for number in (0, 1, 2, 5, 6, 9):
        consumer.acknowledge(messages[number])
    wait_until(lambda: broker.rest.backlog(topic, "s") == 4)
    ledger = messages[0].message_id().ledger_id()
    cursor = broker.rest.cursor(topic, "s")
    assert cursor["markDeletePosition"] == f"{ledger}:2"
    assert cursor["individuallyDeletedMessages"] == f"[({ledger}:4..{ledger}:6],({ledger}:8..{ledger}:9]]"


def test_cumulative_acknowledgement_covers_all_before(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(10))
    consumer.acknowledge_cumulative(receive(consumer, 7)[-1])
    wait_until(lambda: broker.rest.backlog(topic, "s") == 3)
    consumer.close()
    assert receive_data(client.subscribe(topic, "s"), 3) == [b"7", b"8", b"9"]


def test_cumulative_acknowledgement_absorbs_individual_ones(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(10))
    messages = receive(consumer, 10)
    consumer.acknowledge(messages[5])
    consumer.acknowledge_cumulative(messages[4])
    wait_until(lambda: broker.rest.backlog(topic, "s") == 4)
    position = messages[5].message_id()
    cursor = broker.rest.cursor(topic, "s")
    assert cursor["markDeletePosition"] == f"{position.ledger_id()}:{position.entry_id()}"
    assert cursor["individuallyDeletedMessages"] == "[]"


def test_batch_is_acknowledged_when_all_its_messages_are(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    publish_in_batches(client, topic, numbered(10), per_batch=5)
    messages = receive(consumer, 10)
    for message in messages[:7]:
        consumer.acknowledge(message)
    wait_until(lambda: broker.rest.backlog(topic, "s") == 1)
    consumer.close()
    assert receive_data(client.subscribe(topic, "s", ConsumerType.Shared), 5) == numbered(5, first=5)


def test_batch_index_acknowledgement_survives_the_consumer(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared, batch_index_ack_enabled=True)
    publish_in_batches(client, topic, numbered(10), per_batch=10)
    messages = receive(consumer, 10)
    for number in (0, 2, 3, 7):
        consumer.acknowledge(messages[number])
    consumer.close()
    again = client.subscribe(topic, "s", ConsumerType.Shared, batch_index_ack_enabled=True)
    assert receive_data(again, 6) == [b"1", b"4", b"5", b"6", b"8", b"9"]
    assert nothing_comes(again)


def test_cumulative_acknowledgement_inside_a_batch(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", batch_index_ack_enabled=True)
    publish_in_batches(client, topic, numbered(20), per_batch=10)
    consumer.acknowledge_cumulative(receive(consumer, 14)[-1])
    consumer.close()
    again = client.subscribe(topic, "s", batch_index_ack_enabled=True)
    assert receive_data(again, 6) == numbered(6, first=14)
    assert nothing_comes(again)


def test_acknowledgement_by_message_id(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(2))
    stored = receive(consumer, 2)[0].message_id().serialize()
    consumer.acknowledge(pulsar.MessageId.deserialize(stored))
    consumer.close()
    again = client.subscribe(topic, "s")
    assert receive_data(again, 1) == [b"1"]
    assert nothing_comes(again)


def test_acknowledgement_is_confirmed_when_a_receipt_is_asked_for(
    broker: Broker, client: pulsar.Client, topic: str
) -> None:
    publish(client, topic, numbered(5))
    with RawConnection.connected(broker.service_url) as connection:
        connection.subscribe(topic, "s")
        connection.flow(5)
        ids = [connection.expect("MESSAGE").message_id for _ in range(5)]
        receipt = connection.acknowledge(ids[0], ids[3])
        assert receipt.consumer_id == 1
        assert not receipt.HasField("error")
        assert broker.rest.backlog(topic, "s") == 3
        connection.acknowledge(ids[0])
        assert broker.rest.backlog(topic, "s") == 3


def test_acknowledgement_of_messages_that_never_were_changes_nothing(
    broker: Broker, client: pulsar.Client, topic: str
) -> None:
    publish(client, topic, numbered(2))
    with RawConnection.connected(broker.service_url) as connection:
        connection.subscribe(topic, "s")
        connection.flow(2)
        real = connection.expect("MESSAGE").message_id
        connection.acknowledge(pb.MessageIdData(ledgerId=real.ledgerId, entryId=10_000))
        connection.acknowledge(pb.MessageIdData(ledgerId=10**9, entryId=0))
        assert connection.is_answering()
        assert broker.rest.backlog(topic, "s") == 2
    later = publish(client, topic, numbered(2, first=2))
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    assert receive_data(consumer, 4) == numbered(4)
    assert later[0].ledger_id() == real.ledgerId


def test_ack_set_tells_what_remains_of_a_batch(broker: Broker, client: pulsar.Client, topic: str) -> None:
    publish_in_batches(client, topic, numbered(3), per_batch=3)
    with RawConnection.connected(broker.service_url) as connection:
        connection.subscribe(topic, "s")
        connection.flow(3)
        message_id = connection.expect("MESSAGE").message_id
        message_id.ack_set.append(0b101)
        message_id.batch_size = 3
        connection.acknowledge(message_id)
    with RawConnection.connected(broker.service_url) as connection:
        connection.subscribe(topic, "s")
        connection.flow(3)
        assert list(connection.expect("MESSAGE").ack_set) == [0b101]
