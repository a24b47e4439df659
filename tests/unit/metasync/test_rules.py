from __future__ import annotations

import re

import pytest

from magnetar.base.names import NamespaceName
from magnetar.metasync.places import Resource
from magnetar.metasync.rules import RULES_MAX, Rules, parse_rules
from magnetar.metasync.units import ResourceType

OWN = NamespaceName("pulsar", "metadata")
ACME = Resource(ResourceType.TENANTS, "acme")
ORDERS = Resource(ResourceType.NAMESPACES, "acme/orders")
BILLS = Resource(ResourceType.NAMESPACES, "acme/bills")
TOPIC = Resource(ResourceType.TOPIC_POLICIES, "persistent://acme/orders/a")
OTHER = Resource(ResourceType.NAMESPACES, "umbrella/orders")
TTL = "/message_ttl_in_seconds"


def rules(included: str = "", excluded: str = "") -> Rules:
    return Rules(OWN, parse_rules(included), parse_rules(excluded))


@pytest.mark.parametrize(
    ("included", "excluded", "names"),
    [
        ("", "", "acme acme/orders acme/bills acme/orders/a umbrella/orders"),
        ("", "acme", "umbrella/orders"),
        ("", "acme/*", "acme umbrella/orders"),
        ("", "acme/orders", "acme acme/bills umbrella/orders"),
        ("", "*/orders", "acme acme/bills"),
        ("", "a*e", "umbrella/orders"),
        ("acme", "", "acme acme/orders acme/bills acme/orders/a"),
        ("acme/orders", "", "acme acme/orders acme/orders/a"),
        ("acme", "acme/bills", "acme acme/orders acme/orders/a"),
        ("acme,umbrella", "*/orders", "acme acme/bills"),
        ("acme/orders#properties", "", "acme acme/orders acme/orders/a"),
        ("", "*#properties", "acme acme/orders acme/bills acme/orders/a umbrella/orders"),
    ],
)
def test_rules_name_resources(included: str, excluded: str, names: str) -> None:
    found = rules(included, excluded)
    shared = [each for each in (ACME, ORDERS, BILLS, TOPIC, OTHER) if found.includes(each)]
    assert " ".join(each.name.removeprefix("persistent://") for each in shared) == names


def test_rules_name_fields_and_their_parts() -> None:
    found = rules("", f"acme/orders#{TTL[1:]}, *#backlog_quota_map/message_age, *#properties")
    assert not found.sharing(ORDERS)(TTL)
    assert found.sharing(BILLS)(TTL)
    assert not found.sharing(BILLS)("/backlog_quota_map/message_age")
    assert found.sharing(BILLS)("/backlog_quota_map/destination_storage")
    assert not found.sharing(BILLS)("/properties/a")
    only = rules("acme/orders#properties")
    assert only.sharing(ORDERS)("/properties/a")
    assert not only.sharing(ORDERS)(TTL)
    assert not only.sharing(ACME)("/adminRoles")


def test_the_clusters_of_a_resource_and_what_it_needs_are_copied_once() -> None:
    assert (rules().sharing(ORDERS)("/replication_clusters"), rules().copying(ORDERS)("/replication_clusters")) == (
        False,
        True,
    )
    found = rules("", "*#replication_clusters,*#bundles")
    assert not found.copying(ORDERS)("/replication_clusters")
    assert (found.sharing(ORDERS)("/bundles"), found.copying(ORDERS)("/bundles")) == (False, True)


def test_the_namespace_of_the_event_topic_is_never_shared() -> None:
    found = rules("*")
    for name in ("pulsar/metadata",):
        resource = Resource(ResourceType.NAMESPACES, name)
        assert not found.covers(resource)
        assert not found.includes(resource)
        assert not found.copying(resource)("/bundles")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a b", "'a b' is not a rule: expected tenant, tenant/namespace, or one of them with #field"),
        ("acme/orders/topic", "is not a rule"),
        ("#properties", "is not a rule"),
        ("acme#", "is not a rule"),
        ("acme/", "is not a rule"),
        ("acme?", "is not a rule"),
        ("acme,*#message_ttl_in_second", "has the field message_ttl_in_second, did you mean message_ttl_in_seconds?"),
        ("*#zzz", "no document of a tenant, namespace or topic has the field zzz"),
        ("*#retention_policies/retentionSizeInMB", "retention_policies is synchronized as a whole, name it without"),
        ("*#properties/a/b", "properties is synchronized as a whole"),
        (",".join(["a"] * (RULES_MAX + 1)), "1001 rules, at most 1000 are allowed"),
    ],
)
def test_a_malformed_rule_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_rules(text)


def test_rules_survive_json() -> None:
    found = rules("acme, u*", "acme/bills,*#auth_policies/namespace_auth/alice")
    assert Rules.from_json(OWN, found.to_json()) == found
    assert parse_rules(" , ") == ()
