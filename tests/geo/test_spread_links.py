"""The links to a cluster are divided among several tasks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.geo.helpers import log_of, wait_for_entries
from tests.kit.clusters import UP_TIMEOUT_S, LocalClusters
from tests.kit.messages import numbered, publish
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)

NAMES = ("ewr", "jfk")
TOPICS = [f"persistent://geo/spread/t{number}" for number in range(8)]
LEASE_S = 5


def holders(clusters: LocalClusters) -> set[str]:
    """Return the connections of the tasks that hold ewr's links."""
    links = [clusters.rest("ewr").stats(topic)["replication"]["jfk"] for topic in TOPICS]
    return {link["outboundConnection"] for link in links if "outboundConnection" in link}


def handovers(clusters: LocalClusters) -> int:
    """Return the smallest number of hand-overs of a link."""
    return min(int(clusters.rest("ewr").stats(topic)["replication"]["jfk"]["handovers"]) for topic in TOPICS)


def test_several_tasks_carry_the_links_to_a_cluster(tmp_path: Path) -> None:
    with LocalClusters(tmp_path, NAMES, {"replicationRestAfterMs": 60_000}) as clusters:
        clusters.make_namespace("geo/spread", NAMES)
        for topic in TOPICS:
            publish(clusters.client("ewr"), topic, numbered(10))
        clusters.start_pipeline("--parallelism", "2", "--lease-seconds", str(LEASE_S))
        for topic in TOPICS:
            wait_for_entries(clusters, topic, 10, ["jfk"])
        wait_until(lambda: len(holders(clusters)) == 2, UP_TIMEOUT_S, what="two tasks with links")
        before = handovers(clusters)
        sent = 10
        while handovers(clusters) < before + 2:
            for topic in TOPICS:
                publish(clusters.client("ewr"), topic, numbered(5, first=sent))
            sent += 5
        clusters.kill_worker()
        for topic in TOPICS:
            publish(clusters.client("ewr"), topic, numbered(5, first=sent))
            wait_for_entries(clusters, topic, sent + 5, ["jfk"])
            assert log_of(clusters, "jfk", topic) == numbered(sent + 5)
        reports = [json.loads(line) for line in (tmp_path / "pipeline.out").read_text().splitlines()]
        attached = {
            task["target"]: task["links"] for each in reports if each["event"] == "progress" for task in each["tasks"]
        }
        assert attached["jfk"] >= len(TOPICS), "those of both tasks"
