"""Requests for many subscriptions go on when one of them is deleted meanwhile."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import httpx
import pytest

from magnetar.admin.api import build_app
from magnetar.broker.admin.administration import Administration
from magnetar.broker.subscription.subscription import Subscription
from magnetar.sim.cluster import Cluster

if TYPE_CHECKING:
    from magnetar.base.position import Position

NAMESPACE = "/admin/v2/namespaces/public/default"


@pytest.mark.parametrize(
    "path",
    ["/admin/v2/persistent/public/default/orders/all_subscription/expireMessages/5", f"{NAMESPACE}/clearBacklog"],
)
def test_the_others_are_acknowledged(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send("a", "b")
    topic = cluster.topic()
    for name in ("first", "second", "third"):
        cluster.do(partial(topic.create_subscription, name, topic.log.before_first()))
    cluster.loop.advance(60)
    acknowledge = Subscription.acknowledge_through

    def deleting(subscription: Subscription, position: Position) -> None:
        acknowledge(subscription, position)
        if "second" in topic.subscriptions:
            topic.delete_subscription(topic.subscriptions["second"], lambda _: None)

    monkeypatch.setattr(Subscription, "acknowledge_through", deleting)
    transport = httpx.ASGITransport(
        build_app(Administration(cluster.environment, cluster.domains, ""), cluster.resources)
    )

    async def request() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
            return await http.post(path)

    task = cluster.loop.create_task(request())
    cluster.settle()
    assert task.result().is_success, task.result().text
    assert {name: each.backlog for name, each in topic.subscriptions.items()} == {"first": 0, "third": 0}
