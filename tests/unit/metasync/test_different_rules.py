"""Clusters with different rules agree on everything except what the rules say."""

from __future__ import annotations

from operator import methodcaller
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.names import NamespaceName
from magnetar.metadata.policies import Policies, TenantInfo
from magnetar.metasync.events import MetadataChangeEvent
from magnetar.metasync.records import PARTITIONS, Edit
from magnetar.metasync.rules import Rules, parse_rules
from magnetar.metasync.units import units_of
from tests.kit.seeds import seeds
from tests.unit.metasync.test_store import ORDERS, RULES, TOPIC, Cluster, edit

if TYPE_CHECKING:
    from magnetar.metasync.places import Resource
    from magnetar.metasync.records import Record

TTL = "message_ttl_in_seconds"


def rules(included: str = "", excluded: str = "") -> Rules:
    return Rules(RULES.own_namespace, parse_rules(included), parse_rules(excluded))


def excluding(text: str) -> Rules:
    return rules("", text)


def change(cluster: Cluster, namespace: NamespaceName = ORDERS, **fields: object) -> None:
    cluster.now_s += 1
    cluster.resources.namespaces.update(namespace, methodcaller("model_copy", update=fields))


def ttl(cluster: Cluster) -> int | None:
    found = cluster.resources.namespaces.get(ORDERS)
    assert found is not None
    return found.message_ttl_in_seconds


def exchange(*clusters: Cluster) -> None:
    """Let each cluster receive a snapshot of each other one."""
    for source in clusters:
        for target in clusters:
            if source is not target:
                target.receive(*map(MetadataChangeEvent.decode, source.store.snapshot()))


def restart(cluster: Cluster, with_rules: Rules) -> None:
    cluster.rules = with_rules
    cluster.restart()
    list(cluster.store.adopt())


CHOICES = ("acme", "umbrella/orders", f"*#{TTL}", "acme/*#properties/a", "*#adminRoles", "*#maxMessageSize", "*/bills")


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_random_edits_with_rules_equal_the_naive_twin(seed: int) -> None:
    """The twin keeps all published edits of each resource, and looks for the newest one of each unit at the end."""
    chance = Random(seed)
    clusters = [
        Cluster(name, 10_000.0 + chance.uniform(-600, 600), excluding(",".join(chance.sample(CHOICES, count))))
        for name, count in (("ewr", 0), ("jfk", 2), ("lga", 3))
    ]
    own: dict[tuple[str, str, str], Any] = {}
    """By cluster, resource and unit, the value that was last written there while the unit was not shared."""
    for _ in range(120):
        cluster = chance.choice(clusters)
        if chance.random() < 0.6:
            before = cluster.documents()
            edit(cluster, chance)
            _note_own(own, cluster, before)
        else:
            exchange(*chance.sample(clusters, 2))
    for _ in range(2):
        exchange(*clusters)
    events = [event for cluster in clusters for event in cluster.events()]
    for resource in {event.resource for event in events}:
        twin = NaiveTwin(clusters[0], resource, [event.record for event in events if event.resource == resource])
        for cluster in clusters:
            if cluster.rules.includes(resource):
                twin.check(cluster, own)


