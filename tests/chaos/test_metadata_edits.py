"""Random edits of metadata in three clusters with stores of their own, while links are cut and brokers are killed.

At the end the metadata are the same everywhere, and no edit is lost to a field that nobody else changed. Then a fourth,
empty cluster joins. ``MAGNETAR_CHAOS_SEED`` repeats the random choices of a run, ``MAGNETAR_CHAOS_EDITS`` sets the
number of edits.
"""

from __future__ import annotations

import os
import random
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.chaos.mesh import RECOVERY_TIMEOUT_S, SEED, say
from tests.geo.metadata_edits import EVENT_TOPIC, Edits, disagreements, fields, register
from tests.kit.clusters import NAMES, LocalClusters
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

EDITS = int(os.environ.get("MAGNETAR_CHAOS_EDITS", "1000"))
ROUNDS = 10
SNAPSHOT_S = 30
FOURTH = "sfo"
SETTINGS = {"metadataSyncEventTopic": EVENT_TOPIC, "metadataSyncSnapshotDurationSecond": SNAPSHOT_S}

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(20 * RECOVERY_TIMEOUT_S)]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalClusters]:
    """Three clusters, without a pipeline yet."""
    with LocalClusters(tmp_path_factory.mktemp("edits"), NAMES, SETTINGS) as running:
        running.add(FOURTH)
        for name in NAMES:
            register(running, name)
        yield running


@pytest.fixture(scope="module")
def edits(clusters: LocalClusters) -> Edits:
    """The resources to edit, in all clusters."""
    connect(clusters, tuple(NAMES))
    made = Edits(clusters, NAMES, random.Random(SEED))
    made.create()
    for name in NAMES:
        wait_until(partial(made.exist_in, name), RECOVERY_TIMEOUT_S, what=f"the namespaces in {name}")
    return made


def agree(clusters: LocalClusters, names: tuple[str, ...]) -> bool:
    return not disagreements(clusters, names)


def wait_for_agreement(clusters: LocalClusters, names: tuple[str, ...]) -> float:
    """Wait until the metadata are the same in the clusters ``names``; return the seconds."""
    began = time.monotonic()
    timeout_s = SNAPSHOT_S + RECOVERY_TIMEOUT_S
    wait_until(partial(agree, clusters, names), timeout_s, what="the same metadata in all clusters", interval_s=0.5)
    return time.monotonic() - began


def connect(clusters: LocalClusters, linked: tuple[str, ...]) -> None:
    """Let the pipeline replicate between ``linked`` clusters only; without any, there is none."""
    clusters.stop_pipeline()
    if linked:
        clusters.start_pipeline(names=linked)
        clusters.wait_for_pipeline()


def test_edits_of_separated_clusters_are_kept(clusters: LocalClusters, edits: Edits) -> None:
    say(f"\nMAGNETAR_CHAOS_SEED={SEED} MAGNETAR_CHAOS_EDITS={EDITS}")
    chance = random.Random(SEED)
    kills = cuts = 0
    linked = tuple(NAMES)
    for _ in range(ROUNDS):
        now = chance.choice((tuple(NAMES), tuple(chance.sample(NAMES, 2)), tuple(chance.sample(NAMES, 2)), ()))
        if now != linked:
            connect(clusters, now)
            linked, cuts = now, cuts + (len(now) < len(NAMES))
        for _ in range(2):
            edits.make(EDITS // ROUNDS // 2)
            if chance.random() < 0.5:
                clusters.brokers[chance.choice(NAMES)].restart()
                kills += 1
    connect(clusters, tuple(NAMES))
    seconds = wait_for_agreement(clusters, tuple(NAMES))
    say(
        f"{edits.count} edits, {cuts} cuts of links, {kills} kills of brokers: equal {seconds:.1f} s after the last cut"
    )
    say(f"{edits.edited_in_one_cluster} fields were edited in one cluster only")
    assert edits.edited_in_one_cluster >= len(fields()) // 3
    for name in NAMES:
        assert edits.lost(name) == [], name
        status = clusters.rest(name).get("metadata-sync/status")
        assert (status["refusedEvents"], status["unpublishedEvents"]) == (0, 0)


def test_a_fourth_empty_cluster_is_complete_within_an_interval_of_snapshots(
    clusters: LocalClusters, edits: Edits
) -> None:
    clusters.brokers[FOURTH].start()
    register(clusters, FOURTH)
    connect(clusters, (*NAMES, FOURTH))
    seconds = wait_for_agreement(clusters, (*NAMES, FOURTH))
    say(f"{FOURTH} is complete {seconds:.1f} s after its links began")
    assert seconds < SNAPSHOT_S
    assert edits.lost(FOURTH) == []
