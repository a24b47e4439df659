"""Delayed messages: never early, never lost, delivered once, in the order of delivery times, despite faults."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from magnetar.base.errors import CorruptionError, DiskFullError, ServerError
from magnetar.base.position import Position
from magnetar.broker.delayed import due_windows, log_search, unwritten
from magnetar.broker.delayed import index as indexes
from magnetar.broker.delayed import store as stores
from magnetar.broker.delayed import window as windows
from magnetar.broker.delayed.incarnation import INCARNATION_PROPERTY
from magnetar.broker.delayed.positions import PositionSet
from magnetar.broker.dispatch.shared import SharedDispatcher
from magnetar.broker.housekeeping.maintenance import measuring
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.policy.values import DelayedDeliveryPolicies
from magnetar.sim.cluster import TOPIC, Client, Cluster, Exclusive, Key_Shared, Shared, entry
from magnetar.sim.pipe import Pipe
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire import commands
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from magnetar.metadata.cached import Transaction
    from magnetar.wire.proto import pulsar_api_pb2 as pb

PAGE = 6
EXACT = {"delayedDeliveryTickTimeMillis": 0}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pages, so that some messages fill several."""
    monkeypatch.setattr(windows, "PAGE_MAX", PAGE)
    monkeypatch.setattr(due_windows, "PAGE_MAX", PAGE)
    monkeypatch.setattr(stores, "PAGE_MAX", PAGE)
    monkeypatch.setattr(indexes, "REMOVABLE_MAX", 2 * PAGE)
    monkeypatch.setattr(stores, "REMOVABLE_MAX", 2 * PAGE)
    monkeypatch.setattr(unwritten, "WRITE_AFTER_ENTRIES", 2 * PAGE)
    monkeypatch.setattr(unwritten, "UNWRITTEN_MAX", 3 * PAGE)
    monkeypatch.setattr(log_search, "SCAN_ENTRIES", PAGE)


def publish(client: Client, text: str, delay_s: float = 0.0) -> None:
    client.say(send(client.cluster, text, delay_s))


def send(cluster: Cluster, text: str, delay_s: float) -> bytes:
    at = int((cluster.clock.now() + delay_s) * 1000)
    metadata = {"deliver_at_time": at} if delay_s else {}
    return commands.send(producer_id=1, sequence_id=0, entry=entry(text, **metadata))


def producer(cluster: Cluster) -> Client:
    client = cluster.client()
    client.produce()
    return client


def consumer(cluster: Cluster, name: str = "worker", **fields: object) -> Client:
    client = cluster.client()
    client.subscribe(subscription=name, **fields)  # type: ignore[arg-type]
    return client


