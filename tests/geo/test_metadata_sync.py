"""Clusters without a common metadata store agree on tenants, namespaces, policies and partitions (PIP-136)."""

from __future__ import annotations

import secrets
import shutil
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pulsar
import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.names import NamespaceName
from magnetar.cli.main import main
from magnetar.metadata.policy.table import Policy
from tests.geo.helpers import REPLICATION_TIMEOUT_S
from tests.geo.metadata_edits import EVENT_TOPIC, Edits, at_the_same_time, disagreements, register, timestamps, winner
from tests.kit.clusters import UP_TIMEOUT_S, LocalClusters
from tests.kit.messages import numbered, publish
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timeout(300)

RECEIVE_TIMEOUT_MS = 30_000
SEED = secrets.randbelow(10**6)
NAMES = ("ewr", "jfk", "lga")
NAMESPACE = "acme/orders"
HISTORY = "metadata-sync/history/acme%2Forders"
SNAPSHOT_S = 3
SETTINGS = {
    "metadataSyncEventTopic": EVENT_TOPIC,
    "metadataSyncSnapshotDurationSecond": SNAPSHOT_S,
}


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalClusters]:
    with LocalClusters(tmp_path_factory.mktemp("metadata"), NAMES, SETTINGS) as running:
        for name in NAMES:
            register(running, name)
        running.start_pipeline()
        yield running


def policies(clusters: LocalClusters, name: str) -> dict[str, Any] | None:
    response = clusters.rest(name).request("GET", f"namespaces/{NAMESPACE}")
    found: dict[str, Any] | None = None if response.is_error else response.json()
    return found


def wait_for(clusters: LocalClusters, expected: Callable[[dict[str, Any]], bool], timeout_s: float) -> None:
    """Wait until the policies of the namespace are as expected in all clusters."""

    def is_so(name: str) -> bool:
        found = policies(clusters, name)
        return found is not None and expected(found)

    for name in NAMES:
        wait_until(partial(is_so, name), timeout_s, what=f"the policies in {name}")


def test_one_call_makes_a_replicated_namespace_in_all_clusters(clusters: LocalClusters) -> None:
    rest = clusters.rest("ewr")
    rest.put("tenants/acme", {"adminRoles": ["admin"], "allowedClusters": list(NAMES)})
    rest.put(f"namespaces/{NAMESPACE}", {"replication_clusters": list(NAMES)})
    wait_for(clusters, lambda found: sorted(found["replication_clusters"]) == sorted(NAMES), UP_TIMEOUT_S)
    topic = f"persistent://{NAMESPACE}/payments"
    publish(clusters.client("lga"), topic, numbered(10))
    consumer = clusters.client("jfk").subscribe(topic, "worker", initial_position=pulsar.InitialPosition.Earliest)
    assert [consumer.receive(RECEIVE_TIMEOUT_MS).data() for _ in range(10)] == numbered(10)


def test_edits_of_different_fields_in_two_clusters_are_both_kept(clusters: LocalClusters) -> None:
    clusters.rest("ewr").post(f"namespaces/{NAMESPACE}/messageTTL", 3600)
    clusters.rest("jfk").post(
        f"namespaces/{NAMESPACE}/retention", {"retentionTimeInMinutes": 7, "retentionSizeInMB": 8}
    )

    def both(found: dict[str, Any]) -> bool:
        retention = found.get("retention_policies") or {}
        return found.get("message_ttl_in_seconds") == 3600 and retention.get("retentionTimeInMinutes") == 7

    wait_for(clusters, both, REPLICATION_TIMEOUT_S)


def test_a_partitioned_topic_exists_in_all_clusters(clusters: LocalClusters) -> None:
    clusters.rest("lga").put(f"persistent/{NAMESPACE}/parts/partitions", 3)

    def partitions(name: str) -> bool:
        found = clusters.rest(name).request("GET", f"persistent/{NAMESPACE}/parts/partitions")
        return not found.is_error and found.json()["partitions"] == 3

    for name in NAMES:
        wait_until(partial(partitions, name), REPLICATION_TIMEOUT_S, what=f"three partitions in {name}")


