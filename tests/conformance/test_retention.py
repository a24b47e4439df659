"""Retention: entries consumed by every subscription are trimmed, unless a policy retains them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.broker import Broker
from tests.kit.messages import connect, numbered, publish, read_log, receive, receive_data
from tests.kit.wait import holds_for, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pulsar

SMALL_LEDGERS = {
    "managedLedgerMaxEntriesPerLedger": 10,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "retentionCheckIntervalInSeconds": 1,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with ledgers of ten entries, trimmed every second."""
    with Broker(tmp_path_factory.mktemp("retention"), settings=SMALL_LEDGERS) as running:
        yield running


def ledgers(broker: Broker, topic: str) -> int:
    """Return the number of the topic's ledgers."""
    return len(broker.rest.internal_stats(topic)["ledgers"])


def test_ledgers_roll_over_and_are_read_as_one_log(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(55))
    assert ledgers(broker, topic) >= 5
    assert receive_data(consumer, 55) == numbered(55)


def test_consumed_ledgers_are_deleted(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(55))
    receive(consumer, 55, acknowledge=True)
    wait_until(lambda: ledgers(broker, topic) == 1)
    publish(client, topic, [b"goes on"])
    assert receive_data(consumer, 1) == [b"goes on"]


def test_slowest_subscription_keeps_what_it_needs(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    fast, slow = client.subscribe(topic, "fast"), client.subscribe(topic, "slow")
    publish(client, topic, numbered(60))
    receive(fast, 60, acknowledge=True)
    receive(slow, 25, acknowledge=True)
    wait_until(lambda: ledgers(broker, topic) <= 5)
    slow.close()
    assert receive_data(client.subscribe(topic, "slow"), 35) == numbered(35, first=25)


def test_policy_keeps_consumed_messages(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    forever = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    broker.rest.post(f"namespaces/{namespace}/retention", forever)
    topic = f"persistent://{namespace}/t"
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(55))
    receive(consumer, 55, acknowledge=True)
    wait_until(lambda: broker.rest.backlog(topic, "s") == 0)
    assert holds_for(lambda: ledgers(broker, topic) >= 6, 2.5, interval_s=0.2)
    assert [message.data() for message in read_log(client, topic)] == numbered(55)


def test_policy_that_ends_lets_messages_go(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    path = f"namespaces/{namespace}/retention"
    broker.rest.post(path, {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100})
    topic = f"persistent://{namespace}/t"
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(55))
    receive(consumer, 55, acknowledge=True)
    assert ledgers(broker, topic) >= 6
    broker.rest.post(path, {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})
    wait_until(lambda: ledgers(broker, topic) <= 2)


def test_trimming_survives_kill_9(broker: Broker, namespace: str) -> None:
    topic = f"persistent://{namespace}/t"
    client = connect(broker.service_url)
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(55))
    receive(consumer, 52, acknowledge=True)
    wait_until(lambda: ledgers(broker, topic) <= 2)
    broker.restart()
    consumer.close()
    assert receive_data(client.subscribe(topic, "s"), 1)[0] in numbered(55)[50:]
    assert receive_data(client.subscribe(topic, "late"), 0) == []
    client.close()
