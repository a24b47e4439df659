"""Authentication of a broker with the official client: tokens and passwords, on both ports, and no secrets anywhere."""

from __future__ import annotations

import base64
import json
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import jwt
import pulsar
import pytest
from passlib.hash import ldap_sha1

from tests.kit.broker import Broker
from tests.kit.certificates import Authority
from tests.kit.child import LOOPBACK, free_ports
from tests.kit.messages import connect
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = b"canary-of-a-secret-key-of-more-than-32-bytes"
PASSWORD = "canary-of-a-password"


def token(subject: str = "alice", seconds: float = 3600) -> str:
    return jwt.encode({"sub": subject, "exp": time.time() + seconds}, SECRET, "HS256")


OWN = token("broker")


@dataclass
class Secured:
    """A broker that authenticates, with ports with and without TLS."""

    broker: Broker
    authority: Authority
    binary_port: int
    web_port: int


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    binary, web = free_ports(2)
    users = f"bob:{ldap_sha1.hash(PASSWORD)}\n"
    broker = Broker(
        directory,
        settings={
            "authenticationEnabled": "true",
            "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken,basic,tls",
            "authenticationRefreshCheckSeconds": "5",
            "tokenSecretKey": f"data:;base64,{base64.b64encode(SECRET).decode()}",
            "basicAuthConf": base64.b64encode(users.encode()).decode(),
            "brokerClientAuthenticationPlugin": "token",
            "brokerClientAuthenticationParameters": f"token:{OWN}",
            "adminAccessLog": "all",
            "auditLogFile": directory / "audit.log",
            "logLevel": "debug",
            "brokerServicePortTls": binary,
            "webServicePortTls": web,
            **authority.settings(),
            "tlsTrustCertsFilePath": authority.trust,
            "metadataSyncEventTopic": "persistent://pulsar/events/metadata",
        },
    )
    broker.rest.authorize(token())
    broker.start()
    wait_until(lambda: b"metadata_synchronizer_connected" in broker.process.log.read_bytes(), what="own credentials")
    yield Secured(broker, authority, binary, web)
    broker.stop()
    broker.rest.close()
    broker.require_intact()
    secrets = [SECRET, PASSWORD.encode(), base64.b64encode(SECRET), OWN.encode(), OWN.rpartition(".")[2].encode()]
    files = [path for path in directory.rglob("*") if path.is_file() and path.suffix != ".conf"]
    assert any(b"authentication_failed" in path.read_bytes() for path in files)
    events = [json.loads(line) for line in (directory / "audit.log").read_text().splitlines()]
    assert {"basic", "token", "other"} <= {event["operation"] for event in events if event["event"] == "authentication"}
    assert [(path.name, secret) for path in files for secret in secrets if secret in path.read_bytes()] == []


@pytest.fixture
def secured(server: Secured) -> Broker:
    return server.broker


def get(broker: Broker, path: str, authorization: str | None = None) -> httpx.Response:
    headers = {} if authorization is None else {"Authorization": authorization}
    return httpx.get(f"{broker.admin_url}{path}", headers=headers, trust_env=False)


def test_a_client_with_a_token_publishes(secured: Broker) -> None:
    client = connect(secured.service_url, authentication=pulsar.AuthenticationToken(token()))
    producer = client.create_producer("persistent://public/default/tokens")
    producer.send(b"x")
    client.close()


def test_a_client_with_a_password_publishes(secured: Broker) -> None:
    client = connect(secured.service_url, authentication=pulsar.AuthenticationBasic("bob", PASSWORD))
    client.create_producer("persistent://public/default/passwords").send(b"x")
    client.close()


def test_a_client_with_a_certificate_has_its_common_name_as_role(server: Secured) -> None:
    issued = server.authority.issue("carol", "client.example", common_name="carol")
    client = connect(
        f"pulsar+ssl://{LOOPBACK}:{server.binary_port}",
        authentication=pulsar.AuthenticationTLS(str(issued.certificate), str(issued.key)),
        tls_trust_certs_file_path=str(server.authority.trust),
    )
    client.create_producer("persistent://public/default/certificates").send(b"x")
    client.close()
    url = f"https://{LOOPBACK}:{server.web_port}/admin/v2/tenants/public"
    context = ssl.create_default_context(cafile=str(server.authority.trust))
    assert httpx.get(url, verify=context, trust_env=False).status_code == 401
    context.load_cert_chain(issued.certificate, issued.key)
    assert httpx.get(url, verify=context, trust_env=False).status_code == 200
    wait_until(lambda: b'"role": "carol"' in server.broker.process.log.read_bytes(), what="the log")


