from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from magnetar.admin.metadata_import.changes import Change, Plan, Reason, Remark
from magnetar.migration.planning.facts import ClusterFacts
from magnetar.migration.planning.findings import Area, Severity
from magnetar.migration.planning.metadata import allowed_clusters, metadata_findings, other_clusters
from magnetar.migration.scope import Scope

EWR, JFK = (ClusterFacts(name, is_magnetar=True, options="", settings={}, registered=frozenset()) for name in "EJ")
TTL = "/message_ttl_in_seconds"


def change(field: str, before: object = None, after: object = 1, *, has_effect: bool = True) -> Change:
    return Change("Namespaces", "shop/orders", field, before, after, lambda _: None, has_effect)


def found(*, changes: tuple[Change, ...] = (), remarks: tuple[Remark, ...] = ()) -> list[tuple[Any, ...]]:
    plan = Plan(list(changes), list(remarks))
    return [tuple(each[:4]) for each in metadata_findings(plan, Scope("shop"), EWR, JFK)]


def test_what_the_target_lacks_is_created_without_a_finding() -> None:
    assert found(changes=(change(""), change(TTL))) == []


def test_a_value_that_is_replaced_or_has_no_effect_is_a_warning() -> None:
    assert found(changes=(change(TTL, before=2), change("/persistence", has_effect=False))) == [
        (
            Severity.WARNING,
            Area.POLICIES,
            "shop/orders",
            "message_ttl_in_seconds: the value of the target is replaced by that of the source",
        ),
        (Severity.WARNING, Area.POLICIES, "shop/orders", "persistence is stored in the target without an effect"),
    ]


def test_permissions_without_authorization_have_no_effect() -> None:
    ((_, area, _, problem),) = found(changes=(change("/auth_policies/namespace_auth/r"),))
    assert (area, problem) == (Area.PERMISSIONS, "permissions are stored in the target without an effect")


def test_what_the_migration_sets_itself_is_no_finding() -> None:
    fields = ("/allowedClusters", "/properties/team", "/replication_clusters")
    assert found(changes=tuple(change(each, before=[], has_effect=False) for each in fields)) == []
    assert found(remarks=(Remark(Reason.OF_EACH_CLUSTER, "Namespaces", "shop/orders", "/bundles"),)) == []


@pytest.mark.parametrize(
    ("kind", "area", "words"), [("Topics", Area.PARTITIONS, "partitions differ"), ("Schemas", Area.SCHEMAS, "schemas")]
)
def test_a_conflict_is_a_blocker(kind: str, area: Area, words: str) -> None:
    name = "persistent://shop/orders/eu"
    ((severity, found_area, resource, problem),) = found(remarks=(Remark(Reason.CONFLICT, kind, name, ""),))
    assert (severity, found_area, resource) == (Severity.BLOCKER, area, name)
    assert words in problem


def test_resources_of_other_tenants_and_of_the_whole_cluster_are_left_out() -> None:
    names = ("shop/orders/f", "shopping/orders/f", "bookie:3181", "persistent://shop/orders/eu", "shop")
    remarks = tuple(Remark(Reason.NO_COUNTERPART, "function", name, "") for name in names)
    assert [each[2] for each in found(remarks=remarks)] == ["shop/orders/f", "persistent://shop/orders/eu", "shop"]


def test_further_resources_of_the_target_stay() -> None:
    ((severity, area, *_),) = found(remarks=(Remark(Reason.ONLY_IN_TARGET, "Namespaces", "shop/test", ""),))
    assert (severity, area) == (Severity.NOTE, Area.NAMES)


def test_further_clusters_of_a_namespace_must_know_the_target() -> None:
    namespaces = {"shop/orders": ["E", "J", "L"], "shop/returns": ["E"]}
    unknown, unlinked = other_clusters(namespaces, {}, EWR, JFK)
    assert (unknown.severity, unknown.resource, unknown.detail) == (Severity.BLOCKER, "shop/orders", "L")
    assert (unlinked.severity, unlinked.resource, unlinked.detail) == (Severity.WARNING, "shop/orders", "L")
    (unlinked,) = other_clusters(namespaces, {}, EWR, replace(JFK, registered=frozenset({"L"})))
    assert unlinked.severity is Severity.WARNING
    assert list(other_clusters(namespaces, {"shop/orders": ["J", "L"]}, EWR, JFK)) == []


def test_a_namespace_must_allow_the_target() -> None:
    (finding,) = allowed_clusters({"shop/orders": ["E"], "shop/returns": [], "shop/all": ["E", "J"]}, JFK)
    assert (finding.severity, finding.resource) == (Severity.BLOCKER, "shop/orders")