@dataclass
class DelayedScenario:
    """A cluster with two subscriptions, and the expected deliveries of each."""

    cluster: Cluster = field(default_factory=lambda: Cluster(settings=EXACT))
    due_at_ms: dict[str, int] = field(default_factory=dict)
    positions: dict[str, Position] = field(default_factory=dict)
    consumers: dict[str, Client] = field(default_factory=dict)
    held: dict[str, list[str]] = field(default_factory=dict)
    acknowledged: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.producer = producer(self.cluster)
        for name in ("a", "b"):
            self.acknowledged[name] = set()
            self.subscribe(name)

    def subscribe(self, name: str) -> None:
        self.held[name] = []
        self.consumers[name] = consumer(self.cluster, name)
        self.look()

    def now_ms(self) -> float:
        return self.cluster.clock.now() * 1000

    def look(self) -> None:
        """Read received messages, and check that they are expected."""
        for name, client in self.consumers.items():
            taken = [frame for frame in client.heard if frame.command.HasField("message")]
            client.heard = []
            for frame in taken:
                text = frame.body.rsplit(b"#", 1)[1].decode()
                self.positions[text] = position_of(frame.command.message.message_id)
                assert self.due_at_ms[text] <= self.now_ms(), f"{text} came early"
                assert text not in self.acknowledged[name], f"{text} came to {name} though acknowledged"
                assert text not in self.held[name], f"{text} came to {name} twice"
                self.held[name].append(text)

    def publish(self, delays_s: list[float]) -> None:
        """Publish a run of messages."""
        frames = []
        for delay_s in delays_s:
            text = str(len(self.due_at_ms))
            self.due_at_ms[text] = int((self.cluster.clock.now() + delay_s) * 1000) if delay_s else 0
            frames.append(send(self.cluster, f"#{text}", delay_s))
        self.producer.say(*frames)
        self.look()

    def advance(self, seconds: float) -> None:
        self.cluster.loop.advance(seconds)
        self.cluster.settle()
        self.look()

    def jump(self, seconds: float) -> None:
        self.cluster.clock.jumped_s += seconds
        self.advance(due_windows.CLOCK_CHECK_S)

    def acknowledge(self, name: str, count: int) -> None:
        texts, self.held[name] = self.held[name][:count], self.held[name][count:]
        self.acknowledged[name] |= set(texts)
        if texts:
            self.consumers[name].ack(*(self.positions[text] for text in texts))
            self.advance(0.02)  # acknowledgements are durable

    def redeliver(self, name: str) -> None:
        self.held[name] = []
        self.consumers[name].say(commands.redeliver_unacknowledged_messages(consumer_id=1))
        self.look()

    def leave(self, name: str) -> None:
        """Replace the consumer by another one."""
        self.consumers.pop(name).leave()
        self.subscribe(name)

    def reset(self, name: str) -> None:
        """Reset the subscription to the beginning."""
        self.acknowledged[name], self.held[name] = set(), []
        self.cluster.do(lambda: self.cluster.loop.create_task(self._reset(name)))
        self.consumers.pop(name, None)
        self.subscribe(name)

    async def _reset(self, name: str) -> None:
        topic = self.cluster.topics.loaded[TOPIC]
        await topic.subscriptions[name].reset(topic.log.before_first())

    def restart(self) -> None:
        self.consumers.clear()
        self.cluster.crash()
        self.begin_again()

    def unload(self) -> None:
        self.consumers.clear()
        self.cluster.do(lambda: self.cluster.topics.unload(TOPIC))
        self.begin_again()

    def begin_again(self) -> None:
        self.producer = producer(self.cluster)
        for name in self.acknowledged:
            self.subscribe(name)

    def lose_index(self) -> None:
        def damage(_: object) -> None:
            message = "not a database"
            raise CorruptionError(message)

        self.cluster.do(lambda: self.cluster.delayed.do(damage, lambda _result, _error: None))
        self.look()

    def fill_disk(self, *, full: bool) -> None:
        self.cluster.delayed.disk_full = full

    def hold(self, *, held: bool) -> None:
        """Hold back requests to the store, or run all held ones."""
        self.cluster.delayed.prompt = not held
        if not held:
            self.cluster.do(self.cluster.delayed.answer)
            self.look()

    def check_counts(self) -> None:
        for name in self.acknowledged:
            subscription = self.cluster.subscription(name)
            waiting = set(self.due_at_ms) - self.acknowledged[name] - set(self.held[name])
            assert subscription.delayed == len(waiting), name

    def end(self) -> None:
        """Remove all faults, advance beyond all delivery times, and check that each subscription got every message."""
        self.fill_disk(full=False)
        self.hold(held=False)
        self.advance(2.5)
        self.check_counts()
        for _ in range(3):
            self.advance(1000)
        for name in self.acknowledged:
            assert set(self.held[name]) | self.acknowledged[name] == set(self.due_at_ms), name
        topic = self.cluster.topic()
        for _ in range(20):
            self.cluster.do(lambda: list(measuring(topic, self.cluster.clock.monotonic())))
            self.advance(10)
        assert (len(topic.delayed.withheld), self.cluster.delayed_store.entries) == (0, 0)