def test_the_history_is_the_same_in_all_clusters_and_an_edit_can_be_undone_in_any(clusters: LocalClusters) -> None:
    clusters.rest("ewr").post(f"namespaces/{NAMESPACE}/messageTTL", 7200)
    wait_for(clusters, lambda found: found.get("message_ttl_in_seconds") == 7200, REPLICATION_TIMEOUT_S)
    newest = [clusters.rest(name).get(HISTORY)[-1] for name in NAMES]
    assert [(each["edit"], each["cluster"]) for each in newest] == [(newest[0]["edit"], "ewr")] * 3
    assert [(each["before"], each["after"]) for each in newest[1]["fields"]] == [(3600, 7200)]
    clusters.rest("jfk").post(f"{HISTORY}/{newest[0]['edit']}/undo")
    wait_for(clusters, lambda found: found.get("message_ttl_in_seconds") == 3600, REPLICATION_TIMEOUT_S)
    assert clusters.rest("lga").get(f"namespaces/{NAMESPACE}")["lastUpdatedBy"] == "jfk"


def test_clusters_that_agree_have_no_differences(clusters: LocalClusters) -> None:
    urls = [clusters.members[name].admin_url for name in NAMES]
    assert main(["metadata", "diff", *urls]) == 0
    assert main(["metadata", "sync", urls[1], "--dry-run", "--admin-url", urls[0]]) == 0


def test_the_status_shows_the_newest_event_of_each_cluster(clusters: LocalClusters) -> None:
    for name in NAMES:
        status = clusters.rest(name).get("metadata-sync/status")
        assert status["connected"]
        assert (status["unpublishedEvents"], status["refusedEvents"]) == (0, 0)
        assert sorted(status["newestEventAgeSeconds"]) == sorted(NAMES)
    assert clusters.rest("ewr").get("metadata-sync/refused") == []
    clusters.rest("ewr").post("metadata-sync/snapshot")


def test_a_cluster_that_lost_its_disk_is_complete_after_a_snapshot(clusters: LocalClusters) -> None:
    lga = clusters.brokers["lga"]
    lga.stop()
    shutil.rmtree(lga.directory / "data")
    lga.start()
    register(clusters, "lga")
    wait_for(clusters, lambda found: found.get("message_ttl_in_seconds") == 3600, UP_TIMEOUT_S)
    # The edits of the other clusters come on different links.
    wait_until(lambda: policies(clusters, "lga") == policies(clusters, "ewr"), UP_TIMEOUT_S, what="equal policies")


def test_a_deleted_namespace_is_deleted_everywhere(clusters: LocalClusters) -> None:
    def exists(name: str) -> bool:
        return "acme/short" in clusters.rest(name).get("namespaces/acme")

    def is_absent(name: str) -> bool:
        return not exists(name)

    clusters.rest("jfk").put("namespaces/acme/short", {})
    for name in NAMES:
        wait_until(partial(exists, name), REPLICATION_TIMEOUT_S, what=f"the namespace in {name}")
    clusters.rest("ewr").delete("namespaces/acme/short")
    for name in NAMES:
        wait_until(partial(is_absent, name), REPLICATION_TIMEOUT_S, what=f"its deletion in {name}")


def test_a_deletion_in_another_cluster_keeps_the_messages_here(clusters: LocalClusters) -> None:
    ewr, jfk, topic = clusters.rest("ewr"), clusters.rest("jfk"), "persistent://acme/doomed/orders"
    jfk.put("namespaces/acme/doomed", {"replication_clusters": ["jfk"]})
    wait_until(lambda: "acme/doomed" in ewr.get("namespaces/acme"), REPLICATION_TIMEOUT_S, what="the namespace")
    publish(clusters.client("jfk"), topic, numbered(10))
    ewr.delete("namespaces/acme/doomed")
    wait_until(lambda: topic in jfk.get("metadata-sync/stranded"), REPLICATION_TIMEOUT_S, what="the deletion")
    assert jfk.get("metadata-sync/stranded")[topic]["storageSize"] > 0
    assert jfk.get("metadata-sync/status")["strandedTopics"] == 1
    jfk.post("metadata-sync/history/acme%2Fdoomed/newest/undo")
    consumer = clusters.client("jfk").subscribe(topic, "late", initial_position=pulsar.InitialPosition.Earliest)
    assert [consumer.receive(RECEIVE_TIMEOUT_MS).data() for _ in range(10)] == numbered(10)
    assert jfk.get("metadata-sync/stranded") == {}


