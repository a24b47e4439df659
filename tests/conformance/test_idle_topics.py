"""Idle topics: unloaded, still maintained, and available to the next client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.broker import Broker
from tests.kit.messages import numbered, publish, receive_data
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pulsar

IMPATIENT = {
    "brokerUnloadInactiveTopicsMaxInactiveDurationSeconds": 0.4,
    "brokerUnloadInactiveTopicsFrequencySeconds": 0.2,
    "retentionCheckIntervalInSeconds": 1,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that unloads topics within a second."""
    with Broker(tmp_path_factory.mktemp("idle"), settings=IMPATIENT) as running:
        yield running


def is_loaded(broker: Broker, topic: str) -> bool:
    """Return whether the metrics have the topic; they have only loaded topics, and load none."""
    return f'topic="{topic}"' in broker.rest.metrics()


def test_a_topic_is_unloaded_and_loaded_for_the_next_client(
    broker: Broker, client: pulsar.Client, namespace: str
) -> None:
    topic = f"persistent://{namespace}/t"
    client.subscribe(topic, "s").close()
    producer = client.create_producer(topic)
    for payload in numbered(10):
        producer.send(payload)
    assert is_loaded(broker, topic)
    producer.close()
    wait_until(lambda: not is_loaded(broker, topic), what="the topic to be unloaded")
    assert receive_data(client.subscribe(topic, "s"), 10) == numbered(10)
    assert is_loaded(broker, topic)


def test_messages_expire_in_a_topic_that_is_not_loaded(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    broker.rest.post(f"namespaces/{namespace}/messageTTL", 2)
    client.subscribe(topic, "s").close()
    publish(client, topic, numbered(10))
    wait_until(lambda: not is_loaded(broker, topic), what="the topic to be unloaded")
    log = broker.directory / "broker.log"
    expired = f'"topic": "{topic}"'
    wait_until(
        lambda: any("messages_expired" in line and expired in line for line in log.read_text().splitlines()),
        what="the messages to expire",
    )
    assert broker.rest.backlog(topic, "s") == 0
