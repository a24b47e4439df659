"""A cluster that loses entries with the power claims nothing about them: other clusters may have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.broker.network import ClusterNetwork, Worker

if TYPE_CHECKING:
    from magnetar.base.position import Position


def backlogs(network: ClusterNetwork) -> list[int]:
    return [cluster.subscription().backlog for cluster in network.clusters.values()]


def lose_power(network: ClusterNetwork, first: Position) -> None:
    """Remove all entries of a ledger of ewr but the first, and close its connections."""
    network["ewr"].lose_power(first.ledger_id, 1)
    reconnect(network, "ewr")


def reconnect(network: ClusterNetwork, name: str) -> None:
    others = [other for other in network.clusters if other != name]
    for other in others:
        network.cut(name, other)
    for other in others:
        network.heal(name, other)


def network_with_a_loss() -> tuple[ClusterNetwork, Position]:
    """Publish a, b and c in ewr, which loses b and c; jfk has all three, and ord only a."""
    network = ClusterNetwork("ewr", "jfk", "ord")
    for name in network.clusters:
        Worker(network, name).leave()
    network.progress()
    (first,) = network.publish("ewr", "a")
    network.carry()
    network.publish("ewr", "b", "c")
    network.carry("ewr", "jfk")
    lose_power(network, first)
    return network, first


def test_acknowledgements_of_the_origin_exclude_its_lost_entries() -> None:
    network, _ = network_with_a_loss()
    network.publish("ewr", "d")
    network.carry()
    at_origin = Worker(network, "ewr")
    assert at_origin.read() == ["a", "d"]
    at_origin.ack("a", "d")
    network.full_states()
    assert backlogs(network) == [0, 2, 0]
    assert Worker(network, "jfk").read() == ["b", "c"]


def test_acknowledgements_of_a_target_exclude_entries_it_never_got() -> None:
    network, _ = network_with_a_loss()
    network.publish("ewr", "d")
    network.carry()
    elsewhere = Worker(network, "ord")
    assert elsewhere.read() == ["a", "d"]
    elsewhere.ack("a", "d")
    network.full_states()
    assert backlogs(network) == [0, 2, 0]


def test_that_holds_after_several_losses_and_once_the_log_was_read_again() -> None:
    network, _ = network_with_a_loss()
    (second,) = network.publish("ewr", "d")
    network.carry()
    network.publish("ewr", "e")
    network.carry("ewr", "jfk")
    lose_power(network, second)
    network.publish("ewr", "f")
    network.carry()
    for name in network.clusters:
        network[name].crash()
        reconnect(network, name)
    for name in ("ewr", "ord"):
        worker = Worker(network, name)
        held = worker.read()
        worker.ack(*held)
        worker.leave()
        network.full_states()
    assert backlogs(network) == [0, 3, 0]
    assert Worker(network, "jfk").read() == ["b", "c", "e"]


def test_a_seek_to_the_end_leaves_others_what_the_origin_lost() -> None:
    network, _ = network_with_a_loss()
    network.publish("ewr", "d")
    network.carry()
    subscription = network["ewr"].subscription()
    network.loop.start(subscription.reset(subscription.topic.ledger.last_confirmed_entry))
    network.full_states()
    assert backlogs(network) == [0, 2, 0]
