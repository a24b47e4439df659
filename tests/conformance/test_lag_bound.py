"""The lag limit with the official client: publishing is slowed down, without errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.kit.broker import Broker
from tests.kit.messages import numbered, receive_data
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = "127.0.0.1:1"
"""An address without a cluster."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with a remote cluster that is unavailable."""
    with Broker(tmp_path_factory.mktemp("lag")) as running:
        cluster = running.rest.get("clusters")[0]
        running.rest.put("clusters/away", {"serviceUrl": f"http://{NOBODY}", "brokerServiceUrl": f"pulsar://{NOBODY}"})
        running.rest.post("tenants/public", {"adminRoles": [], "allowedClusters": [cluster, "away"]})
        yield running


@pytest.fixture
def namespace(broker: Broker, namespace: str) -> str:
    """A namespace that is replicated to the unavailable cluster."""
    clusters = broker.rest.get(f"namespaces/{namespace}/replication")
    broker.rest.post(f"namespaces/{namespace}/replication", [*clusters, "away"])
    return namespace


def test_receipts_wait_and_nobody_else_on_the_connection_does(
    broker: Broker, client: pulsar.Client, namespace: str
) -> None:
    bounded, free = f"persistent://{namespace}/bounded", f"persistent://{namespace}/free"
    producer = client.create_producer(bounded, batching_enabled=False, send_timeout_millis=0)
    other = client.create_producer(free, batching_enabled=False)
    consumer = client.subscribe(bounded, "s", initial_position=pulsar.InitialPosition.Earliest)
    path = bounded.replace("://", "/")
    broker.rest.post(f"{path}/maxAtRiskMessages", 2)
    receipts: list[pulsar.Result] = []
    for payload in numbered(5):
        producer.send_async(payload, lambda result, _: receipts.append(result))
        other.send(payload)
    wait_until(lambda: broker.rest.stats(bounded)["withheldReceipts"] == 3, what="three receipts to be withheld")
    assert receipts == [pulsar.Result.Ok] * 2
    assert broker.rest.stats(bounded)["publishingThrottled"].endswith("may be in fewer than 1 other clusters, 5 are")
    assert receive_data(consumer, 5, acknowledge=True) == numbered(5), "consumers here need not wait"
    broker.rest.delete(f"{path}/maxAtRiskMessages")
    wait_until(lambda: len(receipts) == 5, what="the receipts that were withheld")
    assert receipts == [pulsar.Result.Ok] * 5


def test_a_subscription_without_a_word_of_its_client_is_replicated_and_told_to_be_at_risk(
    broker: Broker, client: pulsar.Client, namespace: str
) -> None:
    topic = f"persistent://{namespace}/t"
    client.subscribe(topic, "s")
    protection = f"{topic.replace('://', '/')}/subscriptionProtection"
    assert broker.rest.get(protection)[topic]["s"]["status"] == "unprotected"
    broker.rest.post(f"namespaces/{namespace}/replicateSubscriptionState", True)
    assert broker.rest.stats(topic)["subscriptions"]["s"]["isReplicated"] is True
    found = broker.rest.get(protection)[topic]["s"]
    assert (found["status"], found["sinceAtLeast"]) == ("at risk", True)
    assert found["reasons"][-1].startswith("away: what it lacks of the acknowledgements is not known")
    assert broker.rest.stats(topic)["subscriptions"]["s"]["progressAgeSeconds"] == {"away": None}
