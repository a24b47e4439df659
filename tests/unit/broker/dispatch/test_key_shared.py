"""Key_Shared: assignment, waiting entries, and their statistics."""

# ruff: noqa: ANN401 - commands have fields of every type

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from magnetar.admin.topic_service import StatsOptions
from magnetar.base.errors import ServerError
from magnetar.base.limits import Limit
from magnetar.broker.admin.stats import topic_stats
from magnetar.sim.cluster import Client, Cluster, Key_Shared, Shared, entry
from magnetar.wire import commands
from magnetar.wire.message_id import message_id, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

# Keys of the consumers "one" and "two" (recorded from Apache Pulsar in key_shared_selectors.txt).
OF_ONE = ("key-1", "key-2", "key-3")
OF_TWO = ("key-0", "key-4", "key-5")


def publish(client: Client, *keys: str, **metadata: Any) -> None:
    """Publish entries with their key and index as the text."""
    entries = [entry(f"{key}#{index}", partition_key=key, **metadata) for index, key in enumerate(keys)]
    client.say(*[commands.send(producer_id=1, sequence_id=0, entry=each) for each in entries])


def producing(**settings: Any) -> Client:
    client = Cluster(settings=settings).client()
    client.produce()
    return client


def join(client: Client, name: str, permits: int = 1000, **options: Any) -> None:
    """Subscribe a consumer with this name; its id is the number in its name."""
    client.subscribe(("one", "two").index(name) + 1, Key_Shared, permits, consumer_name=name, **options)


def received(client: Client, consumer_id: int) -> list[str]:
    """Return the keys of the messages sent to a consumer."""
    frames = [frame for frame in client.heard if frame.command.message.consumer_id == consumer_id]
    client.heard = [frame for frame in client.heard if frame not in frames]
    texts = [bytes(frame.body).decode(errors="replace") for frame in frames if frame.command.HasField("message")]
    return [text.rpartition("key-")[2].partition("#")[0] for text in texts]


def numbers(keys: tuple[str, ...]) -> list[str]:
    return [key.removeprefix("key-") for key in keys]


def subscription_stats(client: Client) -> dict[str, Any]:
    topic = client.cluster.topic()
    stats: dict[str, Any] = topic_stats(topic, StatsOptions()).to_json()["subscriptions"]["worker"]
    return stats


def test_keys_go_where_apache_pulsar_sends_them() -> None:
    client = producing()
    join(client, "one")
    join(client, "two")
    publish(client, *sorted(OF_ONE + OF_TWO), *sorted(OF_ONE + OF_TWO))
    assert received(client, 1) == numbers(OF_ONE * 2)
    assert received(client, 2) == numbers(OF_TWO * 2)


def test_a_slow_consumer_holds_up_its_own_keys_until_too_many_wait() -> None:
    client = producing(keySharedLookAheadMsgInReplayThresholdPerSubscription=4)
    join(client, "one", permits=0)
    join(client, "two")
    publish(client, *OF_ONE, *OF_TWO, *OF_ONE, *OF_TWO)
    assert received(client, 2) == numbers(OF_TWO)
    assert subscription_stats(client)["msgInReplay"] == 4
    counts = client.cluster.environment.limit_hits.counts
    assert (counts()[Limit.LOOK_AHEAD_PER_SUBSCRIPTION], counts()[Limit.LOOK_AHEAD_PER_CONSUMER]) == (1, 0)
    client.say(commands.flow(consumer_id=1, message_permits=2))
    assert (received(client, 1), received(client, 2)) == (numbers(OF_ONE[:2]), [])
    assert subscription_stats(client)["msgInReplay"] == 4
    assert counts()[Limit.LOOK_AHEAD_PER_SUBSCRIPTION] == 2  # reading resumed and stopped again
    client.say(commands.flow(consumer_id=1, message_permits=1))
    assert (received(client, 1), received(client, 2)) == (numbers(OF_ONE[2:]), numbers(OF_TWO))


def test_the_smaller_limit_of_looking_ahead_is_the_one_that_counts() -> None:
    client = producing(keySharedLookAheadMsgInReplayThresholdPerConsumer=1)
    join(client, "one", permits=0)
    join(client, "two")
    publish(client, *OF_ONE, *OF_TWO)
    assert received(client, 2) == []
    assert client.cluster.environment.limit_hits.counts()[Limit.LOOK_AHEAD_PER_CONSUMER] == 1


def test_remote_acknowledgements_make_room_for_other_entries() -> None:
    client = producing(keySharedLookAheadMsgInReplayThresholdPerSubscription=3)
    join(client, "one", permits=0)
    join(client, "two")
    publish(client, *OF_ONE, *OF_TWO)
    assert received(client, 2) == []
    subscription = client.cluster.subscription()
    client.cluster.do(partial(client.cluster.loop.create_task, subscription.skip(3)))
    assert received(client, 2) == numbers(OF_TWO)


