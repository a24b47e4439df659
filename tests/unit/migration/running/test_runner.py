"""The steps before the switch, between two fake clusters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.errors import InterruptedMigrationError, MigrationError, MigrationStateError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.position import EARLIEST
from magnetar.metadata.policies import Policies
from magnetar.metadata.policy.table import Policy
from magnetar.migration.machine.journal import Journal
from magnetar.migration.machine.records import StageMoved
from magnetar.migration.machine.tables import Stage, StageEvent
from magnetar.migration.running.pair import Pair
from magnetar.migration.running.runner import Runner, Standing
from magnetar.migration.running.source import MagnetarSource
from magnetar.migration.scope import Scope
from magnetar.migration.sides import source_of, target_of
from magnetar.sim.virtual.disk import FaultyDisk
from tests.unit.admin.fake_service import FakeAdminService, FakeSubscription, FakeTopic, new_service
from tests.unit.migration.linked_clusters import Source, Target
from tests.unit.migration.still_clock import StillClock

ORDERS, RETURNS = NamespaceName("shop", "orders"), NamespaceName("shop", "returns")
EU, US = (TopicName.parse(f"persistent://shop/orders/{name}") for name in ("eu", "us"))
SHOP = Scope("shop")
DIRECTORY = Path("/migration")


@dataclass
class World:
    """Time that passes while something waits."""

    now: float = 0.0
    stop_after: int | None = None
    """Number of looks at the signal before it is there."""
    waits: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        if seconds:
            self.waits.append(seconds)
            self.now += seconds
        elif self.stop_after is not None:
            self.stop_after -= 1
            return self.stop_after < 0
        return False


@dataclass
class Clusters:
    source: FakeAdminService
    target: FakeAdminService
    transport: Source
    arrival: Target
    here: AdminClient
    there: AdminClient
    disk: FaultyDisk = field(default_factory=FaultyDisk)
    told: list[Standing] = field(default_factory=list)
    scope: Scope = SHOP

    def pair(self) -> Pair:
        return Pair(self.scope, source_of(self.here), target_of(self.there), "A", "B")

    def runner(self, world: World | None = None) -> Runner:
        self.told.clear()
        pair = self.pair()
        return Runner(pair, MagnetarSource(pair), self.journal(), world or World(), self.told.append)

    def journal(self) -> Journal:
        return Journal(self.disk, DIRECTORY, StillClock())

    def run(self, world: World | None = None) -> None:
        runner = self.runner(world)
        runner.begin()
        runner.run()

    def replicated(self, topic: TopicName = EU) -> dict[str, bool]:
        return {name: each.replicated for name, each in self.source.topics.held[topic].subscriptions.items()}


@pytest.fixture
def clusters() -> Clusters:
    source, target = new_service(), new_service()
    target.cluster_name = "B"
    transport, arrival = Source(source), Target(target, source)
    here, there = AdminClient("http://a:8080", transport=transport), AdminClient("http://b:8080", transport=arrival)
    here.tenants.create("shop", ["A"], ["admin"])
    for namespace in (ORDERS, RETURNS):
        here.namespaces.create(namespace, ["A"])
    here.policies.set(ORDERS, Policy.MESSAGE_TTL, 60)
    source.topics.held[EU] = FakeTopic(
        subscriptions={"billing": FakeSubscription(EARLIEST), "audit": FakeSubscription(EARLIEST, replicated=True)}
    )
    source.topics.held[US] = FakeTopic()
    return Clusters(source, target, transport, arrival, here, there)


def test_the_target_gets_everything_and_the_settings_are_remembered(clusters: Clusters) -> None:
    clusters.run()
    migration = clusters.journal().migration
    assert migration.stage is Stage.READY
    assert migration.clusters_before == {"shop/orders": ("A",), "shop/returns": ("A",)}
    assert migration.replicated_before == {str(EU): {"audit": True, "billing": False}, str(US): {}}
    here, there = clusters.here, clusters.there
    assert there.topics.of_namespace(ORDERS) == [EU, US], "empty topics, too"
    assert there.policies.get(ORDERS, Policy.MESSAGE_TTL) == 60
    assert there.tenants.get("shop")["adminRoles"] == ["admin"]
    for client in (here, there):
        assert client.namespaces.clusters(ORDERS) == client.namespaces.clusters(RETURNS) == ["A", "B"]
    assert clusters.replicated() == {"billing": True, "audit": True}


def test_the_synchronizer_may_have_created_the_namespaces_with_the_clusters_of_the_source(clusters: Clusters) -> None:
    there = clusters.there
    there.tenants.create("shop", ["A"])
    clusters.target.resources.namespaces.create(ORDERS, Policies(replication_clusters=["A"]))
    clusters.run()
    assert there.namespaces.clusters(ORDERS) == ["A", "B"]
    assert there.topics.of_namespace(ORDERS) == [EU, US]


def test_a_namespace_that_was_moved_away_before_forgets_its_clusters_of_that_time(clusters: Clusters) -> None:
    there = clusters.there
    there.clusters.create("C", {"serviceUrl": "http://c:8080"})
    there.tenants.create("shop", ["A", "C"])
    clusters.target.resources.namespaces.create(ORDERS, Policies(replication_clusters=["C"]))
    clusters.run()
    assert there.namespaces.clusters(ORDERS) == ["B", "A"]


def test_a_change_that_the_target_refuses_is_an_error(clusters: Clusters) -> None:
    clusters.arrival.refuses = "/admin/v2/namespaces/shop/orders/messageTTL"
    with pytest.raises(
        MigrationError, match="the target refused 1 changes of metadata; the first: Namespaces shop/ord"
    ):
        clusters.run()
    clusters.arrival.refuses = None
    clusters.run()
    assert clusters.journal().migration.stage is Stage.READY


def test_it_waits_for_links_and_progress_and_tells_how_far_they_are(clusters: Clusters) -> None:
    clusters.transport.left = {EU: [400, 100]}
    clusters.transport.unconfirmed = [5.0]
    world = World()
    clusters.run(world)
    data = [each for each in clusters.told if each.step is Stage.DATA]
    assert [(each.topics, each.topics_total, each.left) for each in data] == [(1, 2, 400), (1, 2, 100), (2, 2, 0)]
    assert (data[1].per_second, data[2].eta_s) == (300.0, 0.0)
    assert len(world.waits) == 3, "twice for a link, once for a subscription"
    waiting = [each.waits_for for each in clusters.told if each.waits_for]
    assert waiting == [f"{EU}: audit: the target has not confirmed all acknowledgements"]


def test_a_subscription_must_have_arrived_in_the_target(clusters: Clusters) -> None:
    clusters.arrival.never = True
    with pytest.raises(InterruptedMigrationError):
        clusters.run(World(stop_after=12))
    assert clusters.told[-1].waits_for == f"{EU}: audit: the target does not have it yet"
    clusters.arrival.never = False
    clusters.run()
    assert clusters.journal().migration.stage is Stage.READY


def test_a_link_that_is_not_open_has_an_unknown_backlog(clusters: Clusters) -> None:
    runner = clusters.runner(World(stop_after=6))
    runner.begin()
    clusters.transport.service = new_service()  # its namespaces are not replicated
    with pytest.raises(InterruptedMigrationError):
        runner.run()
    (last,) = clusters.told[-1:]
    assert (last.step, last.left, last.waits_for) == (Stage.DATA, None, f"{EU}: the link is not open yet")


def test_an_interrupted_migration_continues_wherever_it_was(clusters: Clusters) -> None:
    rounds = 0
    while True:
        runner = clusters.runner(World(stop_after=0))
        runner.begin()
        try:
            runner.run()
        except InterruptedMigrationError:
            rounds += 1
            if clusters.journal().migration.stage is Stage.READY:
                break
        else:
            break
    assert rounds > 5
    assert clusters.journal().migration.replicated_before[str(EU)] == {"audit": True, "billing": False}


def test_new_topics_and_subscriptions_are_found_by_the_next_run(clusters: Clusters) -> None:
    clusters.run()
    new = TopicName.parse("persistent://shop/orders/new")
    clusters.source.topics.held[new] = FakeTopic(subscriptions={"late": FakeSubscription(EARLIEST)})
    clusters.source.topics.held[US].subscriptions["later"] = FakeSubscription(EARLIEST)
    clusters.run()
    assert clusters.replicated(new) == {"late": True}
    assert clusters.replicated(US) == {"later": True}
    before = clusters.journal().migration.replicated_before
    assert (before[str(new)], before[str(US)]) == ({"late": False}, {"later": False})
    assert new in clusters.target.topics.held


def test_a_topic_that_is_deleted_meanwhile_holds_nothing_up(clusters: Clusters) -> None:
    clusters.transport.left = {US: [400]}
    runner = clusters.runner(World(stop_after=6))
    runner.begin()
    with pytest.raises(InterruptedMigrationError):
        runner.run()
    del clusters.source.topics.held[US]
    clusters.run()
    assert clusters.journal().migration.stage is Stage.READY
    clusters.runner().abandon()
    assert clusters.journal().migration.stage is Stage.ABANDONED


def test_an_abandoned_migration_leaves_the_source_as_it_was(clusters: Clusters) -> None:
    clusters.run()
    runner = clusters.runner()
    runner.abandon()
    assert clusters.journal().migration.stage is Stage.ABANDONED
    assert clusters.replicated() == {"billing": False, "audit": True}
    assert clusters.here.namespaces.clusters(ORDERS) == ["A"]
    assert clusters.there.namespaces.clusters(ORDERS) == ["B"]
    assert EU in clusters.target.topics.held, "what the target has stays"
    with pytest.raises(MigrationStateError, match="'abandoned'"):
        clusters.journal().append(StageMoved(StageEvent.LOOK_AGAIN))


def test_a_topic_moves_without_the_others_of_its_namespace(clusters: Clusters) -> None:
    clusters.scope = Scope("shop", topics=(EU,))
    clusters.run()
    migration = clusters.journal().migration
    assert migration.stage is Stage.READY
    assert (migration.clusters_before, list(migration.topics)) == ({str(EU): ()}, [str(EU)])
    here, there = clusters.here, clusters.there
    assert here.topic_documents.clusters(EU) == ["A", "B"]
    assert sorted(there.topic_documents.clusters(EU)) == ["A", "B"]
    assert (here.namespaces.clusters(ORDERS), there.namespaces.clusters(ORDERS)) == (["A"], ["B"])
    assert US not in clusters.target.topics.held
    clusters.runner().abandon()
    assert [each.topic_documents.clusters(EU) for each in (here, there)] == [[], []]
    assert (here.namespaces.clusters(ORDERS), there.namespaces.clusters(ORDERS)) == (["A"], ["B"])


def test_a_directory_belongs_to_one_migration(clusters: Clusters) -> None:
    clusters.run()
    other = replace(clusters.pair(), scope=Scope("shop", (ORDERS,)))
    with pytest.raises(MigrationError, match="the migration of shop from A to B has begun here\nhint: name another"):
        Runner(other, MagnetarSource(other), clusters.journal(), World()).begin()


def test_what_cannot_be_made_equal_is_an_error(clusters: Clusters) -> None:
    clusters.here.topics.create_partitioned(TopicName.parse("persistent://shop/orders/p"), 2)
    there = clusters.there
    there.tenants.create("shop", ["B"])
    there.namespaces.create(ORDERS, ["B"])
    there.topics.create_partitioned(TopicName.parse("persistent://shop/orders/p"), 3)
    with pytest.raises(MigrationError, match="hint: magnetar migrate plan shows all"):
        clusters.run()
    assert clusters.journal().migration.stage is Stage.METADATA
