"""Changed policies reach all topics in slices, whatever else changes meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.names import TopicName
from magnetar.broker.loop import slices
from magnetar.broker.topic import policy_changes
from magnetar.broker.topic.topic import Topic
from magnetar.metadata.policies import Policies
from magnetar.metadata.resources import managed_ledger_path
from magnetar.metadata.store import Delete
from magnetar.sim.cluster import NAMESPACE, TOPIC, Cluster
from tests.unit.broker.policies import set_in_topic

if TYPE_CHECKING:
    from collections.abc import Callable

TOPICS = 30
SLICE = 4


def name_of(number: int) -> TopicName:
    return TopicName.parse(f"persistent://public/default/t{number}")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster with many topics."""
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", SLICE)
    cluster = Cluster()
    for number in range(TOPICS):
        cluster.topic(name_of(number))
    return cluster


def change(cluster: Cluster, ttl_s: int, *targets: str) -> None:
    policies = Policies(replication_clusters=["ewr", *targets], message_ttl_in_seconds=ttl_s)
    cluster.resources.namespaces.update(NAMESPACE, lambda _: policies)


def ttls(cluster: Cluster) -> list[int | None]:
    return [topic.policies.message_ttl_s for topic in cluster.topics.loaded.values()]


def in_the_middle(cluster: Cluster, work: Callable[[], object]) -> None:
    """Do ``work`` in the second turn from now."""
    cluster.loop.call_soon(cluster.loop.call_soon, work)


def test_policies_that_change_again_hold_for_all_topics(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[TopicName] = []
    apply_policies = Topic.apply_policies

    def note(topic: Topic) -> None:
        applied.append(topic.name)
        apply_policies(topic)

    monkeypatch.setattr(Topic, "apply_policies", note)
    seen: list[list[int | None]] = []

    def change_again() -> None:
        seen.append(ttls(cluster))
        change(cluster, 7)

    in_the_middle(cluster, change_again)
    cluster.do(lambda: change(cluster, 60))
    assert 0 < seen[0].count(60) < TOPICS
    assert ttls(cluster) == [7] * TOPICS
    assert len(applied) == TOPICS + seen[0].count(60), "the rest of the first change is not applied any more"


def test_a_partition_of_a_topic_that_is_not_registered_follows_the_policies_of_the_topic() -> None:
    cluster = Cluster(targets=["jfk"])
    partition = TOPIC.partition(3)
    cluster.topic(partition)  # a link has brought it
    set_in_topic(cluster, messageTTLInSeconds=60)
    assert cluster.topics.loaded[partition].policies.message_ttl_s == 60


def test_a_cluster_that_is_added_again_keeps_the_topics_that_were_not_unloaded_yet(cluster: Cluster) -> None:
    names, left = list(cluster.topics.loaded), list[TopicName]()

    def add_again() -> None:
        left.extend(name for name in names if not cluster.topics.is_shut(name))
        change(cluster, 7)

    in_the_middle(cluster, add_again)
    elsewhere = Policies(replication_clusters=["jfk"])
    cluster.do(lambda: cluster.resources.namespaces.update(NAMESPACE, lambda _: elsewhere))
    assert 0 < len(left) < TOPICS
    assert list(cluster.topics.loaded) == left
    assert ttls(cluster) == [7] * len(left)


def test_topics_that_come_or_go_meanwhile(cluster: Cluster) -> None:
    cluster.crash()
    new, old = name_of(TOPICS), name_of(TOPICS - 1)
    loaded: list[int] = []

    def come_and_go() -> None:
        loaded.append(len(cluster.topics.loaded))
        assert old not in cluster.topics.loaded
        cluster.metadata.commit([Delete(managed_ledger_path(old))])
        cluster.topics.create(new)

    in_the_middle(cluster, come_and_go)
    cluster.do(lambda: change(cluster, 7, "jfk"))
    assert 0 < loaded[0] < TOPICS
    assert set(cluster.topics.loaded) == {name_of(number) for number in range(TOPICS + 1)} - {old}
    assert ttls(cluster) == [7] * TOPICS
    assert all("jfk" in topic.replicators for topic in cluster.topics.loaded.values())
    assert cluster.metadata.get(managed_ledger_path(old)) is None


def test_topics_that_a_change_does_not_concern_are_passed_in_slices(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_changes, "SKIPPED_MAX", 2)
    last = name_of(TOPICS - 1)
    applied: list[int | None] = []

    def change_last() -> None:
        cluster.resources.topic_policies.change(last, messageTTLInSeconds=7)
        look()

    def look() -> None:
        applied.append(cluster.topics.loaded[last].policies.message_ttl_s)
        if applied[-1] != 7:
            cluster.loop.call_soon(look)

    cluster.do(change_last)
    assert applied[-1] == 7
    assert len(applied) >= TOPICS // 2 // SLICE
    assert ttls(cluster).count(7) == 1
