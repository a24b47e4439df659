"""Entries that a cluster published and lost with its data are sent back by their holders, each once."""

from __future__ import annotations

from magnetar.base.life import Life
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.broker.replication.protection import subscription_protection
from magnetar.geo.origins.index import OriginIndex
from magnetar.geo.origins.intervals import Interval
from magnetar.geo.progress.seeking import begun, sought
from magnetar.geo.progress.state import OriginProgress, SubscriptionProgress
from magnetar.sim.pipe import read_all
from magnetar.wire import commands
from tests.unit.broker.network import ClusterNetwork, Worker


def begin_life(network: ClusterNetwork, name: str, first_ledger_id: int) -> None:
    store = network[name].store
    store.ids.begin_at(first_ledger_id)
    store.life = Life(f"{name}-{first_ledger_id}", first_ledger_id)


def rebuild(network: ClusterNetwork, name: str, first_ledger_id: int = 1_000) -> None:
    """Replace a cluster's disk by an empty one."""
    others = [each for each in network.clusters if each != name]
    for other in others:
        network.cut(name, other)
    for topic in network[name].topics.loaded.values():
        topic.progress.close()
    network.add(name, targets=others)
    begin_life(network, name, first_ledger_id)
    for pipe in network.pipes.values():
        pipe.lease = 100  # the leases of the rebuilt cluster are new
    for other in others:
        network.heal(name, other)


def scenario(*names: str) -> tuple[ClusterNetwork, Worker]:
    """jfk published; a consumer in ewr acknowledged "a" and "c"; then jfk lost its disk."""
    network = ClusterNetwork(*names)
    begin_life(network, "jfk", 200)
    worker = Worker(network, "ewr")
    network.publish("jfk", "a", "b", "c", "d", "e")
    network.publish("ewr", "own")
    carry(network)
    worker.read()
    worker.ack("a", "c")
    network.progress()
    return network, worker


def carry(network: ClusterNetwork) -> None:
    """Carry all entries; copies need an attachment of their own."""
    for _ in range(3):
        network.carry()
        network.progress()


def lost(network: ClusterNetwork, name: str = "ewr") -> int | None:
    topic = network[name].topic()
    return topic.progress.lost.unacknowledged("jfk", topic.subscriptions["worker"].cursor.state)


def status(network: ClusterNetwork) -> str:
    """Return the protection status of ewr's subscription."""
    topic = network["ewr"].topic()
    found: str = network["ewr"].do(lambda: subscription_protection(topic))["worker"].status
    return found


def test_unacknowledged_messages_are_delivered_once_in_the_rebuilt_cluster() -> None:
    network, _ = scenario("ewr", "jfk")
    rebuild(network, "jfk")
    assert lost(network) == 3
    network.publish("jfk", "f")
    there = Worker(network, "jfk")
    carry(network)
    assert lost(network) == 0
    assert sorted(read_all(network["jfk"])) == ["a", "b", "c", "d", "e", "f", "own"]
    assert sorted(there.read()) == ["b", "d", "e", "f", "own"]
    carry(network)
    assert len(read_all(network["jfk"])) == 7
    there.ack("b", "d", "f")
    network.progress()
    state = network["ewr"].subscription().cursor.state
    assert network["ewr"].subscription().backlog == 2
    assert state.deleted_ranges_count or state.mark_delete_position


def test_two_clusters_that_hold_the_same_entries_make_one_copy() -> None:
    network, _ = scenario("ewr", "jfk", "lga")
    rebuild(network, "jfk")
    there = Worker(network, "jfk")
    carry(network)
    assert sorted(read_all(network["jfk"])) == ["a", "b", "c", "d", "e", "own"]
    assert sorted(there.read()) == ["b", "d", "e", "own"]
    assert sorted(read_all(network["ewr"])) == sorted(read_all(network["lga"])) == ["a", "b", "c", "d", "e", "own"]


def test_it_goes_on_after_restarts_of_both_sides() -> None:
    network, _ = scenario("ewr", "jfk")
    rebuild(network, "jfk")
    pipe = network.pipes["ewr", "jfk"]
    pipe.attach(permits=2)
    pipe.send(1)
    pipe.confirm()
    network.settle()
    network["jfk"].crash()
    network["ewr"].crash()
    network.progress(6)
    carry(network)
    there = Worker(network, "jfk")
    assert sorted(read_all(network["jfk"])) == ["a", "b", "c", "d", "e", "own"]
    assert sorted(there.read()) == ["b", "d", "e", "own"]
    network["jfk"].crash()
    carry(network)
    assert sorted(read_all(network["jfk"])) == ["a", "b", "c", "d", "e", "own"]
    assert network["jfk"].topic().log.index.origin_of(Position(0, 0)) is None


def test_a_copy_that_is_lost_on_the_way_is_sent_again() -> None:
    network, _ = scenario("ewr", "jfk")
    rebuild(network, "jfk")
    pipe = network.pipes["ewr", "jfk"]
    for at in (0, 2, 4):
        pipe.attach(permits=100)
        del pipe.carried[at : at + 1]
        pipe.send(100)
        network.settle()
    carry(network)
    assert sorted(read_all(network["jfk"])) == ["a", "b", "c", "d", "e", "own"]


