"""Mode ``markers`` between clusters of Magnetar: subscriptions follow by snapshots (PIP-33)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulsar

from tests.geo.helpers import consume_rest, wait_for_backlog, wait_for_entries
from tests.kit.clusters import NAMES
from tests.kit.messages import numbered, publish, receive

if TYPE_CHECKING:
    from tests.kit.clusters import Up

MESSAGES = 100


def test_messages_consumed_up_to_a_position_are_consumed_everywhere_and_no_others(
    up: Up, namespace: str, topic: str
) -> None:
    for name in NAMES:
        up.rest(name).post(f"namespaces/{namespace}/replicatedSubscriptionSync", "markers")
    publish(up.client("ewr"), topic, numbered(MESSAGES))
    wait_for_entries(up, topic, MESSAGES, NAMES)
    consumer = up.client("ewr").subscribe(
        topic,
        "moves",
        pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        replicate_subscription_state_enabled=True,
    )
    receive(consumer, MESSAGES, acknowledge=True)
    wait_for_backlog(up, topic, "moves", 0, NAMES)
    publish(up.client("jfk"), topic, numbered(1, first=MESSAGES))
    consumer.close()
    wait_for_entries(up, topic, MESSAGES + 1, NAMES)
    consume_rest(up, "lga", topic, "moves", numbered(1, first=MESSAGES))
