from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.broker.authentication.building import check_authentication
from magnetar.broker.risks import find_risks
from magnetar.broker.settings.loading import load
from magnetar.ops.layout import lay_out, pipeline_command
from magnetar.ops.secure import ADMIN, APPLICATION, set_up
from magnetar.security.client_conf import read_client_conf
from magnetar.security.exposure import ListeningPort
from magnetar.security.providers.keys import secret_key
from magnetar.security.providers.tokens import verified_claims

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime.now(UTC)


def shaken_hands(directory: Path, cluster: str, host: str) -> bool:
    """Return whether a client that trusts the authority accepts the certificate of a cluster for a host."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(directory / f"{cluster}.pem", directory / f"{cluster}.key")
    client = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError:
                return False
    return True


def test_clients_that_trust_the_authority_verify_the_brokers_by_their_addresses(tmp_path: Path) -> None:
    set_up(tmp_path / "security", ["ewr", "jfk"], NOW)
    for cluster in ("ewr", "jfk"):
        assert shaken_hands(tmp_path / "security", cluster, "127.0.0.1")
        assert shaken_hands(tmp_path / "security", cluster, "localhost")
        assert not shaken_hands(tmp_path / "security", cluster, "broker.ewr.example")


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    set_up(tmp_path / "security", ["ewr"], NOW)
    assert (tmp_path / "security").stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in (tmp_path / "security").iterdir()} == {0o600}


def test_keys_and_tokens_stay_and_a_new_cluster_gets_its_own(tmp_path: Path) -> None:
    directory = tmp_path / "security"
    set_up(directory, ["ewr"], NOW)
    kept = {name: (directory / name).read_bytes() for name in ("ca.pem", "ca.key", "token.key", "admin.token")}
    certificate = (directory / "ewr.pem").read_bytes()
    set_up(directory, ["ewr", "jfk"], NOW + timedelta(days=1))
    assert {name: (directory / name).read_bytes() for name in kept} == kept
    assert (directory / "ewr.pem").read_bytes() != certificate
    assert (directory / "broker-jfk.token").exists()
    (directory / "ca.key").write_text("broken")
    with pytest.raises(ConfigurationError, match=r"cannot use the keys and tokens in .*\nhint: delete the directory"):
        set_up(directory, ["ewr"], NOW)


def test_tokens_prove_the_roles(tmp_path: Path) -> None:
    security = set_up(tmp_path / "security", ["ewr"], NOW)
    key = secret_key((tmp_path / "security" / "token.key").read_bytes(), "key")
    for role in (ADMIN, APPLICATION, "pipeline", "broker-ewr"):
        assert verified_claims(security.token(role).read_bytes(), key) == {"sub": role}


def test_a_broker_has_no_port_without_tls_and_denies_by_default(tmp_path: Path) -> None:
    security = set_up(tmp_path / "security", ["ewr", "jfk"], NOW)
    ewr, jfk = lay_out(["ewr", "jfk"], tmp_path, 16650, security)
    assert (ewr.service_url, ewr.admin_url) == ("pulsar+ssl://127.0.0.1:16650", "https://127.0.0.1:16651")
    assert jfk.addresses == {
        "serviceUrlTls": "https://127.0.0.1:16661",
        "brokerServiceUrlTls": "pulsar+ssl://127.0.0.1:16660",
    }
    config = load(ewr.write_configuration(), {}, {}).config
    check_authentication(config)
    assert (config.brokerServicePort, config.webServicePort) == (None, None)
    assert (config.superUserRoles, config.authorizationEnabled) == ("admin,broker-ewr", True)
    assert config.replicatorRoles == "pipeline=*,broker-ewr=ewr,broker-jfk=jfk"
    assert config.auditLogFile == str(tmp_path / "logs" / "ewr-audit.log")
    assert find_risks(config, [ListeningPort("brokerServicePortTls", 16650, ("0.0.0.0",))]) == []
    arguments = pipeline_command((ewr, jfk)).arguments
    conf = read_client_conf(arguments[arguments.index("--client-conf") + 1])
    assert conf.credentials.authentication.data() == security.token("pipeline").read_bytes()
