"""Topics with many partitions are created, updated and deleted in slices, and never stay incomplete."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import AdminError
from magnetar.broker.admin.administration import Administration
from magnetar.broker.housekeeping.maintenance import Maintenance
from magnetar.broker.loop import slices
from magnetar.broker.topic import partitioned_topics
from magnetar.metadata.policies import PartitionedTopicMetadata
from magnetar.sim.cluster import NAMESPACE, TOPIC, Client, Cluster
from magnetar.sim.virtual.loop import HandClock
from magnetar.sim.virtual.metadata import FaultyMetadataStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

PARTITIONS = 30
SLICE = 4
"""Items of a slice in these tests."""


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", SLICE)


class Operator:
    """An operator of a cluster."""

    def __init__(self, **settings: object) -> None:
        self.cluster = Cluster(settings=settings)
        self.store = FaultyMetadataStore(HandClock(self.cluster.loop))
        self.store._tree = self.cluster.metadata._tree
        self._start()

    def _start(self) -> None:
        self.cluster.metadata = self.store
        self.cluster.resources = type(self.cluster.resources).over(self.store)
        self.cluster.crash()
        self.topics = self.cluster.topics
        self.admin = Administration(self.cluster.environment, self.cluster.domains, "http://here")

    def crash(self) -> None:
        """Stop the broker without cleanup, and start it again."""
        self.store = self.store.reopened()
        self._start()

    def run(self, work: Coroutine[None, None, None], count: Callable[[], int] = lambda: 0) -> list[int]:
        """Run a request, raise its error, and return the result of ``count`` after each turn."""
        loop, seen = self.cluster.loop, list[int]()
        task = loop.create_task(work)

        def look() -> None:
            seen.append(count())
            if not task.done():
                loop.call_soon(look)

        loop.call_soon(look)
        self.cluster.settle()
        task.result()
        return seen

    def run_until(self, work: Coroutine[None, None, None], is_reached: Callable[[], bool]) -> None:
        """Run a request until the end of the turn in which ``is_reached`` is true, then abandon it."""
        loop = self.cluster.loop
        task = loop.create_task(work)

        def look() -> None:
            if is_reached():
                task.cancel()
            elif not task.done():
                loop.call_soon(look)

        loop.call_soon(look)
        loop.spin()
        assert task.cancelled()

    def there(self) -> int:
        """Return the number of partitions."""
        return sum(1 for _ in self.cluster.environment.resources.topics.of_namespace(NAMESPACE))

    def at(self, index: int) -> Client:
        client = self.cluster.client()
        client.topic = TOPIC.partition(index)
        return client

    def subscriptions(self, index: int) -> list[str]:
        return list(self.cluster.topic(TOPIC.partition(index)).subscriptions)


def is_sliced(counts: list[int], items_of_a_step: int = 1) -> bool:
    return max(abs(after - before) for before, after in pairwise(counts)) <= SLICE * items_of_a_step


def test_partitions_are_created_and_deleted_in_slices() -> None:
    operator = Operator()
    created = operator.run(operator.admin.topics.create_partitioned(TOPIC, PARTITIONS, {}), operator.there)
    assert created[-1] == operator.there() == PARTITIONS
    assert is_sliced([0, *created])
    deleted = operator.run(operator.admin.topics.delete_partitioned(TOPIC, force=False), operator.there)
    assert is_sliced([PARTITIONS, *deleted])
    assert operator.there() == 0
    assert operator.topics.partitions_of(TOPIC) is None


def test_partitions_are_added_in_slices_with_their_subscriptions_before_anybody_knows_of_them() -> None:
    operator = Operator()
    operator.run(operator.admin.topics.create_partitioned(TOPIC, 2, {}))
    operator.at(0).subscribe()
    incomplete: list[int] = []

    def count() -> int:
        known = operator.topics.partitions_of(TOPIC) or 0
        loaded = operator.topics.loaded
        incomplete.extend(i for i in range(2, known) if "worker" not in loaded[TOPIC.partition(i)].subscriptions)
        return operator.there()

    added = operator.run(operator.admin.topics.update_partitioned(TOPIC, PARTITIONS), count)
    assert is_sliced([2, *added])
    assert operator.topics.partitions_of(TOPIC) == PARTITIONS
    assert operator.subscriptions(PARTITIONS - 1) == ["worker"]
    assert incomplete == []


def test_a_subscription_that_comes_meanwhile_is_on_every_partition() -> None:
    operator = Operator()
    operator.run(operator.admin.topics.create_partitioned(TOPIC, 1, {}))
    client = operator.at(0)
    operator.cluster.loop.create_task(operator.admin.topics.update_partitioned(TOPIC, PARTITIONS))
    client.subscribe()
    assert operator.topics.partitions_of(TOPIC) == PARTITIONS
    assert {tuple(operator.subscriptions(index)) for index in range(PARTITIONS)} == {("worker",)}


def test_an_update_gives_up_while_subscriptions_keep_changing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned_topics, "COPIES_MAX", 3)
    operator = Operator()
    operator.run(operator.admin.topics.create_partitioned(TOPIC, 1, {}))
    topic = operator.cluster.topic(TOPIC.partition(0))

    def count() -> int:
        topic.create_subscription(f"s{len(topic.subscriptions)}", topic.log.before_first())
        return 0

    with pytest.raises(AdminError, match="keep changing"):
        operator.run(operator.admin.topics.update_partitioned(TOPIC, SLICE), count)
    assert operator.topics.partitions_of(TOPIC) == 1
    operator.run(operator.admin.topics.update_partitioned(TOPIC, SLICE))
    assert sorted(operator.subscriptions(SLICE - 1)) == sorted(topic.subscriptions)


@pytest.mark.parametrize("has_crashed", [True, False])
def test_a_creation_that_ended_in_the_middle_is_completed_by_a_retry(has_crashed: bool) -> None:
    operator = Operator(allowAutoTopicCreation=False)
    work = operator.admin.topics.create_partitioned(TOPIC, PARTITIONS, {})
    operator.run_until(work, lambda: operator.there() > SLICE)
    if has_crashed:
        operator.crash()
    assert SLICE < operator.there() < PARTITIONS
    missing = operator.at(PARTITIONS - 1)
    missing.produce()
    assert missing.names() == ["PRODUCER_SUCCESS"], "a client does not notice"
    with pytest.raises(AdminError, match="already exists"):
        operator.run(operator.admin.topics.create_partitioned(TOPIC, PARTITIONS + 1, {}))
    operator.run(operator.admin.topics.create_partitioned(TOPIC, PARTITIONS, {}))
    assert operator.there() == PARTITIONS
    with pytest.raises(AdminError, match="already exists"):
        operator.run(operator.admin.topics.create_partitioned(TOPIC, PARTITIONS, {}))


@pytest.mark.parametrize("is_retried", [True, False])
def test_an_update_that_ended_in_the_middle_is_completed_by_a_retry_or_deleted_with_the_topic(is_retried: bool) -> None:
    operator = Operator()
    operator.run(operator.admin.topics.create_partitioned(TOPIC, 1, {}))
    operator.at(0).subscribe()
    operator.run_until(operator.admin.topics.update_partitioned(TOPIC, PARTITIONS), lambda: operator.there() > SLICE)
    operator.crash()
    assert operator.topics.partitions_of(TOPIC) == 1
    if is_retried:
        operator.run(operator.admin.topics.update_partitioned(TOPIC, PARTITIONS))
        assert {tuple(operator.subscriptions(index)) for index in range(PARTITIONS)} == {("worker",)}
    operator.run(operator.admin.topics.delete_partitioned(TOPIC, force=True))
    assert operator.there() == 0


@pytest.mark.parametrize("is_retried", [True, False])
@pytest.mark.parametrize("has_crashed", [True, False])
def test_a_deletion_that_ended_in_the_middle_is_completed(has_crashed: bool, is_retried: bool) -> None:
    operator = Operator()
    operator.run(operator.admin.topics.create_partitioned(TOPIC, PARTITIONS, {}))
    work = operator.admin.topics.delete_partitioned(TOPIC, force=False)
    operator.run_until(work, lambda: operator.there() < PARTITIONS)
    if has_crashed:
        operator.crash()
    assert 0 < operator.there() < PARTITIONS
    for index in (0, PARTITIONS - 1):
        client = operator.at(index)
        client.produce()
        client.subscribe(permits=0)
        assert ["is being deleted" in each.message for each in client.take("ERROR")] == [True, True]
    with pytest.raises(AdminError, match="is being deleted"):
        operator.run(operator.admin.topics.update_partitioned(TOPIC, PARTITIONS + 1))
    if is_retried:
        operator.run(operator.admin.topics.delete_partitioned(TOPIC, force=False))
    else:
        operator.run(Maintenance(operator.cluster.environment, operator.topics).finish_deletions())
    assert operator.there() == 0
    assert operator.topics.partitions_of(TOPIC) is None
    operator.run(operator.admin.topics.create_partitioned(TOPIC, 2, {}))
    client = operator.at(1)
    client.produce()
    assert client.names() == ["PRODUCER_SUCCESS"]


def test_a_deletion_that_cannot_be_written_is_finished_later() -> None:
    operator = Operator()
    operator.run(operator.admin.topics.create_partitioned(TOPIC, 2, {}))
    operator.topics.partitioned._resources.update(TOPIC, lambda _: PartitionedTopicMetadata(partitions=2, deleted=True))
    maintenance = Maintenance(operator.cluster.environment, operator.topics)
    operator.store.fail_writes = True
    operator.run(maintenance.finish_deletions())
    operator.store.fail_writes = False
    assert operator.there() == 2
    operator.run(maintenance.finish_deletions())
    assert operator.there() == 0


def test_no_client_enters_between_the_check_for_clients_and_the_deletion() -> None:
    operator = Operator()
    operator.run(operator.admin.topics.create_partitioned(TOPIC, PARTITIONS, {}))
    client = operator.at(0)
    deletion = operator.cluster.loop.create_task(operator.admin.topics.delete_partitioned(TOPIC, force=False))
    client.produce()
    assert client.names() == ["ERROR"]
    assert deletion.done()
    assert operator.there() == 0


def test_a_topic_in_use_is_not_deleted_and_goes_on() -> None:
    operator = Operator()
    operator.run(operator.admin.topics.create_partitioned(TOPIC, PARTITIONS, {}))
    operator.at(PARTITIONS - 1).produce()
    with pytest.raises(AdminError, match="has active producers"):
        operator.run(operator.admin.topics.delete_partitioned(TOPIC, force=False))
    assert operator.there() == PARTITIONS
    client = operator.at(0)
    client.produce()
    assert client.names() == ["PRODUCER_SUCCESS"]
    operator.run(operator.admin.topics.delete_partitioned(TOPIC, force=True))
    assert operator.there() == 0
    assert client.names() == ["CLOSE_PRODUCER"]


def test_a_deletion_that_is_refused_because_the_cluster_left_the_namespace_is_not_carried_out_later() -> None:
    operator = Operator()
    cluster = operator.cluster
    operator.run(operator.admin.topics.create_partitioned(TOPIC, PARTITIONS, {}))
    joined = cluster.resources.namespaces.get(NAMESPACE)
    assert joined is not None
    left = joined.model_copy(update={"replication_clusters": ["elsewhere"]})
    cluster.do(lambda: cluster.resources.namespaces.update(NAMESPACE, lambda _: left))
    with pytest.raises(AdminError, match="Namespace missing local cluster"):
        operator.run(operator.admin.topics.delete_partitioned(TOPIC, force=True))
    cluster.do(lambda: cluster.resources.namespaces.update(NAMESPACE, lambda _: joined))
    operator.run(Maintenance(cluster.environment, operator.topics).finish_deletions())
    assert operator.there() == PARTITIONS
    client = operator.at(0)
    client.produce()
    assert client.names() == ["PRODUCER_SUCCESS"]


def test_requests_for_one_topic_wait_for_each_other() -> None:
    operator = Operator()
    loop, admin = operator.cluster.loop, operator.admin
    tasks = [
        loop.create_task(admin.topics.create_partitioned(TOPIC, PARTITIONS, {})),
        loop.create_task(admin.topics.create_partitioned(TOPIC, PARTITIONS, {})),
        loop.create_task(admin.topics.update_partitioned(TOPIC, PARTITIONS + 5)),
        loop.create_task(admin.topics.delete_partitioned(TOPIC, force=False)),
        loop.create_task(admin.topics.delete_partitioned(TOPIC, force=False)),
        loop.create_task(admin.topics.create_partitioned(TOPIC, 3, {})),
    ]
    operator.cluster.settle()
    assert [str(task.exception() or "") for task in tasks] == [
        "",
        "This topic already exists",
        "",
        "",
        f"Topic {TOPIC} not found",
        "",
    ]
    assert operator.there() == 3


def test_a_partition_that_is_being_unloaded_is_deleted_afterwards() -> None:
    operator = Operator()
    operator.run(operator.admin.topics.create_partitioned(TOPIC, 3, {}))
    operator.topics.partitioned._resources.update(TOPIC, lambda _: PartitionedTopicMetadata(partitions=3, deleted=True))
    operator.cluster.prompt = False
    operator.cluster.loop.call_soon(operator.topics.unload, TOPIC.partition(1))
    operator.cluster.loop.spin()
    deletion = operator.cluster.loop.create_task(operator.admin.topics.delete_partitioned(TOPIC, force=False))
    operator.cluster.settle()
    assert operator.there() == 1
    operator.cluster.prompt = True
    operator.cluster.settle()
    assert deletion.done()
    assert operator.there() == 0


def test_a_link_that_brings_a_late_partition_waits_for_those_before_it() -> None:
    operator = Operator()
    client = operator.at(PARTITIONS - 1)
    produced = operator.cluster.loop.create_task(operator.topics.partitioned.grow(TOPIC, PARTITIONS))
    assert is_sliced([0, *operator.run(operator.topics.partitioned.grow(TOPIC, PARTITIONS), operator.there)])
    assert produced.done()
    client.produce(name="pulsar.repl.jfk-->ewr")
    assert client.names() == ["PRODUCER_SUCCESS"]


def test_partitions_that_a_client_creates_are_created_in_slices() -> None:
    operator = Operator(allowAutoTopicCreationType="partitioned", defaultNumPartitions=PARTITIONS)

    async def ask() -> None:
        assert operator.topics.partitions_for_client(TOPIC, create=True) == PARTITIONS

    counts = operator.run(ask(), operator.there)
    assert counts[0] <= SLICE
    assert operator.there() == PARTITIONS
