"""Addresses and credentials of the broker's own connections."""

from __future__ import annotations

import ssl

import pytest

from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.peers import own_address, peer_address
from magnetar.metadata.policies import ClusterData
from magnetar.security.credentials import Credentials

PLAIN, SECURE = "pulsar://b:6650", "pulsar+ssl://b:6651"
BOTH = {"brokerServiceUrl": PLAIN, "brokerServiceUrlTls": SECURE}


@pytest.mark.parametrize(
    ("peer", "settings", "expected"),
    [
        (BOTH, {}, PLAIN),
        (BOTH, {"brokerClientTlsEnabled": True}, SECURE),
        (BOTH | {"brokerClientTlsEnabled": True}, {}, SECURE),
        ({"brokerServiceUrlTls": SECURE}, {}, SECURE),
        ({"brokerServiceUrl": PLAIN}, {"brokerClientTlsEnabled": True}, None),
        ({}, {}, None),
    ],
)
def test_tls_is_never_left_out_where_it_is_enabled(
    peer: dict[str, object], settings: dict[str, object], expected: str | None
) -> None:
    found = peer_address(BrokerConfig.model_validate(settings), ClusterData.model_validate(peer))
    assert (found and found.url) == expected


def test_the_record_of_a_cluster_may_name_other_files() -> None:
    config = BrokerConfig(
        brokerClientTrustCertsFilePath="/ca",
        brokerClientCertificateFilePath="/c",
        brokerClientKeyFilePath="/k",
        brokerClientTlsProtocols="TLSv1.3",
    )
    found = peer_address(config, ClusterData(**BOTH))
    assert found is not None
    credentials = found.options.credentials
    assert credentials.tls_trust_certs_file_path == "/ca"
    assert (credentials.tls_certificate_file_path, credentials.tls_key_file_path) == ("/c", "/k")
    assert credentials.tls_enable_hostname_verification
    assert credentials.tls_versions.minimum == ssl.TLSVersion.TLSv1_3
    other = peer_address(config, ClusterData(**BOTH, brokerClientTrustCertsFilePath="/other"))
    assert other is not None
    assert other != found
    assert other.options.credentials.tls_trust_certs_file_path == "/other"


def test_insecure_connections_are_those_that_a_setting_allows() -> None:
    insecure = BrokerConfig(tlsAllowInsecureConnection=True, tlsHostnameVerificationEnabled=False)
    found = own_address(insecure, ClusterData(**BOTH))
    assert found.url == PLAIN
    assert found.options.credentials == Credentials(
        tls_allow_insecure_connection=True, tls_enable_hostname_verification=False
    )
    assert own_address(insecure, ClusterData(brokerServiceUrlTls=SECURE)).url == SECURE
