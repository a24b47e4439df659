"""Key_Shared, with random actions: each key is in order, at one consumer at a time, and no message is stuck."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.broker.dispatch.key_shared import KeySharedDispatcher
from magnetar.cursor.ranges import Range
from magnetar.sim.cluster import Cluster, Key_Shared, entry
from magnetar.wire import commands
from magnetar.wire.message_id import message_id, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.base.position import Position

KEYS = ("a", "b", "c", "d", "e", "f")
STICKY_RANGES = ((0, 20_000), (20_001, 40_000), (40_001, 65_535))
"""One for each possible consumer."""

CONSUMERS_MAX = len(STICKY_RANGES)
PERMITS_FOR_ALL = 10_000
DELAY_S = 3.0


@dataclass
class KeySharedModel:
    """A cluster with one Key_Shared subscription, and its expected state."""

    cluster: Cluster
    mode: pb.KeySharedMode.ValueType
    key_of: dict[Position, str] = field(default_factory=dict)
    delayed: set[Position] = field(default_factory=set)
    """Delayed entries, which are exempt from the order."""
    acknowledged: set[Position] = field(default_factory=set)
    held: dict[int, dict[Position, None]] = field(default_factory=dict)
    """By consumer id, the entries that a connected consumer has not acknowledged."""
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By consumer id, the requested hash range."""
    consumer_ids: int = 0

    def __post_init__(self) -> None:
        self.client = self.cluster.client()
        self.client.produce()
        self.join("a", PERMITS_FOR_ALL)
        self.leave(1)

    # actions

    def publish(self, keys: Iterable[str], messages: int = 1, delay_s: float = 0.0) -> None:
        at = {"deliver_at_time": int((self.cluster.clock.now() + delay_s) * 1000)} if delay_s else {}
        entries = [entry("x", partition_key=key, num_messages_in_batch=messages, **at) for key in keys]
        frames = [
            commands.send(producer_id=1, sequence_id=len(self.key_of) + index, num_messages=messages, entry=each)
            for index, each in enumerate(entries)
        ]
        self.client.say(*frames)
        positions = [position for _, position in self.client.receipts()]
        self.key_of.update(zip(positions, keys, strict=True))
        self.delayed.update(positions if delay_s else ())

    def join(self, name: str, permits: int) -> None:
        if len(self.held) == CONSUMERS_MAX:
            return
        self.consumer_ids += 1
        meta = pb.KeySharedMeta(keySharedMode=self.mode)
        if self.mode == pb.STICKY:
            taken = {self.ranges[consumer_id] for consumer_id in self.held}
            first, last = self.ranges[self.consumer_ids] = next(free for free in STICKY_RANGES if free not in taken)
            meta.hashRanges.add(start=first, end=last)
        self.held[self.consumer_ids] = {}
        self.client.subscribe(self.consumer_ids, Key_Shared, permits, consumer_name=name, keySharedMeta=meta)
        assert not self.client.take("ERROR")

    def leave(self, consumer_id: int) -> None:
        del self.held[consumer_id]
        self.client.say(commands.close_consumer(consumer_id=consumer_id, request_id=self.client.request_id()))

    def flow(self, consumer_id: int, permits: int) -> None:
        self.client.say(commands.flow(consumer_id=consumer_id, message_permits=permits))

    def ack(self, consumer_id: int, positions: list[Position]) -> None:
        self._forget(positions)
        self.client.ack(*positions, consumer_id=consumer_id)

    def give_back(self, consumer_id: int, positions: list[Position]) -> None:
        for position in positions:
            del self.held[consumer_id][position]
        ids = map(message_id, positions)
        self.client.say(commands.redeliver_unacknowledged_messages(consumer_id=consumer_id, message_ids=ids))

    def acknowledge_elsewhere(self, positions: list[Position]) -> None:
        """Acknowledge entries as another cluster does."""
        subscription = self.cluster.subscription()
        ranges = [Range(position, position) for position in positions]
        self._forget(positions)
        self.cluster.do(lambda: subscription.free(subscription.cursor.acknowledge_ranges(ranges)))

    def go_back_to(self, position: Position) -> None:
        """Reset the subscription to a position."""
        self.acknowledged -= {each for each in self.acknowledged if each >= position}
        self.acknowledged |= {each for each in self.key_of if each < position}
        self.held.clear()
        subscription = self.cluster.subscription()
        before = subscription.topic.ledger.previous_position(position)
        self.cluster.do(lambda: self.cluster.loop.create_task(subscription.reset(before)))
        self.client.take("CLOSE_CONSUMER")

    def begin_again(self) -> None:
        """All consumers request redelivery, one after the other."""
        for consumer_id in self.held:
            self.held[consumer_id] = {}
            self.client.say(commands.redeliver_unacknowledged_messages(consumer_id=consumer_id, message_ids=[]))
            self.look()  # later consumers may have got more messages, which they request again in turn

    def _forget(self, positions: Iterable[Position]) -> None:
        self.acknowledged.update(positions)
        for held in self.held.values():
            for position in positions:
                held.pop(position, None)

    # checks

    def look(self) -> None:
        """Read the messages of all consumers, and check each in the state at that time."""
        for message in self.client.take("MESSAGE"):
            position, receiver = position_of(message.message_id), message.consumer_id
            key = self.key_of[position]
            assert position not in self.acknowledged
            assert position not in self.held[receiver]
            for other, held in self.held.items():
                assert other == receiver or key not in map(self.key_of.__getitem__, held), "two have one key"
            before = {each for each, its in self.key_of.items() if its == key and each < position} - self.delayed
            in_order = before <= self.acknowledged | self.held[receiver].keys()
            assert in_order or position in self.delayed, "out of order"
            self.held[receiver][position] = None
        assert not self.cluster.loop.problems

    def finish(self) -> None:
        """Deliver and acknowledge everything that is left."""
        for name in "abcdef":
            self.join(name, PERMITS_FOR_ALL)
        for consumer_id in self.held:
            self.flow(consumer_id, PERMITS_FOR_ALL)
        self.cluster.loop.advance(2 * DELAY_S)
        self.look()
        while any(self.held.values()):
            for consumer_id, held in self.held.items():
                self.ack(consumer_id, list(held))
            self.look()
        assert self.acknowledged == self.key_of.keys(), "stuck"
        assert self.cluster.subscription().backlog == 0


