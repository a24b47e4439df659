"""Stored summaries of a ledger's origins equal those of its runs, are reused, and never override the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.position import Position
from magnetar.broker.log import origin_summaries
from magnetar.broker.log.origin_summaries import summaries_path
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.sim.cluster import TOPIC, Cluster
from magnetar.sim.pipe import Pipe
from magnetar.sim.virtual.loop import HandLoop
from tests.kit.stored import put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.geo.origins.index import OriginIndex
    from magnetar.ledger.store import Run

SMALL_LEDGERS = ManagedLedgerConfig(max_entries_per_ledger=6, min_rollover_ms=0)


@pytest.fixture(autouse=True)
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ledgers with three runs get a summary."""
    monkeypatch.setattr(origin_summaries, "SUMMARY_RUNS_MIN", 3)


def mixed() -> Cluster:
    """Return a cluster with own and replicated entries in several ledgers."""
    loop = HandLoop()
    cluster = Cluster("ewr", targets=["jfk"], loop=loop, ledger_config=SMALL_LEDGERS)
    other = Cluster("jfk", targets=["ewr"], loop=loop)
    publisher, elsewhere = cluster.client(), other.client()
    publisher.produce()
    elsewhere.produce()
    pipe = Pipe(other, cluster)
    pipe.attach(permits=1000)
    for number in range(8):
        publisher.send(f"own {number}", first=number)
        elsewhere.send(f"other {number}", first=number)
        pipe.read()
        pipe.run()
    return cluster


def kept(cluster: Cluster) -> list[str]:
    return cluster.metadata.children(summaries_path(TOPIC))


def origins(cluster: Cluster, index: OriginIndex | None = None) -> list[object]:
    topic = cluster.topic()
    index = index or topic.log.index
    ledgers = topic.ledger.ledgers()
    positions = [
        Position(ledger.ledger_id, run.first_entry_id)
        for ledger in ledgers
        for run in topic.ledger.runs_of(ledger.ledger_id)
    ]
    return [len(ledgers), *(index.origin_of(position) for position in positions), index.last_position("jfk")]


def test_recovery_finds_with_summaries_what_the_runs_say() -> None:
    cluster = mixed()
    before = origins(cluster)
    cluster.do(cluster.topic().log.origins.save)
    closed = [str(ledger.ledger_id) for ledger in cluster.topic().ledger.ledgers() if ledger.closed_ms is not None]
    assert kept(cluster) == sorted(closed)
    assert closed
    cluster.crash()
    read: list[int] = []
    runs = cluster.store.runs

    def noted(ledger_id: int) -> Iterator[Run]:
        read.append(ledger_id)
        return runs(ledger_id)

    cluster.store.runs = noted  # type: ignore[method-assign]
    assert cluster.topic().log.index.last_position("jfk") is not None
    assert not {str(ledger_id) for ledger_id in read} & set(closed), "closed ledgers are not read"
    assert origins(cluster) == before


def test_without_summaries_the_runs_are_read_and_the_summaries_made() -> None:
    cluster = mixed()
    before = origins(cluster)
    assert kept(cluster) == []
    cluster.crash()
    assert origins(cluster) == before
    assert kept(cluster) != []


def test_a_summary_that_is_not_intact_is_not_believed() -> None:
    cluster = mixed()
    before = origins(cluster)
    cluster.do(cluster.topic().log.origins.save)
    for name in kept(cluster):
        put(cluster.metadata, f"{summaries_path(TOPIC)}/{name}", b"nonsense")
    cluster.crash()
    assert origins(cluster) == before


def test_summaries_go_with_their_ledgers_and_with_the_topic() -> None:
    cluster = mixed()
    topic = cluster.topic()
    cluster.do(topic.log.origins.save)
    assert kept(cluster)
    cluster.do(lambda: cluster.delete(TOPIC))
    assert kept(cluster) == []
