from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from magnetar.base.names import TopicName
from magnetar.migration.planning.facts import (
    ClusterFacts,
    LinkFacts,
    PolicyFacts,
    SubscriptionFacts,
    TopicFacts,
    topic_facts,
)
from magnetar.migration.planning.findings import Area, Severity
from magnetar.migration.planning.topics import TopicChecks

OWNER = TopicName.parse("persistent://shop/orders/eu")
EU = OWNER.partition(0)
BILLING = SubscriptionFacts("billing", is_durable=True, is_replicated=True, unavailable={})
READER = SubscriptionFacts("reader-1", is_durable=False, is_replicated=False, unavailable={})
EMPTY = TopicFacts(EU, storage_bytes=0, backlog_bytes=0, backlog_age_s=None)
FULL = replace(EMPTY, storage_bytes=900, backlog_bytes=500, backlog_age_s=60, subscriptions=(BILLING,))


def cluster(name: str, **settings: str) -> ClusterFacts:
    return ClusterFacts(name, is_magnetar=True, options="", settings=settings, registered=frozenset())


def found(
    topic: TopicFacts,
    in_target: TopicFacts | None = None,
    *,
    namespace: dict[str, Any] | None = None,
    own: dict[str, Any] | None = None,
    **settings: str,
) -> list[tuple[Severity, Area, str]]:
    policies = PolicyFacts({"shop/orders": namespace or {}}, {str(OWNER): own or {}})
    checks = TopicChecks(cluster("ewr"), cluster("jfk", **settings), policies)
    findings = list(checks.findings(topic, in_target))
    assert {each.resource for each in findings} <= {str(EU)}
    return [(each.severity, each.area, each.detail) for each in findings]


def test_a_replicated_topic_has_no_finding() -> None:
    assert found(FULL) == []


def test_another_topic_of_the_same_name_is_a_clash_unless_both_are_replicated() -> None:
    clash = (Severity.BLOCKER, Area.NAMES, "900 bytes")
    assert found(EMPTY, FULL) == [clash]
    assert found(EMPTY, FULL, namespace={"replication_clusters": ["ewr"]}) == [clash]
    assert found(EMPTY, FULL, namespace={"replication_clusters": ["ewr", "jfk"]}) == []
    own = {"replicationClusters": ["ewr"]}
    assert found(EMPTY, FULL, namespace={"replication_clusters": ["ewr", "jfk"]}, own=own) == [clash]


def test_a_subscription_of_the_same_name_in_an_empty_topic_is_a_warning() -> None:
    empty = replace(FULL, storage_bytes=0)
    assert found(FULL, empty) == [(Severity.WARNING, Area.NAMES, "billing")]
    assert found(FULL, EMPTY) == []


def test_readers_and_subscriptions_that_are_not_replicated_are_named() -> None:
    single = replace(BILLING, is_replicated=False)
    assert found(replace(FULL, subscriptions=(single, READER))) == [
        (Severity.WARNING, Area.CLIENTS, "readers: 1"),
        (Severity.NOTE, Area.SUBSCRIPTIONS, "billing"),
    ]


@pytest.mark.parametrize(
    ("policy", "value", "severity"),
    [
        (("replicated_subscriptions_allowed", "replicatedSubscriptionsAllowed"), False, Severity.BLOCKER),
        (("replicated_subscription_sync", "replicatedSubscriptionSync"), "markers", Severity.WARNING),
        (("replicated_subscription_active_cluster", "replicatedSubscriptionActiveCluster"), "ewr", Severity.WARNING),
    ],
)
def test_policies_of_replicated_subscriptions_matter_where_there_are_subscriptions(
    policy: tuple[str, str], value: object, severity: Severity
) -> None:
    in_namespace, in_topic = policy
    assert found(FULL, namespace={in_namespace: value}) == [(severity, Area.SUBSCRIPTIONS, "")]
    assert found(FULL, own={in_topic: value}) == [(severity, Area.SUBSCRIPTIONS, "")]
    assert found(EMPTY, namespace={in_namespace: value}) == []


def test_a_subscription_without_exact_progress_in_the_target_is_named() -> None:
    elsewhere = replace(BILLING, unavailable={"lga": "because"})
    here = replace(BILLING, unavailable={"jfk": "because"})
    assert found(replace(FULL, subscriptions=(elsewhere, here))) == [
        (Severity.WARNING, Area.SUBSCRIPTIONS, "billing: because")
    ]


def quota(policy: str, **limits: int) -> dict[str, Any]:
    return {"limitSize": -1, "limitTime": -1, "policy": policy, **limits}


def test_a_quota_below_the_backlog_is_found_at_the_level_that_applies() -> None:
    size = {"destination_storage": quota("consumer_backlog_eviction", limitSize=499)}
    age = {"message_age": quota("producer_exception", limitTime=59)}
    evicting = (Severity.BLOCKER, Area.QUOTAS, "500 bytes, the quota is 499 bytes")
    refusing = (Severity.WARNING, Area.QUOTAS, "60 s, the quota is 59 s")
    assert found(FULL, namespace={"backlog_quota_map": size | age}) == [evicting, refusing]
    larger = {"destination_storage": quota("consumer_backlog_eviction", limitSize=500)}
    assert found(FULL, namespace={"backlog_quota_map": size}, own={"backLogQuotaMap": larger}) == []
    unknown = replace(FULL, backlog_age_s=None)
    assert found(unknown, namespace={"backlog_quota_map": age}) == []


def test_without_a_policy_the_quota_of_the_target_applies() -> None:
    assert found(FULL, backlogQuotaDefaultLimitBytes="100") == [
        (Severity.WARNING, Area.QUOTAS, "500 bytes, the quota is 100 bytes")
    ]
    eviction = found(
        FULL, backlogQuotaDefaultLimitBytes="100", backlogQuotaDefaultRetentionPolicy="consumer_backlog_eviction"
    )
    assert [each[0] for each in eviction] == [Severity.BLOCKER]
    assert found(FULL, backlogQuotaDefaultLimitBytes="-1") == []


def test_content_that_magnetar_does_not_support_is_named() -> None:
    odd = replace(EMPTY, open_transactions=2, is_compacted=True, exclusive_producers=1)
    assert [each[:2] for each in found(odd)] == [
        (Severity.BLOCKER, Area.TOPICS),
        (Severity.WARNING, Area.TOPICS),
        (Severity.NOTE, Area.CLIENTS),
    ]
    parked = replace(EMPTY, link=LinkFacts(is_connected=True, parked="an entry is too large"))
    assert found(parked) == [(Severity.BLOCKER, Area.TOPICS, "an entry is too large")]


def test_statistics_of_apache_pulsar_are_reduced_to_facts() -> None:
    recorded = json.loads((Path(__file__).parents[2] / "admin" / "observed_stats.json").read_text())
    facts = topic_facts(EU, recorded["stats"], "B")
    assert facts.storage_bytes == recorded["stats"]["storageSize"]
    assert facts.backlog_age_s is None
    assert sum(facts.connections.values()) > 0
    assert {each.is_durable for each in facts.subscriptions} == {True}


def test_subscriptions_that_do_not_move_are_left_out() -> None:
    names = ("billing", "__compaction", "magnetar.repl.jfk", "magnetar.bookmark.jfk")
    facts = topic_facts(EU, {"subscriptions": {name: {"consumers": [{}]} for name in names}}, "jfk")
    assert [each.name for each in facts.subscriptions] == ["billing"]
    assert facts.connections == {"unknown": 1}
