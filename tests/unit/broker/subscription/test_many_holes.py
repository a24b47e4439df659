"""Subscriptions with many holes: no single step takes long, whatever is asked."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import pytest

from magnetar.base.errors import AdminError
from magnetar.base.position import Position
from magnetar.broker.admin.administration import Administration
from magnetar.broker.subscription import unread
from magnetar.broker.topic.topic import Topic
from magnetar.sim.cluster import TOPIC, Cluster, Shared
from magnetar.wire import commands
from magnetar.wire.message_id import message_id
from tests.kit.work import lines_run

if TYPE_CHECKING:
    from collections.abc import Iterator

ENTRIES = 40
DONE: Final = object()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A subscription whose entries with odd ids are acknowledged."""
    monkeypatch.setattr(unread, "STEP_ENTRIES", 3)
    made = Cluster()
    client = made.client()
    client.produce()
    client.send(*map(str, range(ENTRIES)))
    client.subscribe(subscription="s", kind=Shared)
    ids = [message_id(at(made, entry_id)) for entry_id in range(1, ENTRIES, 2)]
    client.say(commands.ack(consumer_id=1, message_ids=ids))
    client.leave()
    return made


def at(cluster: Cluster, entry_id: int) -> Position:
    return Position(cluster.topic().ledger.last_confirmed_entry.ledger_id, entry_id)


@pytest.mark.parametrize(
    ("count", "mark_delete"), [(0, -1), (1, 1), (2, 3), (3, 5), (7, 13), (19, 37), (20, 39), (1000, 39)]
)
def test_skip(cluster: Cluster, count: int, mark_delete: int) -> None:
    operations = Administration(cluster.environment, cluster.domains, "").subscriptions
    task = cluster.loop.start(operations.skip(TOPIC, "s", count))
    cluster.settle()
    task.result()
    assert cluster.topic().subscriptions["s"].cursor.state.mark_delete_position == at(cluster, mark_delete)


@pytest.mark.parametrize("message", [1, 2, 3, 4, 7, 20])
def test_peek(cluster: Cluster, message: int) -> None:
    operations = Administration(cluster.environment, cluster.domains, "").subscriptions
    task = cluster.loop.start(operations.peek(TOPIC, "s", message))
    cluster.settle()
    assert task.result()[0] == at(cluster, 2 * (message - 1))


def test_peek_as_a_new_subscription(cluster: Cluster) -> None:
    operations = Administration(cluster.environment, cluster.domains, "").subscriptions
    task = cluster.loop.start(operations.peek(TOPIC, "new", 4))
    cluster.settle()
    assert task.result()[0] == at(cluster, 3)
    assert "new" not in cluster.topic().subscriptions


@pytest.mark.parametrize(("subscription", "message"), [("s", 21), ("new", ENTRIES + 1)])
def test_peek_beyond_the_last_message(cluster: Cluster, subscription: str, message: int) -> None:
    operations = Administration(cluster.environment, cluster.domains, "").subscriptions
    task = cluster.loop.start(operations.peek(TOPIC, subscription, message))
    cluster.settle()
    with pytest.raises(AdminError) as raised:
        task.result()
    assert raised.value.status == HTTPStatus.NOT_FOUND


def test_a_load_with_many_holes_takes_many_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hole costs some 4 us: acknowledgements of every other message could stall the broker for seconds."""
    cluster, holes = Cluster(targets=("jfk",)), 10_000
    client = cluster.client()
    client.subscribe(replicate_subscription_state=True, permits=0)
    log = cluster.topic().log
    cluster.do(lambda: log.append([b"\0" * 8] * 2 * holes, lambda *_: None))
    ids = [message_id(at(cluster, entry_id)) for entry_id in range(1, 2 * holes, 2)]
    client.say(commands.ack(consumer_id=1, message_ids=ids))
    cluster.do(cluster.subscription().flushes.now)
    cluster.crash()
    steps: list[int] = []
    recovery = Topic.recovery

    def counted(topic: Topic) -> Iterator[None]:
        found, is_done = recovery(topic), False

        def step() -> None:
            nonlocal is_done
            is_done = next(found, DONE) is DONE

        while not is_done:
            steps.append(lines_run(step))
            yield

    monkeypatch.setattr(Topic, "recovery", counted)
    assert cluster.topic().subscriptions["worker"].backlog == holes
    assert max(steps) < 40_000, "executed lines of one step"
    assert sum(steps) > 10 * holes
