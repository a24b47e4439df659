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
from tests.unit.broker.network import ClusterNetwork, Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def administered(cluster: Cluster, work: Callable[[Administration], Any]) -> Any:  # noqa: ANN401 - what it returns
    task = cluster.loop.start(work(Administration(cluster.environment, cluster.domains, "")))
    cluster.settle()
    return task.result()


def switch(cluster: Cluster, *, on: bool) -> None:
    administered(cluster, lambda admin: admin.subscriptions.set_replicated(TOPIC, "worker", replicated=on))


def delete(cluster: Cluster) -> None:
    administered(cluster, lambda admin: admin.subscriptions.delete(TOPIC, "worker", force=True))


def protection(cluster: Cluster) -> tuple[str, list[str]]:
    found = administered(cluster, lambda admin: admin.topics.protection(TOPIC))["worker"]
    return found.status, found.reasons


def replicated() -> ClusterNetwork:
    """Return two clusters with five messages, all unacknowledged, without consumers."""
    network = ClusterNetwork("ewr", "jfk")
    network.publish("ewr", "a", "b", "c", "d", "e")
    Worker(network, "ewr").leave()
    network.carry()
    network.progress()
    return network


def reader(network: ClusterNetwork, name: str) -> Worker:
    """Create a consumer that does not request replication."""
    worker = Worker.__new__(Worker)
    worker.network, worker.cluster, worker.client, worker.positions = network, network[name], network[name].client(), {}
    worker.client.subscribe()
    return worker


def restart(network: ClusterNetwork, name: str) -> None:
    (other,) = (each for each in network.clusters if each != name)
    network.cut(name, other)
    network[name].crash()
    network.heal(name, other)


def left(network: ClusterNetwork, name: str) -> int:
    return network[name].subscription().backlog


def test_states_of_others_neither_switch_it_on_nor_move_it_whatever_is_restarted() -> None:
    network = replicated()
    switch(network["jfk"], on=False)
    worker = Worker(network, "ewr")
    worker.read()
    worker.ack("a", "b")
    network.full_states()
    for name in network.clusters:
        restart(network, name)
    network.full_states()
    assert (left(network, "ewr"), left(network, "jfk")) == (3, 5)
    assert not network["jfk"].subscription().is_replicated
    assert network["ewr"].subscription().is_replicated


def test_switched_on_it_goes_on_with_all_that_was_acknowledged_on_both_sides() -> None:
    network = replicated()
    switch(network["jfk"], on=False)
    here, there = Worker(network, "ewr"), reader(network, "jfk")
    here.read()
    there.read()
    here.ack("a", "c")
    there.ack("e")
    network.progress()
    assert (left(network, "ewr"), left(network, "jfk")) == (3, 4)
    restart(network, "jfk")
    network.progress()
    switch(network["jfk"], on=True)
    network.progress()
    assert left(network, "ewr") == 2, "what was acknowledged while it was off is told"
    network.full_states()
    assert reader(network, "jfk").read() == ["b", "d"]


def test_a_seek_does_not_cross_until_it_is_on_again() -> None:
    network = replicated()
    here = Worker(network, "ewr")
    here.read()
    here.ack("a", "b", "c", "d", "e")
    network.progress()
    switch(network["jfk"], on=False)
    administered(
        network["ewr"], lambda admin: admin.subscriptions.reset(TOPIC, "worker", here.positions["d"], is_excluded=False)
    )
    network.full_states()
    assert (left(network, "ewr"), left(network, "jfk")) == (2, 0)
    switch(network["jfk"], on=True)
    network.full_states()
    assert (left(network, "ewr"), left(network, "jfk")) == (2, 2)


def test_it_is_unprotected_and_says_why() -> None:
    network = replicated()
    switch(network["jfk"], on=False)
    restart(network, "jfk")
    status, reasons = protection(network["jfk"])
    assert (status, reasons) == ("unprotected", ["an administrator disabled its replication in this cluster"])
    switch(network["jfk"], on=True)
    network.carry()
    network.full_states()
    assert protection(network["jfk"]) == ("protected", [])


def test_deleted_here_it_is_not_brought_back_and_the_others_keep_it() -> None:
    network = replicated()
    switch(network["jfk"], on=False)
    delete(network["jfk"])
    network.full_states()
    assert "worker" not in network["jfk"].topic().subscriptions
    assert left(network, "ewr") == 5


def test_a_deletion_elsewhere_does_not_reach_it_and_switched_on_it_exists_everywhere_again() -> None:
    network = replicated()
    switch(network["jfk"], on=False)
    there = reader(network, "jfk")
    there.read()
    there.ack("a")
    there.leave()
    delete(network["ewr"])
    network.full_states()
    assert left(network, "jfk") == 4
    switch(network["jfk"], on=True)
    network.full_states()
    assert (left(network, "ewr"), left(network, "jfk")) == (4, 4)


def test_a_consumer_that_asks_for_replication_switches_it_on_as_in_pulsar_and_no_other_does() -> None:
    network = replicated()
    switch(network["jfk"], on=False)
    reader(network, "jfk").leave()
    assert not network["jfk"].subscription().is_replicated
    Worker(network, "jfk")
    assert network["jfk"].subscription().is_replicated
    restart(network, "jfk")
    assert network["jfk"].subscription().is_replicated


def test_one_that_was_never_replicated_can_be_kept_so() -> None:
    network = ClusterNetwork("ewr", "jfk")
    network.publish("ewr", "a")
    network.carry()
    reader(network, "jfk").leave()
    switch(network["jfk"], on=False)
    Worker(network, "ewr").leave()
    network.full_states()
    restart(network, "jfk")
    network.full_states()
    assert not network["jfk"].subscription().is_replicated
    switch(network["jfk"], on=True)
    network.carry()
    network.full_states()
    assert protection(network["jfk"]) == ("protected", [])


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
