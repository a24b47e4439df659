"""Deletion of subscriptions: it is answered when it is durable, and the topic goes on meanwhile."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from magnetar.base.errors import AdminError, StorageError
from magnetar.broker.admin.administration import Administration
from magnetar.sim.cluster import TOPIC, Cluster
from magnetar.sim.virtual.loop import HandClock
from magnetar.sim.virtual.metadata import COMMIT_S, FaultyMetadataStore
from magnetar.wire import commands

LATER_S = 10 * COMMIT_S


class SlowMetadata:
    """A topic with an entry and a subscription, on a metadata store whose commits take a while."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.store = FaultyMetadataStore(HandClock(self.cluster.loop))
        self.store._tree = self.cluster.metadata._tree
        self.use(self.store)
        self.publisher = self.cluster.client()
        self.publisher.produce()
        self.publisher.send("a")
        self.consumer = self.cluster.client()
        self.consumer.subscribe()
        self.store.serve(self.cluster.loop)

    def use(self, store: FaultyMetadataStore) -> None:
        """Start the broker with ``store``."""
        self.cluster.metadata = self.store = store
        self.cluster.resources = type(self.cluster.resources).over(store)
        self.cluster.crash()

    def wait(self) -> None:
        """Wait until all commits, including subsequent ones, are durable."""
        for _ in range(4):
            self.cluster.loop.advance(LATER_S)
            self.cluster.settle()

    def unsubscribe(self) -> None:
        self.consumer.names()
        self.consumer.say(commands.unsubscribe(consumer_id=1, request_id=self.consumer.request_id(), force=True))


def test_unsubscribe_is_answered_when_the_deletion_is_durable() -> None:
    broker = SlowMetadata()
    broker.unsubscribe()
    assert broker.consumer.names() == []
    broker.publisher.names()
    broker.publisher.send("b", first=1)
    assert broker.publisher.names() == ["SEND_RECEIPT"], "nobody else waits"
    broker.wait()
    assert broker.consumer.names() == ["SUCCESS"]
    assert broker.cluster.topic().subscriptions == {}


def test_a_crash_before_the_deletion_is_durable_leaves_the_subscription() -> None:
    broker = SlowMetadata()
    broker.consumer.ack(broker.cluster.topic().ledger.last_confirmed_entry)
    broker.unsubscribe()
    broker.use(broker.store.reopened())
    assert broker.cluster.subscription().backlog == 0, "what was acknowledged before is known"


def test_a_consumer_that_comes_meanwhile_gets_a_new_subscription() -> None:
    broker = SlowMetadata()
    broker.consumer.ack(broker.cluster.topic().ledger.last_confirmed_entry)
    broker.unsubscribe()
    other = broker.cluster.client()
    other.subscribe(permits=0)
    assert other.names() == []
    broker.wait()
    assert other.names() == ["SUCCESS"]
    other.say(commands.flow(consumer_id=1, message_permits=10))
    assert other.messages() == ["a"]
    broker.use(broker.store.reopened())
    assert broker.cluster.subscription().backlog == 1


def test_a_deletion_that_fails_is_an_error_and_the_subscription_goes_on() -> None:
    broker = SlowMetadata()
    topic = broker.cluster.topic()
    broker.consumer.ack(topic.ledger.last_confirmed_entry)
    broker.unsubscribe()
    other = broker.cluster.client()
    other.subscribe()
    broker.store.fail_in(1)
    broker.wait()
    assert broker.consumer.names() == ["ERROR", "CLOSE_CONSUMER"], "its client has the consumer still"
    assert other.names() == ["ERROR"], "it waited for the same commit"
    assert broker.cluster.topic() is not topic
    assert broker.cluster.subscription().backlog == 0


@pytest.mark.parametrize("fails", [True, False])
def test_the_admin_api_waits_for_the_deletion(*, fails: bool) -> None:
    broker = SlowMetadata()
    admin = Administration(broker.cluster.environment, broker.cluster.domains, "").subscriptions
    task = broker.cluster.loop.create_task(admin.delete(TOPIC, "worker", force=True))
    broker.cluster.settle()
    assert not task.done()
    if fails:
        broker.store.fail_in(1)
    broker.wait()
    assert isinstance(task.exception(), StorageError) is fails
    again = broker.cluster.loop.create_task(admin.delete(TOPIC, "worker", force=True))
    broker.wait()
    error = again.exception()
    if fails:
        assert error is None
    else:
        assert isinstance(error, AdminError)
        assert error.status == HTTPStatus.NOT_FOUND


def test_a_consumer_of_a_subscription_that_is_gone_does_not_delete_its_successor() -> None:
    broker = SlowMetadata()
    topic, gone = broker.cluster.topic(), broker.cluster.subscription()
    outcomes: list[StorageError | None] = []
    broker.cluster.do(lambda: topic.delete_subscription(gone, outcomes.append))
    broker.cluster.do(lambda: topic.create_subscription("worker", topic.log.before_first()))
    broker.cluster.do(lambda: topic.delete_subscription(gone, outcomes.append))
    broker.wait()
    assert outcomes == [None, None]
    assert list(topic.subscriptions) == ["worker"]
    broker.use(broker.store.reopened())
    assert list(broker.cluster.topic().subscriptions) == ["worker"]


@pytest.mark.parametrize("durable", [True, False])
def test_a_subscription_with_a_consumer_is_deleted(*, durable: bool) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.subscribe(durable=durable)
    topic, outcomes = cluster.topic(), list[StorageError | None]()
    cluster.do(lambda: topic.delete_subscription(topic.subscriptions["worker"], outcomes.append))
    assert (outcomes, topic.subscriptions) == ([None], {})
    assert len(client.take("CLOSE_CONSUMER")) == 1
    assert cluster.topic() is topic, "it is not fenced"
