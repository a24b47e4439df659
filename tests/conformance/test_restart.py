"""A killed broker: confirmed data survives, and clients reconnect by themselves."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pulsar
import pytest
from pulsar import ConsumerType

from tests.kit.broker import Broker
from tests.kit.messages import (
    entry_of,
    nothing_comes,
    numbered,
    publish,
    publish_in_batches,
    read_log,
    receive,
    receive_data,
)
from tests.kit.raw import RawConnection
from tests.kit.rest import topic_path
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker for one test."""
    with Broker(tmp_path) as running:
        yield running


def test_everything_receipted_survives_kill_9(broker: Broker, client: pulsar.Client, topic: str) -> None:
    """Kill the broker while sends are in flight; the client resends messages without a receipt."""
    client.subscribe(topic, "keeper").close()  # else the broker may trim the log before the client is back
    producer = client.create_producer(topic, block_if_queue_full=True, send_timeout_millis=60_000)
    receipted: list[bytes] = []
    failed: list[pulsar.Result] = []
    enough, done = threading.Event(), threading.Event()
    total = 3_000

    def on_receipt(payload: bytes, result: pulsar.Result) -> None:
        (receipted.append(payload) if result == pulsar.Result.Ok else failed.append(result))
        if len(receipted) >= total // 3:
            enough.set()
        if len(receipted) + len(failed) == total:
            done.set()

    def send_all() -> None:
        for payload in numbered(total):
            producer.send_async(payload, lambda result, _id, payload=payload: on_receipt(payload, result))

    sender = threading.Thread(target=send_all)
    sender.start()
    assert enough.wait(30)
    broker.kill()
    safe = set(receipted)
    broker.start()
    assert done.wait(60)
    sender.join()
    assert failed == []
    log = [message.data() for message in read_log(client, topic)]
    assert safe <= set(log)
    assert set(log) == set(numbered(total))
    assert list(dict.fromkeys(log)) == numbered(total)


def test_log_is_unchanged_by_kill_9(broker: Broker, client: pulsar.Client, topic: str) -> None:
    publish(client, topic, numbered(50))
    publish_in_batches(client, topic, numbered(50, first=50), per_batch=10)
    before = [(message.data(), str(message.message_id())) for message in read_log(client, topic)]
    broker.restart()
    assert [(message.data(), str(message.message_id())) for message in read_log(client, topic)] == before
    assert len(before) == 100


def test_positions_grow_through_restarts(broker: Broker, client: pulsar.Client, topic: str) -> None:
    ids = publish(client, topic, numbered(3))
    for _ in range(3):
        broker.restart()
        ids += publish(client, topic, numbered(3))
    entries = [entry_of(message_id) for message_id in ids]
    assert entries == sorted(set(entries))


def test_confirmed_acknowledgements_survive_kill_9(broker: Broker, client: pulsar.Client, topic: str) -> None:
    publish(client, topic, numbered(10))
    with RawConnection.connected(broker.service_url) as connection:
        connection.subscribe(topic, "s")
        connection.flow(10)
        ids = [connection.expect("MESSAGE").message_id for _ in range(10)]
        connection.acknowledge(ids[0], ids[1], ids[4], ids[9])
        broker.restart()
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    assert receive_data(consumer, 6) == [b"2", b"3", b"5", b"6", b"7", b"8"]
    assert nothing_comes(consumer)


def test_confirmed_part_of_a_batch_survives_kill_9(broker: Broker, client: pulsar.Client, topic: str) -> None:
    publish_in_batches(client, topic, numbered(8), per_batch=8)
    with RawConnection.connected(broker.service_url) as connection:
        connection.subscribe(topic, "s")
        connection.flow(8)
        message_id = connection.expect("MESSAGE").message_id
        message_id.ack_set.append(0b01010101)
        message_id.batch_size = 8
        connection.acknowledge(message_id)
        broker.restart()
    consumer = client.subscribe(topic, "s", ConsumerType.Shared, batch_index_ack_enabled=True)
    assert receive_data(consumer, 4) == [b"0", b"2", b"4", b"6"]
    assert nothing_comes(consumer)


def test_acknowledgements_survive_an_orderly_restart(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", ConsumerType.Shared)
    publish(client, topic, numbered(10))
    messages = receive(consumer, 10)
    for message in messages[::2]:
        consumer.acknowledge(message)
    wait_until(lambda: broker.rest.backlog(topic, "s") == 5)
    consumer.close()
    broker.stop()
    broker.start()
    assert receive_data(client.subscribe(topic, "s", ConsumerType.Shared), 5) == numbered(10)[1::2]


def test_connected_clients_go_on_by_themselves(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    producer.send(b"before")
    assert receive_data(consumer, 1, acknowledge=True) == [b"before"]
    broker.restart()
    producer.send(b"after")
    while (message := receive(consumer, 1)[0]).data() != b"after":
        assert message.data() == b"before"


def test_seek_survives_kill_9(broker: Broker, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    ids = publish(client, topic, numbered(10))
    receive(consumer, 10, acknowledge=True)
    wait_until(lambda: broker.rest.backlog(topic, "s") == 0)
    consumer.seek(ids[6])
    assert receive_data(consumer, 1) == [b"7"]
    broker.restart()
    assert receive_data(client.subscribe(topic, "s2", initial_position=pulsar.InitialPosition.Earliest), 10)
    assert broker.rest.backlog(topic, "s") in {3, 4}


def test_unsubscribe_survives_kill_9(broker: Broker, client: pulsar.Client, topic: str) -> None:
    publish(client, topic, numbered(3))
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    consumer.unsubscribe()
    broker.restart()
    assert broker.rest.get(f"{topic_path(topic)}/subscriptions") == []


def test_topics_and_policies_survive_kill_9(broker: Broker, topic: str) -> None:
    broker.rest.put(f"{topic_path(topic)}/partitions", 3)
    policy = {"retentionTimeInMinutes": 7, "retentionSizeInMB": 11}
    broker.rest.post("namespaces/public/default/retention", policy)
    broker.restart()
    assert broker.rest.get(f"{topic_path(topic)}/partitions")["partitions"] == 3
    assert broker.rest.get("namespaces/public/default/retention") == policy


def test_many_restarts_lose_nothing(broker: Broker, client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s").close()
    for first in range(0, 50, 10):
        publish(client, topic, numbered(10, first=first))
        broker.restart()
    assert receive_data(client.subscribe(topic, "s"), 50) == numbered(50)


def test_two_brokers_do_not_share_a_directory(broker: Broker, tmp_path: Path) -> None:
    intruder = Broker(tmp_path / "intruder", settings={"dataDirectory": tmp_path / "data"})
    with pytest.raises(RuntimeError):
        intruder.start()
    assert broker.rest.is_healthy()
