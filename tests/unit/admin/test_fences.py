"""The requests for migration fences, and what the client makes of their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError
from magnetar.base.names import TopicName
from tests.unit.admin.fake_service import AppTransport, new_service

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = TopicName.parse("persistent://nyc/flights/fenced")
PATH = "/admin/v2/persistent/nyc/flights/fenced/fence"
NEW = {"migration": "m", "epoch": 1, "phase": "settling"}


@pytest.fixture
def client() -> Iterator[AdminClient]:
    with AdminClient("http://ewr", transport=AppTransport(new_service())) as client:
        client.topics.create(TOPIC)
        client.subscriptions.create(TOPIC, "s")
        yield client


def test_a_fence_is_set_shown_and_removed(client: AdminClient) -> None:
    assert client.fences.get(TOPIC)["fence"] is None
    answer = client.fences.set(TOPIC, "m", 1, "settling", lease_s=5, digests=True)
    assert answer["fence"] == {"migration": "m", "epoch": 1, "phase": "settling"}
    assert answer["subscriptions"]["s"]["digest"] == "00"
    shown = client.fences.get(TOPIC)
    assert shown["fence"] == answer["fence"]
    assert shown["subscriptions"]["s"]["digest"] is None
    client.fences.remove(TOPIC, "m", 1, is_decision=True)
    assert client.fences.get(TOPIC)["fence"] is None


@pytest.mark.parametrize(
    "body",
    [
        None,
        {**NEW, "phase": "open"},
        {**NEW, "epoch": -1},
        {**NEW, "epoch": 2**53},
        {**NEW, "migration": ""},
        {**NEW, "migration": "m" * 201},
        {**NEW, "leaseSeconds": 0.5},
        {**NEW, "leaseSeconds": 601},
        {**NEW, "lease": 5},
        {"migration": "m", "epoch": 1},
    ],
)
def test_an_invalid_fence_is_refused(client: AdminClient, body: dict[str, Any] | None) -> None:
    with pytest.raises(AdminError) as refused:
        client._connection.send("PUT", PATH, json=body)
    assert refused.value.status == 400


@pytest.mark.parametrize("query", ["", "?migration=m", "?epoch=1", "?migration=m&epoch=x"])
def test_a_removal_names_the_fence(client: AdminClient, query: str) -> None:
    with pytest.raises(AdminError) as refused:
        client._connection.send("DELETE", f"{PATH}{query}")
    assert refused.value.status == 400


def test_a_partitioned_topic_has_no_fence_of_its_own(client: AdminClient) -> None:
    parts = TopicName.parse("persistent://nyc/flights/parts")
    client.topics.create_partitioned(parts, 2)
    with pytest.raises(AdminError, match="name a partition") as refused:
        client.fences.set(parts, "m", 1, "settling")
    assert refused.value.status == 405
    assert client.fences.set(parts.partition(0), "m", 1, "settling")["fence"]["epoch"] == 1


def test_a_missing_topic_has_none(client: AdminClient) -> None:
    with pytest.raises(AdminError) as refused:
        client.fences.get(TopicName.parse("persistent://nyc/flights/missing"))
    assert refused.value.status == 404