class NaiveTwin:
    """All published edits of a resource."""

    def __init__(self, whole: Cluster, resource: Resource, parts: list[Record]) -> None:
        """``whole`` is a cluster without rules."""
        self.resource = resource
        self.parts = parts
        created = max((each.created for each in parts if each.created), default=None)
        self.deleted = max((each.deleted for each in parts if each.deleted), default=None)
        self.exists = created is not None and (self.deleted is None or self.deleted < created)
        self.common = units_of(resource.kind, whole.documents().get(resource.path, {}))

    def check(self, cluster: Cluster, own: dict[tuple[str, str, str], Any]) -> None:
        """Check the document of a cluster that shares the resource."""
        resource, newest = self.resource, self.newest()
        document = cluster.documents().get(resource.path)
        assert (document is not None) == self.exists, (resource, cluster.name)
        found = units_of(resource.kind, document or {})
        for unit in {*found, *self.common} if self.exists else ():
            if cluster.rules.sharing(resource)(unit):
                assert found.get(unit) == self.common.get(unit), (resource, unit, cluster.name)
                assert unit not in newest or found.get(unit) == newest[unit].value
            elif (cluster.name, resource.path, unit) in own and not cluster.rules.copying(resource)(unit):
                assert found.get(unit) == own[cluster.name, resource.path, unit]

    def newest(self) -> dict[str, Edit]:
        found: dict[str, Edit] = {}
        for unit, each in [each for part in self.parts for each in part.edits.items()]:
            is_newer = unit not in found or found[unit].timestamp < each.timestamp
            if is_newer and unit != PARTITIONS and (self.deleted is None or self.deleted < each.timestamp):
                found[unit] = each
        return found


def _note_own(own: dict[tuple[str, str, str], Any], cluster: Cluster, before: dict[str, Any]) -> None:
    after = cluster.documents()
    for resource, _ in list(cluster.store.records()):
        path = resource.path
        if path not in before or path not in after:
            for key in [key for key in own if key[:2] == (cluster.name, path)]:
                del own[key]
            continue
        old, new = units_of(resource.kind, before[path]), units_of(resource.kind, after[path])
        for unit in {*old, *new}:
            if old.get(unit) != new.get(unit) and not cluster.rules.sharing(resource)(unit):
                own[cluster.name, path, unit] = new.get(unit)


def test_an_excluded_field_is_neither_published_nor_applied() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk", rules=excluding(f"*#{TTL}"))
    ewr.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=60))
    exchange(ewr, jfk)
    assert (ttl(ewr), ttl(jfk)) == (60, None)
    change(jfk, message_ttl_in_seconds=5, properties={"a": "b"})
    (event,) = jfk.events()
    assert list(event.record.edits) == ["/properties/a"]
    change(ewr, message_ttl_in_seconds=70)
    exchange(ewr, jfk)
    assert (ttl(ewr), ttl(jfk)) == (70, 5)
    assert all(f"/{TTL}" not in MetadataChangeEvent.decode(each).record.edits for each in jfk.store.snapshot())
    change(jfk, message_ttl_in_seconds=None)
    exchange(ewr, jfk)
    assert (ttl(ewr), ttl(jfk)) == (70, None)


def test_a_field_takes_the_common_value_when_it_is_no_longer_excluded() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk", rules=excluding(f"*#{TTL}"))
    ewr.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=60))
    exchange(ewr, jfk)
    change(jfk, message_ttl_in_seconds=5)
    restart(jfk, RULES)
    assert ttl(jfk) == 60
    assert jfk.events() == []
    exchange(ewr, jfk)
    assert jfk.documents() == ewr.documents()
    restart(jfk, RULES)
    assert jfk.events() == []


def test_a_rule_that_is_added_changes_nothing_and_ends_the_exchange() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=60))
    exchange(ewr, jfk)
    restart(jfk, excluding("acme/orders"))
    assert ttl(jfk) == 60
    change(jfk, message_ttl_in_seconds=5)
    change(ewr, message_ttl_in_seconds=70)
    exchange(ewr, jfk)
    assert (ttl(ewr), ttl(jfk), jfk.events()) == (70, 5, [])
    ewr.resources.namespaces.delete(ORDERS)
    exchange(ewr, jfk)
    assert ttl(jfk) == 5


def test_a_change_while_the_synchronizer_was_off_obeys_the_rules() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk", rules=excluding(f"*#{TTL}"))
    ewr.resources.namespaces.create(ORDERS, Policies())
    exchange(ewr, jfk)
    off = jfk.unrecorded()
    off.namespaces.update(ORDERS, methodcaller("model_copy", update={TTL: 5, "properties": {"a": "b"}}))
    restart(jfk, jfk.rules)
    (event,) = jfk.events()
    assert list(event.record.edits) == ["/properties/a"]
    off.namespaces.delete(ORDERS)
    restart(jfk, excluding("acme"))
    assert len(jfk.events()) == 1


