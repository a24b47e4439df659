"""The clean-up of the source, between two fake clusters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.errors import InterruptedMigrationError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.position import EARLIEST
from magnetar.migration.machine.journal import Journal
from magnetar.migration.machine.tables import Stage, TopicState
from magnetar.migration.running.cleanup import LOOKS, Cleanup
from magnetar.migration.running.custody import handed_over
from magnetar.migration.running.pair import Pair
from magnetar.migration.running.runner import Runner
from magnetar.migration.running.source import MagnetarSource
from magnetar.migration.scope import Scope
from magnetar.migration.sides import source_of, target_of
from magnetar.sim.virtual.disk import FaultyDisk
from tests.unit.admin.fake_service import FakeAdminService, FakeSubscription, FakeTopic, new_service
from tests.unit.migration.linked_clusters import Source, Target
from tests.unit.migration.running.test_runner import World
from tests.unit.migration.still_clock import StillClock

ORDERS = NamespaceName("shop", "orders")
EU, US = (TopicName.parse(f"persistent://shop/orders/{name}") for name in ("eu", "us"))
DIRECTORY = Path("/migration")


@dataclass
class Clusters:
    source: FakeAdminService
    target: FakeAdminService
    transport: Source
    pair: Pair
    disk: FaultyDisk

    def journal(self) -> Journal:
        return Journal(self.disk, DIRECTORY, StillClock())

    def cleanup(self, stop_after: int | None = None) -> Cleanup:
        journal = self.journal()
        if journal.migration.stage is Stage.READY:  # the switch itself has its own tests
            journal.migration.stage = Stage.SWITCHED
            journal.migration.topics = dict.fromkeys(journal.migration.topics, TopicState.SWITCHED)
        return Cleanup(self.pair, MagnetarSource(self.pair), self.pair.source, journal, World(stop_after=stop_after))


@pytest.fixture
def clusters() -> Clusters:
    """Two clusters after a switch."""
    source, target = new_service(), new_service()
    target.cluster_name = "B"
    transport = Source(source)
    here = AdminClient("http://a:8080", transport=transport)
    there = AdminClient("http://b:8080", transport=Target(target, source))
    here.tenants.create("shop", ["A"], ["admin"])
    here.namespaces.create(ORDERS, ["A"])
    here.topics.create_partitioned(US, 2)
    subscriptions = {"billing": FakeSubscription(EARLIEST), "audit": FakeSubscription(EARLIEST, replicated=True)}
    source.topics.held[EU] = FakeTopic(subscriptions=subscriptions)
    pair = Pair(Scope("shop"), source_of(here), target_of(there), "A", "B")
    found = Clusters(source, target, transport, pair, FaultyDisk())
    runner = Runner(pair, MagnetarSource(pair), found.journal(), World())
    runner.begin()
    runner.run()
    for each in target.topics.held[EU].subscriptions.values():
        each.replicated = True
    here.fences.set(EU, "m", 1, "final")
    return found


def test_it_shows_what_it_would_delete_and_changes_nothing(clusters: Clusters) -> None:
    found = clusters.cleanup().leftovers()
    assert (found.topics, found.places, found.waiting) == (3, ("shop/orders",), "")
    assert len(clusters.pair.source.client.topics.of_namespace(ORDERS)) == 3
    clusters.transport.left = {EU: [7] * LOOKS}
    assert clusters.cleanup().leftovers().waiting == "B does not have all entries of the source"
    clusters.transport.left = {EU: [7]}
    assert clusters.cleanup().leftovers().waiting == "", "at the second look"


def test_nothing_of_the_source_is_left(clusters: Clusters) -> None:
    cleanup = clusters.cleanup()
    cleanup.run()
    here, there = clusters.pair.source.client, clusters.pair.target.client
    assert here.topics.of_namespace(ORDERS) == []
    assert here.topics.partitioned_of_namespace(ORDERS) == []
    assert len(there.topics.of_namespace(ORDERS)) == 3
    assert [client.namespaces.clusters(ORDERS) for client in (here, there)] == [["B"], ["B"]]
    assert [client.tenants.get("shop")["allowedClusters"] for client in (here, there)] == [["B"], ["B"]]
    replicated = {name: each.replicated for name, each in clusters.target.topics.held[EU].subscriptions.items()}
    assert replicated == {"billing": False, "audit": True}, "as before the migration"
    assert there.policies.custody(ORDERS) == {"A": "B"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"A": "B"}),
        ({"Z": "A"}, {"Z": "B", "A": "B"}),
        ({"B": "A"}, {"A": "B"}),
        ({"Z": "Y"}, {"Z": "Y", "A": "B"}),
    ],
    ids=["first move", "second move", "way back", "kept by a third cluster"],
)
def test_the_target_keeps_what_the_source_published_and_kept(before: dict[str, str], after: dict[str, str]) -> None:
    assert handed_over(before, "A", "B") == after


def test_an_interrupted_clean_up_continues(clusters: Clusters) -> None:
    first = clusters.cleanup(stop_after=0)
    with pytest.raises(InterruptedMigrationError):
        first.run()
    assert first._migration.stage is Stage.CLEANUP
    again = Cleanup(clusters.pair, MagnetarSource(clusters.pair), clusters.pair.source, first._journal, World())
    again.run()
    assert again._migration.stage is Stage.DONE
    again.run()
    assert clusters.pair.source.client.topics.of_namespace(ORDERS) == []
