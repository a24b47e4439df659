"""Replicated subscriptions by snapshots (PIP-33), over whole brokers: what follows, what does not, and what is left."""

from __future__ import annotations

import pytest

from tests.unit.broker.mesh import Mesh


@pytest.mark.parametrize("names", [("ewr", "jfk"), ("ewr", "jfk", "lga")])
def test_a_subscription_is_where_it_was_in_every_other_cluster(names: tuple[str, ...]) -> None:
    mesh = Mesh(*names)
    mesh.publish("ewr", "a", "b")
    mesh.publish("jfk", "c")
    consumer = mesh.subscribe("ewr")
    mesh.carry()
    mesh.second()
    assert sorted(consumer.messages()) == ["a", "b", "c"]
    positions = [mesh.end("ewr")._replace(entry_id=entry_id) for entry_id in range(3)]
    consumer.ack(*positions)
    mesh.second()
    for name in names:
        assert mesh.backlog(name) == 0
        assert mesh.clusters[name].subscription().is_replicated
        assert mesh.entries(name) == 3, "no marker is in a log"
    assert mesh.problems() == []
