"""Shared: entries are sent in runs, to the same consumers as if each was dispatched separately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.sim.cluster import Client, Cluster, entry
from magnetar.wire import commands

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUND_ROBIN = 5
"""Messages per consumer before the next one (``dispatcherMaxRoundRobinBatchSize``)."""


@dataclass
class Twin:
    """A consumer in the reference dispatcher."""

    number: int
    permits: int
    priority: int
    unacked: int = 0
    blocked: bool = False


def one_by_one(batches: Sequence[int], consumers: list[Twin], per_consumer: int, in_all: int) -> list[tuple[int, int]]:
    """Return (consumer, entry) for each entry, from a reference dispatcher that decides entry by entry."""
    dealt: list[tuple[int, int]] = []
    turn = sent_in_turn = 0
    for index, messages in enumerate(batches):
        ready = [consumer for consumer in consumers if consumer.permits > 0 and not consumer.blocked]
        if not ready or (in_all and sum(consumer.unacked for consumer in consumers) >= in_all):
            break
        candidates = [consumer for consumer in ready if consumer.priority == min(other.priority for other in ready)]
        if len(ready) > 1 and sent_in_turn >= ROUND_ROBIN:
            turn += 1
            sent_in_turn = 0
        consumer = candidates[turn % len(candidates)]
        consumer.permits -= messages
        consumer.unacked += messages
        consumer.blocked = bool(per_consumer) and consumer.unacked >= per_consumer
        sent_in_turn += messages
        dealt.append((consumer.number, index))
    return dealt


def publish(client: Client, batches: Sequence[int]) -> None:
    client.produce()
    frames = [
        commands.send(
            producer_id=1,
            sequence_id=index,
            num_messages=messages,
            entry=entry(str(index), num_messages_in_batch=messages) if messages > 1 else entry(str(index)),
        )
        for index, messages in enumerate(batches)
    ]
    client.say(*frames)


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.integers(1, 4), min_size=1, max_size=40),
    consumers=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 1)), min_size=1, max_size=3),
    per_consumer=st.just(0) | st.integers(1, 20),
    in_all=st.just(0) | st.integers(1, 30),
)
def test_runs_go_where_single_entries_would(
    batches: list[int], consumers: list[tuple[int, int]], per_consumer: int, in_all: int
) -> None:
    cluster = Cluster(
        settings={
            "dispatcherMaxRoundRobinBatchSize": ROUND_ROBIN,
            "maxUnackedMessagesPerConsumer": per_consumer,
            "maxUnackedMessagesPerSubscription": in_all,
        }
    )
    client = cluster.client()
    publish(client, batches)
    twins = [Twin(number, permits, priority) for number, (permits, priority) in enumerate(consumers)]
    for twin in twins:
        client.subscribe(consumer_id=twin.number, permits=0, priority_level=twin.priority)
    client.heard.clear()
    for twin in twins:
        client.session.consumers[twin.number].permits = twin.permits
    cluster.do(cluster.topic().notify)
    dealt = [(message.consumer_id, message.message_id.entryId) for message in client.take("MESSAGE")]
    assert dealt == one_by_one(batches, twins, per_consumer, in_all)
    for twin in twins:
        consumer = client.session.consumers[twin.number]
        assert (consumer.permits, consumer.unacked_messages) == (twin.permits, twin.unacked)


def test_redelivered_and_first_deliveries_share_a_run() -> None:
    cluster = Cluster()
    client = cluster.client()
    publish(client, [1, 3, 1])
    client.subscribe(permits=2)
    client.take("MESSAGE")
    positions = list(client.session.consumers[1].pending)
    client.say(
        commands.redeliver_unacknowledged_messages(consumer_id=1),
        commands.flow(consumer_id=1, message_permits=9),
    )
    again = client.take("MESSAGE")
    assert [message.message_id.entryId for message in again] == [position.entry_id for position in positions] + [2]
    assert [message.redelivery_count for message in again] == [1] * len(positions) + [0]
    assert client.session.consumers[1].messages_redelivered == 4


@pytest.mark.parametrize("partial", [True, False])
def test_a_delayed_entry_waits_in_the_middle_of_a_run(partial: bool) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    at = int(cluster.clock.now() * 1000) + 5_000
    client.say(
        commands.send(producer_id=1, sequence_id=0, entry=entry("0", num_messages_in_batch=2), num_messages=2),
        commands.send(producer_id=1, sequence_id=1, entry=entry("late", deliver_at_time=at)),
        commands.send(producer_id=1, sequence_id=2, entry=entry("2")),
    )
    client.subscribe(permits=0)
    if partial:
        first_position, cursor = cluster.topic().ledger.first_position, cluster.subscription().cursor
        cluster.do(lambda: cursor.acknowledge_batch(first_position, 0b10, 2))
    client.heard.clear()
    client.say(commands.flow(consumer_id=1, message_permits=9))
    (first, last) = client.take("MESSAGE")
    assert list(first.ack_set) == ([0b10] if partial else [])
    assert client.session.consumers[1].permits == 9 - (1 if partial else 2) - 1
    assert last.message_id.entryId == 2
    cluster.loop.advance(5.0)
    assert client.messages() == ["late"]