def test_other_clients_are_refused(secured: Broker) -> None:
    """The clients retry until their time limit, all at once."""

    def is_refused(authentication: pulsar.Authentication | None) -> bool:
        client = connect(secured.service_url, authentication=authentication, operation_timeout_seconds=1)
        try:
            client.create_producer("persistent://public/default/refused")
        except pulsar.PulsarException:
            return True
        finally:
            client.close()
        return False

    wrong = [
        None,
        pulsar.AuthenticationToken("a.b.c"),
        pulsar.AuthenticationToken(token(seconds=-1)),
        pulsar.AuthenticationBasic("bob", "wrong"),
    ]
    with ThreadPoolExecutor(len(wrong)) as threads:
        assert list(threads.map(is_refused, wrong)) == [True] * len(wrong)


def test_a_token_is_renewed_on_the_connection(secured: Broker) -> None:
    """The client is asked for a new token when its first one expires, and goes on with the same connection."""
    asked: list[float] = []

    def supply() -> str:
        asked.append(time.time())
        return token(seconds=1 if len(asked) == 1 else 3600)

    client = connect(secured.service_url, authentication=pulsar.AuthenticationToken(supply))
    producer = client.create_producer("persistent://public/default/renewed")
    wait_until(lambda: len(asked) > 1, 10, what="another token")
    producer.send(b"x")
    created = float(_metric(secured, "pulsar_connection_created_total_count"))
    producer.send(b"y")
    assert float(_metric(secured, "pulsar_connection_created_total_count")) == created
    client.close()


def test_the_admin_api_requires_credentials(secured: Broker) -> None:
    assert get(secured, "/admin/v2/tenants", f"Bearer {token()}").json() == ["public", "pulsar"]
    encoded = base64.b64encode(f"bob:{PASSWORD}".encode()).decode()
    assert get(secured, "/admin/v2/tenants", f"Basic {encoded}").status_code == 200
    for wrong in (None, "Bearer x", f"Bearer {token(seconds=-1)}", "Basic x", f"Bearer {encoded}"):
        refused = get(secured, "/admin/v2/tenants", wrong)
        assert (refused.status_code, refused.json()) == (401, {"reason": "Authentication required"})
        assert refused.headers.get_list("WWW-Authenticate")[0] == "Bearer"
    assert get(secured, "/status.html").text == "OK"


def test_secrets_are_not_in_answers(secured: Broker) -> None:
    shown = get(secured, "/admin/v2/brokers/configuration/runtime", f"Bearer {token()}").json()
    assert shown["authenticationEnabled"] == "true"
    for key in ("tokenSecretKey", "basicAuthConf", "brokerClientAuthenticationParameters"):
        assert shown[key] == "*****"
    secured.rest.put("tenants/canaries", {"adminRoles": ["alice"], "allowedClusters": [secured.cluster]})
    paths = (
        "brokers/configuration/values",
        "brokers/internal-configuration",
        "broker-stats/load-report",
        "broker-stats/topics",
        "metadata-sync/snapshot",
        "metadata-sync/history/canaries",
        "metadata-sync/status",
        "clusters/standalone",
    )
    answers = [get(secured, f"/admin/v2/{path}", f"Bearer {token()}").text for path in paths]
    answers.append(get(secured, "/metrics/").text)
    encoded = base64.b64encode(SECRET).decode()
    assert not any(secret in answer for answer in answers for secret in (encoded, "canary", OWN))


def test_attempts_are_counted(secured: Broker) -> None:
    assert int(float(_metric(secured, 'pulsar_authentication_success_total{auth_method="token"'))) > 0
    get(secured, "/admin/v2/tenants", "Bearer x")
    assert int(float(_metric(secured, 'pulsar_authentication_failures_total{auth_method="token"'))) > 0


def _metric(broker: Broker, beginning: str) -> str:
    lines = get(broker, "/metrics/").text.splitlines()
    return next(line.rpartition(" ")[2] for line in lines if line.startswith(beginning))
