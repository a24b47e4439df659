"""A subscription whose replication an operator disabled in one cluster stays disabled, and continues exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.base.limits import Limit
from magnetar.broker.admin.administration import Administration
from magnetar.broker.replication.progress import switched_off
from magnetar.broker.replication.progress.switched_off import SwitchedOff
from magnetar.broker.resources.limit_hits import LimitHits
from magnetar.sim.cluster import TOPIC, Cluster
from tests.unit.broker.mesh import Mesh
from tests.unit.broker.world import Worker, World

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def administered(cluster: Cluster, work: Callable[[Administration], Any]) -> Any:  # noqa: ANN401 - what it returns
    task = cluster.loop.start(work(Administration(cluster.environment, cluster.topics, "")))
    cluster.settle()
    return task.result()


def switch(cluster: Cluster, *, on: bool) -> None:
    administered(cluster, lambda admin: admin.subscriptions.set_replicated(TOPIC, "worker", replicated=on))


def delete(cluster: Cluster) -> None:
    administered(cluster, lambda admin: admin.subscriptions.delete(TOPIC, "worker", force=True))


def protection(cluster: Cluster) -> tuple[str, list[str]]:
    found = administered(cluster, lambda admin: admin.topics.protection(TOPIC))["worker"]
    return found.status, found.reasons


def replicated() -> World:
    """Return two clusters with five messages, all unacknowledged, without consumers."""
    world = World("ewr", "jfk")
    world.publish("ewr", "a", "b", "c", "d", "e")
    Worker(world, "ewr").leave()
    world.carry()
    world.progress()
    return world


def reader(world: World, name: str) -> Worker:
    """Create a consumer that does not request replication."""
    worker = Worker.__new__(Worker)
    worker.world, worker.cluster, worker.client, worker.positions = world, world[name], world[name].client(), {}
    worker.client.subscribe()
    return worker


def restart(world: World, name: str) -> None:
    (other,) = (each for each in world.clusters if each != name)
    world.cut(name, other)
    world[name].crash()
    world.heal(name, other)


def left(world: World, name: str) -> int:
    return world[name].subscription().backlog


def test_states_of_others_neither_switch_it_on_nor_move_it_whatever_is_restarted() -> None:
    world = replicated()
    switch(world["jfk"], on=False)
    worker = Worker(world, "ewr")
    worker.read()
    worker.ack("a", "b")
    world.full_states()
    for name in world.clusters:
        restart(world, name)
    world.full_states()
    assert (left(world, "ewr"), left(world, "jfk")) == (3, 5)
    assert not world["jfk"].subscription().is_replicated
    assert world["ewr"].subscription().is_replicated


def test_switched_on_it_goes_on_with_all_that_was_acknowledged_on_both_sides() -> None:
    world = replicated()
    switch(world["jfk"], on=False)
    here, there = Worker(world, "ewr"), reader(world, "jfk")
    here.read()
    there.read()
    here.ack("a", "c")
    there.ack("e")
    world.progress()
    assert (left(world, "ewr"), left(world, "jfk")) == (3, 4)
    restart(world, "jfk")
    world.progress()
    switch(world["jfk"], on=True)
    world.progress()
    assert left(world, "ewr") == 2, "what was acknowledged while it was off is told"
    world.full_states()
    assert reader(world, "jfk").read() == ["b", "d"]


def test_a_seek_does_not_cross_until_it_is_on_again() -> None:
    world = replicated()
    here = Worker(world, "ewr")
    here.read()
    here.ack("a", "b", "c", "d", "e")
    world.progress()
    switch(world["jfk"], on=False)
    administered(
        world["ewr"], lambda admin: admin.subscriptions.reset(TOPIC, "worker", here.positions["d"], is_excluded=False)
    )
    world.full_states()
    assert (left(world, "ewr"), left(world, "jfk")) == (2, 0)
    switch(world["jfk"], on=True)
    world.full_states()
    assert (left(world, "ewr"), left(world, "jfk")) == (2, 2)


def test_it_is_unprotected_and_says_why() -> None:
    world = replicated()
    switch(world["jfk"], on=False)
    restart(world, "jfk")
    status, reasons = protection(world["jfk"])
    assert (status, reasons) == ("unprotected", ["an administrator disabled its replication in this cluster"])
    switch(world["jfk"], on=True)
    world.carry()
    world.full_states()
    assert protection(world["jfk"]) == ("protected", [])


def test_deleted_here_it_is_not_brought_back_and_the_others_keep_it() -> None:
    world = replicated()
    switch(world["jfk"], on=False)
    delete(world["jfk"])
    world.full_states()
    assert "worker" not in world["jfk"].topic().subscriptions
    assert left(world, "ewr") == 5


def test_a_deletion_elsewhere_does_not_reach_it_and_switched_on_it_exists_everywhere_again() -> None:
    world = replicated()
    switch(world["jfk"], on=False)
    there = reader(world, "jfk")
    there.read()
    there.ack("a")
    there.leave()
    delete(world["ewr"])
    world.full_states()
    assert left(world, "jfk") == 4
    switch(world["jfk"], on=True)
    world.full_states()
    assert (left(world, "ewr"), left(world, "jfk")) == (4, 4)


def test_a_consumer_that_asks_for_replication_switches_it_on_as_in_pulsar_and_no_other_does() -> None:
    world = replicated()
    switch(world["jfk"], on=False)
    reader(world, "jfk").leave()
    assert not world["jfk"].subscription().is_replicated
    Worker(world, "jfk")
    assert world["jfk"].subscription().is_replicated
    restart(world, "jfk")
    assert world["jfk"].subscription().is_replicated


def test_one_that_was_never_replicated_can_be_kept_so() -> None:
    world = World("ewr", "jfk")
    world.publish("ewr", "a")
    world.carry()
    reader(world, "jfk").leave()
    switch(world["jfk"], on=False)
    Worker(world, "ewr").leave()
    world.full_states()
    restart(world, "jfk")
    world.full_states()
    assert not world["jfk"].subscription().is_replicated
    switch(world["jfk"], on=True)
    world.carry()
    world.full_states()
    assert protection(world["jfk"]) == ("protected", [])


def test_updates_of_pip_33_do_not_move_it_nor_bring_it_back() -> None:
    mesh = Mesh("ewr", "jfk")
    consumer = mesh.subscribe("ewr")
    mesh.subscribe("jfk").leave()
    mesh.second()
    switch(mesh.clusters["jfk"], on=False)
    for text in "abc":
        mesh.publish("ewr", text)
        mesh.second()
    consumer.ack(*mesh.texts("ewr"))
    mesh.second()
    assert (mesh.backlog("ewr"), mesh.backlog("jfk")) == (0, 3)
    delete(mesh.clusters["jfk"])
    mesh.publish("ewr", "d")
    mesh.second()
    consumer.ack(*mesh.texts("ewr"))
    mesh.second()
    assert "worker" not in mesh.clusters["jfk"].topic(TOPIC).subscriptions
    assert mesh.problems() == []


def test_beyond_the_limit_one_is_forgotten_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switched_off, "SWITCHED_OFF_MAX", 2)
    ledger = Cluster().topic().ledger
    hits = LimitHits()
    kept = SwitchedOff(ledger, hits)
    for name in ("there", "gone", "new"):
        kept.add(name, ["there"])
    for each in (kept, SwitchedOff(ledger, LimitHits())):
        assert [name in each for name in ("there", "gone", "new")] == [True, False, True]
    assert hits.counts()[Limit.SWITCHED_OFF.value] == 1
    kept.discard("there")
    assert "there" not in SwitchedOff(ledger, LimitHits())
