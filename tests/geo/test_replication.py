"""Every cluster has every message once, in its origin's order, unchanged."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.geo.helpers import entries, log_of, own_properties, wait_for_entries
from tests.kit.clusters import NAMES
from tests.kit.messages import connect, numbered, publish, publish_in_batches, read_log, receive, receive_data
from tests.kit.rest import topic_path
from tests.kit.wait import holds_for, wait_until

if TYPE_CHECKING:
    from tests.kit.clusters import Up


def test_all_clusters_hold_every_message_once_in_its_origins_order(up: Up, topic: str) -> None:
    """Three concurrent producers, one in each cluster; no message circulates."""
    count = 500

    def publish_in(name: str) -> None:
        publish(up.client(name), topic, [f"{name}-{number}".encode() for number in range(count)])

    threads = [threading.Thread(target=publish_in, args=(name,)) for name in NAMES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for_entries(up, topic, 3 * count, NAMES)
    assert holds_for(lambda: all(entries(up, name, topic) == 3 * count for name in NAMES), 1.5, interval_s=0.1)
    for name in NAMES:
        log = log_of(up, name, topic)
        for origin in NAMES:
            of_origin = [payload for payload in log if payload.startswith(origin.encode())]
            assert of_origin == [f"{origin}-{number}".encode() for number in range(count)]


def test_consumer_elsewhere_receives_as_it_is_published(up: Up, topic: str) -> None:
    consumer = up.client("jfk").subscribe(topic, "s")
    producer = up.client("ewr").create_producer(topic)
    for payload in numbered(20):
        producer.send(payload)
        assert receive_data(consumer, 1, acknowledge=True) == [payload]


def test_metadata_is_kept(up: Up, topic: str) -> None:
    producer = up.client("ewr").create_producer(topic, producer_name="tower")
    producer.send(
        b"x", properties={"gate": "B7"}, partition_key="N123", ordering_key="order", event_timestamp=1_234_567
    )
    wait_for_entries(up, topic, 1, NAMES)
    (original,) = read_log(up.client("ewr"), topic)
    for name in ("jfk", "lga"):
        (copy,) = read_log(up.client(name), topic)
        assert own_properties(copy) == {"gate": "B7"}
        for get in ("data", "partition_key", "ordering_key", "event_timestamp", "publish_timestamp", "producer_name"):
            assert getattr(copy, get)() == getattr(original, get)(), get


@pytest.mark.parametrize("codec", ["LZ4", "ZLib", "ZSTD", "SNAPPY", "NONE"])
def test_batches_and_compression_are_kept(up: Up, topic: str, codec: str) -> None:
    producer = up.client("lga").create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=25,
        batching_max_publish_delay_ms=60_000,
        compression_type=getattr(pulsar.CompressionType, codec),
    )
    for number, payload in enumerate(numbered(100)):
        producer.send_async(payload * 100, lambda *_: None, properties={"n": str(number)}, partition_key=f"k{number}")
    producer.flush()
    wait_for_entries(up, topic, 4, NAMES)
    for name in NAMES:
        log = read_log(up.client(name), topic)
        assert [message.data() for message in log] == [payload * 100 for payload in numbered(100)]
        assert [message.message_id().batch_index() for message in log] == list(range(25)) * 4
        assert [message.partition_key() for message in log] == [f"k{number}" for number in range(100)]
        assert [message.properties()["n"] for message in log] == [str(number) for number in range(100)]
        assert entries(up, name, topic) == 4


def test_large_chunked_and_empty_messages(up: Up, topic: str) -> None:
    payloads = [os.urandom(4 << 20), b"", os.urandom(11 << 20), b"last"]
    consumers = [up.client(name).subscribe(topic, "s") for name in NAMES]
    publish(up.client("jfk"), topic, payloads, chunking_enabled=True)
    for consumer in consumers:
        assert receive_data(consumer, 4, acknowledge=True) == payloads


def test_partitioned_topic(up: Up, topic: str) -> None:
    for name in NAMES:
        up.rest(name).ensure(f"{topic_path(topic)}/partitions", 3)
    consumers = {name: connect(up.members[name].service_url).subscribe(topic, "s") for name in NAMES}
    ids = publish(up.client("ewr"), topic, numbered(60))
    partitions = {payload: message_id.partition() for payload, message_id in zip(numbered(60), ids, strict=True)}
    for name in NAMES:
        received = receive(consumers[name], 60, acknowledge=True)
        assert {message.data(): message.message_id().partition() for message in received} == partitions


def test_message_may_stay_at_home(up: Up, topic: str) -> None:
    producer = up.client("ewr").create_producer(topic)
    producer.send(b"home", disable_replication=True)
    producer.send(b"abroad")
    wait_until(lambda: log_of(up, "jfk", topic) == log_of(up, "lga", topic) == [b"abroad"])
    assert log_of(up, "ewr", topic) == [b"home", b"abroad"]


def test_message_may_choose_its_clusters(up: Up, topic: str) -> None:
    producer = up.client("ewr").create_producer(topic)
    producer.send(b"for jfk", replication_clusters=["jfk"])
    producer.send(b"for all")
    wait_until(lambda: log_of(up, "jfk", topic) == [b"for jfk", b"for all"])
    wait_until(lambda: log_of(up, "lga", topic) == [b"for all"])


def test_namespace_of_two_clusters_leaves_out_the_third(up: Up, namespace: str) -> None:
    pair = f"{namespace}-pair"
    up.make_namespace(pair, ("ewr", "jfk"))
    topic = f"persistent://{pair}/t"
    publish(up.client("ewr"), topic, numbered(5))
    wait_for_entries(up, topic, 5, ["jfk"])
    assert entries(up, "lga", topic) == 0


def test_topic_that_was_there_before_its_namespace_was_replicated(up: Up, namespace: str) -> None:
    late = f"{namespace}-late"
    for name in NAMES:
        up.make_local_namespace(name, late)
    topic = f"persistent://{late}/t"
    client = up.client("ewr")
    client.subscribe(topic, "keeps").close()
    publish(client, topic, numbered(20))
    for name in NAMES:
        up.rest(name).post(f"namespaces/{late}/replication", list(NAMES))
    publish(client, topic, numbered(20, first=20))
    wait_for_entries(up, topic, 40, NAMES)
    assert log_of(up, "lga", topic) == numbered(40)


def test_many_topics(up: Up, namespace: str) -> None:
    topics = [f"persistent://{namespace}/t{number}" for number in range(40)]
    for number, topic in enumerate(topics):
        publish(up.client(NAMES[number % 3]), topic, numbered(5))
    for topic in topics:
        wait_for_entries(up, topic, 5, NAMES)
        assert log_of(up, NAMES[hash(topic) % 3], topic) == numbered(5)


def test_order_of_a_burst(up: Up, topic: str) -> None:
    publish_in_batches(up.client("ewr"), topic, numbered(20_000), per_batch=10)
    wait_for_entries(up, topic, 2_000, NAMES)
    for name in NAMES:
        assert log_of(up, name, topic) == numbered(20_000)


def test_stats_show_the_links(up: Up, topic: str) -> None:
    publish(up.client("ewr"), topic, numbered(10))
    wait_for_entries(up, topic, 10, NAMES)

    def caught_up() -> bool:
        links = up.rest("ewr").stats(topic)["replication"]
        return sorted(links) == ["jfk", "lga"] and all(
            link.get("replicationBacklog") == 0 and link["connected"] for link in links.values()
        )

    wait_until(caught_up, what="both links caught up")
