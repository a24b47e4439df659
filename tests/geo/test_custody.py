"""Messages and progress move on to a cluster that joins after their publisher has left (ADR 40)."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING

import pytest
from pulsar import ConsumerType

from tests.geo.helpers import REPLICATION_TIMEOUT_S, has_backlog, wait_for_backlog, wait_for_entries
from tests.kit.messages import numbered, publish, receive, receive_until_quiet
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    import pulsar

    from tests.kit.clusters import Up

pytestmark = pytest.mark.timeout(180)

MESSAGES = 20


def subscribe(up: Up, name: str, topic: str) -> pulsar.Consumer:
    return up.client(name).subscribe(topic, "s", ConsumerType.Shared, replicate_subscription_state_enabled=True)


def move(up: Up, namespace: str) -> None:
    """Let ewr leave the namespace and lga join, with the messages of ewr in the custody of jfk."""
    up.rest("ewr").post(f"namespaces/{namespace}/replication", ["ewr"])
    for name in ("lga", "jfk"):  # lga first: it refuses entries of ewr before it knows who keeps them
        up.rest(name).ensure(f"namespaces/{namespace}", {})
        up.rest(name).post(f"namespaces/{namespace}/custody", {"ewr": "jfk"})
        up.rest(name).post(f"namespaces/{namespace}/replication", ["jfk", "lga"])


def test_a_third_cluster_gets_what_is_left_of_a_cluster_that_has_left(up: Up) -> None:
    namespace = f"geo/{secrets.token_hex(4)}"
    topic = f"persistent://{namespace}/t"
    up.make_namespace(namespace, ["ewr", "jfk"])
    consumer = subscribe(up, "ewr", topic)
    publish(up.client("ewr"), topic, numbered(MESSAGES))
    messages = receive(consumer, MESSAGES)
    for message in messages[::2]:
        consumer.acknowledge(message)
    wait_for_entries(up, topic, MESSAGES, ["jfk"])
    wait_for_backlog(up, topic, "s", MESSAGES // 2, ["jfk"])
    consumer.close()

    move(up, namespace)
    wait_for_entries(up, topic, MESSAGES, ["lga"])
    reached = partial(has_backlog, up, "lga", topic, "s", MESSAGES // 2)
    wait_until(reached, REPLICATION_TIMEOUT_S, what="the subscription in lga")
    there = subscribe(up, "lga", topic)
    assert [message.data() for message in receive_until_quiet(there)] == numbered(MESSAGES)[1::2]
    there.close()

    def is_known_to_be_complete() -> bool:
        """Return whether the custodian knows that lga lacks nothing; it verifies that with each new holder."""
        return bool(up.rest("jfk").stats(topic)["replication"]["lga"].get("replicationBacklog") == 0)

    wait_until(is_known_to_be_complete, REPLICATION_TIMEOUT_S, what="no backlog in jfk")
