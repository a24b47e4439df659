"""A cluster that loses entries with the power claims nothing about them: other clusters may have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.broker.world import Worker, World

if TYPE_CHECKING:
    from magnetar.base.position import Position


def backlogs(world: World) -> list[int]:
    return [cluster.subscription().backlog for cluster in world.clusters.values()]


def lose_power(world: World, first: Position) -> None:
    """Remove all entries of a ledger of ewr but the first, and close its connections."""
    world["ewr"].lose_power(first.ledger_id, 1)
    reconnect(world, "ewr")


def reconnect(world: World, name: str) -> None:
    others = [other for other in world.clusters if other != name]
    for other in others:
        world.cut(name, other)
    for other in others:
        world.heal(name, other)


def world_with_a_loss() -> tuple[World, Position]:
    """Publish a, b and c in ewr, which loses b and c; jfk has all three, and ord only a."""
    world = World("ewr", "jfk", "ord")
    for name in world.clusters:
        Worker(world, name).leave()
    world.progress()
    (first,) = world.publish("ewr", "a")
    world.carry()
    world.publish("ewr", "b", "c")
    world.carry("ewr", "jfk")
    lose_power(world, first)
    return world, first


def test_what_the_origin_acknowledges_leaves_others_what_it_lost() -> None:
    world, _ = world_with_a_loss()
    world.publish("ewr", "d")
    world.carry()
    at_origin = Worker(world, "ewr")
    assert at_origin.read() == ["a", "d"]
    at_origin.ack("a", "d")
    world.full_states()
    assert backlogs(world) == [0, 2, 0]
    assert Worker(world, "jfk").read() == ["b", "c"]


def test_what_a_target_without_the_lost_entries_acknowledges_leaves_others_them() -> None:
    world, _ = world_with_a_loss()
    world.publish("ewr", "d")
    world.carry()
    elsewhere = Worker(world, "ord")
    assert elsewhere.read() == ["a", "d"]
    elsewhere.ack("a", "d")
    world.full_states()
    assert backlogs(world) == [0, 2, 0]


def test_that_holds_after_several_losses_and_once_the_log_was_read_again() -> None:
    world, _ = world_with_a_loss()
    (second,) = world.publish("ewr", "d")
    world.carry()
    world.publish("ewr", "e")
    world.carry("ewr", "jfk")
    lose_power(world, second)
    world.publish("ewr", "f")
    world.carry()
    for name in world.clusters:
        world[name].crash()
        reconnect(world, name)
    for name in ("ewr", "ord"):
        worker = Worker(world, name)
        held = worker.read()
        worker.ack(*held)
        worker.leave()
        world.full_states()
    assert backlogs(world) == [0, 3, 0]
    assert Worker(world, "jfk").read() == ["b", "c", "e"]


def test_a_seek_to_the_end_leaves_others_what_the_origin_lost() -> None:
    world, _ = world_with_a_loss()
    world.publish("ewr", "d")
    world.carry()
    subscription = world["ewr"].subscription()
    world.loop.start(subscription.reset(subscription.topic.ledger.last_confirmed_entry))
    world.full_states()
    assert backlogs(world) == [0, 2, 0]