def test_a_hash_drains_before_its_new_consumer_gets_more() -> None:
    client = producing()
    join(client, "one")
    publish(client, *OF_TWO, *OF_TWO)
    held = [position_of(message.message_id) for message in client.take("MESSAGE")]
    join(client, "two")
    publish(client, *OF_TWO, *OF_ONE)
    assert received(client, 2) == []
    assert received(client, 1) == numbers(OF_ONE)
    stats = subscription_stats(client)
    one, two = stats["consumers"]
    assert (stats["type"], stats["keySharedMode"], stats["allowOutOfOrderDelivery"]) == (
        "Key_Shared",
        "AUTO_SPLIT",
        False,
    )
    assert (one["drainingHashesCount"], one["drainingHashesUnackedMessages"]) == (3, 6)
    assert [(each["unackMsgs"], each["blockedAttempts"] > 0) for each in one["drainingHashes"]] == [(2, True)] * 3
    assert two["drainingHashes"] == []
    assert stats["drainingHashesCount"] == 3
    client.ack(held[0])
    assert received(client, 2) == []
    client.ack(held[3])
    assert received(client, 2) == numbers(OF_TWO[:1])
    ids = [message_id(position) for position in (held[1], held[4])]
    client.say(commands.redeliver_unacknowledged_messages(consumer_id=1, message_ids=ids))
    assert received(client, 2) == [OF_TWO[1][-1]] * 3
    stats = subscription_stats(client)
    assert (stats["drainingHashesCount"], stats["drainingHashesClearedTotal"]) == (1, 2)
    client.say(commands.close_consumer(consumer_id=1, request_id=9))
    assert received(client, 2) == [*[OF_TWO[2][-1]] * 3, *numbers(OF_ONE)]
    assert subscription_stats(client)["drainingHashesCount"] == 0


def test_a_hash_that_comes_back_to_who_holds_it_does_not_drain() -> None:
    client = producing()
    join(client, "one")
    publish(client, *OF_TWO)
    join(client, "two")
    publish(client, *OF_TWO)
    received(client, 1)
    client.say(commands.close_consumer(consumer_id=2, request_id=9))
    assert received(client, 1) == numbers(OF_TWO)
    assert subscription_stats(client)["drainingHashesClearedTotal"] == 3


def test_ranges_are_shown_as_apache_pulsar_shows_them() -> None:
    client = producing(subscriptionKeySharedConsistentHashingReplicaPoints=3)
    join(client, "one")
    join(client, "two")
    one, two = subscription_stats(client)["consumers"]
    assert one["keyHashRangeArrays"] == [[1, 21760], [36808, 50863], [58306, 65535]]
    assert two["keyHashRangeArrays"] == [[21761, 36807], [50864, 58305]]


def test_order_may_be_given_up() -> None:
    client = producing()
    meta = pb.KeySharedMeta(keySharedMode=pb.AUTO_SPLIT, allowOutOfOrderDelivery=True)
    join(client, "one", keySharedMeta=meta)
    publish(client, *OF_TWO)
    join(client, "two", keySharedMeta=meta)
    client.say(commands.redeliver_unacknowledged_messages(consumer_id=1))
    publish(client, *OF_TWO, *OF_ONE)
    assert received(client, 1) == numbers(OF_TWO + OF_ONE)
    assert received(client, 2) == numbers(OF_TWO + OF_TWO)
    assert subscription_stats(client)["allowOutOfOrderDelivery"] is True


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        (pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=0, end=9)]), ServerError.ConsumerBusy),
        (pb.KeySharedMeta(keySharedMode=pb.AUTO_SPLIT, allowOutOfOrderDelivery=True), ServerError.ConsumerBusy),
        (pb.KeySharedMeta(keySharedMode=pb.STICKY), ServerError.ConsumerAssignError),
    ],
)
def test_consumers_of_another_policy_are_let_in_when_the_others_have_left(meta: pb.KeySharedMeta, code: int) -> None:
    client = producing()
    join(client, "one")
    join(client, "two", keySharedMeta=meta)
    (refusal,) = client.take("ERROR")
    assert refusal.error == code
    client.say(commands.close_consumer(consumer_id=1, request_id=9))
    join(client, "two", keySharedMeta=meta)
    assert len(client.take("ERROR")) == (code == ServerError.ConsumerAssignError)


def test_the_type_may_change_when_all_have_left() -> None:
    client = producing()
    join(client, "one")
    publish(client, *OF_ONE)
    assert received(client, 1) == numbers(OF_ONE)
    client.say(commands.close_consumer(consumer_id=1, request_id=9))
    client.subscribe(5, Shared)
    assert received(client, 5) == numbers(OF_ONE)


