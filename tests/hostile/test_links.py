"""Three clusters replicate, and one of them is attacked: the other topics of its links do not notice.

The well-behaved client publishes in the attacked cluster and consumes in another one, on a topic of the same namespace,
and so of the same links, as the topics under attack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.watched_broker import WatchedBroker
from tests.chaos.mesh import running
from tests.hostile.attacker import attack
from tests.hostile.bystander import Bystander
from tests.hostile.catalogue import BEHAVIOURS, Place
from tests.hostile.observation import observe
from tests.hostile.stage import measure_baseline
from tests.hostile.victim import SETTINGS
from tests.kit.clusters import NAMES, LocalClusters

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.hostile.table import Row

NAMESPACE = "hostile/links"
TOPIC = f"persistent://{NAMESPACE}/well-behaved"
ATTACKED, PEER, _ = NAMES
OTHERS = (
    "baseline-nobody",
    "baseline-burnt-processor-time",
    "garbage-extreme-fields",
    "publishing-flood",
    "publishing-flood-unread",
    "publishing-large-flood",
    "publishing-large-metadata",
    "publishing-extreme-times",
    "publishing-unknown-clusters",
    "publishing-false-chunks",
    "batches-bombs",
    "batches-false-counts",
    "producers-ten-thousand-on-one-topic",
    "producers-false-names",
    "consuming-three-thousand-subscriptions",
    "acknowledging-holes",
    "rest-topics-created-and-deleted",
)
CHOSEN = [*OTHERS, *(name for name in BEHAVIOURS if name.startswith("forged-"))]


class WatchedClusters(LocalClusters):
    """Clusters whose event loops are watched."""

    broker = WatchedBroker


pytestmark = [pytest.mark.hostile, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalClusters]:
    """Three clusters and a pipeline."""
    with running(WatchedClusters(tmp_path_factory.mktemp("links"), NAMES, SETTINGS), NAMESPACE) as group:
        yield group


@pytest.fixture(scope="module")
def bystander(clusters: LocalClusters, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bystander]:
    """The client that publishes in one cluster and consumes in the other."""
    urls = (clusters.brokers[ATTACKED].service_url, clusters.brokers[PEER].service_url)
    with Bystander(urls, TOPIC, tmp_path_factory.mktemp("bystander")) as client:
        yield client


@pytest.fixture(scope="module")
def baseline_gap_ms(bystander: Bystander) -> float:
    """The longest gap without an attack, in milliseconds."""
    return measure_baseline(bystander)


@pytest.mark.parametrize("name", CHOSEN)
def test_other_topics_of_a_link(
    name: str,
    clusters: LocalClusters,
    bystander: Bystander,
    baseline_gap_ms: float,
    rows: list[Row],
    tmp_path: Path,
) -> None:
    behaviour, broker = BEHAVIOURS[name], clusters.brokers[ATTACKED]
    place = Place(broker.service_url, broker.admin_url, NAMESPACE, ATTACKED, PEER)
    row = observe(
        broker,
        bystander,
        f"links-{name}",
        behaviour.text,
        lambda: attack(behaviour, place, tmp_path),
        baseline_gap_ms,
        is_shared=True,
    )
    rows.append(row)
    assert row.acts > 0, "the attacker did nothing"
    assert row.account == {"without_receipt": 0, "lost": 0, "repeated": 0, "is_in_order": True}
    assert not row.is_stalled, "turns of the loop longer than 100 ms"
