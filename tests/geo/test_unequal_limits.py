"""A target with a lower message size limit than its source, and a target that moves to another address."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.geo.helpers import REPLICATION_TIMEOUT_S, entries, has_subscription, log_of, wait_for_entries
from tests.kit.broker import Broker
from tests.kit.clusters import UP_TIMEOUT_S, LocalClusters
from tests.kit.messages import numbered, publish
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

pytestmark = pytest.mark.timeout(300)

NAMES = ("ewr", "jfk")
LARGE, SMALL = "persistent://geo/limits/large", "persistent://geo/limits/small"


def replace_jfk(clusters: LocalClusters, settings: dict[str, object]) -> None:
    """Restart jfk with other settings on other ports."""
    clusters.brokers["jfk"].rest.close()
    broker = Broker(clusters.directory / "jfk", "jfk", settings)
    clusters.members["jfk"] = clusters.brokers["jfk"] = broker


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalClusters]:
    directory: Path = tmp_path_factory.mktemp("limits")
    unequal = LocalClusters(directory, NAMES)
    replace_jfk(unequal, {"maxMessageSize": 100_000})
    with unequal as running:
        running.make_namespace("geo/limits", NAMES)
        running.start_pipeline()
        yield running


def link(clusters: LocalClusters, topic: str) -> dict[str, Any]:
    """Return ewr's statistics of its link to jfk."""
    found: dict[str, Any] = clusters.rest("ewr").stats(topic)["replication"]["jfk"]
    return found


def test_a_message_that_is_too_large_for_the_target_holds_up_its_topic_alone(clusters: LocalClusters) -> None:
    publish(clusters.client("ewr"), SMALL, numbered(1))
    wait_until(lambda: entries(clusters, "jfk", SMALL) == 1, UP_TIMEOUT_S, what="the pipeline")
    publish(clusters.client("ewr"), LARGE, [b"first", b"x" * 300_000, b"behind it"])
    reason = wait_until(
        lambda: str(link(clusters, LARGE).get("parkedReason", "")),
        REPLICATION_TIMEOUT_S,
        what="the reason of a parked link",
    )
    assert "jfk takes 110240 (maxMessageSize)" in reason
    publish(clusters.client("ewr"), SMALL, numbered(50, first=1))
    wait_for_entries(clusters, SMALL, 51, ["jfk"])
    assert "parkedReason" not in link(clusters, SMALL)
    assert link(clusters, LARGE).get("parkedReason") == reason
    assert "frame of" not in (clusters.directory / "jfk" / "broker.log").read_text()


def test_links_move_to_another_address_and_a_larger_limit_lets_the_link_go_on(clusters: LocalClusters) -> None:
    clusters.brokers["jfk"].stop()
    replace_jfk(clusters, {})
    jfk = clusters.brokers["jfk"]
    jfk.start()
    record = {"serviceUrl": jfk.admin_url, "brokerServiceUrl": jfk.service_url}
    for name in NAMES:
        clusters.rest(name).post("clusters/jfk", record)

    wait_for_entries(clusters, LARGE, 3, ["jfk"])
    assert [len(body) for body in log_of(clusters, "jfk", LARGE)] == [5, 300_000, 9]
    wait_until(lambda: "parkedReason" not in link(clusters, LARGE), REPLICATION_TIMEOUT_S, what="a link that goes on")
    events = [json.loads(line) for line in (clusters.directory / "pipeline.out").read_text().splitlines()]
    moved = [event for event in events if event["event"] == "cluster_moved"]
    assert moved == [{"event": "cluster_moved", "cluster": "jfk", "broker_url": jfk.service_url}]

    consumer = clusters.client("ewr").subscribe(SMALL, "worker", replicate_subscription_state_enabled=True)
    wait_until(
        lambda: has_subscription(clusters, "jfk", SMALL, "worker"),
        REPLICATION_TIMEOUT_S,
        what="a progress link to the new address",
    )
    consumer.close()
