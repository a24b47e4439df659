"""A broker that listens with TLS only, and takes roles from certificates."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError
from magnetar.base.real import SystemFiles
from magnetar.broker.session.server import ServerProtocol
from magnetar.client.client import PulsarClient
from magnetar.client.options import ClientOptions
from magnetar.security.credentials import Credentials
from magnetar.sim.cluster import entry
from tests.kit.certificates import Authority
from tests.kit.child import LOOPBACK
from tests.kit.in_process import BrokerInProcess
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


TOPIC = "persistent://public/default/t"
TIMEOUT_S = 0.5
LARGE = "x" * (1 << 20)


class TlsBroker(BrokerInProcess):
    """A broker whose ports have TLS."""

    def __init__(self, credentials: Credentials, directory: Path, **settings: object) -> None:
        self.credentials = credentials
        super().__init__(directory, SystemFiles(), **settings)


class Secured:
    """A broker without plain ports, and the credentials of a client."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        issued = self.authority.issue("client", "client.example", common_name="flights")
        identity = f"tlsCertFile:{issued.certificate},tlsKeyFile:{issued.key}"
        self.credentials = Credentials(
            auth_plugin="tls", auth_params=identity, tls_trust_certs_file_path=str(self.authority.trust)
        )
        settings = {
            **self.authority.settings(),
            "tlsTrustCertsFilePath": str(self.authority.trust),
            "tlsHandshakeTimeoutSeconds": TIMEOUT_S,
            "authenticationEnabled": True,
            "authenticationProviders": "tls",
            "brokerClientAuthenticationPlugin": "tls",
            "brokerClientAuthenticationParameters": identity,
            "brokerClientTrustCertsFilePath": str(self.authority.trust),
            "metadataSyncEventTopic": "persistent://public/system/events",
        }
        self.broker = TlsBroker(self.credentials, directory / "data", **settings)

    @property
    def port(self) -> int:
        return urlsplit(self.broker.service_url).port or 0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    found = Secured(tmp_path_factory.mktemp("tls"))
    with found.broker:
        yield found


def test_the_metadata_synchronizer_connects_with_tls(secured: Secured) -> None:
    wait_until(lambda: secured.broker.rest.get("metadata-sync/status")["connected"], what="the synchronizer connected")


def test_entries_pass_and_the_certificate_of_the_client_is_its_role(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[ServerProtocol] = []
    made = ServerProtocol.connection_made

    def observed(connection: ServerProtocol, transport: asyncio.BaseTransport) -> None:
        made(connection, transport)
        found.append(connection)

    monkeypatch.setattr(ServerProtocol, "connection_made", observed)

    async def scenario() -> None:
        options = ClientOptions(credentials=secured.credentials)
        async with PulsarClient(secured.broker.service_url, options) as client:
            producer = await client.create_producer(TOPIC, "p")
            for payload in ("small", LARGE):
                await producer.send(entry(payload))
        await asyncio.sleep(0.05)  # asyncio closes the sockets of TLS after the answer of the broker

    asyncio.run(scenario())
    connection = found[0]  # the synchronizer is connected already
    certificate = connection.session.peer_certificate
    assert certificate is not None
    assert connection.session.principal.role == certificate.common_name == "flights"
    assert certificate.alternative_names == (("DNS", "client.example"),)
    assert certificate.expires_at > time.time()


def test_a_client_without_a_certificate_has_no_role(secured: Secured) -> None:
    stranger = Credentials(tls_trust_certs_file_path=str(secured.authority.trust))
    with AdminClient(secured.broker.admin_url, credentials=stranger) as client, pytest.raises(AdminError) as refused:
        client.clusters.names()
    assert refused.value.status == HTTPStatus.UNAUTHORIZED


def test_all_addresses_are_those_with_tls(secured: Secured) -> None:
    with AdminClient(secured.broker.admin_url, credentials=secured.credentials) as client:
        record = client.clusters.get("standalone")
    assert record["brokerServiceUrlTls"] == secured.broker.service_url
    assert record["serviceUrlTls"] == secured.broker.admin_url
    assert "brokerServiceUrl" not in record


def test_a_client_that_does_not_finish_the_handshake_is_disconnected(secured: Secured) -> None:
    with capture_logs() as logs, socket.create_connection((LOOPBACK, secured.port), 5) as silent:
        silent.sendall(b"\x16\x03\x01\x02\x00\x01")
        began = time.monotonic()
        assert silent.recv(1) == b""
        assert TIMEOUT_S / 2 < time.monotonic() - began < 10 * TIMEOUT_S
    assert [line["limit"] for line in logs if line["event"] == "tls_handshake_ended"] == ["tlsHandshakeTimeoutSeconds"]


def test_the_log_says_why_a_handshake_failed(secured: Secured) -> None:
    stranger = Authority(secured.authority.directory, "stranger").issue("stranger")
    context = ssl.create_default_context(cafile=str(secured.authority.trust))
    context.load_cert_chain(stranger.certificate, stranger.key)
    with capture_logs() as logs:
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x10\x00\x00\x00\x0c"):
            with socket.create_connection((LOOPBACK, secured.port), 5) as plain:
                plain.sendall(data)
                while plain.recv(100):
                    pass
        with (
            socket.create_connection((LOOPBACK, secured.port), 5) as plain,
            context.wrap_socket(plain, server_hostname=LOOPBACK) as secure,
            pytest.raises(OSError, match=r"(?i)unknown ca|reset"),
        ):
            secure.recv(1)
    failed = [line for line in logs if line["event"] == "tls_handshake_failed"]
    assert ["this port has TLS" in line.get("remedy", "") for line in failed] == [True, True, False]
    assert "unable to get" in failed[2]["reason"] or "self-signed" in failed[2]["reason"]