limits = st.fixed_dictionaries(
    {
        "subscriptionKeySharedUseConsistentHashing": st.booleans(),
        "subscriptionKeySharedConsistentHashingReplicaPoints": st.sampled_from([1, 7]),
        "keySharedLookAheadMsgInReplayThresholdPerConsumer": st.sampled_from([0, 1, 5, 2000]),
        "keySharedLookAheadMsgInReplayThresholdPerSubscription": st.sampled_from([0, 2, 20_000]),
        "maxUnackedMessagesPerConsumer": st.sampled_from([0, 3]),
        "maxUnackedMessagesPerSubscription": st.sampled_from([0, 5]),
        "dispatcherMaxReadBatchSize": st.sampled_from([1, 4, 100]),
        "dispatcherPauseOnAckStatePersistentEnabled": st.booleans(),
        "managedLedgerMaxUnackedRangesToPersist": st.sampled_from([1, 2, 1000]),
    }
)


@settings(max_examples=60, deadline=None)
@given(limits, st.sampled_from([pb.AUTO_SPLIT, pb.STICKY]), st.booleans(), st.data())
def test_each_key_is_in_order_and_with_one_consumer(
    config: dict[str, Any], mode: pb.KeySharedMode.ValueType, cached: bool, data: st.DataObject
) -> None:
    model = KeySharedModel(Cluster(settings=config), mode)
    model.cluster.store.cached = cached

    def some(positions: Iterable[Position]) -> list[Position]:
        return data.draw(st.lists(st.sampled_from(sorted(positions)), unique=True, min_size=1, max_size=4))

    for _ in range(data.draw(st.integers(5, 40))):
        happenings: list[Callable[[], object]] = [
            lambda: model.publish(data.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=8))),
            lambda: model.publish(data.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=2)), messages=3),
            lambda: model.publish(data.draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3)), delay_s=DELAY_S),
            lambda: model.cluster.loop.advance(DELAY_S / 2),
            model.begin_again,
            lambda: model.join(data.draw(st.sampled_from("abc")), data.draw(st.integers(1, 12))),
        ]
        if model.held:
            consumer_id = data.draw(st.sampled_from(sorted(model.held)))
            happenings += [
                lambda: model.leave(consumer_id),  # noqa: B023 - called in this turn
                lambda: model.flow(consumer_id, data.draw(st.integers(1, 6))),  # noqa: B023
            ]
            if model.held[consumer_id]:
                happenings += [
                    lambda: model.ack(consumer_id, some(model.held[consumer_id])),  # noqa: B023
                    lambda: model.ack(consumer_id, list(model.held[consumer_id])),  # noqa: B023
                    lambda: model.give_back(consumer_id, some(model.held[consumer_id])),  # noqa: B023
                ]
        if model.key_of:
            happenings += [
                lambda: model.acknowledge_elsewhere(some(model.key_of)),
                lambda: model.go_back_to(data.draw(st.sampled_from(sorted(model.key_of)))),
            ]
        data.draw(st.sampled_from(happenings))()
        model.look()
    model.finish()


def test_entries_that_wait_beyond_the_limit_of_acknowledgements_do_not_keep_holes_from_being_read() -> None:
    config = {
        "keySharedLookAheadMsgInReplayThresholdPerConsumer": 0,
        "keySharedLookAheadMsgInReplayThresholdPerSubscription": 2,
        "dispatcherPauseOnAckStatePersistentEnabled": True,
        "managedLedgerMaxUnackedRangesToPersist": 1,
    }
    model = KeySharedModel(Cluster(settings=config), pb.STICKY)
    model.join("a", 6)
    model.join("b", 0)
    first, second = model.held
    model.publish(["d"] * 6)
    model.look()
    assert len(model.held[first]) == 6, "the key belongs to the first consumer"
    model.publish(["d", "d"], delay_s=DELAY_S)
    model.cluster.loop.advance(2 * DELAY_S)
    model.flow(second, 1)
    entries = sorted(model.key_of)
    model.ack(first, entries[:1])
    dispatcher = model.cluster.subscription().consumers.dispatcher
    assert isinstance(dispatcher, KeySharedDispatcher)
    assert sorted(dispatcher._replay) == entries[6:], "the delayed entries wait"
    model.ack(first, entries[2:6:2])
    assert model.cluster.subscription().ack_state.is_blocking
    model.finish()
