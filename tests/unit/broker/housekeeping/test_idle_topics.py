"""Idle topics are unloaded, and still trimmed and expired."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.errors import DiskFullError
from magnetar.base.names import TopicName
from magnetar.broker.housekeeping.idle_topics import MAINTENANCE_INTERVAL_MAX_S, TOPICS_PER_ROUND_MAX
from magnetar.broker.housekeeping.maintenance import Maintenance
from magnetar.broker.loop import slices
from magnetar.broker.loop.slices import at_once
from magnetar.broker.resources.objects import ObjectMemory
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.policies import Policies
from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.cluster import NAMESPACE, TOPIC, Client, Cluster, Exclusive
from magnetar.sim.virtual.metadata import FaultyMetadataStore
from magnetar.wire import commands

if TYPE_CHECKING:
    from collections.abc import Coroutine

OTHER = TopicName.parse("persistent://public/default/other")

HOUR_S = 3600.0
CHECK_S = 120.0
"""``retentionCheckIntervalInSeconds``: the minimum interval between two checks of a topic."""


class Idle:
    """A cluster with manually driven maintenance."""

    def __init__(self, targets: tuple[str, ...] = (), **settings: Any) -> None:  # noqa: ANN401 - any setting
        config = ManagedLedgerConfig(max_entries_per_ledger=2, min_rollover_ms=0)
        self.cluster = Cluster(targets=targets, settings=settings, ledger_config=config)
        self.begin()

    def begin(self) -> None:
        self.idle_topics = Maintenance(self.cluster.environment, self.cluster.topics).idle_topics
        self.cluster.do(self.idle_topics.start)
        self.loads: list[TopicName] = []
        get = self.cluster.topics.get

        def noted(name: TopicName) -> Any:  # noqa: ANN401 - a topic
            self.loads.append(name)
            return get(name)

        self.cluster.topics.get = noted  # type: ignore[method-assign]

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.cluster.loop.start(work)
        self.cluster.settle()
        task.result()

    def unload_inactive(self) -> None:
        self.run(self.idle_topics.unload_inactive())

    def round(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            self.run(self.idle_topics.maintain_unloaded())

    def wait(self, seconds: float) -> None:
        self.cluster.loop.advance(seconds)
        self.cluster.settle()

    def left_alone(self, texts: int = 0, *, acknowledged: int = 0) -> None:
        """Publish messages, acknowledge the first ones, disconnect, and wait until the topic is unloaded."""
        client = self.cluster.client()
        client.subscribe(permits=0)
        client.produce()
        client.send(*map(str, range(texts)))
        client.ack(*(position for _, position in client.receipts()[:acknowledged]))
        client.leave()
        self.unload_inactive()
        self.wait(HOUR_S)
        self.unload_inactive()
        assert self.loaded == []

    @property
    def loaded(self) -> list[TopicName]:
        return list(self.cluster.topics.loaded)

    @property
    def entries(self) -> int:
        """Return the number of entries in the topic's ledgers on the disk without loading it."""
        return sum(each["entries"] for each in self.ledgers)

    @property
    def ledgers(self) -> list[dict[str, int]]:
        """Return the topic's ledgers in the metadata store."""
        stored = self.cluster.metadata.get(managed_ledger_path(TOPIC))
        assert stored is not None
        ledgers: list[dict[str, int]] = json.loads(stored.value)["ledgers"]
        return ledgers


@pytest.mark.parametrize(
    "use",
    [
        Client.produce,
        Client.subscribe,
        partial(Client.subscribe, kind=Exclusive, durable=False, subscription="reader"),
    ],
    ids=["a producer", "a consumer", "a reader"],
)
def test_a_topic_is_unloaded_once_nobody_has_used_it_for_an_hour(use: Any) -> None:  # noqa: ANN401 - a method
    idle = Idle()
    client = idle.cluster.client()
    use(client)
    for _ in range(3):
        idle.wait(HOUR_S)
        idle.unload_inactive()
    assert idle.loaded == [TOPIC]
    client.leave()
    idle.unload_inactive()
    idle.wait(HOUR_S - 1)
    idle.unload_inactive()
    assert idle.loaded == [TOPIC]
    idle.wait(1)
    idle.unload_inactive()
    assert idle.loaded == []


def test_a_topic_that_is_used_in_between_begins_a_new_hour() -> None:
    idle = Idle()
    idle.cluster.topic()
    idle.unload_inactive()
    idle.wait(HOUR_S / 2)
    client = idle.cluster.client()
    client.produce()
    idle.unload_inactive()
    client.leave()
    idle.wait(HOUR_S / 2)
    idle.unload_inactive()
    assert idle.loaded == [TOPIC]


