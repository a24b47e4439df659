"""Clients subscribe in a cluster that lost its data, before the states of the other clusters arrive there."""

from __future__ import annotations

import pytest

from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.broker.network import ClusterNetwork, Worker

NAMES = ("ewr", "jfk", "sfo")
LATEST = pb.CommandSubscribe.Latest


def created_at_the_end(*names: str) -> ClusterNetwork:
    """Create the subscription in ewr after "a", "b" and "c"; all clusters have it."""
    network = ClusterNetwork(*names)
    network.publish("ewr", "a", "b")
    network.publish("jfk", "c")
    network.carry()
    Worker(network, "ewr", initialPosition=LATEST).leave()
    network.progress()
    network.full_states()
    return network


def lose(network: ClusterNetwork, name: str, first_ledger_id: int) -> None:
    """Replace a cluster's disk by an empty one; the cluster is not reachable yet."""
    others = [each for each in network.clusters if each != name]
    for other in others:
        network.cut(name, other)
    for topic in network[name].topics.loaded.values():
        topic.progress.close()
    network.add(name, targets=others)
    network[name].store.begin_at(first_ledger_id)
    for pipe in network.pipes.values():
        pipe.lease = first_ledger_id  # the leases of the rebuilt cluster are new


@pytest.mark.parametrize("names", [NAMES[:2], NAMES])
@pytest.mark.parametrize("initial_position", [pb.CommandSubscribe.Earliest, LATEST])
def test_healthy_clusters_keep_the_start_and_the_rebuilt_one_adopts_it(
    names: tuple[str, ...], initial_position: pb.CommandSubscribe.InitialPosition
) -> None:
    network = created_at_the_end(*names)
    lose(network, "jfk", 1_000)
    rebuilt = Worker(network, "jfk", initialPosition=initial_position)
    others = [Worker(network, each) for each in names if each != "jfk"]
    for other in names:
        if other != "jfk":
            network.heal("jfk", other)
    network.full_states()
    for _ in range(3):
        network.carry()
        network.progress()
    assert [other.read() for other in others] == [[] for _ in others]
    assert rebuilt.read() == []
    network.publish("ewr", "d")
    network.publish("jfk", "e")
    network.carry()
    network.progress()
    assert [sorted(worker.read()) for worker in (rebuilt, *others)] == [["d", "e"]] * len(names)
    states = [network[each].topic().subscriptions["worker"].shared_progress for each in names]
    assert len({str(sorted(keeper.state.starts().items())) for keeper in states if keeper is not None}) == 1
