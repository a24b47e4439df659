"""The client distinguishes refusals from missing responses, and also parses Apache Pulsar's responses."""

from __future__ import annotations

from http import HTTPStatus

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError, ClusterUnreachableError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.security.credentials import Credentials
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.admin.fake_service import FLIGHTS, AppTransport, FakeAdminService, FakeTopic, new_service

OBS = TopicName.parse("persistent://nyc/flights/obs")


@pytest.fixture
def service() -> FakeAdminService:
    found = new_service()
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1024)
    metadata.properties.add(key="a", value="b")
    found.topics.held[OBS] = FakeTopic([build_entry(metadata, b"x%d" % index) for index in range(3)])
    return found


@pytest.fixture
def client(service: FakeAdminService) -> AdminClient:
    return AdminClient(f"{service.admin_url}/", transport=AppTransport(service))


def answering(response: httpx.Response) -> AdminClient:
    return AdminClient("http://h:1", transport=httpx.MockTransport(lambda _: response))


def test_names_are_typed(client: AdminClient) -> None:
    assert client.namespaces.of_tenant("nyc") == [FLIGHTS]
    assert client.topics.of_namespace(FLIGHTS) == [OBS]


def test_subscriptions_start_where_they_are_told(client: AdminClient, service: FakeAdminService) -> None:
    for name, position in {"first": EARLIEST, "last": LATEST, "some": Position(3, 1)}.items():
        client.subscriptions.create(OBS, name, position)
        assert service.topics.held[OBS].subscriptions[name].position == position


def test_peek_stops_at_the_end(client: AdminClient) -> None:
    client.subscriptions.create(OBS, "s", Position(3, 0))
    found = client.subscriptions.peek(OBS, "s", 5)
    assert [(each.position, each.payload) for each in found] == [(Position(3, 1), b"x1"), (Position(3, 2), b"x2")]
    assert (found[0].properties, found[0].messages) == ({"a": "b"}, 1)
    assert [each.payload for each in client.subscriptions.peek(OBS, "new", 1)] == [b"x0"]
    with pytest.raises(AdminError, match="not found"):
        client.subscriptions.peek(TopicName.parse(f"{OBS}-absent"), "s", 1)


def test_a_refusal_has_status_and_reason(client: AdminClient) -> None:
    with pytest.raises(AdminError, match=r"^Namespace does not exist$") as refused:
        client.namespaces.policies(NamespaceName("nyc", "nope"))
    assert refused.value.status is HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    ("response", "status", "reason"),
    [
        (httpx.Response(404, text="<html>"), HTTPStatus.NOT_FOUND, "Not Found"),
        (httpx.Response(500, json={"reason": "\n--- E ---\n\nStacktrace:\n\nat x"}), HTTPStatus(500), "--- E ---"),
        (httpx.Response(405), HTTPStatus.METHOD_NOT_ALLOWED, "Method Not Allowed"),
        (httpx.Response(599, json=["?"]), HTTPStatus.INTERNAL_SERVER_ERROR, "status 599"),
    ],
)
def test_refusals_without_a_short_reason(response: httpx.Response, status: HTTPStatus, reason: str) -> None:
    with pytest.raises(AdminError, match=f"^{reason}$") as refused:
        answering(response).tenants.names()
    assert refused.value.status is status


def test_something_else_answers() -> None:
    with pytest.raises(
        ClusterUnreachableError, match="answer of http://h:1 is not JSON: it is not the admin URL of a cluster"
    ):
        answering(httpx.Response(200, text="<html>")).tenants.names()


def test_silence_names_the_url() -> None:
    with pytest.raises(
        ClusterUnreachableError, match=r"^no answer from http://127\.0\.0\.1:1: .*is the broker running"
    ):
        AdminClient("http://127.0.0.1:1").tenants.names()


def test_a_redirected_request_has_the_token_too() -> None:
    asked: list[tuple[str, str | None]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.host, request.headers.get("Authorization")))
        if request.url.host == "a":
            return httpx.Response(307, headers={"Location": "http://b/admin/v2/tenants"})
        return httpx.Response(200, json=["acme"])

    client = AdminClient(
        "http://a", credentials=Credentials(auth_params="token:x"), transport=httpx.MockTransport(answer)
    )
    assert client.tenants.names() == ["acme"]
    assert asked == [("a", "Bearer x"), ("b", "Bearer x")]
