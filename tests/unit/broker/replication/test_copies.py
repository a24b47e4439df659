"""Entries that a cluster published and lost with its data are sent back by their holders, each once."""

from __future__ import annotations

from magnetar.base.life import Life
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.geo.origins.index import OriginIndex
from magnetar.geo.origins.intervals import Interval
from magnetar.geo.progress.seeking import sought
from magnetar.geo.progress.state import OriginProgress, SubscriptionProgress
from magnetar.sim.pipe import read_all
from magnetar.wire import commands
from tests.unit.broker.world import Worker, World


def begin_life(world: World, name: str, first_ledger_id: int) -> None:
    store = world[name].store
    store.begin_at(first_ledger_id)
    store.life = Life(f"{name}-{first_ledger_id}", first_ledger_id)


def rebuild(world: World, name: str, first_ledger_id: int = 1_000) -> None:
    """Replace a cluster's disk by an empty one."""
    others = [each for each in world.clusters if each != name]
    for other in others:
        world.cut(name, other)
    for topic in world[name].topics.loaded.values():
        topic.progress.close()
    world.add(name, targets=others)
    begin_life(world, name, first_ledger_id)
    for pipe in world.pipes.values():
        pipe.lease = 100  # the leases of the rebuilt cluster are new
    for other in others:
        world.heal(name, other)


def story(*names: str) -> tuple[World, Worker]:
    """jfk published; a consumer in ewr acknowledged "a" and "c"; then jfk lost its disk."""
    world = World(*names)
    begin_life(world, "jfk", 200)
    worker = Worker(world, "ewr")
    world.publish("jfk", "a", "b", "c", "d", "e")
    world.publish("ewr", "own")
    carry(world)
    worker.read()
    worker.ack("a", "c")
    world.progress()
    return world, worker


def carry(world: World) -> None:
    """Carry all entries; copies need an attachment of their own."""
    for _ in range(3):
        world.carry()
        world.progress()


def lost(world: World, name: str = "ewr") -> int | None:
    topic = world[name].topic()
    return topic.progress.lost.unacknowledged("jfk", topic.subscriptions["worker"].cursor.state)


def test_what_was_not_acknowledged_is_delivered_in_the_rebuilt_cluster_once() -> None:
    world, _ = story("ewr", "jfk")
    rebuild(world, "jfk")
    assert lost(world) == 3
    world.publish("jfk", "f")
    there = Worker(world, "jfk")
    carry(world)
    assert lost(world) == 0
    assert sorted(read_all(world["jfk"])) == ["a", "b", "c", "d", "e", "f", "own"]
    assert sorted(there.read()) == ["b", "d", "e", "f", "own"]
    carry(world)
    assert len(read_all(world["jfk"])) == 7
    there.ack("b", "d", "f")
    world.progress()
    state = world["ewr"].subscription().cursor.state
    assert world["ewr"].subscription().backlog == 2
    assert state.deleted_ranges_count or state.mark_delete_position


def test_two_clusters_that_hold_the_same_entries_make_one_copy() -> None:
    world, _ = story("ewr", "jfk", "lga")
    rebuild(world, "jfk")
    there = Worker(world, "jfk")
    carry(world)
    assert sorted(read_all(world["jfk"])) == ["a", "b", "c", "d", "e", "own"]
    assert sorted(there.read()) == ["b", "d", "e", "own"]
    assert sorted(read_all(world["ewr"])) == sorted(read_all(world["lga"])) == ["a", "b", "c", "d", "e", "own"]


def test_it_goes_on_after_restarts_of_both_sides() -> None:
    world, _ = story("ewr", "jfk")
    rebuild(world, "jfk")
    pipe = world.pipes["ewr", "jfk"]
    pipe.attach(permits=2)
    pipe.send(1)
    pipe.confirm()
    world.settle()
    world["jfk"].crash()
    world["ewr"].crash()
    world.progress(6)
    carry(world)
    there = Worker(world, "jfk")
    assert sorted(read_all(world["jfk"])) == ["a", "b", "c", "d", "e", "own"]
    assert sorted(there.read()) == ["b", "d", "e", "own"]
    world["jfk"].crash()
    carry(world)
    assert sorted(read_all(world["jfk"])) == ["a", "b", "c", "d", "e", "own"]
    assert world["jfk"].topic().log.index.origin_of(Position(0, 0)) is None