def test_an_excluded_namespace_is_shared_when_the_rule_ends() -> None:
    """The others do not know it, so it is created there."""
    ewr, jfk = Cluster("ewr"), Cluster("jfk", rules=excluding("acme/orders"))
    jfk.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=5))
    exchange(ewr, jfk)
    assert ewr.documents() == {}
    restart(jfk, RULES)
    exchange(ewr, jfk)
    assert jfk.documents() == ewr.documents()
    assert ttl(ewr) == 5


def test_an_excluded_namespace_becomes_that_of_the_others_when_the_rule_ends() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk", rules=excluding("acme/orders"))
    for cluster, value in ((jfk, 5), (ewr, 60)):
        cluster.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=value))
    exchange(ewr, jfk)
    assert (ttl(ewr), ttl(jfk)) == (60, 5)
    restart(jfk, RULES)
    exchange(ewr, jfk)
    assert (ttl(ewr), ttl(jfk)) == (60, 60)
    assert jfk.documents() == ewr.documents()


@pytest.mark.parametrize("has_topics", [False, True])
def test_a_namespace_that_the_others_deleted_stays_while_it_has_topics(has_topics: bool) -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=60))
    exchange(ewr, jfk)
    restart(jfk, excluding("acme/orders"))
    ewr.resources.namespaces.delete(ORDERS)
    exchange(ewr, jfk)
    if has_topics:
        jfk.add_topic(ORDERS)
    restart(jfk, RULES)
    assert jfk.resources.namespaces.exists(ORDERS) == has_topics
    restart(jfk, RULES)
    exchange(ewr, jfk)
    assert not ewr.resources.namespaces.exists(ORDERS)
    assert jfk.events() == []


def test_only_included_resources_are_shared() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk", rules=rules("acme/orders"))
    for name in ("acme", "umbrella"):
        ewr.resources.tenants.create(name, TenantInfo())
    for name in ("orders", "bills"):
        ewr.resources.namespaces.create(NamespaceName("acme", name), Policies())
    exchange(ewr, jfk)
    assert list(jfk.documents()) == ["/admin/policies/acme", "/admin/policies/acme/orders"]
    jfk.resources.tenants.create("initech", TenantInfo())
    assert jfk.events() == []


def test_a_namespace_created_again_here_does_not_remove_excluded_fields_of_the_others() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk", rules=excluding(f"*#{TTL}"))
    ewr.resources.namespaces.create(ORDERS, Policies())
    exchange(ewr, jfk)
    jfk.resources.namespaces.delete(ORDERS)
    ewr.now_s += 5
    change(ewr, message_ttl_in_seconds=60)
    exchange(jfk, ewr)
    jfk.receive(*ewr.events())
    jfk.now_s += 60
    jfk.resources.namespaces.create(ORDERS, Policies(message_ttl_in_seconds=5))
    assert f"/{TTL}" not in jfk.events()[-1].record.edits
    exchange(jfk, ewr)
    assert (ttl(ewr), ttl(jfk)) == (60, 5)


def test_the_policies_of_a_topic_that_was_deleted_here_are_those_of_the_others_again() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.topic_policies.change(TOPIC, maxMessageSize=7)
    exchange(ewr, jfk)
    jfk.resources.topic_policies.delete(TOPIC)
    jfk.now_s += 5
    jfk.resources.topic_policies.change(TOPIC, maxProducerPerTopic=3)
    assert list(jfk.events()[-1].record.edits) == ["/maxProducerPerTopic"]
    exchange(ewr, jfk)
    assert jfk.documents() == ewr.documents()
    found = jfk.resources.topic_policies.get(TOPIC)
    assert found is not None
    assert (found.maxMessageSize, found.maxProducerPerTopic) == (7, 3)