@pytest.mark.long  # make test-chaos makes more edits
def test_edits_of_separated_clusters_meet_and_a_new_cluster_gets_all(clusters: LocalClusters) -> None:
    """The links are cut, a broker is killed meanwhile, and a fourth, empty cluster joins when they return."""
    clusters.add("sfo")
    for name in NAMES:
        register(clusters, name)
    chance = Random(SEED)
    edits = Edits(clusters, NAMES, chance)
    edits.create()
    for name in NAMES:
        wait_until(partial(edits.exist_in, name), REPLICATION_TIMEOUT_S, what=f"the namespaces in {name}")
    edits.make(30)
    clusters.stop_pipeline()
    edits.make(60)
    keys = at_the_same_time(clusters, ("ewr", "jfk"), "delta/n0")
    clusters.brokers[chance.choice(NAMES)].restart()
    edits.make(60)
    clusters.brokers["sfo"].start()
    register(clusters, "sfo")
    clusters.start_pipeline()
    clusters.wait_for_pipeline()
    agree = partial(agreement, clusters)
    wait_until(agree, SNAPSHOT_S + REPLICATION_TIMEOUT_S, what=f"the same metadata (seed {SEED})", interval_s=0.2)
    for name in clusters.members:
        assert edits.lost(name) == [], f"in {name} (seed {SEED})"
    made = timestamps(clusters, "lga", keys)
    for name in clusters.members:
        values = clusters.rest(name).get("namespaces/delta/n0/properties")
        assert {key: values[key] for key in keys} == {key: winner(made[key]) for key in keys}
    ties = [key for key, by_cluster in made.items() if by_cluster["ewr"] == by_cluster["jfk"]]
    assert ties, "some edits are made in the same millisecond"
    assert {winner(made[key]) for key in ties} == {"ewr"}


def agreement(clusters: LocalClusters) -> bool:
    return not disagreements(clusters, clusters.members)


def test_a_local_change_stays_in_its_cluster(clusters: LocalClusters) -> None:
    def ttl(name: str) -> Any:  # noqa: ANN401 - any JSON
        return (policies(clusters, name) or {}).get("message_ttl_in_seconds")

    with AdminClient(clusters.members["jfk"].admin_url) as client:
        client.keep_changes_local()
        client.policies.set(NamespaceName.parse(NAMESPACE), Policy.MESSAGE_TTL, 5)
        clusters.rest("ewr").post(f"namespaces/{NAMESPACE}/messageTTL", 7200)
        wait_until(lambda: ttl("lga") == 7200, REPLICATION_TIMEOUT_S, what="the value in lga")
        local = client.metadata_sync.local
        wait_until(lambda: local()[0].get("common") == 7200, REPLICATION_TIMEOUT_S, what="the edit in jfk")
        assert (ttl("ewr"), ttl("jfk")) == (7200, 5)
        client.metadata_sync.remove_local(NAMESPACE)
        assert (ttl("jfk"), local()) == (7200, [])


def test_a_cluster_that_a_tenant_does_not_allow_drops_its_namespaces(clusters: LocalClusters) -> None:
    def namespaces(name: str) -> list[str]:
        response = clusters.rest(name).request("GET", "namespaces/roaming")
        found: list[str] = [] if response.is_error else response.json()
        return found

    rest = clusters.rest("ewr")
    rest.put("tenants/roaming", {"adminRoles": [], "allowedClusters": list(NAMES)})
    rest.put("namespaces/roaming/a", {})
    wait_until(lambda: namespaces("lga") == ["roaming/a"], REPLICATION_TIMEOUT_S, what="the namespace in lga")
    rest.post("tenants/roaming", {"adminRoles": [], "allowedClusters": ["ewr", "jfk"]})
    wait_until(lambda: namespaces("lga") == [], REPLICATION_TIMEOUT_S, what="no namespace in lga")
    assert (namespaces("ewr"), namespaces("jfk")) == (["roaming/a"], ["roaming/a"])
    rest.post("tenants/roaming", {"adminRoles": [], "allowedClusters": list(NAMES)})
    wait_until(lambda: namespaces("lga") == ["roaming/a"], REPLICATION_TIMEOUT_S, what="the namespace in lga again")
