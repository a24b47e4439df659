"""Entries that a cluster published and lost with its data are counted by their holders until acknowledged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from magnetar.admin.partitioned import PartitionedTopicStats
from magnetar.admin.topic_service import StatsOptions
from magnetar.base.life import Life
from magnetar.base.position import Position
from magnetar.broker.admin.stats import topic_stats
from magnetar.broker.loop import slices
from magnetar.broker.loop.slices import SLICE_ITEMS_MAX, at_once
from magnetar.broker.replication.progress.lost_entries import LostEntries, LostOf
from magnetar.broker.replication.protection import subscription_protection
from magnetar.cursor.ranges import Range
from magnetar.cursor.state import CursorState
from magnetar.geo.origins.index import OriginIndex
from magnetar.sim.virtual.loop import HandClock, HandLoop
from tests.unit.broker.network import ClusterNetwork, Worker

if TYPE_CHECKING:
    import pytest

    from magnetar.admin.models.protection import ClusterProtection
    from magnetar.broker.topic.topic import Topic

SECOND_LIFE = 1_000
"""First ledger id of the rebuilt cluster."""


def begin_life(network: ClusterNetwork, name: str, first_ledger_id: int) -> None:
    """Set the life of a cluster, which its peers learn."""
    store = network[name].store
    store.ids.begin_at(first_ledger_id)
    store.life = Life(f"{name}-{first_ledger_id}", first_ledger_id)


def rebuild(network: ClusterNetwork, name: str, peer: str) -> None:
    """Replace a cluster's disk by an empty one."""
    network.cut(name, peer)
    for topic in network[name].topics.loaded.values():
        topic.progress.close()
    network.add(name, targets=[peer])
    begin_life(network, name, SECOND_LIFE)
    for pipe in network.pipes.values():
        pipe.lease, pipe.copies = 100, False
    network.heal(name, peer)


def in_stats(network: ClusterNetwork) -> int | None:
    """Return the same figure from the subscription's statistics."""
    found = topic_stats(network["ewr"].topic(), StatsOptions()).subscriptions["worker"].progress_lost
    assert found is not None
    return found["jfk"]


def told(network: ClusterNetwork) -> ClusterProtection:
    """Return the protection status of ewr's subscription towards jfk."""
    topic = network["ewr"].topic()
    found: ClusterProtection = network["ewr"].do(lambda: subscription_protection(topic))["worker"].clusters["jfk"]
    return found


def scenario() -> tuple[ClusterNetwork, Worker]:
    """jfk published five messages, of which a consumer in ewr acknowledged two; then jfk lost its disk."""
    network = ClusterNetwork("ewr", "jfk")
    begin_life(network, "jfk", 200)
    worker = Worker(network, "ewr")
    network.publish("jfk", "a", "b", "c", "d", "e")
    network.publish("ewr", "own")
    network.carry()
    network.progress()
    assert sorted(worker.read()) == ["a", "b", "c", "d", "e", "own"]
    worker.ack("a", "c")
    network.progress()
    assert told(network).lost_messages == 0
    return network, worker


def test_lost_entries_of_a_rebuilt_cluster_are_counted_until_acknowledged() -> None:
    network, worker = scenario()
    rebuild(network, "jfk", "ewr")
    network.publish("jfk", "f")
    network.carry()
    network.progress()
    found = told(network)
    assert (found.lost_messages, found.unreplicated_messages, found.status) == (3, 0, "at risk")
    assert in_stats(network) == 3
    assert found.reasons == ["jfk: 3 messages that it published before it lost its data were not sent back to it yet"]
    worker.read()
    worker.ack("b", "d", "e", "f", "own")
    network.progress()
    found = told(network)
    assert (found.lost_messages, found.status, found.reasons) == (0, "protected", [])


def test_a_subscription_is_not_protected_while_lost_entries_are_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    network = ClusterNetwork("ewr", "jfk")
    begin_life(network, "jfk", 200)
    Worker(network, "ewr")
    for text in ("a", "b", "c"):
        network.publish("jfk", text)
        network.publish("ewr", f"after {text}")
        network.carry()
    network.progress()
    assert told(network).status == "protected"
    rebuild(network, "jfk", "ewr")
    network.carry()
    network.progress()
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 1)
    found = told(network)
    assert (found.lost_messages, found.status) == (None, "at risk")
    assert found.reasons == ["jfk: the messages that it published before it lost its data are still being searched for"]
    found = told(network)
    assert (found.lost_messages, found.status) == (3, "at risk")


def test_a_subscription_is_not_protected_while_the_connection_to_the_cluster_is_made_again() -> None:
    network, _ = scenario()
    rebuild(network, "jfk", "ewr")
    network.carry()
    network.progress()
    before = told(network)
    assert (before.lost_messages, before.status) == (3, "at risk")
    network.cut("ewr", "jfk")
    found = told(network)
    assert (found.lost_messages, found.status, found.reasons) == (None, "at risk", before.reasons)
    network.progress(5.0)
    assert told(network).reasons[1:] == before.reasons, "and the link is down"


