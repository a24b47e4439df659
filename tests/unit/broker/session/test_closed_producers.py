"""Producers closed by the broker: a connection remembers a limited number of them for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.session import session as broker_session
from magnetar.sim.cluster import TOPIC, Cluster
from tests.kit.work import lines_run

if TYPE_CHECKING:
    import pytest

FEW, MANY = 20, 200


def closed(count: int) -> tuple[Cluster, int]:
    """Close a topic with ``count`` producers of one connection; return the cluster and the executed lines."""
    cluster = Cluster()
    client = cluster.client()
    for number in range(count):
        client.produce(producer_id=number + 1, name=f"producer-{number}")
    work = lines_run(lambda: cluster.do(lambda: cluster.topics.unload(TOPIC)))
    return cluster, work


def test_the_work_of_closing_many_producers_is_in_proportion() -> None:
    assert closed(MANY)[1] < 1.5 * MANY / FEW * closed(FEW)[1]


def test_the_oldest_are_forgotten_by_time_and_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_session, "CLOSED_PRODUCERS_MAX", 8)
    cluster = Cluster()
    session = cluster.client().session
    for number in range(20):
        broker_session.note_closed(session, number)
    assert list(session.closed_producers) == list(range(12, 20))
    cluster.loop.advance(cluster.environment.config.keepAliveIntervalSeconds + 1)
    for number in range(30, 38):
        broker_session.note_closed(session, number)
    assert list(session.closed_producers) == list(range(30, 38))
