"""Pulsar's client.conf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.security.client_conf import ClientConf, parse_client_conf, read_client_conf
from magnetar.security.credentials import NONE, Credentials

if TYPE_CHECKING:
    from pathlib import Path

STOCK = """
# URL for Pulsar REST API (for admin operations)
webServiceUrl=http://localhost:8080/
brokerServiceUrl=pulsar://localhost:6650/
authPlugin=
authParams=
tlsAllowInsecureConnection=false
tlsTrustCertsFilePath=
tlsCertificateFilePath=
useKeyStoreTls=false
tlsTrustStoreType=JKS
webserviceTlsProvider=
"""


def test_the_file_that_comes_with_pulsar() -> None:
    expected = ClientConf("pulsar://localhost:6650/", "http://localhost:8080/", NONE)
    assert parse_client_conf(STOCK, "client.conf") == expected


def test_all_settings(tmp_path: Path) -> None:
    file = tmp_path / "client.conf"
    file.write_text(
        "authPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken\n"
        "authParams=file:///t\n"
        "tlsTrustCertsFilePath=/ca.pem\n"
        "tlsCertificateFilePath=/c.pem\n"
        "tlsKeyFilePath=/k.pem\n"
        "tlsAllowInsecureConnection=TRUE\n"
        "tlsEnableHostnameVerification=false\n"
    )
    assert read_client_conf(str(file)).credentials == Credentials(
        auth_plugin="org.apache.pulsar.client.impl.auth.AuthenticationToken",
        auth_params="file:///t",
        tls_trust_certs_file_path="/ca.pem",
        tls_certificate_file_path="/c.pem",
        tls_key_file_path="/k.pem",
        tls_allow_insecure_connection=True,
        tls_enable_hostname_verification=False,
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("useKeyStoreTls=true", "c: useKeyStoreTls: key stores of Java are not supported\nhint: convert them"),
        ("tlsAllowInsecureConnection=maybe", "c: tlsAllowInsecureConnection must be true or false, not maybe"),
        ("authPlugin=x.AuthenticationSasl", "c: authPlugin x.AuthenticationSasl is not supported"),
        ("tlsKeyFilePath=/k.pem", "c: tlsCertificateFilePath and tlsKeyFilePath must be given together"),
        ("a=\\u12", "c:1: \\u must be followed by four hexadecimal digits"),
    ],
)
def test_a_setting_that_cannot_be_honoured_is_refused(line: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_client_conf(line, "c")
    assert str(caught.value).startswith(reason)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*/none: No such file"):
        read_client_conf(str(tmp_path / "none"))
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="it is not text"):
        read_client_conf(str(binary))


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    missing, text = str(tmp_path / "none.pem"), tmp_path / "text.pem"
    text.write_text("no certificate")
    with pytest.raises(ConfigurationError, match=f"cannot read certificates from {missing}: No such file"):
        Credentials(tls_trust_certs_file_path=missing).tls()
    with pytest.raises(ConfigurationError, match=f"cannot read certificates from {text}: "):
        Credentials(tls_trust_certs_file_path=str(text)).tls()
    with pytest.raises(ConfigurationError, match=f"cannot use the certificate {missing} with the key {text}: "):
        Credentials(tls_certificate_file_path=missing, tls_key_file_path=str(text)).tls()
