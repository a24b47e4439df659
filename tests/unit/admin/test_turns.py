"""Requests for many partitions or topics are handled in slices."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import httpx
import pytest

from magnetar.admin.api import build_app
from magnetar.base.names import TopicName
from magnetar.broker.admin.administration import Administration
from magnetar.broker.loop import slices
from magnetar.sim.cluster import Cluster

if TYPE_CHECKING:
    from magnetar.broker.topic.topic import Topic

PARTITIONS = 30
SLICE = 4
TOPIC = TopicName.parse("persistent://public/default/parts")
ROOT = "/admin/v2/persistent/public/default/parts"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{ROOT}/partitioned-stats"),
        ("GET", f"{ROOT}/partitioned-internalStats"),
        ("GET", f"{ROOT}/subscriptions"),
        ("GET", f"{ROOT}/subscriptionProtection"),
        ("GET", "/admin/v2/namespaces/public/default/subscriptionProtection"),
        ("PUT", f"{ROOT}/subscription/new"),
        ("POST", f"{ROOT}/subscription/old/skip_all"),
        ("POST", f"{ROOT}/subscription/old/expireMessages/5"),
        ("POST", f"{ROOT}/all_subscription/expireMessages/5"),
        ("GET", f"{ROOT}/subscription/old/replicatedSubscriptionStatus"),
        ("DELETE", f"{ROOT}/subscription/old"),
        ("PUT", f"{ROOT}/unload"),
    ],
)
def test_no_more_partitions_are_touched_in_a_turn_than_a_slice_has(
    method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster()
    cluster.do(lambda: cluster.partition(TOPIC, PARTITIONS))
    for index in range(PARTITIONS):
        topic = cluster.topic(TOPIC.partition(index))
        cluster.do(partial(topic.create_subscription, "old", topic.log.before_first()))
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", SLICE)
    administration = Administration(cluster.environment, cluster.domains, "")
    touched: dict[TopicName, None] = {}
    most = 0
    get = cluster.topics.get

    def counted(name: TopicName) -> Topic:
        touched[name] = None
        return get(name)

    monkeypatch.setattr(cluster.topics, "get", counted)
    monkeypatch.setattr(cluster.topics, "get_or_create", counted)
    transport = httpx.ASGITransport(build_app(administration, cluster.resources))

    async def request() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.request(method, path)

    task = cluster.loop.create_task(request())

    def look() -> None:
        nonlocal most
        most = max(most, len(touched))
        touched.clear()
        cluster.store.commit()
        if not task.done():
            cluster.loop.call_soon(look)

    cluster.loop.call_soon(look)
    cluster.settle()
    assert task.result().is_success, task.result().text
    assert 0 < most <= SLICE
