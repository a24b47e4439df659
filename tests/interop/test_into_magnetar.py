"""Apache Pulsar's own replicator pushes into Magnetar."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.geo.helpers import entries, log_of, wait_for_entries
from tests.interop.conftest import replicated_topic
from tests.kit.messages import nothing_comes, numbered, publish, publish_in_batches, receive, receive_data
from tests.kit.rest import topic_path
from tests.kit.wait import holds_for, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.pulsar import MixedClusters

pytestmark = pytest.mark.interop

SOURCE_POSITION = "__MSG_PROP_REPL_SOURCE_POSITION"
EARLIEST = pulsar.InitialPosition.Earliest

TROUBLES = 3
BETWEEN_TROUBLES = 500
"""Messages between two faults."""

RECOVERY_TIMEOUT_S = 80.0
"""Seconds between two faults: Apache Pulsar takes some ten to start, and as many until it replicates."""

SNAPSHOT_PERIODS_S = 3.0
"""Time in which Apache Pulsar requests snapshots of a replicated subscription more than once."""


def test_messages_arrive_in_order_and_say_where_from(mixed: MixedClusters) -> None:
    topic = replicated_topic(mixed)
    consumer = mixed.client("ewr").subscribe(topic, "all", initial_position=EARLIEST)
    publish(mixed.client("apache"), topic, numbered(50))
    publish_in_batches(mixed.client("apache"), topic, numbered(50, first=50), per_batch=10)
    messages = receive(consumer, 100)
    assert [message.data() for message in messages] == numbered(100)
    assert all(SOURCE_POSITION in message.properties() for message in messages[:50]), "batches keep theirs inside"
    assert nothing_comes(consumer)
    sent = mixed.rest("apache").stats(topic)["replication"]["ewr"]
    assert (sent["connected"], sent["replicationBacklog"]) == (True, 0)
    received = mixed.rest("ewr").stats(topic)["replication"]["apache"]
    assert (received["msgInCount"], received["replicationBacklog"]) == (100, 0), "nothing goes back"


def test_a_schema_is_no_obstacle(mixed: MixedClusters) -> None:
    topic = replicated_topic(mixed)
    schema = pulsar.schema.StringSchema()
    producer = mixed.client("apache").create_producer(topic, schema=schema)
    producer.send("good morning")
    consumer = mixed.client("ewr").subscribe(topic, "all", schema=schema, initial_position=EARLIEST)
    assert receive(consumer, 1)[0].value() == "good morning"


def test_markers_of_its_replicated_subscriptions_reach_no_consumer(mixed: MixedClusters) -> None:
    topic = replicated_topic(mixed)
    apache = mixed.client("apache")
    replicated = apache.subscribe(topic, "moves", initial_position=EARLIEST, replicate_subscription_state_enabled=True)
    consumer = mixed.client("ewr").subscribe(topic, "all", initial_position=EARLIEST)
    producer = apache.create_producer(topic)
    count = 0
    started = time.monotonic()

    def publish_one() -> bool:
        nonlocal count
        producer.send(b"%d" % count)
        replicated.acknowledge(replicated.receive())
        count += 1
        return True

    assert holds_for(publish_one, SNAPSHOT_PERIODS_S, interval_s=0.1)
    assert time.monotonic() - started >= SNAPSHOT_PERIODS_S
    assert receive_data(consumer, count) == numbered(count)
    assert nothing_comes(consumer)
    stored = mixed.rest("apache").internal_stats(topic)["entriesAddedCounter"]
    assert stored > count, "there were markers"
    wait_until(
        lambda: mixed.rest("apache").stats(topic)["replication"]["ewr"]["replicationBacklog"] == 0,
        what="the replicator's backlog, markers included, confirmed",
    )


@pytest.mark.parametrize("trouble", ["kill ewr", "kill apache", "unload in ewr"])
@pytest.mark.timeout(TROUBLES * RECOVERY_TIMEOUT_S)
def test_trouble_loses_nothing_and_repeats_nothing(mixed: MixedClusters, trouble: str) -> None:
    topic = replicated_topic(mixed)
    for name in mixed.members:
        mixed.client(name).subscribe(topic, "keeps the log", initial_position=EARLIEST).close()
    source = mixed.client("apache")
    with publishing(source, topic, b"a") as one, publishing(source, topic, b"b") as other:
        for _ in range(TROUBLES):
            wait_for_entries(mixed, topic, entries(mixed, "ewr", topic) + BETWEEN_TROUBLES, ["ewr"])
            make(trouble, mixed, topic)
    wait_for_entries(mixed, topic, entries(mixed, "apache", topic), ["ewr"])
    log = log_of(mixed, "ewr", topic)
    # A client resends messages whose receipt was lost in a kill; duplicates in the source are replicated.
    assert log == log_of(mixed, "apache", topic)
    assert {*one, *other} <= set(log)


def make(trouble: str, clusters: MixedClusters, topic: str) -> None:
    match trouble:
        case "kill ewr":
            clusters.brokers["ewr"].restart()
        case "kill apache":
            clusters.pulsars["apache"].restart()
        case _:
            clusters.rest("ewr").put(f"{topic_path(topic)}/unload")


@contextmanager
def publishing(client: pulsar.Client, topic: str, prefix: bytes) -> Iterator[list[bytes]]:
    """Publish continuously, each message after the previous receipt; yield those with a receipt."""
    producer = client.create_producer(topic, send_timeout_millis=0, batching_enabled=False)
    receipted: list[bytes] = []
    ended = threading.Event()

    def publish_on() -> None:
        while not ended.is_set():
            payload = b"%b%d" % (prefix, len(receipted))
            producer.send(payload)
            receipted.append(payload)

    thread = threading.Thread(target=publish_on)
    thread.start()
    try:
        yield receipted
    finally:
        ended.set()
        thread.join()
        producer.close()
