"""TLS with the official client and a broker that requires certificates of clients."""

from __future__ import annotations

import contextlib
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import pulsar
import pytest

from tests.kit.broker import Broker
from tests.kit.certificates import Authority
from tests.kit.child import LOOPBACK, free_ports
from tests.kit.messages import connect, publish, receive_data
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.certificates import Issued

LARGE = bytes(range(256)) * 8192
"""A message of 2 MiB, many records of TLS."""


@dataclass
class Secured:
    """A broker with TLS, and the authority of all certificates."""

    broker: Broker
    authority: Authority
    client: Issued
    binary_port: int
    web_port: int

    @property
    def url(self) -> str:
        return f"pulsar+ssl://{LOOPBACK}:{self.binary_port}"

    def connect(self, trust: Path | None = None, *, with_certificate: bool = True) -> pulsar.Client:
        identity = pulsar.AuthenticationTLS(str(self.client.certificate), str(self.client.key))
        return connect(
            self.url,
            authentication=identity if with_certificate else None,
            tls_trust_certs_file_path=str(trust or self.authority.trust),
            tls_validate_hostname=True,
            operation_timeout_seconds=1 if trust or not with_certificate else 20,
        )

    def context(self, *, with_certificate: bool = True) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.trust))
        if with_certificate:
            context.load_cert_chain(self.client.certificate, self.client.key)
        return context

    def serial(self) -> str:
        """Return the serial number of the broker's certificate."""
        with (
            socket.create_connection((LOOPBACK, self.web_port)) as plain,
            self.context().wrap_socket(plain, server_hostname=LOOPBACK) as secure,
        ):
            found = secure.getpeercert()
            assert found is not None
            return str(found["serialNumber"])

    def metric(self, name: str) -> float:
        (line,) = [line for line in self.broker.rest.metrics().splitlines() if line.startswith(f"{name}{{")]
        return float(line.rpartition(" ")[2])


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority(directory)
    binary, web = free_ports(2)
    settings = {
        "brokerServicePortTls": binary,
        "webServicePortTls": web,
        **authority.settings(is_rsa=True),
        "tlsTrustCertsFilePath": authority.trust,
        "tlsRequireTrustedClientCertOnConnect": "true",
        "tlsCertRefreshCheckDurationSec": "1",
    }
    with Broker(directory / "broker", settings=settings) as broker:
        yield Secured(broker, authority, authority.issue("client", "client.example"), binary, web)


def test_messages_pass_with_a_certificate_of_the_client(secured: Secured, topic: str) -> None:
    client = secured.connect()
    consumer = client.subscribe(topic, "s")
    publish(client, topic, [b"small", LARGE])
    assert receive_data(consumer, 2) == [b"small", LARGE]
    client.close()


def test_a_client_without_a_certificate_is_refused(secured: Secured, topic: str) -> None:
    client = secured.connect(with_certificate=False)
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(topic)
    client.close()
    with pytest.raises(httpx.HTTPError), httpx.Client(verify=secured.context(with_certificate=False)) as http:
        http.get(f"https://{LOOPBACK}:{secured.web_port}/admin/v2/clusters")
    assert "PEER_DID_NOT_RETURN_A_CERTIFICATE" in secured.broker.process.log.read_text()


def test_a_broker_that_the_client_does_not_trust_is_refused(secured: Secured, topic: str, tmp_path: Path) -> None:
    client = secured.connect(Authority(tmp_path).trust)
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(topic)
    client.close()


def test_the_admin_api_names_the_urls_with_tls(secured: Secured) -> None:
    web = f"https://{LOOPBACK}:{secured.web_port}"
    with httpx.Client(base_url=web, verify=secured.context()) as http:
        looked_up = http.get("/lookup/v2/topic/persistent/public/default/any").json()
        record = http.get("/admin/v2/clusters/standalone").json()
    assert (looked_up["brokerUrlTls"], looked_up["httpUrlTls"], looked_up["brokerUrlSsl"]) == (secured.url, web, "")
    assert looked_up["brokerUrl"] == secured.broker.service_url
    assert (record["brokerServiceUrlTls"], record["serviceUrlTls"]) == (secured.url, web)


def test_a_renewed_certificate_is_used_and_no_connection_is_dropped(secured: Secured, topic: str) -> None:
    client = secured.connect()
    producer = client.create_producer(topic)
    producer.send(b"before")
    old, created = secured.serial(), secured.metric("pulsar_connection_created_total_count")
    expiry = secured.metric("magnetar_tls_certificate_expiry_timestamp_seconds")
    files = secured.authority.issue("broker")
    wait_until(lambda: secured.serial() != old, 20, what="the renewed certificate in use")
    files.certificate.write_bytes(b"damaged")
    name = "magnetar_tls_certificate_renewal_failed"
    wait_until(lambda: secured.metric(name) == 1, 20, what="the damaged certificate in the metrics")
    producer.send(b"after")
    assert secured.serial() != old
    assert secured.metric("pulsar_connection_created_total_count") == created
    assert secured.metric("magnetar_tls_certificate_expiry_timestamp_seconds") == pytest.approx(expiry, abs=3600)
    client.close()
    secured.authority.issue("broker")


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x10\x00\x00\x00\x0c", b"\x16\x03" * 5000])
def test_bytes_that_are_no_tls_are_refused_at_once(secured: Secured, data: bytes) -> None:
    for port in (secured.binary_port, secured.web_port):
        with socket.create_connection((LOOPBACK, port), 5) as plain, contextlib.suppress(ConnectionError):
            plain.sendall(data)
            while plain.recv(4096):
                pass


def test_tls_on_a_port_without_it_is_refused(secured: Secured) -> None:
    for port in (secured.broker.binary_port, secured.broker.web_port):
        with socket.create_connection((LOOPBACK, port), 5) as plain, pytest.raises(OSError, match=r"(?i)wrong|ssl|eof"):
            secured.context().wrap_socket(plain, server_hostname=LOOPBACK)
