from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.migration.planning.clusters import cluster_findings, disk_findings
from magnetar.migration.planning.facts import ClusterFacts
from magnetar.migration.planning.findings import Severity

SIZE = {"maxMessageSize": "5242880"}
EWR = ClusterFacts("ewr", is_magnetar=True, options=" --cluster ewr", settings=SIZE, registered=frozenset({"jfk"}))
JFK = ClusterFacts("jfk", is_magnetar=True, options=" --cluster jfk", settings=SIZE, registered=frozenset({"ewr"}))


def found(source: ClusterFacts = EWR, target: ClusterFacts = JFK) -> list[tuple[Severity, str, str]]:
    return [(each.severity, each.resource, each.problem) for each in cluster_findings(source, target)]


def test_two_equal_clusters_that_know_each_other_have_no_finding() -> None:
    assert found() == []


def test_a_cluster_cannot_move_to_itself() -> None:
    ((severity, resource, problem),) = found(EWR, replace(JFK, name="ewr", is_magnetar=False))
    assert (severity, resource) == (Severity.BLOCKER, "ewr")
    assert problem.startswith("both clusters have this name")


def test_each_cluster_must_know_the_other() -> None:
    alone = frozenset[str]()
    (finding,) = cluster_findings(EWR, replace(JFK, registered=alone))
    assert finding.fix == "register it: magnetar --cluster jfk clusters create ewr --url URL --broker-url URL"
    assert found(replace(EWR, registered=alone)) == [(Severity.BLOCKER, "ewr", "jfk is not registered in ewr")]


def test_apache_pulsar_needs_no_registration_and_sends_no_acknowledgements() -> None:
    (finding,) = found(replace(EWR, is_magnetar=False, registered=frozenset()))
    assert finding[0] is Severity.WARNING
    assert finding[2].startswith("Apache Pulsar does not send the acknowledgements")


@pytest.mark.parametrize(
    ("source", "target", "severity", "resource", "words"),
    [
        ({"replicationStartAt": "latest"}, {}, Severity.BLOCKER, "ewr", "newest entry"),
        ({}, {"enableReplicatedSubscriptions": "false"}, Severity.BLOCKER, "jfk", "replicated subscriptions are off"),
        ({"replicatedSubscriptionSync": "markers"}, {}, Severity.WARNING, "ewr", "snapshots"),
        ({}, {"maxMessageSize": "1024"}, Severity.BLOCKER, "jfk", "too large"),
        ({"authorizationEnabled": "true"}, {}, Severity.WARNING, "jfk", "checks permissions"),
        (
            {"ttlDurationDefaultInSeconds": "0"},
            {"ttlDurationDefaultInSeconds": "60"},
            Severity.WARNING,
            "ttlDurationDefaultInSeconds",
            "default settings differ",
        ),
    ],
)
def test_settings_are_compared(
    source: dict[str, str], target: dict[str, str], severity: Severity, resource: str, words: str
) -> None:
    (finding,) = found(replace(EWR, settings=SIZE | source), replace(JFK, settings=SIZE | target))
    assert finding[:2] == (severity, resource)
    assert words in finding[2]


def test_what_is_not_stated_is_unknown() -> None:
    ((severity, resource, problem),) = found(target=replace(JFK, settings={}))
    assert (severity, resource, problem) == (Severity.WARNING, "jfk", "the maximum size of a message is unknown")
    (disk,) = disk_findings(JFK, 5_000)
    assert "unknown" in disk.problem
    assert disk.detail == "5,000 bytes are stored in the source"


def test_the_target_must_be_magnetar() -> None:
    assert (Severity.BLOCKER, "jfk", "the target is not a cluster of Magnetar") in found(
        target=replace(JFK, is_magnetar=False)
    )
