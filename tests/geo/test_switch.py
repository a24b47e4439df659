"""A consumer moves between clusters: acknowledged messages are not repeated, others are not lost."""

from __future__ import annotations

import random
import re
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import pulsar
import pytest
from pulsar import ConsumerType

from tests.geo.helpers import (
    PROGRESS_TIMEOUT_S,
    REPLICATION_TIMEOUT_S,
    backlog,
    consume_rest,
    has_backlog,
    take_all,
    wait_for_backlog,
    wait_for_entries,
)
from tests.geo.journey import Journey, Traffic, is_confirmed
from tests.kit.background import STOP_TIMEOUT_S, Background, within
from tests.kit.clusters import NAMES
from tests.kit.messages import numbered, publish, publish_in_batches, receive, receive_data, receive_until_quiet
from tests.kit.rest import topic_path
from tests.kit.wait import holds_for, wait_until

if TYPE_CHECKING:
    from tests.kit.clusters import Up

SECONDS_OF_LOAD = 4.0
RATE = 250
LATE_SHARE = 0.05


def subscribe(up: Up, name: str, topic: str, **options: object) -> pulsar.Consumer:
    """Return a consumer of the replicated Shared subscription "s"."""
    return up.client(name).subscribe(
        topic, "s", ConsumerType.Shared, replicate_subscription_state_enabled=True, **options
    )


def test_subscription_appears_in_the_other_clusters(up: Up, topic: str) -> None:
    consumer = subscribe(up, "ewr", topic)
    publish(up.client("ewr"), topic, numbered(3))
    receive(consumer, 3, acknowledge=True)
    for name in ("jfk", "lga"):
        wait_until(partial(has_backlog, up, name, topic, "s", 0), REPLICATION_TIMEOUT_S, what=f"subscription in {name}")
        assert up.rest(name).stats(topic)["subscriptions"]["s"]["isReplicated"]


def test_subscription_that_is_not_replicated_stays_at_home(up: Up, topic: str) -> None:
    here = up.client("ewr").subscribe(topic, "private", ConsumerType.Shared)
    consumer = subscribe(up, "ewr", topic)
    publish(up.client("ewr"), topic, numbered(3))
    receive(here, 3, acknowledge=True)
    receive(consumer, 3, acknowledge=True)
    wait_for_entries(up, topic, 3, NAMES)
    wait_for_backlog(up, topic, "s", 0, NAMES)
    assert backlog(up, "jfk", topic, "private") is None


def test_individual_acknowledgements_travel(up: Up, topic: str) -> None:
    consumer = subscribe(up, "ewr", topic)
    publish(up.client("ewr"), topic, numbered(20))
    wait_for_entries(up, topic, 20, NAMES)
    for message in receive(consumer, 20):
        if int(message.data()) % 3:
            consumer.acknowledge(message)
    wait_for_backlog(up, topic, "s", 7, NAMES)
    consumer.close()
    consume_rest(up, "lga", topic, "s", numbered(20)[::3])


def test_batch_index_acknowledgements_travel(up: Up, topic: str) -> None:
    consumer = subscribe(up, "ewr", topic, batch_index_ack_enabled=True)
    publish_in_batches(up.client("ewr"), topic, numbered(40), per_batch=10)
    wait_for_entries(up, topic, 4, NAMES)
    messages = receive(consumer, 40)
    for message in messages[:10] + messages[10:40:2]:
        consumer.acknowledge(message)
    wait_for_backlog(up, topic, "s", 3, NAMES)
    consumer.close()
    elsewhere = subscribe(up, "jfk", topic, batch_index_ack_enabled=True)
    wait_until(lambda: up.rest("jfk").stats(topic)["subscriptions"]["s"]["consumers"])
    assert sorted(receive_data(elsewhere, 15, acknowledge=True), key=int) == numbered(40)[11:40:2]
    wait_for_backlog(up, topic, "s", 0, NAMES)
    elsewhere.close()


def test_keys_stay_in_order_when_a_key_shared_subscription_moves(up: Up, topic: str) -> None:
    def join(name: str) -> list[pulsar.Consumer]:
        options = {"replicate_subscription_state_enabled": True}
        return [up.client(name).subscribe(topic, "s", ConsumerType.KeyShared, **options) for _ in range(2)]

    consumers = join("ewr")
    producer = up.client("ewr").create_producer(topic, batching_enabled=False)
    for number in range(60):
        producer.send(b"%d" % number, partition_key=f"key-{number % 12}")
    wait_for_entries(up, topic, 60, NAMES)
    rest = set(range(60))
    for consumer in consumers:
        for message in receive_until_quiet(consumer)[::3]:
            rest.remove(int(message.data()))
            consumer.acknowledge(message)
    wait_for_backlog(up, topic, "s", len(rest), NAMES)
    for consumer in consumers:
        consumer.close()
    received = [[int(message.data()) for message in receive_until_quiet(consumer)] for consumer in join("jfk")]
    assert sorted(number for numbers in received for number in numbers) == sorted(rest)
    assert not {number % 12 for number in received[0]} & {number % 12 for number in received[1]}
    for key in range(12):
        of_key = [number for numbers in received for number in numbers if number % 12 == key]
        assert of_key == sorted(of_key)


