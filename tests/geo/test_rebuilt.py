"""A cluster that lost its disk and returns under its name, and a topic that was deleted in one cluster only.

The links rest then: they are idle.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from magnetar.broker.topic.linked_topics import DELETION_GRACE_S
from tests.geo.helpers import REPLICATION_TIMEOUT_S, entries, log_of, wait_for_entries
from tests.kit.clusters import UP_TIMEOUT_S, LocalClusters
from tests.kit.messages import nothing_comes, numbered, publish, receive, receive_data
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

import pulsar
import pytest

pytestmark = pytest.mark.timeout(300)

NAMES = ("ewr", "jfk")
TOPIC = "persistent://geo/rebuilt/orders"
SETTINGS = {"defaultRetentionTimeInMinutes": 60, "replicationRestAfterMs": 300}
LOST_TOPIC = "persistent://geo/rebuilt/payments"
DELETED_TOPIC = "persistent://geo/rebuilt/returns"


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalClusters]:
    directory: Path = tmp_path_factory.mktemp("rebuilt")
    with LocalClusters(directory, NAMES, SETTINGS) as running:
        running.make_namespace("geo/rebuilt", NAMES)
        running.start_pipeline()
        yield running


def link(clusters: LocalClusters, topic: str = TOPIC) -> dict[str, Any]:
    """Return ewr's statistics of the link of a topic to jfk."""
    stats = clusters.rest("ewr").get(f"{topic.replace('://', '/')}/stats")
    found: dict[str, Any] = stats["replication"]["jfk"]
    return found


def totals(clusters: LocalClusters) -> dict[str, int]:
    """Return the totals of ewr's links of the namespace to jfk, without the number of sent messages."""
    found: dict[str, int] = clusters.rest("ewr").get("broker-stats/replication")["geo/rebuilt"]["jfk"]
    del found["msgOutCount"]
    return found


def wait_for_rest(clusters: LocalClusters, topic: str = TOPIC) -> None:
    """Return when ewr's link of a topic to jfk rests: it counts as connected, without a connection."""

    def rests() -> bool:
        found = link(clusters, topic)
        return found["connected"] and "outboundConnection" not in found and found.get("replicationBacklog") == 0

    wait_until(rests, REPLICATION_TIMEOUT_S, what="a link that rests")


def test_a_cluster_that_lost_its_disk_is_filled_without_new_traffic(clusters: LocalClusters) -> None:
    publish(clusters.client("ewr"), TOPIC, numbered(100))
    wait_until(lambda: entries(clusters, "jfk", TOPIC) == 100, UP_TIMEOUT_S, what="the pipeline")
    wait_for_rest(clusters)

    jfk = clusters.brokers["jfk"]
    jfk.stop()
    wait_until(lambda: "replicationBacklog" not in link(clusters), REPLICATION_TIMEOUT_S, what="an unknown backlog")
    assert totals(clusters) == {"topics": 1, "unknownTopics": 1, "connectedTopics": 0, "parkedTopics": 0}
    shutil.rmtree(jfk.directory / "data")
    jfk.start()
    clusters.make_namespace("geo/rebuilt", NAMES)

    wait_for_entries(clusters, TOPIC, 100, ["jfk"])
    assert log_of(clusters, "jfk", TOPIC) == numbered(100)
    wait_until(lambda: link(clusters).get("replicationBacklog") == 0, REPLICATION_TIMEOUT_S, what="all confirmed again")
    assert totals(clusters) == {
        "topics": 1,
        "unknownTopics": 0,
        "connectedTopics": 1,
        "parkedTopics": 0,
        "replicationBacklog": 0,
        "replicationDelayInSeconds": 0,
    }


@pytest.mark.long
def test_a_topic_that_one_cluster_alone_deleted_is_made_again_after_the_grace_time(clusters: LocalClusters) -> None:
    publish(clusters.client("ewr"), DELETED_TOPIC, numbered(10))
    wait_until(lambda: entries(clusters, "jfk", DELETED_TOPIC) == 10, UP_TIMEOUT_S, what="the pipeline")
    wait_for_rest(clusters, DELETED_TOPIC)
    clusters.rest("jfk").delete(f"{DELETED_TOPIC.replace('://', '/')}?force=true")
    wait_until(
        lambda: entries(clusters, "jfk", DELETED_TOPIC) == 10,
        DELETION_GRACE_S + REPLICATION_TIMEOUT_S,
        what="the topic in jfk again",
    )
    assert log_of(clusters, "jfk", DELETED_TOPIC) == numbered(10)


def towards_jfk(clusters: LocalClusters) -> dict[str, Any]:
    """Return the protection status of ewr's subscription towards jfk."""
    stats = clusters.rest("ewr").get(f"{LOST_TOPIC.replace('://', '/')}/subscriptionProtection")
    found: dict[str, Any] = stats[LOST_TOPIC]["workers"]["clusters"]["jfk"]
    return found


def test_messages_that_the_rebuilt_cluster_published_come_back_to_it_once(clusters: LocalClusters) -> None:
    shared = {"consumer_type": pulsar.ConsumerType.Shared, "replicate_subscription_state_enabled": True}
    consumer = clusters.client("ewr").subscribe(LOST_TOPIC, "workers", **shared)
    publish(clusters.client("jfk"), LOST_TOPIC, numbered(10))
    wait_until(lambda: entries(clusters, "ewr", LOST_TOPIC) == 10, UP_TIMEOUT_S, what="the pipeline")
    for message in receive(consumer, 10)[:4]:
        consumer.acknowledge(message)
    wait_until(
        lambda: towards_jfk(clusters).get("lostMessages") == 0, REPLICATION_TIMEOUT_S, what="the life of jfk known"
    )

    clusters.stop_pipeline()
    jfk = clusters.brokers["jfk"]
    jfk.stop()
    wait_until(
        lambda: "lostMessages" not in towards_jfk(clusters), REPLICATION_TIMEOUT_S, what="an unknown life of jfk"
    )
    shutil.rmtree(jfk.directory / "data")
    jfk.start()
    clusters.make_namespace("geo/rebuilt", NAMES)
    publish(clusters.client("jfk"), LOST_TOPIC, [b"new"])
    wait_until(lambda: towards_jfk(clusters).get("lostMessages") == 6, REPLICATION_TIMEOUT_S, what="6 lost messages")
    assert towards_jfk(clusters)["status"] == "at risk"

    consumer.close()
    clusters.start_pipeline()
    wait_until(lambda: entries(clusters, "jfk", LOST_TOPIC) == 11, UP_TIMEOUT_S, what="the messages in jfk again")
    back = clusters.client("jfk").subscribe(LOST_TOPIC, "workers", **shared)
    assert sorted(receive_data(back, 7, acknowledge=True)) == [*numbered(6, first=4), b"new"]
    wait_until(lambda: towards_jfk(clusters).get("lostMessages") == 0, REPLICATION_TIMEOUT_S, what="all came back")
    assert nothing_comes(back)
    assert sorted(log_of(clusters, "jfk", LOST_TOPIC)) == [*numbered(10), b"new"]
    wait_until(lambda: towards_jfk(clusters)["status"] == "protected", REPLICATION_TIMEOUT_S, what="protection")
