from __future__ import annotations

import json
from operator import methodcaller
from random import Random
from typing import Any

import pytest

from magnetar.base.errors import AdminError, BadVersionError, RequestError, StorageError
from magnetar.base.limits import Limit
from magnetar.base.names import NamespaceName, TopicName
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.policies import PartitionedTopicMetadata, Policies, TenantInfo, TopicPolicies
from magnetar.metadata.resources import Resources, managed_ledger_path
from magnetar.metadata.store import Put
from magnetar.metasync import store
from magnetar.metasync.events import EVENT_BYTES_MAX, EVENT_EDITS_MAX, EventType, MetadataChangeEvent
from magnetar.metasync.places import OUTBOX, Resource
from magnetar.metasync.records import Edit, Record
from magnetar.metasync.rules import Rules
from magnetar.metasync.store import SynchronizedStore
from magnetar.metasync.timestamps import Timestamp
from magnetar.metasync.units import ResourceType
from tests.kit.seeds import seeds

RULES = Rules(NamespaceName("pulsar", "metadata"))
ORDERS = NamespaceName("acme", "orders")
TOPIC = TopicName.parse("persistent://acme/orders/a b/c".replace("/c", "-c"))


class Cluster:
    """A cluster with a store of its own, and a clock that may be wrong."""

    def __init__(self, name: str, now_s: float = 1_000.0, rules: Rules = RULES) -> None:
        self.name = name
        self.now_s = now_s
        self.rules = rules
        self.inner = MemoryMetadataStore(self)
        self._open()
        list(self.store.adopt())

    def now(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s

    def boot(self) -> str:
        return ""

    def restart(self) -> None:
        self.inner = self.inner.reopened()
        self._open()

    def _open(self) -> None:
        self.store = SynchronizedStore(self.inner, self.name, self, self.rules)
        self.resources = Resources.over(self.store)

    def unrecorded(self) -> Resources:
        """Return the metadata as they are changed while the synchronizer is off."""
        return Resources.over(self.inner)

    def add_topic(self, namespace: NamespaceName) -> None:
        """Store a topic with messages."""
        topic = TopicName("persistent", namespace.tenant, namespace.namespace, "full")
        self.inner.commit([Put(managed_ledger_path(topic), b"{}")])

    def events(self) -> list[MetadataChangeEvent]:
        """Return the events in the outbox."""
        return [MetadataChangeEvent.decode(value) for _, value in self.inner.below(OUTBOX)]

    def receive(self, *events: MetadataChangeEvent) -> list[bool]:
        errors: list[StorageError | None] = []
        news = [self.store.apply(event, errors.append) for event in events]
        assert errors == [None] * len(events)
        return news

    def documents(self) -> dict[str, Any]:
        """Return all synchronized documents."""
        return {path: json.loads(value) for path, value in self.inner.below("/admin")}


def edit(cluster: Cluster, chance: Random) -> None:
    """Make a random edit, as the admin API does."""
    cluster.now_s += chance.random()
    resources, tenant = cluster.resources, chance.choice(["acme", "umbrella"])
    namespace = NamespaceName(tenant, chance.choice(["orders", "bills"]))
    topic = TopicName("persistent", tenant, namespace.namespace, chance.choice(["a", "b"]))
    if not resources.tenants.exists(tenant):
        resources.tenants.create(tenant, TenantInfo(adminRoles=[cluster.name]))
    elif not resources.namespaces.exists(namespace):
        resources.namespaces.create(namespace, Policies(properties={"by": cluster.name}))
    else:
        match chance.randrange(7):
            case 0:
                value = chance.randrange(1, 100)
                resources.namespaces.update(namespace, lambda p: p.model_copy(update={"message_ttl_in_seconds": value}))
            case 1:
                key, text = chance.choice("abc"), str(chance.random())
                resources.namespaces.update(
                    namespace, lambda p: p.model_copy(update={"properties": {**p.properties, key: text}})
                )
            case 2:
                resources.namespaces.update(namespace, lambda p: p.model_copy(update={"properties": {}}))
            case 3:
                resources.tenants.update(tenant, lambda t: t.model_copy(update={"adminRoles": [cluster.name]}))
            case 4:
                resources.namespaces.delete(namespace)
            case 5:
                known = resources.partitioned_topics.get(topic)
                more = PartitionedTopicMetadata(partitions=chance.randrange(1, 4) + (known.partitions if known else 0))
                resources.partitioned_topics.put(topic, more)
            case _:
                resources.topic_policies.change(topic, maxMessageSize=chance.randrange(1000))


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_clusters_agree_after_random_edits_in_all_of_them(seed: int) -> None:
    """Events of one cluster arrive in order, late, and repeatedly after a restart; the clocks differ by 20 minutes."""
    chance = Random(seed)
    clusters = [Cluster(name, 10_000.0 + chance.uniform(-600, 600)) for name in ("ewr", "jfk", "lga")]
    read = {(source.name, target.name): 0 for source in clusters for target in clusters if source is not target}

    def carry(source: Cluster, target: Cluster) -> None:
        at = read[source.name, target.name]
        fresh = source.events()[at : at + chance.randrange(1, 5)]
        target.receive(*fresh)
        read[source.name, target.name] = at + len(fresh)
        if chance.random() < 0.1:
            read[source.name, target.name] = max(0, at - 3)
            target.restart()

    for _ in range(100):
        source, target = chance.sample(clusters, 2)
        if chance.random() < 0.5:
            edit(source, chance)
        else:
            carry(source, target)
    for source in clusters:
        for target in clusters:
            if source is not target:
                target.receive(*source.events())
    first, *others = [cluster.documents() for cluster in clusters]
    assert first
    assert others == [first, first]


def test_an_edit_its_time_and_its_event_are_one_transaction() -> None:
    ewr = Cluster("ewr")
    ewr.resources.tenants.create("acme", TenantInfo())
    with pytest.raises(BadVersionError):
        ewr.resources.tenants.create("acme", TenantInfo(adminRoles=["other"]))
    (event,) = ewr.events()
    assert (event.type, event.resource) == (EventType.CREATED, Resource(ResourceType.TENANTS, "acme"))
    assert event.source_cluster == "ewr"
    assert event.record.created == Timestamp(1_000_000, 0, "ewr")
    ewr.restart()
    ewr.resources.tenants.update("acme", lambda t: t.model_copy(update={"adminRoles": ["admin"]}))
    created, modified = ewr.events()
    assert (created, modified.type) == (event, EventType.MODIFIED)
    assert modified.record.edits == {"/adminRoles": Edit(Timestamp(1_000_000, 1, "ewr"), ["admin"])}


def test_a_change_without_effect_has_no_event() -> None:
    ewr = Cluster("ewr")
    ewr.resources.tenants.create("acme", TenantInfo())
    ewr.resources.tenants.update("acme", lambda found: found)
    assert len(ewr.events()) == 1


def test_an_applied_event_is_not_published_again_and_a_repeated_one_is_recognized() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.tenants.create("acme", TenantInfo(adminRoles=["admin"]))
    assert jfk.receive(*ewr.events(), *ewr.events()) == [True, False]
    assert jfk.documents() == ewr.documents()
    assert jfk.events() == []


def test_an_edit_after_another_one_wins_whatever_the_clocks_say() -> None:
    ewr, jfk = Cluster("ewr", 5_000.0), Cluster("jfk", 4_400.0)
    ewr.resources.tenants.create("acme", TenantInfo(adminRoles=["of-ewr"]))
    jfk.receive(*ewr.events())
    jfk.resources.tenants.update("acme", lambda t: t.model_copy(update={"adminRoles": ["of-jfk"]}))
    ewr.receive(*jfk.events())
    found = ewr.resources.tenants.get("acme")
    assert found is not None
    assert found.adminRoles == ["of-jfk"]


def test_a_stale_event_changes_nothing() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.tenants.create("acme", TenantInfo(adminRoles=["old"]))
    ewr.resources.tenants.update("acme", lambda t: t.model_copy(update={"adminRoles": ["new"]}))
    old, new = ewr.events()
    assert jfk.receive(new, old, new) == [True, True, False]
    assert jfk.documents() == ewr.documents()


def test_the_deletion_of_a_topic_stays_local() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.partitioned_topics.create(TOPIC, PartitionedTopicMetadata(partitions=3))
    ewr.resources.topic_policies.create(TOPIC, TopicPolicies(maxMessageSize=1))
    jfk.receive(*ewr.events())
    assert jfk.documents() == ewr.documents() != {}
    ewr.resources.partitioned_topics.delete(TOPIC)
    ewr.resources.topic_policies.delete(TOPIC)
    assert len(ewr.events()) == 2
    assert jfk.resources.partitioned_topics.exists(TOPIC)


def test_the_mark_of_a_topic_that_is_being_deleted_stays_local() -> None:
    """As PartitionedTopics deletes a topic: it marks the topic, and deletes the metadata last."""
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.partitioned_topics.create(TOPIC, PartitionedTopicMetadata(partitions=3))
    jfk.receive(*ewr.events())
    ewr.resources.partitioned_topics.update(TOPIC, methodcaller("model_copy", update={"deleted": True}))
    assert len(ewr.events()) == 1
    jfk.resources.partitioned_topics.update(TOPIC, methodcaller("model_copy", update={"partitions": 4}))
    ewr.receive(*jfk.events())
    found = [cluster.resources.partitioned_topics.get(TOPIC) for cluster in (ewr, jfk)]
    assert [each and (each.partitions, each.deleted) for each in found] == [(4, True), (4, False)]
    ewr.restart()
    list(ewr.store.adopt())
    assert len(ewr.events()) == 1


def test_a_topic_that_is_created_again_in_one_cluster_gets_the_edits_of_the_others() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.partitioned_topics.create(TOPIC, PartitionedTopicMetadata(partitions=8))
    ewr.resources.topic_policies.create(TOPIC, TopicPolicies(maxMessageSize=1, messageTTLInSeconds=5))
    jfk.receive(*ewr.events())
    jfk.resources.partitioned_topics.delete(TOPIC)
    jfk.resources.topic_policies.delete(TOPIC)
    jfk.resources.partitioned_topics.create(TOPIC, PartitionedTopicMetadata(partitions=3))
    jfk.resources.topic_policies.create(TOPIC, TopicPolicies(maxMessageSize=2))
    ewr.receive(*jfk.events())
    topic, policies = ewr.resources.partitioned_topics.get(TOPIC), ewr.resources.topic_policies.get(TOPIC)
    assert topic is not None
    assert policies is not None
    assert (topic.partitions, policies.maxMessageSize, policies.messageTTLInSeconds) == (8, 2, 5)
    assert jfk.documents() == ewr.documents()


def test_a_namespace_created_again_has_no_edit_that_was_known_before() -> None:
    """The edit was made concurrently with the deletion, and was seen before the creation."""
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.namespaces.create(ORDERS, Policies())
    jfk.receive(*ewr.events())
    ewr.resources.namespaces.delete(ORDERS)
    jfk.now_s += 1
    jfk.resources.namespaces.update(ORDERS, lambda found: found.model_copy(update={"message_ttl_in_seconds": 60}))
    ewr.receive(*jfk.events())
    assert ewr.documents() == {}
    ewr.resources.namespaces.create(ORDERS, Policies(properties={"a": "b"}))
    jfk.receive(*ewr.events()[1:])
    found = jfk.resources.namespaces.get(ORDERS)
    assert found is not None
    assert (found.message_ttl_in_seconds, found.properties) == (None, {"a": "b"})
    assert jfk.documents() == ewr.documents()


def test_the_defaults_of_a_namespace_that_a_new_cluster_creates_reset_nothing() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk", 2_000.0)
    for cluster in (ewr, jfk):
        cluster.resources.namespaces.create(ORDERS, Policies())
    for is_enforced in (True, False):
        change = methodcaller("model_copy", update={"schema_validation_enforced": is_enforced})
        ewr.resources.namespaces.update(ORDERS, change)
        ewr.receive(*jfk.events())
        jfk.receive(*ewr.events())
        found = jfk.resources.namespaces.get(ORDERS)
        assert found is not None
        assert found.schema_validation_enforced == is_enforced
        assert jfk.documents() == ewr.documents()


def test_the_clusters_of_a_namespace_are_copied_once_and_stay_those_of_each_cluster() -> None:
    ewr, jfk, late = Cluster("ewr"), Cluster("jfk"), Cluster("lga")
    ewr.resources.namespaces.create(ORDERS, Policies(replication_clusters=["ewr", "jfk"]))
    jfk.receive(*ewr.events())
    change = methodcaller("model_copy", update={"replication_clusters": ["jfk"], "message_ttl_in_seconds": 5})
    jfk.resources.namespaces.update(ORDERS, change)
    ewr.receive(*jfk.events())
    found = [cluster.resources.namespaces.get(ORDERS) for cluster in (ewr, jfk)]
    assert [each and (each.replication_clusters, each.message_ttl_in_seconds) for each in found] == [
        (["ewr", "jfk"], 5),
        (["jfk"], 5),
    ]
    late.receive(*map(MetadataChangeEvent.decode, ewr.store.snapshot()))
    assert late.documents() == ewr.documents()
    jfk.receive(*map(MetadataChangeEvent.decode, ewr.store.snapshot()))
    assert jfk.resources.namespaces.get(ORDERS) == found[1]


def test_the_namespace_of_the_event_topic_is_not_synchronized() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.tenants.create("pulsar", TenantInfo())
    ewr.resources.namespaces.create(RULES.own_namespace, Policies())
    ewr.resources.partitioned_topics.create(
        TopicName.parse("persistent://pulsar/metadata/t"), PartitionedTopicMetadata(partitions=1)
    )
    list(ewr.store.adopt())
    assert ewr.events() == []
    timestamp = Timestamp(1, 0, "ewr")
    resource = Resource(ResourceType.NAMESPACES, "pulsar/metadata")
    event = MetadataChangeEvent(EventType.CREATED, resource, "ewr", 1, Record(resource.kind, timestamp))
    assert jfk.receive(event) == [False]
    assert jfk.documents() == {}


def test_a_snapshot_completes_a_new_cluster_and_names_deleted_resources() -> None:
    ewr, jfk, lga = Cluster("ewr"), Cluster("jfk"), Cluster("lga")
    ewr.resources.tenants.create("acme", TenantInfo(adminRoles=["admin"]))
    ewr.resources.tenants.create("gone", TenantInfo())
    jfk.receive(*ewr.events())
    ewr.resources.tenants.delete("gone")
    for cluster in (jfk, lga):
        cluster.receive(*map(MetadataChangeEvent.decode, ewr.store.snapshot()))
        assert cluster.documents() == ewr.documents()


def test_the_oldest_deleted_resources_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "DELETED_MAX", 2)
    ewr = Cluster("ewr")
    for name in ("c", "a", "b", "kept"):
        ewr.resources.tenants.create(name, TenantInfo())
    for name in ("c", "a", "b"):
        ewr.resources.tenants.delete(name)
    assert len(list(ewr.store.snapshot())) == 4
    assert [resource.name for resource, _ in ewr.store.records()] == ["a", "b", "kept"]


