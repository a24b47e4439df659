from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from magnetar.base.errors import AuthenticationFailedError
from magnetar.security.principal import Principal
from magnetar.security.providers.certificates import CertificateProvider
from magnetar.security.providers.proof import Proof

EXPIRES = datetime(2030, 1, 1, tzinfo=UTC)
BEFORE = EXPIRES.timestamp() - 1
KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(*names: str) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(EXPIRES)
    )
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def authenticate(data: bytes | None, now: float = BEFORE) -> Principal:
    return asyncio.run(CertificateProvider().authenticate(Proof("tls", certificate=data), now))


def test_the_role_is_the_common_name_and_expires_with_the_certificate() -> None:
    assert authenticate(certificate("alice")) == Principal("alice", "tls", expires_at=EXPIRES.timestamp())
    assert authenticate(certificate("a unit", "alice")).role == "alice"


@pytest.mark.parametrize("data", [None, b"", b"0\x03\x02\x01\x01", certificate(), certificate(" ")])
def test_other_clients_are_refused(data: bytes | None) -> None:
    with pytest.raises(AuthenticationFailedError):
        authenticate(data)


def test_an_expired_certificate_is_refused() -> None:
    with pytest.raises(AuthenticationFailedError, match="expired"):
        authenticate(certificate("alice"), EXPIRES.timestamp())
