"""Totals of links are sums over topics, and unknown if a topic is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from magnetar.admin.models.links import LinkTotals
from magnetar.admin.topic_service import StatsOptions
from magnetar.base.errors import StorageError
from magnetar.base.names import TopicName
from magnetar.broker.admin.links import link_totals_steps
from magnetar.broker.admin.stats import topic_stats
from magnetar.broker.loop.slices import at_once
from magnetar.sim.cluster import NAMESPACE, Cluster
from magnetar.sim.pipe import Pipe
from magnetar.sim.virtual.loop import HandLoop

if TYPE_CHECKING:
    from magnetar.admin.models.topics import ReplicatorStats

OTHER = TopicName.parse(f"persistent://{NAMESPACE}/other")


def totals(cluster: Cluster) -> dict[str, LinkTotals]:
    found = at_once(link_totals_steps(cluster.environment, cluster.topics))
    assert list(found) == [str(NAMESPACE)]
    return found[str(NAMESPACE)]


def of_topics(cluster: Cluster, remote: str) -> list[ReplicatorStats]:
    return [topic_stats(topic, StatsOptions()).replication[remote] for topic in cluster.topics.loaded.values()]


@pytest.fixture
def source() -> Cluster:
    """ewr with two topics: jfk holds the three entries of one of them, and lacks two of the other."""
    loop = HandLoop()
    source = Cluster("ewr", targets=["jfk", "lga"], loop=loop)
    pipe = Pipe(source, Cluster("jfk", targets=["ewr", "lga"], loop=loop))
    publisher, other = source.client(), source.client()
    publisher.produce(name="p")
    pipe.attach()
    publisher.send("a", "b", "c")
    pipe.run()
    other.topic = OTHER
    other.produce(name="q")
    other.send("d", "e")
    loop.advance(7)
    return source


def test_totals_are_sums_over_the_topics(source: Cluster) -> None:
    found, topics = totals(source), of_topics(source, "jfk")
    assert list(found) == ["jfk", "lga"]
    jfk = LinkTotals(topics=2, connected_topics=1, msg_out_count=3, replication_backlog=2)
    assert found["jfk"] == replace(jfk, replication_delay_in_seconds=7)
    assert sum(each.msg_out_count for each in topics) == 3
    assert sum(each.replication_backlog or 0 for each in topics) == 2
    assert found["lga"] == LinkTotals(topics=2, replication_backlog=5, replication_delay_in_seconds=7)


def test_a_topic_that_cannot_be_loaded_is_unknown(source: Cluster) -> None:
    source.topics.load_failures.failed(OTHER, StorageError("a bad sector"))  # no attempt to load it for a second
    source.do(lambda: source.topics.unload(OTHER))
    assert totals(source)["jfk"] == LinkTotals(
        topics=2,
        unknown_topics=1,
        connected_topics=1,
        msg_out_count=3,
        replication_backlog=None,
        replication_delay_in_seconds=None,
    )
    assert set(totals(source)["jfk"].to_json()) == {
        *("topics", "unknownTopics", "connectedTopics", "parkedTopics", "msgOutCount")
    }
