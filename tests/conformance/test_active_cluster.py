"""Replicated subscriptions with consumers in one cluster only, with the official client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.kit.messages import publish, receive_data
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.broker import Broker


def test_a_consumer_in_the_wrong_cluster_fails_at_once_and_one_that_was_sent_away_comes_back(
    broker: Broker, client: pulsar.Client, namespace: str
) -> None:
    topic, policy = f"persistent://{namespace}/t", f"namespaces/{namespace}/replicatedSubscriptionActiveCluster"
    consumer = client.subscribe(topic, "s", replicate_subscription_state_enabled=True)
    broker.rest.post(policy, "elsewhere")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s", replicate_subscription_state_enabled=True)
    assert broker.rest.stats(topic)["subscriptions"]["s"]["consumers"] == []
    publish(client, topic, [b"kept for it"])
    broker.rest.delete(policy)
    wait_until(lambda: broker.rest.stats(topic)["subscriptions"]["s"]["consumers"] != [])
    assert receive_data(consumer, 1) == [b"kept for it"]
