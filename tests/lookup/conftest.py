"""Two clusters that know each other's addresses. Nothing is replicated between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.kit.broker import Broker

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("ewr", "jfk")


class Pair(NamedTuple):
    """The brokers of the clusters."""

    ewr: Broker
    jfk: Broker

    def route(self, scope: str, cluster: str) -> None:
        """Set a route in both clusters, as the metadata synchronizer would."""
        for broker in self:
            broker.rest.call("PUT", f"magnetar/routes/{scope}", {"cluster": cluster})


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    first, second = (Broker(tmp_path_factory.mktemp(name), name) for name in NAMES)
    with first as ewr, second as jfk:
        for broker, other in ((ewr, jfk), (jfk, ewr)):
            broker.rest.ensure(
                f"clusters/{other.cluster}", {"serviceUrl": other.admin_url, "brokerServiceUrl": other.service_url}
            )
        yield Pair(ewr, jfk)


@pytest.fixture
def tenant(pair: Pair, request: pytest.FixtureRequest) -> str:
    """Return a new tenant with the namespace ``n`` in both clusters."""
    name = request.node.name.replace("[", "-").replace("]", "")
    for broker in pair:
        broker.rest.ensure(f"tenants/{name}", {"adminRoles": [], "allowedClusters": [broker.cluster]})
        broker.rest.ensure(f"namespaces/{name}/n", {"replication_clusters": [broker.cluster]})
    return str(name)
