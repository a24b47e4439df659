"""A part that fails to close does not keep other parts open, and no topic stays "being unloaded"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from magnetar.base.errors import BadVersionError, ServerError, StorageError
from magnetar.base.names import TopicName
from magnetar.broker.loop.closing import close_each
from magnetar.sim.cluster import TOPIC, Cluster
from magnetar.sim.virtual.loop import HandLoop

if TYPE_CHECKING:
    from collections.abc import Callable

OTHER = TopicName.parse("persistent://public/default/other")


class Failing:
    """Raises ``error`` when called."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, *_: object) -> None:
        raise self.error


ERRORS = [StorageError("disk"), BadVersionError("version"), AssertionError("bug"), KeyError("bug")]


def test_every_step_is_taken_and_each_failure_is_logged() -> None:
    taken: list[str] = []
    steps: list[tuple[str, Callable[[], object]]] = [
        ("first", lambda: taken.append("first")),
        ("second", Failing(ERRORS[2])),
        ("third", Failing(ERRORS[0])),
        ("last", lambda: taken.append("last")),
    ]
    loop = HandLoop()
    with capture_logs() as logs:
        close_each(loop, "orders", steps)
    assert taken == ["first", "last"]
    assert [(each["event"], each["of"], each["step"]) for each in logs] == [("close_failed", "orders", "third")]
    assert [each["exception"] for each in loop.problems] == [ERRORS[2]], "a bug goes where the simulator sees it"


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize(
    "part", ["lag_limit.release_all", "progress.close", "deduplication.close", "ledger.close", "log.origins.save"]
)
def test_a_topic_of_which_a_part_cannot_be_closed_is_unloaded_and_loaded_again(
    part: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(targets=("jfk",))
    client = cluster.client()
    client.produce(name="p")
    client.send("a")
    client.subscribe()
    topic = cluster.topic()
    owner: object = topic
    *path, name = part.split(".")
    for each in path:
        owner = getattr(owner, each)
    monkeypatch.setattr(owner, name, Failing(error))
    client.names()
    cluster.do(lambda: cluster.topics.unload(TOPIC))
    assert not cluster.topics.is_shut(TOPIC)
    assert set(client.names()) == {"CLOSE_PRODUCER", "CLOSE_CONSUMER"}
    assert cluster.topic() is not topic, "a replicated topic is loaded again at once"
    client.produce(name="p")
    assert client.names() == ["PRODUCER_SUCCESS"]


def test_a_subscription_that_cannot_be_closed_keeps_no_other_open(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    client = cluster.client()
    for number, name in enumerate(("first", "second")):
        client.subscribe(consumer_id=number, subscription=name)
    monkeypatch.setattr(cluster.subscription("first"), "close", Failing(StorageError("disk")))
    second = cluster.subscription("second")
    cluster.do(lambda: cluster.topics.unload(TOPIC))
    assert not second.consumers
    assert [each.consumer_id for each in client.take("CLOSE_CONSUMER")] == [0, 1]
    assert second.cursor._closed


def test_one_topic_that_cannot_be_closed_does_not_keep_the_others_open(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send("a")
    monkeypatch.setattr(cluster.topic().lag_limit, "release_all", Failing(AssertionError("bug")))
    client.topic = OTHER
    client.produce(producer_id=2)
    other = cluster.topic(OTHER)
    cluster.do(lambda: cluster.loop.create_task(cluster.topics.stop()))
    assert other.is_closing
    assert not other.producers
    assert not cluster.topics.loaded


def test_a_topic_is_deleted_even_if_a_part_of_it_cannot_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    monkeypatch.setattr(cluster.topic().deduplication, "close", Failing(StorageError("disk")))
    cluster.do(lambda: cluster.delete(TOPIC))
    assert not cluster.topics.exists(TOPIC)


def test_no_topic_is_loaded_once_the_registry_is_closed() -> None:
    cluster = Cluster()
    client = cluster.client()
    cluster.topic()
    cluster.do(lambda: cluster.loop.create_task(cluster.topics.stop()))
    client.produce()
    assert [each.error for each in client.take("ERROR")] == [ServerError.ServiceNotReady]


def test_waiters_for_an_unload_are_released_when_the_registry_is_closed() -> None:
    cluster = Cluster()
    cluster.topic()
    cluster.prompt = False
    cluster.do(lambda: cluster.topics.unload(TOPIC))
    waiting = cluster.loop.start(cluster.topics.unloaded(TOPIC))
    cluster.do(lambda: cluster.loop.create_task(cluster.topics.stop()))
    cluster.loop.spin()
    assert waiting.done()
    cluster.prompt = True
    cluster.settle()
    assert not cluster.loop.problems
