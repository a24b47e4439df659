"""The admin API tells where entries are, and where they were published."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.position import Position
from magnetar.broker.admin.logs import LogOperations
from magnetar.sim.cluster import TOPIC, Cluster, entry
from magnetar.wire import commands
from magnetar.wire.entries.origin import Origin, stamp

if TYPE_CHECKING:
    from collections.abc import Coroutine


def answer(cluster: Cluster, work: Coroutine[Any, Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = cluster.do(partial(cluster.loop.create_task, work)).result().to_json()
    return found


@pytest.fixture
def cluster() -> Cluster:
    """Return jfk with an own entry and, from ewr, one for all clusters and one for jfk and lga."""
    found = Cluster("jfk", targets=["ewr"])
    client = found.client()
    client.produce()
    client.send("own")
    client.produce(2, name="pulsar.repl.ewr-->jfk")
    first, second = Position(7, 8), Position(7, 9)
    copies = [
        stamp(entry("for all"), Origin("ewr", first)),
        stamp(entry("for two", replicate_to=["jfk", "lga"]), Origin("ewr", second, first, first)),
    ]
    client.say(*(commands.send(producer_id=2, sequence_id=n, entry=copy) for n, copy in enumerate(copies)))
    assert len(client.receipts()) == 3
    return found


def test_an_entry_is_found_by_its_origin_and_the_origin_by_its_position(cluster: Cluster) -> None:
    logs, ledger_id = (
        LogOperations(cluster.environment, cluster.topics),
        cluster.topic().ledger.first_position.ledger_id,
    )

    def location(origin: str, position: Position) -> dict[str, Any]:
        return answer(cluster, logs.location(TOPIC, origin, position))

    def origin(entry_id: int) -> dict[str, Any]:
        return answer(cluster, logs.origin(TOPIC, Position(ledger_id, entry_id)))

    own = f"{ledger_id}:0"
    assert location("jfk", Position.parse(own)) == {"state": "present", "position": own, "replicateTo": []}
    places = [location("ewr", Position(7, entry_id)) for entry_id in (8, 9, 10)]
    assert places == [
        {"state": "present", "position": f"{ledger_id}:1", "replicateTo": []},
        {"state": "present", "position": f"{ledger_id}:2", "replicateTo": ["jfk", "lga"]},
        {"state": "notArrived"},
    ]
    assert [origin(entry_id) for entry_id in range(4)] == [
        {"state": "present", "cluster": "jfk", "position": own},
        {"state": "present", "cluster": "ewr", "position": "7:8"},
        {"state": "present", "cluster": "ewr", "position": "7:9"},
        {"state": "absent"},
    ]


def test_trimmed_entries_are_known_as_such_after_a_restart(cluster: Cluster) -> None:
    ledger_id = cluster.topic().ledger.first_position.ledger_id
    cluster.replicate_to()  # no link needs the entry any more
    cluster.topic().ledger.close_current()
    client = cluster.client()
    client.produce()
    client.send("later")
    cluster.trim()
    cluster.crash()
    logs = LogOperations(cluster.environment, cluster.topics)
    assert answer(cluster, logs.location(TOPIC, "ewr", Position(7, 8))) == {"state": "trimmed"}
    assert answer(cluster, logs.location(TOPIC, "jfk", Position(ledger_id, 0))) == {"state": "trimmed"}
    assert answer(cluster, logs.origin(TOPIC, Position(ledger_id, 1))) == {"state": "trimmed"}
