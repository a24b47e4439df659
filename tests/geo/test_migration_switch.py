"""A tenant is switched to another cluster and back while stock clients publish and consume by the lookup service."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.kit.migration import Migrator, before_a_move, lookup_service
from tests.kit.traffic import AUDIT, BILLING, Traffic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.clusters import LocalClusters

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

NAMESPACE = "shop/orders"
EU, US = (f"persistent://{NAMESPACE}/{name}" for name in ("eu", "us"))


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[LocalClusters]:
    """Two clusters with a pipeline; the tenant exists in ewr only, and clients use it there."""
    with before_a_move(tmp_path, NAMESPACE, make_topics) as running:
        yield running


def make_topics(clusters: LocalClusters) -> None:
    clusters.rest("ewr").put(f"persistent/{NAMESPACE}/us/partitions", 2)
    clusters.rest("ewr").put(f"persistent/{NAMESPACE}/eu")


@pytest.fixture
def service_url(clusters: LocalClusters) -> Iterator[str]:
    with lookup_service(clusters) as url:
        yield url


def test_clients_follow_a_switch_and_a_rollback_without_noticing(clusters: LocalClusters, service_url: str) -> None:
    migrator = Migrator("shop", clusters.brokers["ewr"], clusters.brokers["jfk"], clusters.directory / "migration")
    traffic = Traffic(service_url, (EU, US))
    try:
        time.sleep(2)
        assert migrator.run("run")["step"] == "ready"
        assert migrator.run("verify")["verdict"] == "equal"
        there = migrator.run("switch")
        assert (there["step"], there["topics"], there["released"]) == ("switched", 2, [])
        traffic.go_on("jfk")
        assert_served_by(clusters, "jfk")
        for records in (4, 4):
            migrator.kill_after("rollback", records)
        back = migrator.run("rollback")
        assert (back["step"], back["released"]) == ("ready", [])
        traffic.go_on("ewr")
        assert_served_by(clusters, "ewr")
        assert migrator.run("verify")["verdict"] == "equal"
        again = migrator.run("switch")
        assert (again["step"], again["released"]) == ("switched", [])
        assert migrator.run("cleanup", "--force")["step"] == "done"
        traffic.go_on("jfk after the clean-up")
        assert_nothing_is_left(clusters)
    finally:
        traffic.stop()
    print({"messages": traffic.published, "switch": there, "rollback": back, "again": again})  # noqa: T201 - figures of a long test
    assert traffic.failures == []
    assert traffic.out_of_order == []
    redelivered = sum(each["redelivered_unacknowledged"] or 0 for each in (there, back, again))
    for subscription, received in traffic.received.items():
        assert len(received) == traffic.published, f"{subscription} has lost messages"
        assert traffic.repeated(subscription) <= redelivered


def assert_nothing_is_left(clusters: LocalClusters) -> None:
    """Check that the source has no topic of the tenant, and that neither cluster links the namespace any more."""
    assert clusters.rest("ewr").get(f"persistent/{NAMESPACE}") == []
    assert clusters.rest("ewr").get(f"persistent/{NAMESPACE}/partitioned") == []
    for name in clusters.members:
        assert clusters.rest(name).get(f"namespaces/{NAMESPACE}/replication") == ["jfk"]
        assert clusters.rest(name).get("tenants/shop")["allowedClusters"] == ["jfk"]
    subscriptions = clusters.rest("jfk").get(f"persistent/{NAMESPACE}/eu/stats")["subscriptions"]
    assert {name: each["isReplicated"] for name, each in subscriptions.items()} == {BILLING: False, AUDIT: False}


def assert_served_by(clusters: LocalClusters, serving: str) -> None:
    """Check that all clients are connected to one cluster."""
    for name in clusters.members:
        stats = clusters.rest(name).get(f"persistent/{NAMESPACE}/eu/stats")
        consumers = sum(len(each["consumers"]) for each in stats["subscriptions"].values())
        assert (len(stats["publishers"]), consumers) == ((1, 2) if name == serving else (0, 0)), name