def test_cumulative_acknowledgement_travels(up: Up, topic: str) -> None:
    consumer = up.client("ewr").subscribe(topic, "s", replicate_subscription_state_enabled=True)
    publish(up.client("ewr"), topic, numbered(30))
    wait_for_entries(up, topic, 30, NAMES)
    consumer.acknowledge_cumulative(receive(consumer, 20)[-1])
    wait_for_backlog(up, topic, "s", 10, NAMES)
    consumer.close()
    consume_rest(up, "jfk", topic, "s", numbered(10, first=20))


def test_messages_of_all_origins_are_acknowledged_anywhere(up: Up, topic: str) -> None:
    consumer = subscribe(up, "jfk", topic)
    for index, name in enumerate(NAMES):
        publish(up.client(name), topic, numbered(50, first=50 * index))
    for message in receive(consumer, 150):
        if int(message.data()) % 10:
            consumer.acknowledge(message)
    wait_for_backlog(up, topic, "s", 15, NAMES)
    consumer.close()
    consume_rest(up, "ewr", topic, "s", numbered(150)[::10])


class Load(Background):
    """A producer with a constant rate in a thread."""

    def __init__(self, up: Up, name: str, topic: str) -> None:
        """Start publishing 0, 1, 2 … in the cluster."""
        super().__init__()
        self.published = 0
        self._producer = up.client(name).create_producer(topic, block_if_queue_full=True)
        self.begin()

    def stop(self) -> None:
        """Stop; ``published`` is final when ``has_ended`` is true."""
        self.end()
        within(STOP_TIMEOUT_S, self._producer.flush, what="the receipts of a load")
        within(STOP_TIMEOUT_S, self._producer.close, what="the end of a load's producer")

    def work(self) -> None:
        """See Background."""
        started = time.monotonic()
        while not self.stopping.is_set():
            while self.published < (time.monotonic() - started) * RATE:
                self._producer.send_async(b"%d" % self.published, lambda *_: None)
                self.published += 1
            self.stopping.wait(0.005)


class LateConsumer:
    """Consumes for a while; some acknowledgements are late or missing."""

    def __init__(self, consumer: pulsar.Consumer, chance: random.Random) -> None:
        """Consume with ``consumer``."""
        self.acknowledged: set[bytes] = set()
        self._consumer = consumer
        self._chance = chance
        self._late: list[tuple[float, pulsar.Message]] = []

    def run(self, seconds: float, late_s: tuple[float, float], *, hold_every: int = 0) -> None:
        """Consume for ``seconds``; LATE_SHARE of the acknowledgements are delayed within ``late_s``.

        Every ``hold_every``-th message stays unacknowledged; all others are acknowledged at the end.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                message = self._consumer.receive(20)
            except pulsar.Timeout:
                self._acknowledge_due(time.monotonic())
                continue
            number = int(message.data())
            if hold_every and number % hold_every == 0:
                continue
            delay = self._chance.uniform(*late_s) if self._chance.random() < LATE_SHARE else 0.0
            self._late.append((time.monotonic() + delay, message))
            self._acknowledge_due(time.monotonic())
        self._acknowledge_due(deadline + late_s[1])

    def _acknowledge_due(self, now: float) -> None:
        for due, message in self._late:
            if due <= now:
                self._consumer.acknowledge(message)
                self.acknowledged.add(message.data())
        self._late = [(due, message) for due, message in self._late if due > now]


def applied(up: Up, name: str, topic: str) -> int:
    """Return the number of acknowledged entries of the cluster's cursor; the topic has one ledger only."""
    cursor = up.rest(name).cursor(topic, "s")
    mark_delete = int(cursor["markDeletePosition"].partition(":")[2])
    ranges = re.findall(r"\(\d+:(-?\d+)\.\.\d+:(\d+)\]", cursor["individuallyDeletedMessages"])
    return mark_delete + 1 + sum(int(upper) - int(lower) for lower, upper in ranges)


def planned_switch(up: Up, topic: str, late_s: tuple[float, float], *, hold_every: int, seconds: float) -> None:
    """Consume in ewr, close, consume in jfk, while publishing in ewr continues; no message is repeated or lost."""
    consumer = subscribe(up, "ewr", topic)
    load = Load(up, "ewr", topic)
    worker = LateConsumer(consumer, random.Random(7))
    worker.run(seconds, late_s, hold_every=hold_every)
    consumer.close()
    done = len(worker.acknowledged)
    wait_until(lambda: applied(up, "jfk", topic) == done, PROGRESS_TIMEOUT_S, what=f"{done} acknowledged in jfk")

    successor = subscribe(up, "jfk", topic)
    threading.Timer(1.0, load.stop).start()
    taken = take_all(successor, lambda taken: load.has_ended and len(taken) >= load.published - done, quiet_ms=1_000)
    successor.close()
    assert set(taken) & worker.acknowledged == set()
    assert [payload for payload, count in taken.items() if count > 1] == []
    assert set(taken) | worker.acknowledged == set(numbered(load.published))
    wait_for_backlog(up, topic, "s", 0, NAMES)


