"""Encrypted connections of a client."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import trustme

from magnetar.client.connection import PulsarConnection
from magnetar.client.options import DEFAULT_OPTIONS, ClientOptions
from magnetar.security.credentials import Credentials

from .conftest import ScriptedBroker
from .turns import next_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path) -> Path:
    """The certificate of the authority."""
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return path


@pytest.fixture
def broker_of(authority: trustme.CA) -> Iterator[Callable[..., ScriptedBroker]]:
    """Start a broker at 127.0.0.1 with a certificate for some host."""
    started: list[ScriptedBroker] = []

    def start(host: str = "127.0.0.1", *, asks_for_certificate: bool = False) -> ScriptedBroker:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(host).configure_cert(context)
        if asks_for_certificate:
            authority.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        started.append(ScriptedBroker(context))
        return started[-1]

    yield start
    for broker in started:
        broker.close()


class WatchedConnection(PulsarConnection):
    """Tells when asyncio has closed the socket."""

    def __init__(self, url: str, options: ClientOptions) -> None:
        super().__init__(url, options)
        self.lost = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()


def connect(broker: ScriptedBroker, credentials: Credentials) -> str:
    """Return the version of the broker."""

    async def run() -> str:
        options = replace(DEFAULT_OPTIONS, credentials=credentials)
        async with asyncio.timeout(TIMEOUT_S):
            try:
                connection = await WatchedConnection.open(broker.url, options)
            except OSError:
                for _ in range(10):
                    await next_turn()  # asyncio closes the socket
                raise
            connection.close()
            await connection.lost.wait()
            return connection.peer_version

    return asyncio.run(run())


def test_a_trusted_broker_is_connected(broker_of: Callable[..., ScriptedBroker], trusted: Path) -> None:
    assert connect(broker_of(), Credentials(tls_trust_certs_file_path=str(trusted))) == "Scripted"


def test_an_unknown_authority_is_refused(broker_of: Callable[..., ScriptedBroker]) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        connect(broker_of(), Credentials())
    assert connect(broker_of(), Credentials(tls_allow_insecure_connection=True)) == "Scripted"


def test_a_certificate_must_name_the_host(broker_of: Callable[..., ScriptedBroker], trusted: Path) -> None:
    credentials = Credentials(tls_trust_certs_file_path=str(trusted))
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        connect(broker_of("elsewhere.example"), credentials)
    lenient = replace(credentials, tls_enable_hostname_verification=False)
    assert connect(broker_of("elsewhere.example"), lenient) == "Scripted"


@pytest.mark.parametrize("as_plugin", [True, False])
def test_a_certificate_proves_the_identity_of_a_client(
    broker_of: Callable[..., ScriptedBroker], authority: trustme.CA, trusted: Path, tmp_path: Path, *, as_plugin: bool
) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued = authority.issue_cert("client@example.org")
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    broker = broker_of(asks_for_certificate=True)
    anonymous = Credentials(tls_trust_certs_file_path=str(trusted))
    with pytest.raises((OSError, TimeoutError)):
        connect(broker, anonymous)
    if as_plugin:
        known = replace(anonymous, auth_plugin="tls", auth_params=f"tlsCertFile:{certificate},tlsKeyFile:{key}")
    else:
        known = replace(anonymous, tls_certificate_file_path=str(certificate), tls_key_file_path=str(key))
    assert connect(broker, known) == "Scripted"
    assert broker.received[-1].connect.auth_method_name == ("tls" if as_plugin else "")


def test_a_broker_without_tls_is_no_endless_wait(broker: ScriptedBroker, trusted: Path) -> None:
    broker.url = broker.url.replace("pulsar://", "pulsar+ssl://")
    with pytest.raises(OSError):  # noqa: PT011 - its text is OpenSSL's
        connect(broker, Credentials(tls_trust_certs_file_path=str(trusted)))