def test_a_damaged_copy_is_skipped_and_the_count_is_not_known_until_it_is_acknowledged() -> None:
    network, worker = scenario("ewr", "jfk")
    store = network["ewr"].store
    store.damaged = {each for ledger in store.ledgers.values() for each in ledger.entries if each.endswith(b"d")}
    assert len(store.damaged) == 1
    store.cached = False
    rebuild(network, "jfk")
    assert lost(network) == 3
    carry(network)
    assert sorted(read_all(network["jfk"])) == ["a", "b", "c", "e", "own"]
    assert lost(network) is None
    assert status(network) == "at risk", "a consumer that moves to jfk does not get it"
    network["ewr"].crash()
    network.progress()
    carry(network)
    assert lost(network) is None, "it is known after a restart, too"
    assert status(network) == "at risk"
    worker.client = network["ewr"].client()
    worker.client.subscribe(replicate_subscription_state=True)
    worker.ack("b", "d", "e", "own")
    network.progress()
    assert lost(network) == 0
    assert status(network) == "protected"
    rebuild(network, "jfk", 2_000)
    store.damaged = set()
    carry(network)
    assert len(read_all(network["jfk"])) == 6, "the next life gets what can be read again by then"


def test_a_damaged_copy_that_is_restored_is_returned_after_a_restart() -> None:
    network, _ = scenario("ewr", "jfk")
    store = network["ewr"].store
    store.damaged = {each for ledger in store.ledgers.values() for each in ledger.entries if each.endswith(b"d")}
    store.cached = False
    rebuild(network, "jfk")
    carry(network)
    assert lost(network) is None
    store.damaged = set()
    network["ewr"].crash()
    network.progress()
    carry(network)
    assert sorted(read_all(network["jfk"])) == ["a", "b", "c", "d", "e", "own"]
    assert lost(network) == 0


def test_copies_before_a_damaged_one_are_returned_to_each_life() -> None:
    network, _ = scenario("ewr", "jfk")
    store = network["ewr"].store
    store.damaged = {each for ledger in store.ledgers.values() for each in ledger.entries if each.endswith(b"e")}
    store.cached = False
    for first_ledger_id in (1_000, 2_000):
        rebuild(network, "jfk", first_ledger_id)
        carry(network)
        assert sorted(read_all(network["jfk"])) == ["a", "b", "c", "d", "own"]


def test_a_pipeline_of_an_earlier_release_carries_no_copies() -> None:
    network, _ = scenario("ewr", "jfk")
    rebuild(network, "jfk")
    pipe = network.pipes["ewr", "jfk"]
    pipe.copies = False
    carry(network)
    assert read_all(network["jfk"]) == ["own"]
    assert lost(network) == 3
    pipe.copies = True
    carry(network)
    assert len(read_all(network["jfk"])) == 6


def test_a_seek_counts_each_returned_entry_by_its_place_in_the_log() -> None:
    network, _ = scenario("ewr", "jfk")
    rebuild(network, "jfk")
    network.publish("jfk", "f")
    there = Worker(network, "jfk")
    carry(network)
    ledger = network["jfk"].topic().ledger
    for to, left in ((ledger.last_confirmed_entry, ["own"]), (Position(0, 0), ["a", "b", "c", "d", "e", "f", "own"])):
        there.client.say(commands.seek(consumer_id=1, request_id=there.client.request_id(), position=to))
        network.progress()
        there = Worker(network, "jfk")
        assert sorted(there.read()) == left
        state, index = network["jfk"].subscription().progress, network["jfk"].topic().log.index
        assert state is not None
        cursor = network["jfk"].subscription().cursor.state
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


def test_a_subscription_that_begins_after_returned_entries_starts_after_them() -> None:
    network, _ = scenario("ewr", "jfk")
    rebuild(network, "jfk")
    carry(network)
    late = Worker(network, "jfk", subscription="late", initialPosition=0)
    carry(network)
    assert late.read() == []
    assert Worker(network, "ewr", subscription="late").read() == []


def test_returned_entries_after_the_beginning_of_a_subscription_belong_to_it() -> None:
    index = OriginIndex("jfk")
    index.append_returned(Position(5, 0), 1, Position(9, 0), Position(5, -1))
    index.append("jfk", Position(9, 1), 1, Position(9, 1))
    index.append_returned(Position(5, 1), 2, Position(9, 2), Position(5, 0))
    found = begun(index, Position(9, 2))["jfk"]
    outside = [
        p for p in (Position(5, 0), Position(5, 1), Position(9, 1)) if p <= found.start or p in found.acknowledged
    ]
    assert outside == [Position(5, 0), Position(5, 1), Position(9, 1)]
    assert found.start < Position(5, 2)
    assert Position(5, 2) not in found.acknowledged


def test_trimmed_returned_entries_are_not_accepted_again() -> None:
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