def test_planned_switch_with_late_acknowledgements_repeats_nothing(up: Up, topic: str) -> None:
    planned_switch(up, topic, (0.2, 1.6), hold_every=0, seconds=SECONDS_OF_LOAD)


def test_planned_switch_with_messages_held_for_ever_repeats_nothing(up: Up, topic: str) -> None:
    planned_switch(up, topic, (0.2, 1.6), hold_every=300, seconds=SECONDS_OF_LOAD)


def test_there_and_back_nothing_is_repeated_or_lost(up: Up, topic: str) -> None:
    """Type Shared, random acknowledgements, delayed messages, bursts; tests/chaos/test_switches.py repeats it fifty
    times.
    """
    journey = Journey(up, topic, ("ewr", "jfk"), Traffic(), random.Random(7))
    for there in ("jfk", "ewr"):
        journey.run(1.2)
        journey.move(there, partial(is_confirmed, up, topic, journey.here, there))
    journey.finish(REPLICATION_TIMEOUT_S)
    assert journey.account.repeated == set()


@pytest.mark.long
@pytest.mark.parametrize("hold_every", [0, 500], ids=["late", "held"])
def test_planned_switch_in_full_size(up: Up, topic: str, hold_every: int) -> None:
    planned_switch(up, topic, (1.0, 8.0), hold_every=hold_every, seconds=20.0)


def test_acknowledgement_overtakes_its_message(up: Up, topic: str) -> None:
    """The origin acknowledges a message at once: it arrives elsewhere already acknowledged."""
    consumer = subscribe(up, "ewr", topic)
    elsewhere = subscribe(up, "jfk", topic)
    wait_until(lambda: backlog(up, "jfk", topic, "s") is not None)
    elsewhere.close()
    publish(up.client("ewr"), topic, numbered(300))
    receive(consumer, 300, acknowledge=True)
    wait_for_entries(up, topic, 300, NAMES)
    wait_for_backlog(up, topic, "s", 0, NAMES)
    consume_rest(up, "jfk", topic, "s", [])


def test_going_back_travels(up: Up, topic: str) -> None:
    consumer = subscribe(up, "ewr", topic)
    ids = publish(up.client("ewr"), topic, numbered(30))
    receive(consumer, 30, acknowledge=True)
    wait_for_entries(up, topic, 30, NAMES)
    wait_for_backlog(up, topic, "s", 0, NAMES)
    consumer.seek(ids[19])
    consumer.close()
    wait_until(lambda: backlog(up, "lga", topic, "s") in {10, 11}, PROGRESS_TIMEOUT_S, what="seek in lga")
    elsewhere = subscribe(up, "lga", topic)
    received = {message.data() for message in receive(elsewhere, 10, acknowledge=True)}
    assert set(numbered(10, first=20)) - received <= {b"29"}
    elsewhere.close()


def test_skipping_all_travels(up: Up, topic: str) -> None:
    subscribe(up, "ewr", topic).close()
    publish(up.client("ewr"), topic, numbered(30))
    wait_for_entries(up, topic, 30, NAMES)
    wait_for_backlog(up, topic, "s", 30, NAMES)
    up.rest("ewr").post(f"{topic_path(topic)}/subscription/s/skip_all")
    wait_for_backlog(up, topic, "s", 0, NAMES)


def test_unsubscribing_travels_and_nothing_resurrects(up: Up, topic: str) -> None:
    consumer = subscribe(up, "ewr", topic)
    publish(up.client("ewr"), topic, numbered(10))
    receive(consumer, 5, acknowledge=True)
    wait_for_entries(up, topic, 10, NAMES)
    wait_for_backlog(up, topic, "s", 5, NAMES)
    consumer.unsubscribe()
    for name in NAMES:
        wait_until(partial(has_backlog, up, name, topic, "s", None), PROGRESS_TIMEOUT_S, what=f"gone in {name}")
    publish(up.client("jfk"), topic, numbered(5, first=10))
    wait_for_entries(up, topic, 15, NAMES)
    assert holds_for(lambda: all(backlog(up, name, topic, "s") is None for name in NAMES), 1.0, interval_s=0.1)


def test_consumers_in_two_clusters_at_once_converge(up: Up, topic: str) -> None:
    """Both may get a message before the other's acknowledgement arrives; at the end none is unacknowledged or lost."""
    consumers = [subscribe(up, name, topic) for name in ("ewr", "jfk")]
    publish(up.client("lga"), topic, numbered(200))
    wait_for_entries(up, topic, 200, NAMES)
    seen: set[bytes] = set()
    for consumer in consumers:
        while len(seen) < 200:
            try:
                message = consumer.receive(1_000)
            except pulsar.Timeout:
                break
            seen.add(message.data())
            consumer.acknowledge(message)
    assert seen == set(numbered(200))
    wait_for_backlog(up, topic, "s", 0, NAMES)
