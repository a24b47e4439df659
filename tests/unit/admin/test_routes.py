from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.admin.handlers.operations import cluster_routes
from magnetar.base.errors import AdminError
from magnetar.base.limits import Limit
from magnetar.metadata.policies import ClusterData
from magnetar.metadata.routes.document import StoredRoute
from magnetar.metadata.routes.followed import FollowedRoutes
from magnetar.metadata.routes.table import Route
from tests.kit.wait import turns
from tests.unit.admin.fake_metadata_sync import FakeSynchronizer
from tests.unit.admin.fake_service import AppTransport, new_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.admin.fake_service import FakeAdminService

TOPIC = "persistent://nyc/flights/a b"


@pytest.fixture
def service() -> FakeAdminService:
    return new_service()


@pytest.fixture
def client(service: FakeAdminService) -> Iterator[AdminClient]:
    with AdminClient("http://ewr", transport=AppTransport(service)) as client:
        yield client


def test_routes_are_set_shown_and_deleted(client: AdminClient) -> None:
    set_routes = [
        client.routes.set(scope, cluster) for scope, cluster in (("nyc", "B"), ("nyc/flights", "A"), (TOPIC, "B"))
    ]
    assert [(each["scope"], each["cluster"]) for each in set_routes] == [
        ("nyc", "B"),
        ("nyc/flights", "A"),
        (TOPIC, "B"),
    ]
    assert client.routes.all() == sorted(set_routes, key=lambda each: each["scope"])
    assert client.routes.get(TOPIC) == set_routes[2]
    client.routes.delete(TOPIC)
    assert [each["scope"] for each in client.routes.all()] == ["nyc", "nyc/flights"]
    with pytest.raises(AdminError, match=f"There is no route for {TOPIC}"):
        client.routes.get(TOPIC)


def test_the_epoch_grows_with_each_change_also_after_a_deletion(client: AdminClient) -> None:
    epochs = [client.routes.set("nyc", "A")["epoch"], client.routes.set("nyc", "A")["epoch"]]
    client.routes.delete("nyc")
    epochs.append(client.routes.set("nyc", "A")["epoch"])
    assert epochs == sorted(set(epochs))


def test_a_change_that_expects_another_epoch_is_refused(client: AdminClient) -> None:
    epoch = client.routes.set("nyc", "A", epoch=0)["epoch"]
    for expected in (0, epoch - 1):
        with pytest.raises(AdminError, match=f"epoch {epoch}, not {expected}") as refused:
            client.routes.set("nyc", "B", epoch=expected)
        assert refused.value.status == 409
    with pytest.raises(AdminError, match="it was changed meanwhile"):
        client.routes.delete("nyc", epoch=1)
    client.routes.delete("nyc", epoch=epoch)
    assert client.routes.all() == []
    deleted = client.routes.get_or_deleted("nyc")
    assert "cluster" not in deleted
    with pytest.raises(AdminError, match=rf"was deleted with epoch {deleted['epoch']}, not 0"):
        client.routes.set("nyc", "B", epoch=0)
    client.routes.set("nyc", "B", epoch=deleted["epoch"])
    assert client.routes.get_or_deleted("nyc") == client.routes.get("nyc")


@pytest.mark.parametrize(
    ("scope", "cluster", "reason"),
    [
        ("nyc", "nowhere", "Cluster nowhere is not registered in A"),
        ("nyc/flights/a", "A", "expected tenant/namespace"),
        (f"{TOPIC}-partition-1", "A", "a route is for all partitions"),
        ("a b", "A", "no scope of a route"),
    ],
)
def test_a_route_that_could_not_work_is_refused(client: AdminClient, scope: str, cluster: str, reason: str) -> None:
    with pytest.raises(AdminError, match=reason) as refused:
        client.routes.set(scope, cluster)
    assert refused.value.status == 412
    assert client.routes.all() == []


def test_a_route_for_one_cluster_only_is_refused(service: FakeAdminService, client: AdminClient) -> None:
    service.metadata_sync = FakeSynchronizer()
    client.keep_changes_local()
    with pytest.raises(AdminError, match="the same in all clusters"):
        client.routes.set("nyc", "A")


def test_the_number_of_routes_is_limited(client: AdminClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_routes, "ROUTES_MAX", 2)
    client.routes.set("nyc", "A")
    client.routes.set("nyc/flights", "A")
    client.routes.delete("nyc")
    with pytest.raises(AdminError, match=rf"2 routes, with the deleted ones \({Limit.ROUTES}\)"):
        client.routes.set("nyc/other", "A")
    assert client.routes.set("nyc", "B")["cluster"] == "B"


def test_a_lookup_service_gets_routes_and_addresses_when_their_version_changes(service: FakeAdminService) -> None:
    async def follow() -> None:
        followed = FollowedRoutes(service.resources, "A")
        first = followed.atlas()
        assert (first.cluster, first.routes, sorted(first.clusters)) == ("A", {}, ["A", "B"])
        waiting = asyncio.create_task(followed.changed(first.version, 60))
        await turns()
        assert not waiting.done()
        await service.resources.routes.put("nyc", StoredRoute.of(Route("B", 7)))
        await waiting
        second = followed.atlas()
        assert second.routes == {"nyc": {"cluster": "B", "epoch": 7}}
        waiting = asyncio.create_task(followed.changed(second.version, 60))
        await service.resources.clusters.put("C", ClusterData(brokerServiceUrl="pulsar://c:6650"))
        await waiting
        assert followed.atlas().clusters["C"].brokerServiceUrl == "pulsar://c:6650"
        await followed.changed(followed.version, 0)
        followed.stop()
        await service.resources.routes.put("nyc", StoredRoute.of(Route("A", 8)))
        assert followed.table.get("nyc") == Route("B", 7)

    asyncio.run(follow())


def test_a_lookup_by_http_is_redirected(client: AdminClient, service: FakeAdminService) -> None:
    transport = AppTransport(service)
    path = "/lookup/v2/topic/persistent/nyc/flights/a%20b"
    with httpx.Client(transport=transport, base_url="http://ewr") as web:
        assert web.get(path).status_code == 200
        client.routes.set("nyc", "B")
        url = client.clusters.get("B")["serviceUrl"]
        found = web.get(f"{path}?listenerName=x")
        assert (found.status_code, found.headers["Location"]) == (307, f"{url}{path}?listenerName=x")
        assert web.get("/lookup/v2/topic/non-persistent/other/flights/a").status_code == 404
