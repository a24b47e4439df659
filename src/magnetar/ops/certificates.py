"""Certificates of development clusters: an authority of their own, and what it issues."""

from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence

AUTHORITY_DAYS: Final = 3650
"""Validity of the authority."""

CERTIFICATE_DAYS: Final = 365
"""Validity of a certificate, which is renewed at each start."""

_CLOCKS_DIFFER: Final = timedelta(hours=1)


class Authority:
    """A certificate authority."""

    def __init__(self, certificate: bytes, key: bytes) -> None:
        """Read it from PEM; raises ValueError for anything else."""
        self._certificate = x509.load_pem_x509_certificate(certificate)
        found = load_pem_private_key(key, password=None)
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            message = "the key of the authority is not one of an elliptic curve"
            raise ValueError(message)  # noqa: TRY004 - the file has a wrong content
        self._key = found

    def issue(self, name: str, hosts: Sequence[str], now: datetime) -> tuple[bytes, bytes]:
        """Return a new certificate for a server with these host names and addresses, and its key, in PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        certificate = (
            _builder(name, key, now, CERTIFICATE_DAYS)
            .issuer_name(self._certificate.subject)
            .add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(Encoding.PEM), _pem(key)


def new_authority(name: str, now: datetime) -> tuple[bytes, bytes]:
    """Return the certificate and the key of a new authority, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, key, now, AUTHORITY_DAYS)
    certificate = (
        builder.issuer_name(_name(name))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_SIGNS, critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM), _pem(key)


_SIGNS: Final = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _builder(name: str, key: ec.EllipticCurvePrivateKey, now: datetime, days: int) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + timedelta(days=days))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
