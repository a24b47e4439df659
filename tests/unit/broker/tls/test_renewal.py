"""The files of the certificate: checks at the start, and renewal."""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from magnetar.base.errors import ConfigurationError
from magnetar.broker.tls.certificates import TlsFiles
from magnetar.broker.tls.renewal import Certificates, Policy
from magnetar.security.tls_versions import Versions
from tests.kit.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

PORT = "brokerServicePortTls"
ENDS = datetime(2030, 1, 1, tzinfo=UTC)


class Stage:
    """A certificate that ends in 2030, and a broker that uses it in 2029."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self.files = self.authority.issue("broker", not_after=ENDS)
        self.paths = TlsFiles(str(self.files.certificate), str(self.files.key), str(self.authority.trust))
        self.now = (ENDS - timedelta(days=365)).timestamp()

    def certificates(self, policy: Policy | None = None) -> Certificates:
        return Certificates(self.paths, {PORT: policy or Policy(Versions())}, lambda: self.now)

    def refusal(self) -> str:
        with pytest.raises(ConfigurationError) as caught:
            self.certificates().load()
        return str(caught.value)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_certificate_is_loaded_with_the_policy_of_the_port(stage: Stage) -> None:
    certificates = stage.certificates(Policy(Versions(ssl.TLSVersion.TLSv1_3), requires_client_certificate=True))
    certificates.load()
    context = certificates.context(PORT)
    assert (context.verify_mode, context.minimum_version) == (ssl.CERT_REQUIRED, ssl.TLSVersion.TLSv1_3)
    assert certificates.expiry == ENDS.timestamp()
    optional = stage.certificates()
    optional.load()
    assert optional.context(PORT).verify_mode == ssl.CERT_OPTIONAL


def test_each_refusal_names_the_setting_the_file_and_the_fix(stage: Stage) -> None:
    certificate, key, trust = stage.files.certificate, stage.files.key, stage.authority.trust
    good = {path: path.read_bytes() for path in (certificate, key, trust)}
    other = stage.authority.issue("other")
    cases = [
        (certificate, None, f"tlsCertificateFilePath={certificate}: cannot read the file: No such file.*\nhint: check"),
        (certificate, b"-----", f"tlsCertificateFilePath={certificate}: no certificate in PEM\nhint: openssl x509"),
        (key, b"-----", f"tlsKeyFilePath={key}: no private key in PEM without a password\nhint: openssl pkey"),
        (
            key,
            other.key.read_bytes(),
            f"tlsKeyFilePath={key}: not the key of the certificate {certificate}\nhint: name",
        ),
        (
            certificate,
            other.certificate.read_bytes() + good[certificate],
            f"tlsKeyFilePath={key}: not the key.*, but of a later one in it\nhint: put the broker's certificate first",
        ),
        (trust, b"", f"tlsTrustCertsFilePath={trust}: no certificate in PEM"),
    ]
    for path, content, expected in cases:
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        assert re.match(expected, stage.refusal()), expected
        path.write_bytes(good[path])
    stage.now = ENDS.timestamp()
    assert "the certificate expired at 2030-01-01T00:00:00Z\nhint: renew it" in stage.refusal()
    stage.now = 0.0
    assert "the certificate is valid from " in stage.refusal()


def test_renewed_files_are_used_and_bad_ones_are_not(stage: Stage) -> None:
    certificates = stage.certificates()
    certificates.load()
    before, old_key = certificates.context(PORT), stage.files.key.read_bytes()
    with capture_logs() as logs:
        certificates.check()
        assert certificates.context(PORT) is before
        assert logs == []
        stage.authority.issue("broker", not_after=ENDS + timedelta(days=90))
        new_key = stage.files.key.read_bytes()
        stage.files.key.write_bytes(old_key)
        for _ in range(2):  # the failure is logged once
            certificates.check()
        assert certificates.context(PORT) is before
        assert "not the key of the certificate" in str(certificates.failure)
        stage.files.key.unlink()
        for _ in range(2):
            certificates.check()
        stage.files.key.write_bytes(new_key)
        certificates.check()
    assert certificates.failure is None
    assert certificates.context(PORT) is not before
    assert certificates.expiry == (ENDS + timedelta(days=90)).timestamp()
    assert [line["event"] for line in logs] == [*["certificate_not_renewed"] * 2, "certificate_renewed"]


def test_a_certificate_that_is_valid_later_is_used_then(stage: Stage) -> None:
    certificates = stage.certificates()
    certificates.load()
    start = ENDS - timedelta(days=1)
    stage.authority.issue("broker", not_before=start, not_after=ENDS + timedelta(days=90))
    certificates.check()
    assert certificates.failure is not None
    stage.now = start.timestamp()
    certificates.check()
    assert certificates.failure is None
    assert certificates.expiry > ENDS.timestamp()
