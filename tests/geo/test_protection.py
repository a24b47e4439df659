"""Protection status between real clusters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pulsar

from tests.geo.helpers import log_of, wait_for_entries
from tests.kit.clusters import NAMES
from tests.kit.messages import numbered
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.clusters import Up


def test_publishing_goes_at_the_rate_of_the_link_and_nothing_is_lost_or_refused(
    up: Up, namespace: str, topic: str
) -> None:
    """With a limit far below the messages that a client has in flight."""
    count = 2000
    up.rest("ewr").post(f"namespaces/{namespace}/maxAtRiskMessages", 50)
    producer = up.client("ewr").create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    receipts: list[pulsar.Result] = []
    for payload in numbered(count):
        producer.send_async(payload, lambda result, _: receipts.append(result))
    producer.flush()
    assert receipts == [pulsar.Result.Ok] * count
    wait_for_entries(up, topic, count, NAMES)
    assert log_of(up, "lga", topic) == numbered(count)
    stats = up.rest("ewr").stats(topic)
    assert (stats["atRiskMessages"], stats["withheldReceipts"]) == (0, 0)


def test_a_policy_makes_a_subscription_protected_in_every_cluster(up: Up, namespace: str, topic: str) -> None:
    up.rest("ewr").post(f"namespaces/{namespace}/replicateSubscriptionState", True)
    consumer = up.client("ewr").subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    producer = up.client("ewr").create_producer(topic)
    producer.send(b"x")
    consumer.acknowledge(consumer.receive())

    for name in NAMES:
        wait_until(partial(is_protected, up, name, topic), what=f"s to be protected in {name}")


def is_protected(up: Up, name: str, topic: str) -> bool:
    response = up.rest(name).request("GET", f"{topic.replace('://', '/')}/subscriptionProtection")
    found = response.json()[topic] if response.is_success else {}
    return "s" in found and found["s"]["status"] == "protected"
