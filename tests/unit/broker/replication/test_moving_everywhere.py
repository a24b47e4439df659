"""A seek in one cluster and its effects in others: no message is skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.ledger.rollover import ManagedLedgerConfig
from tests.unit.broker.world import Worker, World

if TYPE_CHECKING:
    from magnetar.base.position import Position

SMALL_LEDGERS = ManagedLedgerConfig(max_entries_per_ledger=1, min_rollover_ms=0)


def seek(world: World, name: str, mark_delete: Position | None = None) -> None:
    """Seek to just after ``mark_delete``, by default to the end."""
    subscription = world[name].subscription()
    target = subscription.topic.ledger.last_confirmed_entry if mark_delete is None else mark_delete
    world.loop.start(subscription.reset(target))
    world.settle()


def seek_to_earliest(world: World, name: str) -> None:
    seek(world, name, world[name].topic().log.before_first())


def consumed(*names: str) -> World:
    """Return clusters with two messages of the first cluster, acknowledged there."""
    world = World(*names)
    world.publish(names[0], "a", "b")
    worker = Worker(world, names[0])
    worker.ack(*worker.read())
    world.carry()
    world.progress()
    worker.leave()
    return world


def test_a_seek_reaches_the_others_also_after_a_partition() -> None:
    world = consumed("ewr", "jfk")
    world.cut("ewr", "jfk")
    seek_to_earliest(world, "jfk")
    world.heal("ewr", "jfk")
    assert Worker(world, "ewr").read() == ["a", "b"]


def test_of_two_seeks_at_once_one_holds_everywhere() -> None:
    world = consumed("ewr", "jfk")
    world.cut("ewr", "jfk")
    seek_to_earliest(world, "ewr")
    seek(world, "jfk", world["jfk"].topic().ledger.first_position)
    world.heal("ewr", "jfk")
    for name in ("ewr", "jfk"):
        worker = Worker(world, name)
        assert worker.read() == ["b"], name
        worker.leave()


def test_consumers_in_other_clusters_subscribe_again_so_that_late_acknowledgements_do_not_count() -> None:
    world = consumed("ewr", "jfk")
    world.publish("ewr", "c")
    worker = Worker(world, "ewr")
    assert worker.read() == ["c"]
    world.progress()
    seek_to_earliest(world, "jfk")
    world.progress()
    assert worker.client.take("CLOSE_CONSUMER")
    worker.ack("c")
    again = Worker(world, "ewr")
    assert again.read() == ["a", "b", "c"]


def test_going_to_the_end_brings_nothing_back_of_what_has_not_arrived() -> None:
    world = consumed("ewr", "jfk", "sfo")
    world.publish("sfo", "only in ewr and sfo")
    world.carry("sfo", "ewr")
    worker = Worker(world, "ewr")
    worker.ack(*worker.read())
    world.publish("ewr", "late")
    worker.ack(*worker.read())
    world.progress()
    seek(world, "jfk")
    world.progress()
    world.carry()
    for name in world.clusters:
        other = Worker(world, name)
        assert other.read() == [], name
        other.leave()


def test_going_to_the_end_where_a_link_began_in_the_middle_leaves_the_rest_to_those_who_have_it() -> None:
    world = World("ewr", "jfk", "sfo", ledger_config=SMALL_LEDGERS)
    for text in ("a", "b"):
        world.publish("ewr", text)
    world.carry("ewr", "sfo")
    trim(world, "ewr", also_before="jfk")
    world.publish("ewr", "c")
    world.carry()
    Worker(world, "sfo").leave()
    world.progress()
    seek(world, "jfk")
    world.progress()
    assert Worker(world, "sfo").read() == ["a"], "b was the newest in ewr, and stayed, so jfk has it"


def test_going_to_the_earliest_entry_where_retention_is_shorter_passes_nobody_over() -> None:
    world = World("ewr", "jfk", ledger_config=SMALL_LEDGERS)
    for text in ("a", "b", "c"):
        world.publish("ewr", text)
    world.carry()
    trim(world, "ewr")
    world.cut("ewr", "jfk")
    Worker(world, "jfk").leave()
    Worker(world, "ewr").leave()
    world.heal("ewr", "jfk")
    seek_to_earliest(world, "ewr")
    world.progress()
    assert Worker(world, "jfk").read() == ["a", "b", "c"]
    world["jfk"].clients[-1].leave()
    seek(world, "ewr")
    world.progress()
    assert Worker(world, "jfk").read() == ["a", "b"]


def trim(world: World, name: str, also_before: str | None = None) -> None:
    """Delete all ledgers of ``name`` but the newest, even before ``also_before`` has got their entries."""
    topic = world[name].topic()
    if also_before is not None:
        cursor = topic.replicators[also_before].cursor
        world[name].do(lambda: cursor.acknowledge_cumulative(topic.ledger.last_confirmed_entry))
    world[name].trim()
    assert not topic.ledger.contains(topic.log.before_first())
