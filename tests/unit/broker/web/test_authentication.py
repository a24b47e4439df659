"""Authentication of REST requests."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any

import pytest
from passlib.hash import ldap_sha1
from structlog.testing import capture_logs

from magnetar.admin.identity import principal_of
from magnetar.base.limits import Limit
from magnetar.base.real import SystemClock
from magnetar.broker.authentication.authentication import Authentication
from magnetar.broker.resources.limit_hits import LimitHits
from magnetar.broker.web.access_log import AccessLog
from magnetar.broker.web.authentication import RequestAuthentication
from magnetar.security import attempts
from magnetar.security.providers.basic import BasicProvider
from magnetar.security.providers.certificates import CertificateProvider
from magnetar.security.providers.service import AuthenticationService

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from magnetar.security.providers.proof import Provider

RIGHT = b"Basic " + base64.b64encode(b"alice:canary")
PROVIDERS: list[Provider] = [BasicProvider({"alice": ldap_sha1.hash("canary")}), CertificateProvider()]


class Certificate:
    common_name, expires_at = "bob", 1e12


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the role of the client."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": principal_of(scope).acting_role.encode()})


class Api:
    def __init__(self, *, with_metrics: bool = False, **service: Any) -> None:  # noqa: ANN401 - of the service
        self.hits = LimitHits()
        authentication = Authentication(AuthenticationService(PROVIDERS, **service), SystemClock(), self.hits)
        protected = RequestAuthentication(app, authentication, with_metrics=with_metrics)
        self._app = AccessLog(protected, SystemClock(), with_reads=True)

    def get(
        self, path: bytes = b"/admin/v2/tenants", *headers: tuple[bytes, bytes], certificate: object = None
    ) -> tuple[int, bytes, list[bytes]]:
        """Return status, body and the challenges of the answer."""
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            raise AssertionError

        scope = {
            "type": "http",
            "method": "GET",
            "raw_path": path,
            "query_string": b"",
            "headers": headers,
            "client": ("10.0.0.1", 4000),
            "state": {"magnetar.peer_certificate": certificate},
        }
        asyncio.run(self._app(scope, receive, send))
        challenges = [value for name, value in sent[0]["headers"] if name == b"www-authenticate"]
        return sent[0]["status"], b"".join(each.get("body", b"") for each in sent), challenges


def test_a_request_with_credentials_is_passed_on_with_its_role() -> None:
    with capture_logs() as lines:
        assert Api().get(b"/admin/v2/tenants", (b"authorization", RIGHT)) == (200, b"alice", [])
    assert [line["role"] for line in lines] == ["alice"]
    assert "canary" not in str(lines)
    assert Api().get(certificate=Certificate()) == (200, b"bob", [])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"Basic " + base64.b64encode(b"alice:wrong"))],
        [(b"authorization", RIGHT), (b"authorization", RIGHT)],
        [(b"authorization", b"\xff\xfe")],
        [(b"authorization", RIGHT), (b"x-original-principal", b"root")],
        [(b"authorization", RIGHT), (b"x-pulsar-auth-method-name", b"tls")],
    ],
)
def test_another_request_is_answered_with_401_and_the_accepted_schemes(headers: list[tuple[bytes, bytes]]) -> None:
    with capture_logs() as lines:
        found = Api().get(b"/admin/v2/tenants", *headers)
    assert found == (401, b'{"reason":"Authentication required"}', [b'Basic realm="pulsar", charset="UTF-8"'])
    assert not any("role" in line for line in lines)
    assert "canary" not in str(lines)


def test_a_proxy_names_its_client() -> None:
    api = Api(proxy_roles=frozenset({"alice"}))
    assert api.get(b"/x", (b"authorization", RIGHT), (b"x-original-principal", b"carol"))[1] == b"carol"
    assert api.get(b"/x", (b"authorization", RIGHT))[0] == 401


@pytest.mark.parametrize(
    ("path", "status", "status_with_metrics"),
    [
        (b"/status.html", 200, 200),
        (b"/metrics", 200, 401),
        (b"/metrics/", 200, 401),
        (b"/metrics/../admin/v2/tenants", 401, 401),
        (b"//metrics", 401, 401),
        (b"/%6detrics", 401, 401),
        (b"/admin/v2/brokers/health", 401, 401),
        (b"/status.html/", 401, 401),
    ],
)
def test_some_paths_are_open(path: bytes, status: int, status_with_metrics: int) -> None:
    assert Api().get(path)[0] == status
    assert Api(with_metrics=True).get(path)[0] == status_with_metrics


def test_an_anonymous_request_has_the_configured_role() -> None:
    assert Api(anonymous_role="guest").get()[1] == b"guest"


def test_too_many_failed_requests_are_answered_with_429(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "FAILURES_AT_ONCE", 2)
    monkeypatch.setattr(attempts, "WAIT_MAX_S", 0.0)
    api, wrong = Api(), (b"authorization", b"Basic " + base64.b64encode(b"alice:wrong"))
    found = [api.get(b"/x", wrong) for _ in range(3)]
    assert [status for status, _, _ in found] == [401, 401, 429]
    assert b"maxFailedAuthenticationsPerAddress" in found[-1][1]
    assert api.hits.counts()[Limit.AUTHENTICATION_ATTEMPTS.value] == 1
