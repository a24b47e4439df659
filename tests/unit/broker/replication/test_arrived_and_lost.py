"""Acknowledged entries that arrive and then cannot be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.geo.progress.codec import encode_markers
from magnetar.geo.progress.state import SubscriptionProgress
from magnetar.sim.cluster import Cluster
from magnetar.sim.pipe import Pipe
from magnetar.sim.virtual.loop import HandLoop

if TYPE_CHECKING:
    from magnetar.base.position import Position


def acknowledge(source: Cluster, target: Cluster, first: Position, last: Position) -> None:
    """Report to ``target`` that ``source`` acknowledged these entries of its own."""
    state = SubscriptionProgress("worker")
    state.origin(source.name).acknowledge(first._replace(entry_id=first.entry_id - 1), last)
    (payload,) = encode_markers(source.name, [state])
    topic = target.topic()
    target.do(lambda: topic.progress.receive(source.name, payload, lambda _: None, lambda _: None))


def test_mark_delete_gets_past_what_failed_to_be_written() -> None:
    loop = HandLoop()
    source, target = Cluster("ewr", ["jfk"], loop=loop), Cluster("jfk", ["ewr"], loop=loop)
    pipe = Pipe(source, target)
    publisher = source.client()
    publisher.produce()
    publisher.send("a", "b", "c", "d")
    positions = [position for _, position in publisher.receipts()]
    target.client().subscribe(replicate_subscription_state=True, permits=0)
    pipe.attach()
    pipe.send(1)
    acknowledge(source, target, positions[2], positions[3])  # before they arrive
    target.prompt = False
    pipe.send(3)
    target.fail()
    target.prompt = True
    target.settle()

    pipe.attach()
    pipe.run()
    assert target.subscription().backlog == 2
    acknowledge(source, target, positions[0], positions[1])
    state = target.subscription().cursor.state
    assert target.subscription().backlog == 0
    assert state.mark_delete_position == target.topic().ledger.last_confirmed_entry
