"""Rates, counters and times in the stats of topics, under a known load."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from magnetar.admin.topic_service import StatsOptions
from magnetar.broker.admin.stats import topic_stats
from magnetar.broker.admin.topics import TopicOperations
from magnetar.broker.housekeeping.maintenance import measuring
from magnetar.sim.cluster import Client, Cluster, Exclusive, Failover, Key_Shared, Shared, entry
from magnetar.sim.pipe import Pipe
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire import commands
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    from magnetar.admin.models.subscriptions import SubscriptionStats
    from magnetar.admin.models.topics import TopicStats
    from magnetar.base.position import Position
    from magnetar.wire.proto import pulsar_api_pb2 as pb

INTERVAL_S = 10
BATCH = 4
"""Messages in each batch."""


def stats(cluster: Cluster) -> TopicStats:
    return topic_stats(cluster.topic(), StatsOptions())


def subscription_stats(cluster: Cluster) -> SubscriptionStats:
    return stats(cluster).subscriptions["worker"]


def measure(cluster: Cluster) -> None:
    """Do the periodic measurement of the rates."""
    topic = cluster.topic()
    cluster.do(lambda: list(measuring(topic, cluster.clock.monotonic())))


def begin(kind: pb.CommandSubscribe.SubType.ValueType) -> tuple[Cluster, Client]:
    """A topic with a producer and a consumer that has received one single message and one batch."""
    cluster = Cluster()
    client = cluster.client()
    client.produce(name="p")
    client.subscribe(kind=kind)
    measure(cluster)
    batch = commands.send(
        producer_id=1, sequence_id=1, entry=entry("batch", num_messages_in_batch=BATCH), num_messages=BATCH
    )
    client.say(commands.send(producer_id=1, sequence_id=0, entry=entry("single")), batch)
    return cluster, client


def received(client: Client) -> list[Position]:
    return [position_of(message.message_id) for message in client.take("MESSAGE")]


def test_rates_of_a_producer() -> None:
    cluster, _ = begin(Shared)
    cluster.loop.advance(INTERVAL_S)
    measure(cluster)
    found = stats(cluster)
    (producer,) = found.publishers
    assert producer.msg_rate_in == found.msg_rate_in == (1 + BATCH) / INTERVAL_S
    assert producer.msg_throughput_in == found.msg_throughput_in == found.bytes_in_counter / INTERVAL_S
    assert producer.average_msg_size == found.average_msg_size == found.bytes_in_counter / (1 + BATCH)


@pytest.mark.parametrize("kind", [Shared, Key_Shared, Exclusive, Failover])
def test_rates_of_a_consumer_count_messages(kind: pb.CommandSubscribe.SubType.ValueType) -> None:
    cluster, client = begin(kind)
    client.ack(*received(client))
    cluster.loop.advance(INTERVAL_S)
    measure(cluster)
    found = subscription_stats(cluster)
    (consumer,) = found.consumers
    assert consumer.msg_rate_out == found.msg_rate_out == (1 + BATCH) / INTERVAL_S
    assert consumer.msg_throughput_out == found.msg_throughput_out == found.bytes_out_counter / INTERVAL_S
    assert consumer.message_ack_rate == found.message_ack_rate == (1 + BATCH) / INTERVAL_S
    assert consumer.avg_messages_per_entry == round((1 + BATCH) / 2)


def test_a_cumulative_acknowledgement_counts_all_messages() -> None:
    cluster, client = begin(Exclusive)
    client.ack(received(client)[-1], cumulative=True)
    cluster.loop.advance(INTERVAL_S)
    measure(cluster)
    assert subscription_stats(cluster).message_ack_rate == (1 + BATCH) / INTERVAL_S


def test_only_acknowledgements_of_consumers_are_counted() -> None:
    cluster, client = begin(Shared)
    received(client)
    subscription, last = cluster.subscription(), cluster.topic().ledger.last_confirmed_entry
    cluster.do(lambda: subscription.acknowledge_through(last))
    cluster.loop.advance(INTERVAL_S)
    measure(cluster)
    found = subscription_stats(cluster)
    assert (found.msg_backlog, found.message_ack_rate) == (0, 0)


def test_the_rate_of_redeliveries_counts_messages() -> None:
    cluster, client = begin(Shared)
    received(client)
    client.say(commands.redeliver_unacknowledged_messages(consumer_id=1))
    assert len(received(client)) == 2
    cluster.loop.advance(INTERVAL_S)
    measure(cluster)
    found = subscription_stats(cluster)
    (consumer,) = found.consumers
    assert consumer.msg_rate_redeliver == found.msg_rate_redeliver == (1 + BATCH) / INTERVAL_S
    assert found.msg_rate_out == 2 * (1 + BATCH) / INTERVAL_S


def test_the_rate_of_expired_messages() -> None:
    cluster, _ = begin(Shared)
    subscription, last = cluster.subscription(), cluster.topic().ledger.last_confirmed_entry
    cluster.do(lambda: subscription.expire_through(last, cluster.clock.now()))
    cluster.loop.advance(INTERVAL_S)
    measure(cluster)
    assert subscription_stats(cluster).msg_rate_expired == 2 / INTERVAL_S


def test_times_of_a_subscription_outlive_its_consumers() -> None:
    cluster, client = begin(Shared)
    first, _ = received(client)
    now_ms = int(cluster.clock.now() * 1000)
    found = subscription_stats(cluster)
    assert found.last_consumed_timestamp == found.last_consumed_flow_timestamp == now_ms
    assert found.last_acked_timestamp == found.last_mark_delete_advanced_timestamp == 0
    client.ack(first, request_id=client.request_id())
    cluster.loop.advance(INTERVAL_S)
    client.leave()
    found = subscription_stats(cluster)
    assert found.last_consumed_timestamp == found.last_consumed_flow_timestamp == now_ms
    assert found.last_acked_timestamp == found.last_mark_delete_advanced_timestamp == now_ms


def test_an_acknowledgement_beyond_a_hole_does_not_advance_the_mark_delete_position() -> None:
    cluster, client = begin(Shared)
    _, second = received(client)
    client.ack(second, request_id=client.request_id())
    found = subscription_stats(cluster)
    assert found.last_acked_timestamp > found.last_mark_delete_advanced_timestamp == 0


def test_counters_outlive_the_consumers() -> None:
    cluster, client = begin(Shared)
    client.ack(*received(client))
    client.leave()
    cluster.loop.advance(INTERVAL_S)
    measure(cluster)
    found = subscription_stats(cluster)
    assert found.msg_out_counter == 1 + BATCH
    assert found.message_ack_rate == found.msg_rate_out == (1 + BATCH) / INTERVAL_S


def test_counters_of_a_topic_outlive_its_subscriptions() -> None:
    cluster, client = begin(Shared)
    client.ack(*received(client))
    before = stats(cluster)
    topic, subscription = cluster.topic(), cluster.subscription()
    cluster.do(lambda: topic.delete_subscription(subscription, lambda _: None))
    client.subscribe(kind=Exclusive, consumer_id=2, subscription="reader", durable=False)
    assert len(client.take("MESSAGE")) == 2
    client.say(commands.close_consumer(consumer_id=2, request_id=client.request_id()))
    found = stats(cluster)
    assert found.subscriptions == {}
    assert found.msg_out_counter == 2 * before.msg_out_counter == 2 * (1 + BATCH)
    assert found.bytes_out_counter == 2 * before.bytes_out_counter > 0


def test_rates_and_counters_in_the_target_of_a_link() -> None:
    loop = HandLoop()
    source, target = Cluster("ewr", targets=["jfk"], loop=loop), Cluster("jfk", targets=["ewr"], loop=loop)
    publisher = source.client()
    publisher.produce()
    pipe = Pipe(source, target)
    pipe.attach()
    measure(source)
    measure(target)
    publisher.send("a", "b")
    pipe.read()
    pipe.send(2, twice=True)  # a repeated entry is not counted
    pipe.confirm()
    pipe.attach()  # counters outlive the holder of the link
    publisher.send("c", first=2)
    pipe.run()
    loop.advance(INTERVAL_S)
    measure(source)
    measure(target)
    sent, arrived = stats(source), stats(target)
    assert (sent.msg_in_counter, arrived.msg_in_counter) == (3, 3)
    assert sent.msg_rate_in == arrived.msg_rate_in == 3 / INTERVAL_S
    outbound, inbound = sent.replication["jfk"], arrived.replication["ewr"]
    assert (outbound.msg_out_count, inbound.msg_in_count) == (3, 3)
    assert outbound.msg_rate_out == inbound.msg_rate_in == 3 / INTERVAL_S
    assert inbound.bytes_in_count == arrived.bytes_in_counter
    assert inbound.msg_throughput_in == arrived.msg_throughput_in == inbound.bytes_in_count / INTERVAL_S


def _with_earliest_times(cluster: Cluster) -> TopicStats:
    operations = TopicOperations(cluster.environment, cluster.topics)
    task = cluster.loop.start(operations.stats(cluster.topic().name, StatsOptions(earliest_time_in_backlog=True)))
    cluster.settle()
    found: TopicStats = task.result()
    return found


def test_subscriptions_change_while_the_earliest_times_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, _ = begin(Shared)
    topic, read = cluster.topic(), cluster.topic().log.read_entry
    for name in ("a", "b"):
        cluster.do(partial(topic.create_subscription, name, topic.log.before_first()))

    async def meanwhile(position: Position) -> bytes:
        entry_ = await read(position)
        if "b" in topic.subscriptions:
            topic.delete_subscription(topic.subscriptions["b"], lambda _: None)
            topic.create_subscription("c", topic.log.before_first())
        return entry_

    monkeypatch.setattr(topic.log, "read_entry", meanwhile)
    found = _with_earliest_times(cluster)
    times = {name: each.earliest_msg_publish_time_in_backlog for name, each in found.subscriptions.items()}
    assert times == {"a": 1_700_000_000_000, "b": 0, "worker": 1_700_000_000_000}


def test_the_earliest_time_is_that_of_an_entry_that_is_intact() -> None:
    cluster, _ = begin(Shared)
    cluster.store.cached = False
    cluster.store.damaged = {entry("single")}
    found = _with_earliest_times(cluster)
    assert found.earliest_msg_publish_time_in_backlogs == 1_700_000_000_000
    cluster.store.damaged.add(entry("batch", num_messages_in_batch=BATCH))
    assert _with_earliest_times(cluster).earliest_msg_publish_time_in_backlogs == 0
