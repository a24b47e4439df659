"""Deleting a topic is atomic: a crash or a failed write leaves all of it, or nothing."""

from __future__ import annotations

import pytest

from magnetar.base.errors import RequestError
from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.cluster import TOPIC, Cluster, entry
from magnetar.sim.virtual.loop import HandClock
from magnetar.sim.virtual.metadata import FaultyMetadataStore, ProcessEnded
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.stored import put

WRITES_MAX = 20
"""More than the number of writes of a deletion."""

INTACT, DAMAGED = b'"entries"', b'"entrie"'
"""A field of the ledger list, and its name in a damaged list."""


def a_cluster() -> tuple[Cluster, FaultyMetadataStore]:
    """Return a topic with a schema and an unacknowledged entry, on a metadata store with faults."""
    cluster = Cluster()
    store = FaultyMetadataStore(HandClock(cluster.loop))
    store._tree = cluster.metadata._tree
    use(cluster, store)
    client = cluster.client()
    client.produce(schema=pb.Schema(name="", schema_data=b"", type=pb.Schema.String))
    client.send("a")
    client.subscribe(permits=0)
    client.leave()
    return cluster, store


def use(cluster: Cluster, store: FaultyMetadataStore) -> None:
    """Start the broker with ``store``."""
    cluster.metadata = store
    cluster.resources = type(cluster.resources).over(store)
    cluster.crash()


def damage(cluster: Cluster) -> None:
    """Crash, and make the topic fail to load."""
    cluster.crash()
    path = managed_ledger_path(TOPIC)
    stored = cluster.metadata.get(path)
    assert stored is not None
    assert INTACT in stored.value
    put(cluster.metadata, path, stored.value.replace(INTACT, DAMAGED))


def delete(cluster: Cluster) -> None:
    cluster.loop.call_soon(cluster.delete, TOPIC)
    cluster.settle()


def state(cluster: Cluster) -> str:
    """Return the remaining state of the topic."""
    has_schema = cluster.environment.schemas.has_schema(TOPIC)
    if not cluster.do(lambda: cluster.topics.exists(TOPIC)):
        assert not has_schema
        return "gone"
    assert has_schema
    path = managed_ledger_path(TOPIC)
    stored = cluster.metadata.get(path)
    assert stored is not None
    put(cluster.metadata, path, stored.value.replace(DAMAGED, INTACT))
    topic = cluster.topic()
    assert topic.ledger.entries == 1
    return f"whole, backlog {topic.subscriptions['worker'].backlog}"


@pytest.mark.parametrize("is_damaged", [True, False])
@pytest.mark.parametrize("is_written", [True, False])
def test_a_crash_at_any_write_of_a_deletion_leaves_all_or_nothing(is_written: bool, is_damaged: bool) -> None:
    found = []
    for writes in range(1, WRITES_MAX):
        cluster, store = a_cluster()
        if is_damaged:
            damage(cluster)
        ended: list[FaultyMetadataStore] = []

        def end(store: FaultyMetadataStore = store, ended: list[FaultyMetadataStore] = ended) -> None:
            ended.append(store.reopened())

        store.end_process_in(writes, end, is_written=is_written)
        delete(cluster)
        if not ended:
            break
        assert isinstance(cluster.loop.problems[-1]["exception"], ProcessEnded)
        use(cluster, ended[0])
        found.append(state(cluster))
    is_first_write_the_deletion = is_damaged and is_written
    assert set(found) == ({"gone"} if is_first_write_the_deletion else {"whole, backlog 1", "gone"})
    assert found == sorted(found, reverse=True), "once it is gone it stays so"


def test_a_deletion_that_cannot_be_written_leaves_the_topic() -> None:
    cluster, store = a_cluster()
    cluster.topic()
    store.fail_writes = True
    delete(cluster)
    assert cluster.loop.problems
    store.fail_writes = False
    assert state(cluster) == "whole, backlog 1"


def test_the_end_of_a_deletion_waits_for_a_metadata_store_that_takes_writes() -> None:
    cluster, store = a_cluster()
    topic = cluster.topic()
    cursors = f"{managed_ledger_path(TOPIC)}/cursors"
    cluster.prompt = False
    cluster.do(lambda: topic.delete_subscription(topic.subscriptions["worker"], lambda _: None))
    store.fail_writes = True
    cluster.prompt = True
    cluster.settle()
    assert not cluster.loop.problems
    assert "worker" in store.children(cursors)
    store.fail_writes = False
    use(cluster, store.reopened())
    assert not cluster.topic().subscriptions
    assert "worker" not in cluster.metadata.children(cursors)


def test_a_topic_that_could_not_be_deleted_is_loaded_once_all_that_it_wrote_is_durable() -> None:
    cluster, store = a_cluster()
    topic = cluster.topic()
    cluster.prompt = False
    cluster.do(lambda: topic.log.append([entry("b")], lambda *_: None))
    store.fail_writes = True
    delete(cluster)
    store.fail_writes = False
    with pytest.raises(RequestError, match="is being loaded or unloaded"):
        cluster.topics.get_or_create(TOPIC)
    cluster.prompt = True
    cluster.settle()
    assert cluster.topic().ledger.entries == 2