names = st.sampled_from(["a", "b"])
steps = st.one_of(
    st.tuples(st.just("publish"), st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 30.0, 300.0]), min_size=1)),
    st.tuples(st.just("publish"), st.lists(st.integers(1, 20).map(float), min_size=1, max_size=30)),
    st.tuples(st.just("advance"), st.sampled_from([0.0, 0.3, 1.0, 5.0, 40.0])),
    st.tuples(st.just("jump"), st.sampled_from([-100.0, -7.0, 7.0, 100.0])),
    st.tuples(st.just("acknowledge"), st.tuples(names, st.integers(1, 4))),
    st.tuples(st.sampled_from(["redeliver", "leave", "reset"]), names),
    st.tuples(st.sampled_from(["restart", "unload", "lose_index"]), st.none()),
    st.tuples(st.sampled_from(["fill_disk", "hold"]), st.booleans()),
)


LOST_WHILE_WRITING: list[tuple[str, object]] = [
    ("publish", [1.0]),
    ("advance", 1.0),
    ("hold", True),
    ("publish", [1.0, 1.0, 6.0, 11.0, 12.0, 12.0, 14.0, 14.0, 20.0]),
    ("lose_index", None),
    ("publish", [*[1.0] * 9, 2.0]),
    ("jump", -100.0),
    ("publish", [1.0, 2.0]),
    ("unload", None),
    ("publish", [0.5] * 4),
]
"""Requests from before the loss of the file, which relied on its contents, run afterwards."""

GIVEN_UP_BELOW_THE_WATERMARK: list[tuple[str, object]] = [
    ("publish", [0.5] * 9),
    ("advance", 1.0),
    ("advance", 1.0),
    ("jump", -100.0),
    ("publish", [0.5] * 5),
    ("fill_disk", True),
    ("redeliver", "a"),
    ("publish", [0.5] * 5),
]
"""A written and deleted entry waits again after the clock goes back, and may be dropped before it is rewritten."""


