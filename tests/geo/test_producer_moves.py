"""A named producer moves to another cluster and resends everything: each message is stored once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.geo.helpers import log_of, wait_for_entries
from tests.kit.clusters import NAMES
from tests.kit.messages import numbered

if TYPE_CHECKING:
    import pulsar

    from tests.kit.clusters import Up


@pytest.fixture
def topic(up: Up, namespace: str) -> str:
    """A topic with deduplication in every cluster, and infinite retention without a subscription."""
    for name in NAMES:
        up.rest(name).post(f"namespaces/{namespace}/deduplication", body=True)
        kept = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
        up.rest(name).post(f"namespaces/{namespace}/retention", body=kept)
    return f"persistent://{namespace}/t"


def producer_in(up: Up, name: str, topic: str) -> pulsar.Producer:
    """Return the topic's named producer, in a cluster."""
    return up.client(name).create_producer(topic, "the one", send_timeout_millis=20_000)


def send_from(producer: pulsar.Producer, first: int, last: int) -> None:
    """Publish each number with its own sequence id; sequence id 0 is unused."""
    for number in range(first, last + 1):
        producer.send(b"%d" % number, sequence_id=number)


def test_replicated_messages_are_dropped_in_the_producers_new_cluster(up: Up, topic: str) -> None:
    producer = producer_in(up, "ewr", topic)
    send_from(producer, 1, 50)
    producer.close()
    wait_for_entries(up, topic, 50, NAMES)

    producer = producer_in(up, "jfk", topic)
    assert producer.last_sequence_id() == 50
    send_from(producer, 1, 60)
    producer.close()
    wait_for_entries(up, topic, 60, NAMES)

    producer = producer_in(up, "ewr", topic)
    assert producer.last_sequence_id() == 60
    send_from(producer, 41, 70)
    producer.close()
    wait_for_entries(up, topic, 70, NAMES)
    for name in NAMES:
        assert log_of(up, name, topic) == numbered(70, first=1)


def test_a_topic_that_started_over_knows_what_came_from_elsewhere(up: Up, topic: str) -> None:
    producer = producer_in(up, "lga", topic)
    send_from(producer, 1, 30)
    producer.close()
    wait_for_entries(up, topic, 30, NAMES)
    up.rest("lga").put(f"{topic.replace('://', '/')}/unload")
    producer = producer_in(up, "jfk", topic)
    send_from(producer, 21, 40)
    producer.close()
    wait_for_entries(up, topic, 40, NAMES)
    producer = producer_in(up, "lga", topic)
    assert producer.last_sequence_id() == 40
    send_from(producer, 31, 45)
    wait_for_entries(up, topic, 45, NAMES)
    for name in NAMES:
        assert log_of(up, name, topic) == numbered(45, first=1)