def test_a_large_namespace_has_its_clusters_in_a_new_cluster() -> None:
    """They count only at the creation, and so they must be in the first part of the snapshot."""
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.tenants.create("acme", TenantInfo())
    properties = {f"p{number}": "x" for number in range(2 * EVENT_EDITS_MAX)}
    ewr.resources.namespaces.create(
        ORDERS, Policies(properties=properties, replication_clusters=["ewr", "jfk"], allowed_clusters=["ewr", "jfk"])
    )
    ewr.resources.partitioned_topics.create(TOPIC, PartitionedTopicMetadata(partitions=3, properties=properties))
    ewr.restart()
    jfk.receive(*map(MetadataChangeEvent.decode, ewr.store.snapshot()))
    assert jfk.documents() == ewr.documents()


def test_forgotten_resources_do_not_come_back_with_every_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster receives its own events as well, and those of others that have not forgotten them yet."""
    monkeypatch.setattr(store, "DELETED_MAX", 1)
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    for name in ("a", "b"):
        ewr.resources.tenants.create(name, TenantInfo())
        ewr.resources.tenants.delete(name)
    for _ in range(2):
        for source in (ewr, jfk):
            found = [MetadataChangeEvent.decode(each) for each in source.store.snapshot()]
            for target in (ewr, jfk):
                target.receive(*found)
    for cluster in (ewr, jfk):
        names = [MetadataChangeEvent.decode(each).resource.name for each in cluster.store.snapshot()]
        assert names == ["b"]
        assert [resource.name for resource, _ in cluster.store.records()] == ["b"]


def test_published_events_leave_the_outbox() -> None:
    ewr = Cluster("ewr")
    for name in ("a", "b", "c"):
        ewr.resources.tenants.create(name, TenantInfo())
    found = ewr.store.unpublished(2)
    assert [MetadataChangeEvent.decode(value).resource.name for _, value in found] == ["a", "b"]
    ewr.store.published(number for number, _ in found)
    ewr.restart()
    assert [event.resource.name for event in ewr.events()] == ["c"]
    ewr.resources.tenants.create("d", TenantInfo())
    assert [event.resource.name for event in ewr.events()] == ["c", "d"]


def test_an_edit_too_far_in_the_future_is_refused_and_stops_nothing() -> None:
    ewr, jfk = Cluster("ewr", 9_000.0), Cluster("jfk")
    ewr.resources.tenants.create("acme", TenantInfo())
    (event,) = ewr.events()
    with pytest.raises(RequestError, match="cluster ewr is 8000 s ahead of the clock here"):
        jfk.receive(event)
    assert jfk.documents() == {}
    jfk.resources.tenants.create("acme", TenantInfo())
    assert jfk.events()[0].record.created == Timestamp(1_000_000, 0, "jfk")


def test_later_edits_of_a_cluster_whose_clock_was_ahead_are_refused_for_a_time_and_can_be_made_elsewhere() -> None:
    """They must be newer than its earlier edits, also after the clock was set back."""
    ewr, jfk, lga = Cluster("ewr", 9_000.0), Cluster("jfk"), Cluster("lga")
    ewr.resources.tenants.create("acme", TenantInfo())
    ewr.now_s = 1_000.0
    for name in ("other", "others"):
        ewr.restart()
        ewr.resources.tenants.create(name, TenantInfo())
    for event in ewr.events():
        with pytest.raises(RequestError, match="later edits of ewr are refused here too for 4400 s") as refused:
            jfk.receive(event)
        assert "make them in another cluster as well" in str(refused.value)
    jfk.resources.tenants.create("other", TenantInfo())
    assert lga.receive(*jfk.events()) == [True]
    assert ewr.receive(*jfk.events()) == [False], "its own edit is newer"
    jfk.now_s = lga.now_s = 1_000.0 + 4_400.0
    for each in (jfk, lga):
        each.receive(*map(MetadataChangeEvent.decode, ewr.store.snapshot()))
    assert ewr.documents() == jfk.documents() == lga.documents()


def test_a_document_that_is_not_valid_is_refused() -> None:
    jfk = Cluster("jfk")
    timestamp = Timestamp(1, 0, "ewr")
    record = Record(ResourceType.TENANTS, timestamp, None, {"/adminRoles": Edit(timestamp, 7)})
    event = MetadataChangeEvent(EventType.CREATED, Resource(ResourceType.TENANTS, "acme"), "ewr", 1, record)
    with pytest.raises(ValueError, match="adminRoles"):
        jfk.receive(event)
    assert jfk.documents() == {}


@pytest.mark.parametrize(
    "edits",
    [
        {"/properties": 7},
        {"/bundles": [], "/bundles/boundaries": []},
        {"/bundles/boundaries": [], "/bundles": []},
        {"/message_ttl_in_seconds": 1, "/message_ttl_in_seconds/a/b": 1},
    ],
)
def test_edits_that_make_no_document_are_refused_before_the_creation_arrives(edits: dict[str, Any]) -> None:
    """Otherwise they would wait in the record, and the creation would be refused because of them."""
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    timestamp, resource = Timestamp(1, 0, "lga"), Resource(ResourceType.NAMESPACES, str(ORDERS))
    hostile = Record(resource.kind, edits={unit: Edit(timestamp, value) for unit, value in edits.items()})
    with pytest.raises(ValueError, match=r"properties|bundles|is inside the value"):
        jfk.receive(MetadataChangeEvent(EventType.MODIFIED, resource, "lga", 1, hostile))
    ewr.resources.namespaces.create(ORDERS, Policies())
    assert jfk.receive(*ewr.events()) == [True]
    assert jfk.documents() == ewr.documents()


def test_edits_of_a_topic_may_arrive_before_its_creation() -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.partitioned_topics.create(TOPIC, PartitionedTopicMetadata(partitions=3))
    ewr.resources.partitioned_topics.update(TOPIC, methodcaller("model_copy", update={"properties": {"a": "b"}}))
    assert jfk.receive(*reversed(ewr.events())) == [True, True]
    assert jfk.documents() == ewr.documents()


def test_a_creation_keeps_edits_whose_own_creation_has_not_arrived() -> None:
    ewr, jfk, lga = Cluster("ewr"), Cluster("jfk"), Cluster("lga")
    lga.resources.partitioned_topics.create(TOPIC, PartitionedTopicMetadata(partitions=1))
    lga.resources.namespaces.create(ORDERS, Policies())
    ewr.receive(*lga.events())
    ewr.resources.partitioned_topics.update(TOPIC, methodcaller("model_copy", update={"partitions": 2}))
    ewr.resources.namespaces.update(ORDERS, methodcaller("model_copy", update={"message_ttl_in_seconds": 5}))
    jfk.receive(*ewr.events())
    assert jfk.documents() == {}
    jfk.resources.partitioned_topics.create(TOPIC, PartitionedTopicMetadata(partitions=1))
    jfk.resources.namespaces.create(ORDERS, Policies())
    clusters = [ewr, jfk, lga]
    for target in clusters:
        target.receive(*(event for source in clusters if source is not target for event in source.events()))
        topic, policies = target.resources.partitioned_topics.get(TOPIC), target.resources.namespaces.get(ORDERS)
        assert topic is not None
        assert policies is not None
        assert (topic.partitions, policies.message_ttl_in_seconds) == (2, 5)
        assert target.documents() == ewr.documents()


def test_what_existed_before_and_was_edited_meanwhile_is_adopted() -> None:
    ewr = Cluster("ewr")
    unrecorded = Resources.over(ewr.inner)
    unrecorded.tenants.create("acme", TenantInfo(adminRoles=["old"]))
    ewr.now_s = 2_000.0
    list(ewr.store.adopt())
    (created,) = ewr.events()
    assert created.type is EventType.CREATED
    assert created.record.created == Timestamp(1_000_000, 0, "ewr"), "the time of the last change"
    list(ewr.store.adopt())
    assert len(ewr.events()) == 1, "nothing has changed since"
    unrecorded.tenants.update("acme", lambda t: t.model_copy(update={"adminRoles": ["new"]}))
    unrecorded.namespaces.create(ORDERS, Policies())
    list(ewr.store.adopt())
    unrecorded.namespaces.delete(ORDERS)
    list(ewr.store.adopt())
    _, modified, namespace, deleted = ewr.events()
    replaced = Timestamp(1_000_000, 0, "ewr")
    assert modified.record.edits == {"/adminRoles": Edit(Timestamp(2_000_000, 0, "ewr"), ["new"], replaced)}
    assert (namespace.type, deleted.type) == (EventType.CREATED, EventType.DELETED)
    jfk = Cluster("jfk")
    jfk.receive(*ewr.events())
    assert jfk.documents() == ewr.documents()


def test_defaults_that_an_earlier_version_did_not_store_are_no_edits() -> None:
    """An edit of the field in another cluster would lose against them."""
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.namespaces.create(ORDERS, Policies())
    jfk.receive(*ewr.events())
    path = Resource(ResourceType.NAMESPACES, str(ORDERS)).path
    stored = ewr.documents()[path]
    del stored["migrated"], stored["offload_threshold"]
    ewr.inner.commit([Put(path, json.dumps(stored).encode())])
    ewr.restart()
    list(ewr.store.adopt())
    assert len(ewr.events()) == 1
    jfk.resources.namespaces.update(ORDERS, methodcaller("model_copy", update={"migrated": True}))
    ewr.now_s += 1
    ewr.resources.namespaces.update(ORDERS, methodcaller("model_copy", update={"message_ttl_in_seconds": 5}))
    *_, edit = ewr.events()
    assert edit.record.edits.keys() == {"/message_ttl_in_seconds"}
    ewr.receive(*jfk.events())
    jfk.receive(edit)
    assert ewr.documents() == jfk.documents()
    assert jfk.documents()[path]["migrated"] is True


def test_a_resource_with_too_many_fields_is_refused_here_and_from_other_clusters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.tenants.create("acme", TenantInfo())
    ewr.resources.namespaces.create(ORDERS, Policies(properties={str(n): "" for n in range(30)}))
    monkeypatch.setattr(store, "UNITS_MAX", 20)
    with pytest.raises(ValueError, match=r"acme/orders would have 30 fields and keys .*maxMetadataFieldsPerResource"):
        jfk.receive(*ewr.events())
    with pytest.raises(AdminError, match="would have 31 fields and keys") as refused:
        ewr.resources.namespaces.update(ORDERS, lambda old: old.model_copy(update={"message_ttl_in_seconds": 5}))
    assert (refused.value.status, refused.value.limit) == (412, Limit.METADATA_UNITS)
    # What is there can be changed and removed.
    ewr.resources.namespaces.update(ORDERS, lambda old: old.model_copy(update={"properties": {"0": "x"}}))
    assert len(ewr.events()) == 3


def test_an_edit_that_fits_in_no_event_is_refused_where_it_is_made() -> None:
    ewr = Cluster("ewr")
    ewr.resources.tenants.create("acme", TenantInfo())
    with pytest.raises(AdminError, match="maxMetadataEventSize") as refused:
        ewr.resources.namespaces.create(ORDERS, Policies(properties={"a": "x" * EVENT_BYTES_MAX}))
    assert (refused.value.status, refused.value.limit) == (412, Limit.METADATA_EVENT_SIZE)
    assert not ewr.resources.namespaces.exists(ORDERS)
    assert len(ewr.events()) == 1


def test_edits_that_are_too_large_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    ewr.resources.tenants.create("acme", TenantInfo())
    ewr.resources.namespaces.create(ORDERS, Policies(properties={"a": "x" * 5_000}))
    monkeypatch.setattr(store, "RECORD_BYTES_MAX", 4_000)
    with pytest.raises(ValueError, match=r"the edits of acme/orders would have \d+ bytes, at most 4000"):
        jfk.receive(*ewr.events())
    with pytest.raises(AdminError, match=r"at most 4000 .*maxMetadataFieldsPerResource"):
        ewr.resources.namespaces.update(ORDERS, lambda old: old.model_copy(update={"message_ttl_in_seconds": 5}))
    ewr.resources.namespaces.update(ORDERS, lambda old: old.model_copy(update={"properties": {"a": "y"}}))
    assert len(ewr.events()) == 3


def test_a_value_from_before_the_synchronization_that_fits_in_no_event_stays_here(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ewr, jfk = Cluster("ewr"), Cluster("jfk")
    before = ewr.unrecorded()
    before.tenants.create("acme", TenantInfo())
    before.namespaces.create(ORDERS, Policies(properties={"a": "x" * EVENT_BYTES_MAX, "b": "y"}))
    list(ewr.store.adopt())
    snapshot = [MetadataChangeEvent.decode(event) for event in ewr.store.snapshot()]
    for events in (ewr.events(), snapshot):
        jfk = Cluster("jfk")
        jfk.receive(*events)
        found = jfk.resources.namespaces.get(ORDERS)
        assert found is not None
        assert found.properties == {"b": "y"}
    assert "maxMetadataEventSize" in capsys.readouterr().out
