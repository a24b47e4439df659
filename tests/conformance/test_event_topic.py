"""The event topic of the metadata synchronizer: no setting and no policy makes it lose an event or stop (PIP-136)."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pulsar
import pytest

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.real import SystemClock
from magnetar.client.client import PulsarClient
from magnetar.metasync.event_topic import SUBSCRIPTION, ClientEventTopic
from tests.kit.broker import Broker
from tests.kit.messages import connect, read_log
from tests.kit.wait import holds_for, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = "persistent://pulsar/metadata/events"
PATH = "persistent/pulsar/metadata/events"
EDITS = 100
TIMEOUT_S = 20.0

OBSTACLES = {
    "metadataSyncEventTopic": TOPIC,
    "ttlDurationDefaultInSeconds": 1,
    "messageExpiryCheckIntervalInMinutes": 1,
    "backlogQuotaDefaultLimitBytes": 1,
    "backlogQuotaDefaultRetentionPolicy": "producer_exception",
    "maxPublishRatePerTopicInMessages": 1,
    "dispatchThrottlingRatePerTopicInMsg": 1,
    "maxProducersPerTopic": 1,
    "maxConsumersPerTopic": 1,
    "maxSubscriptionsPerTopic": 1,
    "subscriptionExpirationTimeMinutes": 1,
    "brokerDeleteInactiveTopicsEnabled": "true",
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": 1,
    "brokerDeduplicationEnabled": "true",
    "replicateSubscriptionState": "true",
    "allowAutoTopicCreation": "false",
    "allowAutoSubscriptionCreation": "false",
    "subscriptionTypesEnabled": "Exclusive",
    "encryptionRequireOnProducer": "true",
    "maxAtRiskMessages": 1,
}
"""Settings that would stop another topic, or make it lose events."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("events"), "ewr", OBSTACLES) as running:
        wait_until(partial(is_connected, running), TIMEOUT_S, what="the synchronizer")
        running.rest.put("tenants/acme", {"adminRoles": [], "allowedClusters": ["ewr"]})
        running.rest.put("namespaces/acme/orders", {})
        yield running


def is_connected(broker: Broker) -> bool:
    return bool(broker.rest.get("metadata-sync/status")["connected"])


def is_published(broker: Broker) -> bool:
    status = broker.rest.get("metadata-sync/status")
    return status["connected"] and not status["unpublishedEvents"]


def edit(broker: Broker, name: str) -> None:
    """Make EDITS edits of the namespace."""
    for number in range(EDITS):
        broker.rest.put(f"namespaces/acme/orders/property/{name}/{number}")


def edits(broker: Broker, name: str) -> list[str]:
    """Return the values of a property in the published events, in order."""
    client = connect(broker.service_url)
    events: list[dict[str, Any]] = [json.loads(message.data()) for message in read_log(client, TOPIC)]
    client.close()
    found = [event["data"]["edits"].get(f"/properties/{name}") for event in events if event["eventType"] == "Modified"]
    return [edited[0] for edited in found if edited is not None]


def subscription(broker: Broker) -> dict[str, Any]:
    found: dict[str, Any] = broker.rest.get(f"{PATH}/stats")["subscriptions"][SUBSCRIPTION]
    return found


def set_policies(broker: Broker) -> None:
    """Set policies of the namespace and of the topic that would stop others."""
    for path in ("namespaces/pulsar/metadata", PATH):
        for policy, value in {
            "publishRate": {"publishThrottlingRateInMsg": 1, "publishThrottlingRateInByte": 1},
            "maxProducers" if path == PATH else "maxProducersPerTopic": 1,
            "replicateSubscriptionState": True,
        }.items():
            broker.rest.request("POST", f"{path}/{policy}", value)


def test_all_edits_are_published_in_spite_of_settings_and_policies(broker: Broker) -> None:
    set_policies(broker)
    edit(broker, "first")
    wait_until(partial(is_published, broker), TIMEOUT_S, what="all events")
    assert edits(broker, "first") == [str(number) for number in range(EDITS)]


def test_edits_after_a_restart_are_no_duplicates(broker: Broker) -> None:
    broker.restart()
    wait_until(partial(is_connected, broker), TIMEOUT_S, what="the synchronizer")
    edit(broker, "second")
    wait_until(partial(is_published, broker), TIMEOUT_S, what="all events")
    assert edits(broker, "second") == [str(number) for number in range(EDITS)]


def test_its_subscription_is_never_replicated(broker: Broker) -> None:
    set_policies(broker)
    assert subscription(broker)["isReplicated"] is False
    applied = broker.rest.get(f"{PATH}/replicateSubscriptionState?applied=true")
    assert applied is False
    client = connect(broker.service_url)
    client.subscribe(TOPIC, "other", replicate_subscription_state_enabled=True)
    assert broker.rest.get(f"{PATH}/stats")["subscriptions"]["other"]["isReplicated"] is False
    client.close()


def test_one_synchronizer_of_a_cluster_is_active(broker: Broker) -> None:
    async def open_another() -> None:
        client = PulsarClient(broker.service_url)
        try:
            await ClientEventTopic.open(client, TOPIC, SystemClock())
        finally:
            client.close()

    with pytest.raises(RequestError) as refused:
        asyncio.run(open_another())
    assert refused.value.code is ServerError.ProducerBusy
    assert holds_for(partial(is_connected, broker), 0.5)


def test_one_consumer_of_the_subscription_is_active(broker: Broker) -> None:
    client = connect(broker.service_url)
    (synchronizer,) = sent(broker)
    name = synchronizer
    while name == synchronizer:
        client.subscribe(TOPIC, SUBSCRIPTION, pulsar.ConsumerType.Failover)
        name = subscription(broker)["activeConsumerName"]
    before = sent(broker)
    edit(broker, "third")
    wait_until(lambda: sent(broker)[name] >= before[name] + EDITS, TIMEOUT_S, what=f"all events at {name}")
    assert sent(broker)[synchronizer] == before[synchronizer]
    client.close()
    wait_until(lambda: sent(broker)[synchronizer] >= before[synchronizer] + EDITS, TIMEOUT_S, what="all events again")


def sent(broker: Broker) -> dict[str, int]:
    """Return how many events each consumer of the synchronizer's subscription got."""
    return {each["consumerName"]: each["msgOutCounter"] for each in subscription(broker)["consumers"]}
