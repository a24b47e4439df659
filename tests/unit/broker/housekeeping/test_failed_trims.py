"""A trim whose ledger list cannot be written changes nothing; the next trim repeats it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from magnetar.base.errors import DiskFullError
from magnetar.broker.housekeeping.maintenance import Maintenance
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.cluster import TOPIC, Cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from magnetar.metadata.store import Put


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


def test_no_ledger_is_left_that_nobody_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(ledger_config=ManagedLedgerConfig(max_entries_per_ledger=4, min_rollover_ms=0))
    cluster.client().subscribe(permits=0)
    publisher = cluster.client()
    publisher.produce(name="p")
    for number in range(10):
        publisher.send(str(number), first=number)
    subscription = cluster.subscription()
    cluster.do(lambda: subscription.skip(10))
    cluster.do(subscription.flushes.now)
    before = [ledger.ledger_id for ledger in cluster.topic().ledger.ledgers()]
    put_many = cluster.metadata.put_many

    def full(puts: Sequence[Put]) -> list[int]:
        if any(put.path == managed_ledger_path(TOPIC) for put in puts):
            message = "metadata store: database or disk is full"
            raise DiskFullError(message)
        return put_many(puts)

    with monkeypatch.context() as patch:
        patch.setattr(cluster.metadata, "put_many", full)
        trim(cluster)
    assert [ledger.ledger_id for ledger in cluster.topic().ledger.ledgers()] == before
    assert cluster.loop.problems == []
    trim(cluster)
    assert [ledger.ledger_id for ledger in cluster.topic().ledger.ledgers()] == before[-1:]
    assert set(cluster.store.list()) == listed(cluster)
