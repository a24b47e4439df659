"""A cluster that is down, and a backlog: neither delays progress between the others."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import pulsar
import pytest
from pulsar import ConsumerType

from tests.geo.backlog import ProgressProbe, ages_during_backlog
from tests.geo.helpers import (
    REPLICATION_TIMEOUT_S,
    backlog,
    entries,
    log_of,
    wait_for_backlog,
    wait_for_entries,
)
from tests.kit.clusters import NAMES, UP_TIMEOUT_S, LocalClusters
from tests.kit.messages import numbered, publish, receive
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.clusters import Up

ENOUGH = 5
"""Number of acknowledgements that must be applied elsewhere during the backlog; some twenty are expected."""


def test_progress_goes_on_during_a_backlog(up: Up, namespace: str) -> None:
    """``bench/progress_during_backlog.py`` measures the delays."""
    assert len(ages_during_backlog(up, namespace, 20_000)) >= ENOUGH


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalClusters]:
    directory: Path = tmp_path_factory.mktemp("down")
    with LocalClusters(directory) as running:
        running.make_namespace("geo/down")
        running.start_pipeline()
        running.wait_for_pipeline()
        yield running


@pytest.mark.parametrize("manner", ["killed", "frozen"])
def test_others_go_on_and_it_converges_when_it_is_back(clusters: LocalClusters, manner: str) -> None:
    topic = f"persistent://geo/down/{manner}"
    publish(clusters.client("lga"), topic, numbered(50))
    probe = ProgressProbe(clusters, f"{topic}-probe", "ewr", "jfk", 30)
    wait_for_entries(clusters, topic, 50, NAMES)
    wait_for_entries(clusters, f"{topic}-probe", 30, NAMES)
    calm = [probe.measure() for _ in range(10)]

    third = clusters.brokers["lga"]
    (third.kill if manner == "killed" else third.freeze)()
    publish(clusters.client("ewr"), topic, numbered(50, first=50))
    publish(clusters.client("jfk"), topic, numbered(50, first=100))
    wait_for_entries(clusters, topic, 150, ["ewr", "jfk"])
    alone = [probe.measure() for _ in range(20)]
    # Without waiting for lga: its links time out after seconds, so the difference would be large.
    assert statistics.median(alone) < 3 * statistics.median(calm)

    (third.start if manner == "killed" else third.thaw)()
    wait_for_entries(clusters, topic, 150, NAMES)
    for name in NAMES:
        assert sorted(log_of(clusters, name, topic), key=int) == numbered(150)
    wait_until(
        lambda: backlog(clusters, "lga", f"{topic}-probe", "probe") == 0,
        REPLICATION_TIMEOUT_S,
        what="progress applied in lga",
    )
    probe.close()


def test_pipeline_that_was_away_continues_and_serves_the_others_while_a_cluster_is_down(
    clusters: LocalClusters,
) -> None:
    before, during = "persistent://geo/down/pipeline", "persistent://geo/down/start"
    for topic in (before, during):
        publish(clusters.client("ewr"), topic, numbered(50))
        wait_for_entries(clusters, topic, 50, NAMES)
    clusters.stop_pipeline()
    publish(clusters.client("ewr"), before, numbered(50, first=50))
    consumer = clusters.client("ewr").subscribe(
        before,
        "s",
        ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        replicate_subscription_state_enabled=True,
    )
    receive(consumer, 100, acknowledge=True)
    wait_for_backlog(clusters, before, "s", 0, NAMES)
    clusters.brokers["lga"].kill()
    clusters.start_pipeline()
    publish(clusters.client("ewr"), during, numbered(50, first=50))
    wait_until(lambda: entries(clusters, "jfk", before) == 100, UP_TIMEOUT_S, what="the pipeline")
    wait_for_entries(clusters, during, 100, ["jfk"])
    clusters.brokers["lga"].start()
    for topic in (before, during):
        wait_for_entries(clusters, topic, 100, NAMES)
        for name in NAMES:
            assert log_of(clusters, name, topic) == numbered(100)
    wait_for_backlog(clusters, before, "s", 0, NAMES)
