"""Subscriptions and topics that nobody uses are deleted if policies request it, and never otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.broker.housekeeping.maintenance import Maintenance
from magnetar.metadata.policy.values import InactiveTopicPolicies, RetentionPolicies
from magnetar.sim.cluster import TOPIC, Cluster, Shared
from tests.unit.broker.policies import set_in_namespace, set_in_topic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MINUTE_S = 60.0
NO_SUBSCRIPTIONS = InactiveTopicPolicies(
    inactiveTopicDeleteMode="delete_when_no_subscriptions", maxInactiveDurationSeconds=300, deleteWhileInactive=True
)
CAUGHT_UP = InactiveTopicPolicies(
    inactiveTopicDeleteMode="delete_when_subscriptions_caught_up",
    maxInactiveDurationSeconds=300,
    deleteWhileInactive=True,
)


class Kept:
    """A cluster with manually driven maintenance."""

    def __init__(self, targets: tuple[str, ...] = ()) -> None:
        self.cluster = Cluster(targets=targets)
        self._begin()

    def _begin(self) -> None:
        self.maintenance = Maintenance(self.cluster.environment, self.cluster.topics)

    def run(self, work: Callable[[Maintenance], Awaitable[None]]) -> None:
        async def once() -> None:
            await work(self.maintenance)

        task = self.cluster.loop.start(once())
        self.cluster.settle()
        task.result()

    def minutes(self, count: int) -> None:
        """Advance the clock; every minute, the periodic work is done."""
        for _ in range(count):
            self.cluster.loop.advance(MINUTE_S)
            self.cluster.settle()
            self.run(Maintenance.expire_subscriptions)
            self.run(Maintenance.delete_inactive_topics)

    def restart(self) -> None:
        self.cluster.crash()
        self._begin()
        self.cluster.topic()

    @property
    def exists(self) -> bool:
        return self.cluster.topics.exists(TOPIC)

    @property
    def subscriptions(self) -> list[str]:
        return sorted(self.cluster.topic().subscriptions)


# -- subscriptions --------------------------------------------------------------------------------------------------


def test_a_subscription_without_consumers_expires() -> None:
    kept = Kept()
    client = kept.cluster.client()
    client.subscribe(1, Shared, subscription="used")
    client.subscribe(2, Shared, subscription="left")
    client.subscribe(3, Shared, subscription="replicated", replicate_subscription_state=True)
    kept.minutes(20)
    set_in_namespace(kept.cluster, subscription_expiration_time_minutes=10)
    other = kept.cluster.client()
    other.subscribe(4, Shared, subscription="used")
    client.leave()
    kept.minutes(10)
    assert kept.subscriptions == ["left", "replicated", "used"]
    kept.minutes(2)
    assert kept.subscriptions == ["replicated", "used"]


def test_a_consumer_begins_the_time_anew() -> None:
    kept = Kept()
    set_in_namespace(kept.cluster, subscription_expiration_time_minutes=10)
    client = kept.cluster.client()
    client.subscribe()
    client.leave()
    kept.minutes(9)
    client = kept.cluster.client()
    client.subscribe()
    client.leave()
    kept.minutes(9)
    assert kept.subscriptions == ["worker"]
    kept.minutes(3)
    assert kept.subscriptions == []


def test_the_time_outlives_a_restart() -> None:
    kept = Kept()
    set_in_namespace(kept.cluster, subscription_expiration_time_minutes=10)
    client = kept.cluster.client()
    client.subscribe()
    client.leave()
    kept.minutes(6)
    kept.restart()
    kept.minutes(6)
    assert kept.subscriptions == []


def test_without_a_policy_nothing_expires() -> None:
    kept = Kept()
    client = kept.cluster.client()
    client.subscribe()
    client.produce()
    client.leave()
    kept.minutes(100)
    assert (kept.exists, kept.subscriptions) == (True, ["worker"])


# -- topics ---------------------------------------------------------------------------------------------------------


def test_a_topic_without_clients_and_subscriptions_is_deleted() -> None:
    kept = Kept()
    set_in_namespace(kept.cluster, inactive_topic_policies=NO_SUBSCRIPTIONS)
    client = kept.cluster.client()
    client.produce()
    client.send("a")
    kept.minutes(20)
    assert kept.exists, "it has a producer"
    client.leave()
    kept.minutes(5)
    assert kept.exists
    kept.minutes(2)
    assert not kept.exists


def test_a_topic_with_a_subscription_stays_in_the_first_mode() -> None:
    kept = Kept()
    set_in_topic(kept.cluster, inactiveTopicPolicies=NO_SUBSCRIPTIONS)
    client = kept.cluster.client()
    client.subscribe()
    client.leave()
    kept.minutes(20)
    assert kept.exists
    set_in_topic(kept.cluster, inactiveTopicPolicies=CAUGHT_UP)
    kept.minutes(7)
    assert not kept.exists
    assert kept.cluster.resources.topic_policies.get(TOPIC) is None


def test_a_topic_with_a_backlog_is_never_deleted() -> None:
    kept = Kept()
    set_in_namespace(kept.cluster, inactive_topic_policies=CAUGHT_UP)
    client = kept.cluster.client()
    client.subscribe(permits=0)
    client.produce()
    client.send("a")
    client.leave()
    kept.minutes(60)
    assert kept.exists


@pytest.mark.parametrize("use", ["produce", "send", "subscribe"])
def test_use_begins_the_time_anew(use: str) -> None:
    kept = Kept()
    set_in_namespace(kept.cluster, inactive_topic_policies=NO_SUBSCRIPTIONS)
    kept.cluster.topic()
    kept.minutes(5)
    client = kept.cluster.client()
    client.produce()
    if use == "subscribe":
        client.subscribe(durable=False, subscription="reader")
    if use != "send":
        kept.minutes(1)
    client.send("a")
    client.leave()
    kept.minutes(5)
    assert kept.exists
    kept.minutes(2)
    assert not kept.exists


def test_retention_keeps_a_topic_longer() -> None:
    kept = Kept()
    retention = RetentionPolicies(retentionTimeInMinutes=30, retentionSizeInMB=-1)
    set_in_namespace(kept.cluster, inactive_topic_policies=NO_SUBSCRIPTIONS, retention_policies=retention)
    kept.cluster.topic()
    kept.minutes(30)
    assert kept.exists
    kept.minutes(2)
    assert not kept.exists


def test_a_replicated_topic_is_never_deleted() -> None:
    kept = Kept(targets=("jfk",))
    set_in_namespace(kept.cluster, inactive_topic_policies=NO_SUBSCRIPTIONS)
    kept.cluster.topic()
    kept.minutes(60)
    assert kept.exists


def test_the_time_of_a_topic_outlives_a_restart() -> None:
    kept = Kept()
    set_in_namespace(kept.cluster, inactive_topic_policies=NO_SUBSCRIPTIONS)
    kept.cluster.topic()
    kept.minutes(4)
    kept.restart()
    kept.minutes(2)
    assert not kept.exists


def test_an_unloaded_topic_is_deleted_when_it_is_due() -> None:
    kept = Kept()
    idle = kept.maintenance.idle_topics
    kept.cluster.do(idle.start)
    set_in_namespace(kept.cluster, inactive_topic_policies=NO_SUBSCRIPTIONS)
    kept.cluster.topic()
    kept.minutes(1)
    kept.cluster.do(lambda: kept.cluster.topics.unload(TOPIC))
    assert TOPIC not in kept.cluster.topics.loaded
    for _ in range(8):
        kept.cluster.loop.advance(MINUTE_S)
        kept.cluster.settle()
        kept.run(lambda maintenance: maintenance.idle_topics.maintain_unloaded())
    assert not kept.exists