def test_a_copy_that_is_lost_on_the_way_is_sent_again() -> None:
    world, _ = story("ewr", "jfk")
    rebuild(world, "jfk")
    pipe = world.pipes["ewr", "jfk"]
    for at in (0, 2, 4):
        pipe.attach(permits=100)
        del pipe.carried[at : at + 1]
        pipe.send(100)
        world.settle()
    carry(world)
    assert sorted(read_all(world["jfk"])) == ["a", "b", "c", "d", "e", "own"]


def test_a_damaged_copy_is_skipped_and_the_count_is_not_known_until_it_is_acknowledged() -> None:
    world, worker = story("ewr", "jfk")
    store = world["ewr"].store
    store.damaged = {each for ledger in store.ledgers.values() for each in ledger.entries if each.endswith(b"d")}
    assert len(store.damaged) == 1
    store.cached = False
    rebuild(world, "jfk")
    assert lost(world) == 3
    carry(world)
    assert sorted(read_all(world["jfk"])) == ["a", "b", "c", "e", "own"]
    assert lost(world) is None
    world["ewr"].crash()
    world.progress()
    carry(world)
    assert lost(world) is None, "it is known after a restart, too"
    worker.client = world["ewr"].client()
    worker.client.subscribe(replicate_subscription_state=True)
    worker.ack("b", "d", "e", "own")
    world.progress()
    assert lost(world) == 0
    rebuild(world, "jfk", 2_000)
    store.damaged = set()
    carry(world)
    assert len(read_all(world["jfk"])) == 6, "the next life gets what can be read again by then"


def test_a_pipeline_of_an_earlier_release_carries_no_copies() -> None:
    world, _ = story("ewr", "jfk")
    rebuild(world, "jfk")
    pipe = world.pipes["ewr", "jfk"]
    pipe.copies = False
    carry(world)
    assert read_all(world["jfk"]) == ["own"]
    assert lost(world) == 3
    pipe.copies = True
    carry(world)
    assert len(read_all(world["jfk"])) == 6


def test_a_seek_counts_each_returned_entry_by_its_place_in_the_log() -> None:
    world, _ = story("ewr", "jfk")
    rebuild(world, "jfk")
    world.publish("jfk", "f")
    there = Worker(world, "jfk")
    carry(world)
    ledger = world["jfk"].topic().ledger
    for to, left in ((ledger.last_confirmed_entry, ["own"]), (Position(0, 0), ["a", "b", "c", "d", "e", "f", "own"])):
        there.client.say(commands.seek(consumer_id=1, request_id=there.client.request_id(), position=to))
        world.progress()
        there = Worker(world, "jfk")
        assert sorted(there.read()) == left
        state, index = world["jfk"].subscription().progress, world["jfk"].topic().log.index
        assert state is not None
        cursor = world["jfk"].subscription().cursor.state
        for at in range(7):
            place = Position(ledger.first_position.ledger_id, at)
            origin = index.origin_of(place)
            assert origin is not None
            known = state.state.origins.get(origin[0]) or OriginProgress()
            is_done = origin[1] <= known.start or origin[1] in known.acknowledged
            assert is_done == cursor.is_deleted(place), (place, origin)


def test_a_seek_to_a_returned_batch_makes_all_of_its_messages_wanted_again() -> None:
    index = OriginIndex("jfk")
    index.append("jfk", Position(9, 0), 1, Position(9, 0))
    index.append_returned(Position(5, 0), 2, Position(9, 1), Position(5, -1))
    state = SubscriptionProgress("worker")
    state.origin("jfk").narrow(Position(5, 0), 0b011)
    state.origin("jfk").narrow(Position(5, 1), 0b011)
    found = sought(index, state, Position(9, 1), to_end=False)["jfk"]
    assert Position(5, 0) in found.acknowledged
    assert Position(5, 1) not in found.acknowledged
    assert list(found.partial) == []


def test_what_came_back_and_was_trimmed_is_not_taken_again() -> None:
    index = OriginIndex("jfk")
    index.append_returned(Position(5, 0), 3, Position(9, 0), Position(5, -1))
    index.append_returned(Position(5, 7), 2, Position(9, 3), Position(5, 2))
    kept = index.returned_through(Position(9, 2))
    assert kept.bounds(0, len(kept)) == [Position(5, -1), Position(5, 2)]
    index.append_returned(Position(5, 3), 1, Position(9, 5), Position(5, 2))  # of another cluster
    index.trim(Position(9, 5))
    assert list(index.returned_in(EARLIEST, LATEST)) == [Interval(Position(5, 2), Position(5, 3))]
    found = OriginIndex("jfk", returned=index.returned_through(Position(9, 4)))
    assert all(Position(5, each) in found.seen for each in (0, 1, 2, 7, 8))
    assert Position(5, 9) not in found.seen