def test_a_sticky_range_is_taken_over_from_a_connection_that_is_dead() -> None:
    cluster = Cluster()
    meta = pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=0, end=65_535)])
    dead, client = cluster.client(), cluster.client()
    join(dead, "one", keySharedMeta=meta)
    client.produce()
    publish(client, *OF_ONE)
    client.heard.clear()
    join(client, "two", keySharedMeta=meta)
    assert (dead.probes, client.names()) == (1, [])
    cluster.loop.advance(10.0)
    assert client.take("SUCCESS")
    client.say(commands.flow(consumer_id=2, message_permits=10))
    assert received(client, 2) == numbers(OF_ONE)


def test_delayed_messages_come_in_time_to_whom_their_keys_belong() -> None:
    client = producing()
    cluster = client.cluster
    join(client, "one")
    join(client, "two")
    at = int(cluster.clock.now() * 1000) + 5000
    publish(client, *OF_ONE, *OF_TWO, deliver_at_time=at)
    publish(client, OF_ONE[0])
    assert (received(client, 1), received(client, 2)) == (numbers(OF_ONE[:1]), [])
    assert subscription_stats(client)["msgDelayed"] == 6
    cluster.loop.advance(6.0)
    assert (received(client, 1), received(client, 2)) == (numbers(OF_ONE), numbers(OF_TWO))


def test_delayed_messages_that_are_due_wait_for_a_busy_consumer_and_hold_up_nobody() -> None:
    client = producing()
    join(client, "one", permits=1)
    join(client, "two")
    at = int(client.cluster.clock.now() * 1000) + 5000
    publish(client, *OF_ONE, *OF_TWO, deliver_at_time=at)
    client.cluster.loop.advance(6.0)
    assert (received(client, 1), received(client, 2)) == (numbers(OF_ONE[:1]), numbers(OF_TWO))
    client.say(commands.flow(consumer_id=1, message_permits=10))
    assert received(client, 1) == numbers(OF_ONE[1:])


def test_cumulative_acknowledgements_are_ignored() -> None:
    client = producing()
    join(client, "one")
    publish(client, *OF_ONE)
    last = position_of(client.take("MESSAGE")[-1].message_id)
    client.ack(last, cumulative=True)
    assert client.cluster.subscription().backlog == len(OF_ONE)


def test_entries_that_wait_for_the_disk_are_not_overtaken_by_due_ones() -> None:
    client = producing()
    cluster = client.cluster
    join(client, "one", permits=0)
    join(client, "two")
    soon = int(cluster.clock.now() * 1000) + 1000
    publish(client, OF_ONE[0], deliver_at_time=soon)
    publish(client, *OF_ONE[:1] * 2, deliver_at_time=soon + 4000)
    cluster.loop.advance(2.0)
    assert subscription_stats(client)["msgInReplay"] == 1
    in_memory = cluster.store.read_cached
    cluster.store.read_cached = lambda ledger_id, first, *limits: (  # type: ignore[method-assign]
        in_memory(ledger_id, first, *limits) if first else None
    )
    cluster.loop.elapsed_s += 4.0
    client.say(commands.flow(consumer_id=1, message_permits=10))
    taken = [message.message_id.entryId for message in client.take("MESSAGE")]
    assert taken == [0, 1, 2]


def test_waiting_entries_are_not_sent_while_acknowledgements_cannot_be_persisted() -> None:
    client = producing(dispatcherPauseOnAckStatePersistentEnabled=True, managedLedgerMaxUnackedRangesToPersist=1)
    join(client, "one", permits=0)
    join(client, "two")
    publish(client, *[key for both in zip(OF_TWO, OF_ONE, strict=True) for key in both])
    positions = [position_of(message.message_id) for message in client.take("MESSAGE")]
    assert [position.entry_id for position in positions] == [0, 2, 4]
    client.ack(*positions[1:], consumer_id=2)
    assert subscription_stats(client)["isBlockedOnAckStatePersistent"]
    client.say(commands.flow(consumer_id=1, message_permits=10))
    (first, second) = [position_of(message.message_id) for message in client.take("MESSAGE")]
    assert (first.entry_id, second.entry_id) == (1, 3)
    client.ack(first, second, consumer_id=1)
    assert [message.message_id.entryId for message in client.take("MESSAGE")] == [5]


def test_a_damaged_entry_holds_up_nobody() -> None:
    client = producing()
    store = client.cluster.store
    join(client, "one", permits=0)
    join(client, "two")
    publish(client, *OF_ONE)
    assert subscription_stats(client)["msgInReplay"] == 3
    (entries,) = [ledger.entries for ledger in store.ledgers.values() if len(ledger.entries) == len(OF_ONE)]
    store.cached = False
    store.damaged.add(entries[1])
    client.say(commands.flow(consumer_id=1, message_permits=10))
    assert received(client, 1) == numbers((OF_ONE[0], OF_ONE[2]))
    assert client.cluster.subscription().backlog == 3
    assert subscription_stats(client)["msgInReplay"] == 0
