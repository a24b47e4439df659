"""Deduplication with the official client: resent messages are stored once, and the client gets its last sequence id."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.kit.broker import Broker
from tests.kit.messages import close_after_kill, connect, numbered, read_log, send_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPIC = "persistent://public/default/orders"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, settings={"brokerDeduplicationEnabled": "true"}) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[pulsar.Client]:
    connected = connect(broker.service_url)
    yield connected
    connected.close()


def producer_of(client: pulsar.Client, **options: object) -> pulsar.Producer:
    return client.create_producer(TOPIC, producer_name="tower", **options)


def logged(client: pulsar.Client) -> list[bytes]:
    return [message.data() for message in read_log(client, TOPIC)]


def test_resent_messages_are_stored_once(client: pulsar.Client) -> None:
    producer = producer_of(client)
    for sequence_id in (10, 20, 20, 15, 21):
        producer.send(b"%d" % sequence_id, sequence_id=sequence_id)
    assert producer.last_sequence_id() == 21
    assert logged(client) == [b"10", b"20", b"21"]


def test_a_duplicate_is_told_by_its_id(client: pulsar.Client) -> None:
    producer = producer_of(client)
    first, again = producer.send(b"x", sequence_id=1), producer.send(b"x", sequence_id=1)
    assert (first.ledger_id(), first.entry_id()) > (-1, -1)
    assert (again.ledger_id(), again.entry_id()) == (-1, -1)


@pytest.mark.parametrize("batched", [False, True], ids=["unbatched", "batched"])
@pytest.mark.parametrize("ending", ["closed", "broker killed"])
def test_a_producer_that_starts_anew_is_told_where_to_go_on(broker: Broker, batched: bool, ending: str) -> None:
    client = connect(broker.service_url)
    producer = producer_of(client, batching_enabled=batched, batching_max_publish_delay_ms=1_000)
    assert producer.last_sequence_id() == -1
    for payload in numbered(10):
        producer.send_async(payload, lambda *_: None)
    producer.flush()
    assert producer.last_sequence_id() == 9
    if ending == "closed":
        producer.close()
    else:
        broker.restart()
    close_after_kill(client)
    client = connect(broker.service_url)
    producer = producer_of(client)
    assert producer.last_sequence_id() == 9
    producer.send(b"10")
    assert logged(client) == numbered(11)
    client.close()


def test_a_producer_says_where_it_goes_on(client: pulsar.Client) -> None:
    producer = producer_of(client, initial_sequence_id=41)
    producer.send(b"42")
    assert producer.last_sequence_id() == 42
    producer.close()
    producer = producer_of(client, initial_sequence_id=40)
    producer.send(b"41")
    producer.send(b"42")
    producer.send(b"43")
    assert logged(client) == [b"42", b"43"]


@pytest.mark.parametrize("batched", [False, True], ids=["unbatched", "batched"])
def test_everything_is_sent_again_after_the_broker_was_killed(broker: Broker, batched: bool) -> None:
    for per_batch in (7, 8, 9):  # a different batch size each time
        client = connect(broker.service_url)
        producer = producer_of(
            client, batching_enabled=batched, batching_max_messages=per_batch, block_if_queue_full=True
        )
        numbers = range(1, 50 + per_batch)  # the client interprets 0 as "assign a sequence id"
        send_all(producer, [(b"%d" % number, {"sequence_id": number}) for number in numbers])
        client.close()
        broker.restart()
    client = connect(broker.service_url)
    assert logged(client) == numbered(58, first=1)
    client.close()


def test_a_batch_with_holes_counts_with_its_last_message(client: pulsar.Client) -> None:
    for numbers in ([10, 20, 30], [20, 30, 40]):
        producer = producer_of(client, batching_enabled=True, batching_max_publish_delay_ms=1_000)
        for number in numbers:
            producer.send_async(b"%d" % number, lambda *_: None, sequence_id=number)
        producer.flush()
        producer.close()
    assert logged(client) == [b"10", b"20", b"30", b"40"]
    assert producer_of(client).last_sequence_id() == 40


def test_a_chunked_message_is_there_once(client: pulsar.Client) -> None:
    payload = os.urandom(11 * 1024 * 1024)
    for _ in range(2):
        producer = producer_of(client, chunking_enabled=True)
        producer.send(payload, sequence_id=3)
        producer.send(b"next", sequence_id=4)
        producer.close()
    consumer = client.subscribe(TOPIC, "s", initial_position=pulsar.InitialPosition.Earliest)
    assert consumer.receive(20_000).data() == payload
    assert consumer.receive(20_000).data() == b"next"
    with pytest.raises(pulsar.Timeout):
        consumer.receive(500)


def test_the_cursor_shows_only_among_the_internals(broker: Broker, client: pulsar.Client) -> None:
    producer = producer_of(client)
    producer.send(b"x", sequence_id=1)
    producer.send(b"x", sequence_id=1)
    stats = broker.rest.get("persistent/public/default/orders/stats")
    assert stats["deduplicationStatus"] == "Enabled"
    assert (stats["deduplicatedEntries"], stats["deduplicationProducers"]) == (1, 1)
    assert stats["subscriptions"] == {}
    assert stats["backlogSize"] == 0
    assert broker.rest.get("persistent/public/default/orders/subscriptions") == []
    assert "pulsar.dedup" in broker.rest.get("persistent/public/default/orders/internalStats")["cursors"]
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(TOPIC, "pulsar.dedup")