@pytest.mark.parametrize("added_max", [due_windows.ADDED_AT_ONCE_MAX, 4], ids=["added", "mostly cut"])
@settings(max_examples=250)
@given(story_steps=st.lists(steps, max_size=60))
@example(story_steps=LOST_WHILE_WRITING)
@example(story_steps=GIVEN_UP_BELOW_THE_WATERMARK)
def test_nothing_is_early_lost_or_twice(added_max: int, story_steps: list[tuple[str, object]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(due_windows, "ADDED_AT_ONCE_MAX", added_max)
        patch.setattr(due_windows, "PAGES_AT_ONCE_MAX", 1 if added_max == 4 else 8)
        play(story_steps)


def play(story_steps: list[tuple[str, object]]) -> None:
    scenario = DelayedScenario()
    for step, value in story_steps:
        match step, value:
            case "publish", list(delays_s):
                scenario.publish(delays_s)
            case "advance" | "jump", float(seconds):
                getattr(scenario, step)(seconds)
            case "acknowledge", (str(name), int(count)):
                scenario.acknowledge(name, count)
            case "redeliver" | "leave" | "reset", str(name):
                getattr(scenario, step)(name)
            case "fill_disk", bool(full):
                scenario.fill_disk(full=full)
            case "hold", bool(held):
                scenario.hold(held=held)
            case _:
                getattr(scenario, step)()
        assert not scenario.cluster.loop.problems
    scenario.end()
    assert not scenario.cluster.loop.problems


def test_in_the_order_of_their_times_then_of_their_places() -> None:
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    for text, delay_s in (("a", 9), ("b", 3), ("c", 6), ("d", 3), ("e", 1)):
        publish(sender, text, delay_s)
    publish(sender, "now")
    receiver = consumer(cluster)
    assert receiver.messages() == ["now"]
    cluster.loop.advance(10)
    assert receiver.messages() == ["e", "b", "d", "c", "a"]


def test_permits_are_kept_to_and_the_order_too() -> None:
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    for number in range(30):
        publish(sender, str(number), 60 - number)
    receiver = consumer(cluster, permits=7)
    cluster.loop.advance(100)
    assert receiver.messages() == [str(number) for number in range(29, 22, -1)]
    receiver.say(commands.flow(consumer_id=1, message_permits=100))
    assert receiver.messages() == [str(number) for number in range(22, -1, -1)]


def test_entries_that_are_withheld_are_not_read() -> None:
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    for number in range(50):
        publish(sender, str(number), 60)
    publish(sender, "now")
    cluster.loop.advance(2)
    cluster.crash()
    cluster.store.cached = False
    reads: list[int] = []
    read = cluster.store.read

    async def counted(ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes]:
        reads.append(first)
        return await read(ledger_id, first, max_entries, max_bytes)

    cluster.store.read = counted  # type: ignore[method-assign]
    receiver = consumer(cluster)
    cluster.settle()
    assert (receiver.messages(), reads) == (["now"], [50])


def test_many_subscriptions_do_little_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work of one turn must not be the number of entries times the number of subscriptions."""
    monkeypatch.setattr(due_windows, "ADDED_AT_ONCE_MAX", 30)
    monkeypatch.setattr(due_windows, "PAGES_AT_ONCE_MAX", 3)
    cluster = Cluster(settings=EXACT)
    consumers = [consumer(cluster, f"s{number}") for number in range(10)]
    client = producer(cluster)
    added, pages = [0], list[int]()
    add, begin = windows.DueWindow.add, due_windows.DueWindows.begin_pages

    def counting_add(window: windows.DueWindow, entry: windows.Delayed) -> None:
        added[0] += 1
        add(window, entry)

    def counting_begin(self: due_windows.DueWindows) -> due_windows.Pages:
        found = begin(self)
        pages.append(len(found.after))
        return found

    monkeypatch.setattr(windows.DueWindow, "add", counting_add)
    monkeypatch.setattr(due_windows.DueWindows, "begin_pages", counting_begin)
    client.say(*[send(cluster, str(number), 5.0) for number in range(15)])
    assert added == [0]
    cluster.loop.advance(6.0)
    cluster.settle()
    assert [each.messages() for each in consumers] == [list(map(str, range(15)))] * 10
    assert max(pages) == 3
    client.say(*[send(cluster, str(number), 5.0) for number in range(30)])
    cluster.settle()
    assert added == [0], "the log is searched for entries that were dropped before they were written"
    cluster.loop.advance(6.0)
    cluster.settle()
    assert [each.messages()[-30:] for each in consumers] == [list(map(str, range(30)))] * 10


def test_one_subscription_that_is_slow_holds_nobody_up() -> None:
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    quick, slow = consumer(cluster, "quick"), consumer(cluster, "slow", permits=0)
    for number in range(40):
        publish(sender, str(number), 1)
    cluster.loop.advance(5)
    assert quick.messages() == [str(number) for number in range(40)]
    assert (cluster.subscription("quick").delayed, cluster.subscription("slow").delayed) == (0, 40)
    assert cluster.delayed_store.entries == 40
    slow.say(commands.flow(consumer_id=1, message_permits=100))
    assert slow.messages() == [str(number) for number in range(40)]
    tidy(cluster)
    assert (len(cluster.topic().delayed.withheld), cluster.delayed_store.entries) == (0, 0)


def test_a_subscription_that_is_deleted_holds_nothing_back() -> None:
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    quick, slow = consumer(cluster, "quick"), consumer(cluster, "slow", permits=0)
    for number in range(40):
        publish(sender, str(number), 1)
    cluster.loop.advance(5)
    assert len(quick.messages()) == 40
    slow.say(commands.unsubscribe(consumer_id=1, request_id=slow.request_id()))
    tidy(cluster)
    assert (len(cluster.topic().delayed.withheld), cluster.delayed_store.entries) == (0, 0)


def tidy(cluster: Cluster, rounds: int = 10) -> None:
    for _ in range(rounds):
        cluster.do(lambda: list(measuring(cluster.topics.loaded[TOPIC], cluster.clock.monotonic())))
        cluster.loop.advance(2)


def test_exclusive_subscriptions_get_them_at_once() -> None:
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    receiver = consumer(cluster, kind=Exclusive)
    publish(sender, "later", 60)
    assert receiver.messages() == ["later"]
    assert cluster.subscription().delayed == 1  # no Shared consumer yet, so it would wait
    cluster.loop.advance(100)
    tidy(cluster)
    assert cluster.delayed_store.entries == 0


def test_messages_delivered_to_an_exclusive_consumer_are_not_early_for_another() -> None:
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    first = consumer(cluster, kind=Exclusive)
    publish(sender, "later", 60)
    assert first.messages() == ["later"]
    first.leave()
    second = consumer(cluster)
    assert second.messages() == []
    cluster.loop.advance(61)
    assert second.messages() == ["later"]


def test_a_topic_without_delayed_messages_asks_nothing_of_the_store() -> None:
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    for number in range(20):
        publish(sender, str(number))
    receiver = consumer(cluster)
    assert len(receiver.messages()) == 20
    tidy(cluster)
    cluster.crash()
    consumer(cluster)
    tidy(cluster)
    assert cluster.delayed.asked == 0


def test_switched_off_all_are_delivered_at_once_and_switched_on_again_none_early() -> None:
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    receiver = consumer(cluster)
    publish(sender, "a", 60)
    assert receiver.messages() == []
    switch(cluster, active=False)
    assert receiver.messages() == ["a"]
    publish(sender, "b", 60)
    assert receiver.messages() == ["b"]
    switch(cluster, active=True)
    receiver.say(commands.redeliver_unacknowledged_messages(consumer_id=1))
    assert receiver.messages() == []
    cluster.loop.advance(61)
    assert sorted(receiver.messages()) == ["a", "b"]


def switch(cluster: Cluster, *, active: bool) -> None:
    policies = DelayedDeliveryPolicies(tickTime=0, active=active, maxDeliveryDelayInMillis=0)
    cluster.do(lambda: cluster.resources.topic_policies.change(TOPIC, delayedDeliveryPolicies=policies))


def test_delays_above_the_limit_are_refused_and_others_accepted() -> None:
    cluster = Cluster(settings={**EXACT, "delayedDeliveryMaxDelayInMillis": 5000})
    sender = producer(cluster)
    now_ms = int(cluster.clock.now() * 1000)

    def sent(sequence_id: int, delay_ms: int) -> bytes:
        stored = entry("x", publish_time=now_ms, deliver_at_time=now_ms + delay_ms)
        return commands.send(producer_id=1, sequence_id=sequence_id, entry=stored)

    sender.say(sent(1, 5000), sent(2, 5001), sent(3, 4000))
    (refusal,) = sender.take("SEND_ERROR")
    assert (refusal.sequence_id, refusal.error) == (2, ServerError.NotAllowedError)
    assert refusal.message == "Exceeds max allowed delivery delay of 5000 milliseconds"
    assert [sequence_id for sequence_id, _ in sender.receipts()] == [1, 3]


def refuse_writes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Transaction) -> None:
        cluster.metadata._failed(DiskFullError("metadata store: database or disk is full"))

    monkeypatch.setattr(cluster.metadata, "_submit", refuse)


def test_a_delayed_message_whose_index_cannot_be_recorded_is_taken_and_not_early_after_a_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(settings=EXACT)
    client = producer(cluster)
    publish(client, "#before")
    with monkeypatch.context() as disk_full:
        refuse_writes(cluster, disk_full)
        client.say(send(cluster, "#delayed", 5), send(cluster, "#behind", 0), send(cluster, "#later", 9))
        assert client.names() == ["PRODUCER_SUCCESS", *["SEND_RECEIPT"] * 4]
    cluster.crash()
    assert INCARNATION_PROPERTY not in cluster.topic().ledger.properties
    reader = consumer(cluster)
    assert reader.messages() == ["#before", "#behind"]
    assert INCARNATION_PROPERTY in cluster.topic().ledger.properties
    cluster.crash()
    reader = consumer(cluster)
    assert reader.messages() == ["#before", "#behind"]
    cluster.loop.advance(6)
    assert reader.messages() == ["#delayed"]
    cluster.loop.advance(6)
    assert reader.messages() == ["#later"]


def test_a_reader_that_finds_a_delayed_message_withholds_it_though_the_index_cannot_be_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(settings=EXACT)
    publish(producer(cluster), "#found")
    topic = cluster.topic()
    refuse_writes(cluster, monkeypatch)
    cluster.do(lambda: topic.delayed.withhold(topic.ledger.last_confirmed_entry, 1))
    assert topic.ledger.last_confirmed_entry in topic.delayed.withheld
    assert not cluster.loop.problems


def test_looks_for_what_is_due_are_a_tick_apart() -> None:
    cluster = Cluster(settings={"delayedDeliveryTickTimeMillis": 1000})
    sender = producer(cluster)
    receiver = consumer(cluster)
    for number in range(4):
        publish(sender, str(number), 2 + number / 10)
    cluster.loop.advance(2)
    assert receiver.messages() == ["0"]
    cluster.loop.advance(0.9)
    assert receiver.messages() == []
    cluster.loop.advance(0.1)
    assert receiver.messages() == ["1", "2", "3"]


def test_a_timer_that_cannot_say_when_it_comes_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvloop returns a plain Handle, without a time, for delays below half a millisecond."""
    timer_at = HandLoop.call_at

    class Plain(asyncio.Handle):
        """The handle that uvloop returns."""

        def __init__(self, timer: asyncio.TimerHandle, loop: HandLoop) -> None:
            super().__init__(timer.cancel, (), loop)
            self._timer = timer

        def cancel(self) -> None:
            self._timer.cancel()

    def call_at(
        loop: HandLoop, when: float, callback: Callable[..., object], context: Context | None = None
    ) -> asyncio.Handle:
        return Plain(timer_at(loop, when, callback, context=context), loop)

    monkeypatch.setattr(HandLoop, "call_at", call_at)
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    receiver = cluster.client()
    for consumer_id, name in enumerate(("first", "second"), start=1):
        receiver.subscribe(consumer_id, subscription=name, permits=0)
    publish(sender, "soon", 0.5)
    cluster.loop.advance(0.4998)
    receiver.say(*(commands.flow(consumer_id=consumer_id, message_permits=1) for consumer_id in (1, 2)))
    cluster.loop.advance(0.001)
    assert receiver.messages() == ["soon", "soon"]
    assert cluster.loop.problems == []


def test_memory_is_bounded_while_the_disk_is_full_and_the_log_has_the_rest() -> None:
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    receiver = consumer(cluster, permits=0)
    cluster.delayed.disk_full = True
    for number in range(200):
        publish(sender, str(number), 60 - number / 10)
        assert len(cluster.topic().delayed._unwritten) <= unwritten.UNWRITTEN_MAX
    receiver.say(commands.flow(consumer_id=1, message_permits=1000))
    cluster.loop.advance(30)
    assert receiver.messages() == []
    cluster.delayed.disk_full = False
    for _ in range(70):
        cluster.loop.advance(1)
    assert sorted(receiver.messages(), key=int) == [str(number) for number in range(200)]


def test_trimmed_and_deleted_topics_leave_nothing() -> None:
    cluster = Cluster(settings=EXACT, ledger_config=ManagedLedgerConfig(max_entries_per_ledger=10, min_rollover_ms=0))
    sender = producer(cluster)
    receiver = consumer(cluster)
    for number in range(25):
        publish(sender, str(number), 10_000)
    cluster.loop.advance(2)
    assert cluster.delayed_store.entries == 25
    positions = [Position(ledger.ledger_id, 9) for ledger in cluster.topic().ledger.ledgers()]
    cluster.do(lambda: cluster.topics.loaded[TOPIC].subscriptions["worker"].acknowledge_through(positions[1]))
    cluster.trim()
    cluster.settle()
    assert (len(cluster.topic().delayed.withheld), cluster.delayed_store.entries) == (5, 5)
    receiver.leave()
    cluster.do(lambda: cluster.delete(TOPIC))
    assert cluster.delayed_store.entries == 0


def test_an_index_of_an_earlier_topic_of_that_name_is_not_believed() -> None:
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    publish(sender, "old", 1000)
    cluster.loop.advance(2)
    cluster.delayed.crashed = True  # the request of the deletion to the store is lost
    sender.leave()
    cluster.do(lambda: cluster.delete(TOPIC))
    cluster.crash()
    sender = producer(cluster)
    publish(sender, "new", 10)
    cluster.crash()
    receiver = consumer(cluster)
    assert cluster.subscription().delayed == 1
    cluster.loop.advance(11)
    assert receiver.messages() == ["new"]
    tidy(cluster)
    assert cluster.delayed_store.entries == 0


def test_replicated_entries_wait_too() -> None:
    source, target = Cluster("ewr", ["jfk"], EXACT), Cluster("jfk", ["ewr"], EXACT)
    publish(producer(source), "later", 30)
    pipe = Pipe(source, target)
    pipe.attach()
    pipe.run()
    receiver = consumer(target)
    assert (receiver.messages(), len(target.topic().delayed.withheld)) == ([], 1)
    target.loop.advance(31)
    assert receiver.messages() == ["later"]


def test_a_million_bits_cost_little() -> None:
    withheld = PositionSet()
    withheld.update(1, BitMap(range(1_000_000)))
    withheld.update(2, BitMap(range(0, 64_000_000, 64)))
    assert len(withheld) == 2_000_000
    assert withheld.first_absent(Position(1, 5)) == Position(1, 1_000_000)
    assert withheld.first_absent(Position(2, 64)) == Position(2, 65)
    size = sum(len(entry_ids.serialize()) for entry_ids in withheld._ledgers.values())
    assert size < 2.5 * len(withheld)


@given(st.lists(st.lists(st.sampled_from([0.0, 60.0]), min_size=1, max_size=40), min_size=1, max_size=5), st.booleans())
def test_entries_below_the_watermark_survive_a_crash(runs: list[list[float]], prompt: bool) -> None:
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    consumer(cluster, permits=0)
    cluster.delayed.prompt = prompt
    for delays_s in runs:
        sender.say(*(send(cluster, "x", delay_s) for delay_s in delays_s))
    cluster.crash()
    consumer(cluster, permits=0)
    cluster.loop.advance(1)
    assert cluster.subscription().delayed == sum(delay_s > 0 for delays_s in runs for delay_s in delays_s)


def test_taken_entries_stay_withheld_after_a_restart_of_the_dispatcher() -> None:
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    receiver = consumer(cluster)
    publish(sender, "later", 1)
    cluster.loop.advance(2)
    assert receiver.messages() == ["later"]
    cluster.delayed.prompt = False
    cluster.do(cluster.topics.loaded[TOPIC].delayed.tidy)

    def begin_again_before_the_answer_is_heard() -> None:
        cluster.delayed.answer()
        cluster.topics.loaded[TOPIC].subscriptions["worker"].disconnect_consumers()

    cluster.do(begin_again_before_the_answer_is_heard)
    receiver.subscribe()
    cluster.delayed.prompt = True
    cluster.do(cluster.delayed.answer)
    assert receiver.messages() == ["later"]


def test_more_in_hand_than_is_permitted_now_waits_beside_what_was_put_aside() -> None:
    cluster = Cluster(settings=EXACT)
    sender = producer(cluster)
    receiver = consumer(cluster, permits=0)
    for number in range(5):
        publish(sender, str(number), 1)
    cluster.loop.advance(2)
    dispatcher = cluster.subscription().consumers.dispatcher
    assert isinstance(dispatcher, SharedDispatcher)
    first = cluster.topic().ledger.first_position
    held = cluster.do(lambda: dispatcher._delayed._take(first, 4))
    assert len(held) == 4
    dispatcher._delayed._parked.add(dispatcher._delayed._in_hand.pop())
    receiver.say(commands.flow(consumer_id=1, message_permits=2))
    assert receiver.messages() == ["0", "1"]
    receiver.say(commands.flow(consumer_id=1, message_permits=9))
    assert receiver.messages() == ["2", "3", "4"]


def test_an_index_that_is_ahead_of_a_log_that_lost_entries_begins_anew() -> None:
    cluster = Cluster(settings=EXACT)
    publisher, worker = producer(cluster), consumer(cluster)
    publish(publisher, "late", delay_s=60)
    cluster.loop.advance(2)
    tidy(cluster)
    incarnation = cluster.topic().ledger.properties[INCARNATION_PROPERTY]
    lost = Position(999, 5)  # an entry that was stored here, and that the log does not have after a power loss
    request = stores.Request(None, [windows.Delayed(1, lost)], lost, (), None)
    cluster.delayed_store.turn(str(TOPIC), incarnation, request)
    assert cluster.delayed_store.entries == 2
    cluster.crash()
    worker = consumer(cluster)
    cluster.settle()
    topic = cluster.topic()
    assert topic.ledger.properties[INCARNATION_PROPERTY] != incarnation
    assert lost not in topic.delayed.withheld
    assert len(topic.delayed.withheld) == 1
    assert worker.messages() == []
    cluster.loop.advance(61)
    assert worker.messages() == ["late"]


@pytest.mark.parametrize("kind", [Shared, Key_Shared])
def test_chunks_that_are_published_after_their_time_do_not_overtake_the_others(
    kind: pb.CommandSubscribe.SubType.ValueType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier chunks are read from the disk, slowly; the later ones are cached."""
    cluster = Cluster(settings=EXACT)
    client = producer(cluster)
    client.subscribe(kind=kind)
    due_at_ms = int((cluster.clock.now() + 3) * 1000)

    def chunk(number: int) -> bytes:
        message = entry(f"chunk-{number}", uuid="m", num_chunks_from_msg=4, chunk_id=number, deliver_at_time=due_at_ms)
        return commands.send(producer_id=1, sequence_id=0, entry=message)

    client.say(chunk(0), chunk(1))
    read, read_cached, is_read = cluster.store.read, cluster.store.read_cached, asyncio.Event()

    async def read_slowly(ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes]:
        await is_read.wait()
        return await read(ledger_id, first, max_entries, max_bytes)

    def read_late(ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes] | None:
        return read_cached(ledger_id, first, max_entries, max_bytes) if first >= 2 else None

    monkeypatch.setattr(cluster.store, "read", read_slowly)
    monkeypatch.setattr(cluster.store, "read_cached", read_late)
    cluster.loop.elapsed_s += 4
    client.say(chunk(2), chunk(3), send(cluster, "other", 0))
    assert client.messages() == ["other"]
    is_read.set()
    cluster.settle()
    assert client.messages() == ["chunk-0", "chunk-1", "chunk-2", "chunk-3"]
    assert cluster.loop.problems == []