def test_it_is_unknown_while_the_other_cluster_has_not_said_which_life_it_is_in() -> None:
    network, _ = scenario()
    network.cut("ewr", "jfk")
    network.progress()
    assert told(network).lost_messages is None
    assert in_stats(network) is None
    known, unknown = (topic_stats(network["ewr"].topic(), StatsOptions()) for _ in range(2))
    known.subscriptions["worker"].progress_lost = {"jfk": 4}
    total = at_once(PartitionedTopicStats.steps([known, unknown]))
    assert total.subscriptions["worker"].progress_lost == {"jfk": None}
    assert "lostMessages" not in told(network).to_json()
    network.heal("ewr", "jfk")
    assert told(network).lost_messages == 0
    rebuild(network, "jfk", "ewr")
    network["jfk"].store.life = None
    network.cut("ewr", "jfk")
    network.heal("ewr", "jfk")
    assert told(network).lost_messages is None, "a cluster of an earlier release names no life"


def test_the_count_is_that_of_each_entry_taken_by_itself() -> None:
    index = OriginIndex("ewr")
    held: dict[Position, Position] = {}  # origin position by local position
    local = 0
    for ledger_id in (10, 12, 20):
        for entry_id in range(0, 30, 3):
            first = Position(ledger_id, entry_id)
            index.append("jfk", first, 2, Position(1, local))
            held |= {Position(1, local + each): Position(ledger_id, entry_id + each) for each in (0, 1)}
            index.append("ewr", Position(1, local + 2), 1, Position(1, local + 2))
            local += 3
    log = _Log()
    found = {each: LostOf(index, "jfk", Life("second", each)) for each in (1, 10, 11, 12, 13, 20, 21)}
    assert all(each.search(lambda: False) for each in found.values())
    for mark in range(-1, local, 7):
        state = CursorState(log, Position(1, mark))
        state.acknowledge_ranges(
            Range(Position(1, each), Position(1, each + each % 3)) for each in range(4, local - 2, 5)
        )
        for first_ledger_id, lost in found.items():
            expected = sum(
                origin.ledger_id < first_ledger_id and not state.is_deleted(at) for at, origin in held.items()
            )
            assert lost.unacknowledged(state) == expected, (mark, first_ledger_id)


def test_many_extents_are_looked_at_in_several_turns_of_the_event_loop() -> None:
    loop, index, life = HandLoop(), OriginIndex("ewr"), Life("second", 100)
    extents = 5 * SLICE_ITEMS_MAX
    for entry_id in range(extents):
        index.append("jfk", Position(10, entry_id), 1, Position(1, 2 * entry_id))
        index.append("ewr", Position(1, 2 * entry_id + 1), 1, Position(1, 2 * entry_id + 1))
    topic = SimpleNamespace(
        environment=SimpleNamespace(loop=loop, clock=HandClock(loop)),
        ledger=SimpleNamespace(first_position=Position(1, 0)),
        log=SimpleNamespace(index=index),
        progress=SimpleNamespace(life_of=lambda _: life),
        replicators={},
    )
    lost = LostEntries(cast("Topic", topic))
    state = CursorState(_Log(), Position(1, 3))
    assert lost.unacknowledged("jfk", CursorState(_Log(), Position(1, 2 * extents))) == 0, "no extent to look at"
    assert lost.unacknowledged("jfk", state) is None
    assert lost.unacknowledged("jfk", state) is None, "the work is under way, and asking does not hasten it"
    loop.spin()
    assert lost.unacknowledged("jfk", state) == extents - 2
    index.append("jfk", Position(11, 0), 2, Position(2, 0))  # it was in flight when the data was lost
    assert lost.unacknowledged("jfk", state) == extents
    topic.ledger.first_position = Position(2, 0)
    assert lost.unacknowledged("jfk", state) == 2, "a ledger that was trimmed"


def test_nothing_that_is_acknowledged_in_the_rebuilt_cluster_covers_what_it_lost() -> None:
    network, _ = scenario()
    rebuild(network, "jfk", "ewr")
    network.carry()
    there = Worker(network, "jfk")
    network.publish("jfk", "f", "g")
    there.read()
    there.client.ack(there.positions["f"], cumulative=True)
    network.progress()
    assert told(network).lost_messages == 3
    subscription = network["jfk"].subscription()
    network["jfk"].do(lambda: subscription.acknowledge_through(subscription.topic.ledger.last_confirmed_entry))
    network.progress()
    assert (network["jfk"].subscription().backlog, told(network).lost_messages) == (0, 3)
    network.full_states()
    assert told(network).lost_messages == 3


class _Log:
    """A log with one ledger."""

    def next_position(self, position: Position) -> Position:
        return position._replace(entry_id=position.entry_id + 1)

    def previous_position(self, position: Position) -> Position:
        return position._replace(entry_id=position.entry_id - 1)

    def count(self, after: Position, through: Position) -> int:
        return through.entry_id - after.entry_id
