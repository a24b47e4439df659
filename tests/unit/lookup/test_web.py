from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from magnetar.lookup.knowledge import Knowledge
from magnetar.lookup.metrics import Metrics
from magnetar.lookup.options import LookupOptions
from magnetar.lookup.web import Web
from magnetar.metadata.policies import ClusterData
from magnetar.metadata.routes.atlas import Atlas
from magnetar.metadata.routes.table import Route

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC = "persistent://acme/orders/a b"
NAMES = [TOPIC, "persistent://acme/orders/c"]


class World:
    """The web of an instance, and the requests that its clusters got."""

    def __init__(self, routes: Mapping[str, Route], default_cluster: str | None = "ewr") -> None:
        knowledge = Knowledge(default_cluster)
        clusters = {name: ClusterData(serviceUrl=f"http://{name}:8080/") for name in ("ewr", "jfk")}
        told = {scope: route.to_json() for scope, route in routes.items()}
        if routes:
            knowledge.learn(Atlas(cluster="ewr", version="1", routes=told, clusters=clusters | {"lga": ClusterData()}))
        self.asked: list[tuple[str, str | None]] = []
        options = LookupOptions(broker_urls=(), data_directory=Path("unused"))
        self._web = Web(knowledge, options, Metrics(), lambda: {"http://x": "away"}, httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((str(request.url), request.headers.get("authorization")))
        if "away" in request.url.path:
            message = "connection refused"
            raise httpx.ConnectError(message)
        if "moved" in request.url.path:
            return httpx.Response(307, headers={"Location": "http://other:8080"})
        return httpx.Response(200, json=NAMES)

    def get(self, path: str, **headers: str) -> httpx.Response:
        async def get() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._web.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://lookup") as web:
                return await web.get(path, headers=headers)

        return asyncio.run(get())


def test_requests_go_to_the_cluster_of_the_topic_with_the_credentials_of_the_client() -> None:
    world = World({"acme": Route("jfk", 1)})
    paths = (
        "/lookup/v2/topic/persistent/acme/orders/a%20b?listenerName=x",
        "/admin/v2/non-persistent/acme/orders/a%2Fb/partitions?checkAllowAutoCreation=true",
        "/admin/v2/schemas/acme/orders/a/schema/3",
    )
    assert [world.get(path, authorization="Bearer t").json() for path in paths[:1]] == [NAMES]
    assert world.get(paths[1]).status_code == 412  # the name contains a slash
    assert world.get(paths[2]).json() == NAMES
    assert world.asked == [(f"http://jfk:8080{paths[0]}", "Bearer t"), (f"http://jfk:8080{paths[2]}", None)]


def test_the_topics_of_a_namespace_are_those_that_each_cluster_serves() -> None:
    world = World({"acme": Route("ewr", 1), TOPIC: Route("jfk", 1)})
    assert world.get("/admin/v2/namespaces/acme/orders/topics?mode=ALL").json() == sorted(NAMES)
    assert [url for url, _ in world.asked] == [
        f"http://{name}:8080/admin/v2/namespaces/acme/orders/topics?mode=ALL" for name in ("ewr", "jfk")
    ]


def test_a_redirect_of_a_broker_is_passed_on() -> None:
    answer = World({"acme": Route("jfk", 1)}).get("/lookup/v2/topic/persistent/acme/orders/moved")
    assert (answer.status_code, answer.headers["Location"]) == (307, "http://other:8080")


def test_failures_are_answered_with_503_and_the_reason() -> None:
    world = World({"acme": Route("jfk", 1), "other": Route("lga", 1)})
    for path, reason in (("acme/orders/away", "does not answer"), ("other/n/t", "cluster lga has no serviceUrl")):
        answer = world.get(f"/lookup/v2/topic/persistent/{path}")
        assert answer.status_code == 503
        assert reason in answer.json()["reason"]
    answer = World({}, None).get("/lookup/v2/topic/persistent/acme/orders/a")
    assert "there is no route for persistent://acme/orders/a" in answer.json()["reason"]


def test_health_needs_a_cluster_and_names_the_brokers_that_are_not_followed() -> None:
    found = World({"acme": Route("jfk", 1)}).get("/health")
    assert (found.status_code, found.json()["notFollowed"]) == (200, {"http://x": "away"})
    assert found.json()["risks"] == []
    assert World({}).get("/health").status_code == 503
    assert "magnetar_lookup_routes" in World({}).get("/metrics").text
