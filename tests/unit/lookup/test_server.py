from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import trustme

from magnetar.base.errors import ConfigurationError
from magnetar.client.connection import PulsarConnection
from magnetar.client.options import ClientOptions
from magnetar.lookup.clusters import Caller
from magnetar.lookup.server import LookupServer
from magnetar.security.credentials import Credentials
from tests.unit.lookup.test_session import TOPIC, World

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory, authority = tmp_path_factory.mktemp("certificates"), trustme.CA()
    authority.cert_pem.write_to_path(str(directory / "ca.pem"))
    issued = authority.issue_cert(HOST)
    issued.private_key_pem.write_to_path(str(directory / "key.pem"))
    issued.cert_chain_pems[0].write_to_path(str(directory / "cert.pem"))
    return directory


def test_encrypted_clients_get_the_address_for_them_and_clusters_are_asked_with_tls(certificates: Path) -> None:
    async def test() -> None:
        paths = {"tls_certificate": certificates / "cert.pem", "tls_key": certificates / "key.pem"}
        world = World(host=HOST, port=0, tls_port=0, **paths)
        server = LookupServer(world.shared)
        port = await server.start()
        options = ClientOptions(credentials=Credentials(tls_trust_certs_file_path=str(certificates / "ca.pem")))
        encrypted = await PulsarConnection.open(f"pulsar+ssl://{HOST}:{server.tls_port}", options)
        plain = await PulsarConnection.open(f"pulsar://{HOST}:{port}", options)
        assert [(await each.ask_owner(TOPIC)).url for each in (encrypted, plain)] == [
            "pulsar+ssl://ewr:2",
            "pulsar://ewr:1",
        ]
        assert [caller for _, caller, _ in world.clusters.asked] == [Caller(is_encrypted=True), Caller()]
        encrypted.close()
        plain.close()
        await server.stop()

    asyncio.run(test())


def test_a_certificate_that_cannot_be_used_and_a_port_in_use_are_named(certificates: Path) -> None:
    async def test() -> None:
        broken = World(host=HOST, port=0, tls_port=0, tls_certificate=certificates / "cert.pem", tls_key=Path("absent"))
        refused = LookupServer(broken.shared)
        with pytest.raises(ConfigurationError, match=r"cannot use the certificate .*cert\.pem with the key absent"):
            await refused.start()
        await refused.stop()
        first = LookupServer(World(host=HOST, port=0).shared)
        port = await first.start()
        with pytest.raises(ConfigurationError, match=rf"cannot listen on port {port} .*\nhint: name another --port"):
            await LookupServer(World(host=HOST, port=port).shared).start()
        await first.stop()

    asyncio.run(test())
