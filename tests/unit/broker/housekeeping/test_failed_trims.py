"""The ledgers of a trim whose list cannot be written stay, and go with the next list that can."""

from __future__ import annotations

import json
from functools import partial

import pytest

from magnetar.broker.housekeeping.maintenance import Maintenance
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.cluster import TOPIC, Cluster
from magnetar.sim.virtual.loop import HandClock
from magnetar.sim.virtual.metadata import FaultyMetadataStore


def trim(cluster: Cluster) -> None:
    running = cluster.loop.start(Maintenance(cluster.environment, cluster.topics).trim())
    cluster.settle()
    running.result()


def listed(cluster: Cluster) -> set[int]:
    """Return the ledgers in the metadata store: those of the topic and of its cursor."""
    stored = cluster.metadata.get(managed_ledger_path(TOPIC))
    assert stored is not None
    own = cluster.subscription().cursor.ledger_id
    assert own is not None
    return {each["ledgerId"] for each in json.loads(stored.value)["ledgers"]} | {own}


@pytest.mark.parametrize("is_lost", [True, False], ids=["after a crash", "without a crash"])
def test_no_ledger_is_left_that_nobody_lists(is_lost: bool) -> None:
    cluster = Cluster(ledger_config=ManagedLedgerConfig(max_entries_per_ledger=4, min_rollover_ms=0))
    store = FaultyMetadataStore(HandClock(cluster.loop))
    store._tree = cluster.metadata._tree
    cluster.metadata = store
    cluster.resources = type(cluster.resources).over(store)
    cluster.crash()
    cluster.client().subscribe(permits=0)
    publisher = cluster.client()
    publisher.produce(name="p")
    for number in range(10):
        publisher.send(str(number), first=number)
    subscription = cluster.subscription()
    cluster.do(partial(cluster.loop.create_task, subscription.skip(10)))
    cluster.do(subscription.flushes.now)
    before = [ledger.ledger_id for ledger in cluster.topic().ledger.ledgers()]
    store.fail_writes = True
    trim(cluster)
    assert [ledger.ledger_id for ledger in cluster.topic().ledger.ledgers()] == before[-1:]
    assert cluster.loop.problems == []
    if is_lost:
        store.fail_writes = False
        cluster.crash()
        assert [ledger.ledger_id for ledger in cluster.topic().ledger.ledgers()] == before
    else:
        assert set(cluster.store.list()) == listed(cluster) >= set(before), "a crash would bring them back"
        store.fail_writes = False
    trim(cluster)
    assert set(cluster.store.list()) == listed(cluster)
    assert not listed(cluster) & set(before[:-1])