@pytest.mark.parametrize(
    ("targets", "seconds"), [(("jfk",), 3600), ((), 0)], ids=["it has links", "unloading is switched off"]
)
def test_a_topic_stays_loaded_if(targets: tuple[str, ...], seconds: float) -> None:
    idle = Idle(targets, brokerUnloadInactiveTopicsMaxInactiveDurationSeconds=seconds)
    idle.cluster.topic()
    idle.unload_inactive()
    idle.wait(10 * HOUR_S)
    idle.unload_inactive()
    assert idle.loaded == [TOPIC]


def test_unused_topics_are_unloaded_at_once_if_memory_is_short() -> None:
    idle = Idle()
    idle.cluster.topic(OTHER)
    client = idle.cluster.client()
    client.produce()
    memory = ObjectMemory(100, idle.cluster.clock, lambda: 91, lambda: 1)
    object.__setattr__(idle.cluster.environment, "objects", memory)
    idle.unload_inactive()
    assert idle.loaded == [TOPIC]


def test_a_client_that_comes_while_the_topic_is_unloaded_loses_nothing() -> None:
    idle = Idle()
    client = idle.cluster.client()
    client.subscribe(permits=0)
    client.produce()
    client.send("a", "b")
    client.leave()
    idle.unload_inactive()
    idle.wait(HOUR_S)
    idle.cluster.prompt = False
    task = idle.cluster.loop.start(idle.idle_topics.unload_inactive())
    idle.cluster.settle()
    client = idle.cluster.client()
    client.subscribe()
    client.produce()
    idle.cluster.prompt = True
    idle.cluster.settle()
    task.result()
    client.send("c", first=2)
    # the first one arrived before the consumer was created
    client.say(commands.flow(consumer_id=1, message_permits=10))
    assert client.messages() == ["a", "b", "c"]
    assert idle.loaded == [TOPIC]


def test_messages_of_a_topic_that_is_not_loaded_expire_and_are_trimmed() -> None:
    idle = Idle(ttlDurationDefaultInSeconds=int(3 * HOUR_S))
    idle.left_alone(4)
    assert idle.entries == 4
    idle.round()
    assert idle.loads == []
    idle.wait(2 * HOUR_S + 1)
    idle.round()
    assert idle.loads == [TOPIC]
    assert (idle.loaded, idle.entries) == ([], 0)
    idle.wait(MAINTENANCE_INTERVAL_MAX_S - 1)
    idle.round()
    assert idle.loads == [TOPIC]
    assert idle.cluster.subscription().backlog == 0


def test_a_topic_that_is_not_loaded_is_trimmed_when_retention_ends() -> None:
    idle = Idle(defaultRetentionTimeInMinutes=180, defaultRetentionSizeInMB=-1)
    idle.left_alone(4, acknowledged=4)
    assert idle.entries == 4
    idle.wait(HOUR_S)
    idle.round()
    assert idle.loads == []
    idle.wait(2 * HOUR_S)
    idle.round()
    assert (len(idle.loads), idle.loaded, idle.entries) == (1, [], 0)


def test_an_age_quota_evicts_in_a_topic_that_is_not_loaded() -> None:
    idle = Idle(
        backlogQuotaDefaultLimitSecond=int(2 * HOUR_S), backlogQuotaDefaultRetentionPolicy="consumer_backlog_eviction"
    )
    idle.left_alone(3)
    idle.wait(HOUR_S + 1)
    idle.round()
    assert (len(idle.loads), idle.loaded) == (1, [])
    assert idle.cluster.subscription().backlog == 0


def test_policies_that_change_are_followed_soon() -> None:
    idle = Idle()
    idle.left_alone(4)
    idle.wait(HOUR_S)
    idle.round()
    assert idle.loads == []
    shortened = Policies(replication_clusters=[idle.cluster.name], message_ttl_in_seconds=60)
    idle.cluster.do(lambda: idle.cluster.resources.namespaces.update(NAMESPACE, lambda _: shortened))
    idle.round()
    assert (idle.loads, idle.loaded, idle.entries) == ([TOPIC], [], 0)


def test_many_topics_that_are_not_loaded_are_noted_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 4)
    idle = Idle()
    names = [TopicName.parse(f"persistent://public/default/t{number}") for number in range(30)]
    for name in names:
        idle.cluster.topic(name)
    idle.cluster.crash()
    noted: list[int] = []

    def look() -> None:
        noted.append(idle.idle_topics.noted)
        if noted[-1] < len(names):
            idle.cluster.loop.call_soon(look)

    idle.cluster.loop.call_soon(lambda: idle.cluster.loop.call_soon(look))
    idle.begin()
    assert noted[0] < len(names)
    assert noted[-1] == len(names)
    agenda = idle.idle_topics._agenda
    for name in names[:-1]:
        agenda.put(name, HOUR_S)
    agenda.put(names[-1], -1.0)
    soon: list[int] = []

    def change() -> None:
        policies = Policies(replication_clusters=[idle.cluster.name], message_ttl_in_seconds=60)
        idle.cluster.resources.namespaces.update(NAMESPACE, lambda _: policies)
        assert agenda.take_due(-1.0) == names[-1]  # it is loaded meanwhile
        soon.append(sum(agenda.at(name) == idle.cluster.clock.monotonic() for name in names))

    idle.cluster.do(change)
    assert 0 < soon[0] < len(names)
    assert [agenda.at(name) for name in names] == [idle.cluster.clock.monotonic()] * 29 + [None]


