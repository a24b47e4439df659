"""A topic that is fenced soon after each load is not loaded again at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.loop import slices
from magnetar.broker.topic.lifecycle import Event
from magnetar.broker.topic.load_failures import LOAD_RETRY_DELAY_S
from magnetar.sim.cluster import TOPIC, Cluster
from magnetar.sim.virtual.loop import HandClock
from magnetar.sim.virtual.metadata import COMMIT_S, FaultyMetadataStore

if TYPE_CHECKING:
    import pytest

    from magnetar.broker.topic.lifecycle import Lifecycle, State


class ReloadedTopic:
    """A replicated topic on a metadata store that may fail; it is loaded again whenever it was unloaded."""

    def __init__(self, subscriptions: int = 0) -> None:
        self.cluster = Cluster()
        topic = self.cluster.topic()
        self.cluster.prompt = False  # so that the cursors have records in the metadata store only
        for number in range(subscriptions):
            topic.create_subscription(f"s{number:02}", topic.log.before_first())
        self.store = FaultyMetadataStore(HandClock(self.cluster.loop))
        self.store._tree = self.cluster.metadata._tree
        self.cluster.metadata = self.store
        self.cluster.resources = type(self.cluster.resources).over(self.store)
        self.cluster.replicate_to("jfk")
        self.cluster.crash()
        self.cluster.prompt = True
        self.store.serve(self.cluster.loop)
        self.loads = 0
        self.cluster.topics.observe(changed=self._changed)

    def _changed(self, _lifecycle: Lifecycle, _before: State, event: Event) -> None:
        self.loads += event is Event.LOAD

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds / COMMIT_S)):
            self.cluster.loop.advance(COMMIT_S)
            self.cluster.settle()


def test_a_topic_whose_metadata_cannot_be_stored_is_loaded_once_in_a_while() -> None:
    reloaded = ReloadedTopic()
    reloaded.store.fail_writes = True
    reloaded.cluster.topic()  # its new link needs a cursor
    reloaded.wait(LOAD_RETRY_DELAY_S / 2)
    assert reloaded.loads == 2, "the second load may find that the cause has passed"
    for loads in (3, 4):
        reloaded.wait(LOAD_RETRY_DELAY_S)
        reloaded.cluster.do(reloaded.cluster.topics.linked.retry)
        reloaded.cluster.do(reloaded.cluster.topics.linked.retry)
        reloaded.wait(LOAD_RETRY_DELAY_S / 2)
        assert reloaded.loads == loads
    reloaded.store.fail_writes = False
    reloaded.wait(LOAD_RETRY_DELAY_S)
    reloaded.cluster.do(reloaded.cluster.topics.linked.retry)
    reloaded.wait(2 * LOAD_RETRY_DELAY_S)
    assert (reloaded.loads, TOPIC in reloaded.cluster.topics.loaded) == (5, True)
    assert reloaded.cluster.topics.load_failures.reasons == {}


def test_one_failure_does_not_delay_the_next_load() -> None:
    reloaded = ReloadedTopic()
    reloaded.store.fail_in(1)
    reloaded.cluster.topic()
    reloaded.wait(LOAD_RETRY_DELAY_S / 2)
    assert (reloaded.loads, TOPIC in reloaded.cluster.topics.loaded) == (2, True)
    assert "jfk" in reloaded.cluster.topic().replicators


def test_a_cursor_that_cannot_be_recorded_during_a_load_in_slices_fences_the_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reloaded = ReloadedTopic(subscriptions=20)
    cluster, store = reloaded.cluster, reloaded.store
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", 3)
    cluster.store.has_runs = False
    failures: list[int] = []

    def fail() -> None:
        """Let the write of the first records fail while the others are recovered."""
        if store._group:
            assert not cluster.topics.loaded
            store.fail_in(1)
            store._write()
            failures.append(reloaded.loads)
        elif cluster.topics.is_shut(TOPIC):
            cluster.loop.call_soon(fail)

    def load() -> None:
        assert cluster.topics.must_wait(TOPIC)
        fail()

    cluster.do(load)
    assert failures == [1]
    reloaded.wait(LOAD_RETRY_DELAY_S)
    topic = cluster.topic()
    assert topic.log.failure is None
    assert not any(each.cursor._closed for each in topic.subscriptions.values())