def test_after_a_start_each_topic_is_looked_at_once_and_few_in_a_round() -> None:
    idle = Idle()
    names = [TopicName.parse(f"persistent://public/default/t{number}") for number in range(4 * TOPICS_PER_ROUND_MAX)]
    for name in names:
        idle.cluster.topic(name)
    idle.cluster.crash()
    idle.begin()
    assert (idle.idle_topics.noted, idle.loaded) == (len(names), [])
    idle.round()
    assert len(idle.loads) == TOPICS_PER_ROUND_MAX
    idle.round(10)
    assert sorted(idle.loads) == sorted(names)
    idle.wait(MAINTENANCE_INTERVAL_MAX_S - 1)
    idle.round(10)
    assert len(idle.loads) == len(names)
    assert (idle.idle_topics.noted, idle.loaded) == (len(names), [])


def test_a_deleted_topic_is_forgotten_and_one_that_cannot_be_loaded_is_looked_at_again_later() -> None:
    idle = Idle()
    other = TopicName.parse("persistent://public/default/other")
    idle.cluster.topic(other)
    idle.left_alone(1)  # both are unloaded
    idle.cluster.do(partial(idle.cluster.delete, other))
    idle.cluster.store.delete(idle.ledgers[0]["ledgerId"])
    idle.cluster.settle()
    idle.loads.clear()
    idle.wait(MAINTENANCE_INTERVAL_MAX_S)
    idle.round(3)
    assert (idle.loads, idle.loaded, idle.idle_topics.noted) == ([TOPIC], [], 1)
    idle.wait(MAINTENANCE_INTERVAL_MAX_S)
    idle.round(3)
    assert idle.loads == [TOPIC, TOPIC]


def test_a_topic_whose_deletion_failed_is_looked_at_later() -> None:
    idle = Idle()
    store = FaultyMetadataStore(idle.cluster.clock)
    store._tree = idle.cluster.metadata._tree
    idle.cluster.metadata = store
    idle.cluster.resources = type(idle.cluster.resources).over(store)
    idle.cluster.crash()
    idle.begin()
    idle.cluster.topic()
    store.fail_writes = True
    deleted = []
    idle.cluster.do(lambda: deleted.append(at_once(idle.cluster.topics.deletion(TOPIC))))
    assert isinstance(deleted[0].exception(), DiskFullError)
    store.fail_writes = False
    assert (idle.loaded, idle.idle_topics.noted) == ([], 1)
    idle.wait(MAINTENANCE_INTERVAL_MAX_S)
    idle.round()
    assert idle.loads == [TOPIC]


def test_a_topic_that_fails_to_load_for_a_client_when_it_is_due_is_looked_at_later() -> None:
    idle = Idle()
    idle.left_alone(1)
    idle.loads.clear()
    idle.wait(MAINTENANCE_INTERVAL_MAX_S)
    idle.cluster.store.has_runs = False  # a load takes more than one turn
    idle.cluster.store.delete(idle.ledgers[0]["ledgerId"])

    def load_and_look() -> None:
        assert idle.cluster.topics.must_wait(TOPIC)
        idle.cluster.loop.create_task(idle.idle_topics.maintain_unloaded())

    idle.cluster.do(load_and_look)
    assert idle.cluster.topics.load_failures.reasons.keys() == {TOPIC}
    assert (idle.loads, idle.loaded, idle.idle_topics.noted) == ([], [], 1)


def test_a_client_that_uses_a_topic_during_a_look_keeps_it_loaded() -> None:
    idle = Idle(ttlDurationDefaultInSeconds=60)
    idle.left_alone(2)
    idle.wait(CHECK_S)
    idle.cluster.prompt = False
    task = idle.cluster.loop.start(idle.idle_topics.maintain_unloaded())
    idle.cluster.settle()
    client = idle.cluster.client()
    client.subscribe()
    idle.cluster.prompt = True
    idle.cluster.settle()
    task.result()
    assert idle.loaded == [TOPIC]
    client.say(commands.flow(consumer_id=1, message_permits=10))
    client.produce()
    client.send("new", first=2)
    assert client.messages() == ["new"]
