"""The certificate of the broker: its files, and the checks before they are used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509 import load_pem_x509_certificates

from magnetar.base.errors import ConfigurationError

if TYPE_CHECKING:
    from datetime import datetime

    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
    from cryptography.x509 import Certificate

CERTIFICATE = "tlsCertificateFilePath"
KEY = "tlsKeyFilePath"
TRUST = "tlsTrustCertsFilePath"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of the PEM files of a broker."""

    certificate: str
    key: str
    trust: str = ""
    """Certificates of the authorities that issue certificates of clients; empty: clients need none."""

    def read(self) -> Contents:
        """Read all files; raises ConfigurationError with the setting and the path if that fails."""
        trust = _read(TRUST, self.trust) if self.trust else b""
        return Contents(_read(CERTIFICATE, self.certificate), _read(KEY, self.key), trust)


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of the files."""

    certificate: bytes
    key: bytes
    trust: bytes


def expiry(files: TlsFiles, contents: Contents, now: float) -> float:
    """Return when the certificate expires, in seconds since the epoch, after all checks of the files.

    Raises ConfigurationError, which names the setting, the file and the fix.
    """
    chain = _certificates(CERTIFICATE, files.certificate, contents.certificate)
    _check_key(files, contents.key, chain)
    if files.trust:
        _certificates(TRUST, files.trust, contents.trust)
    begins, ends = chain[0].not_valid_before_utc, chain[0].not_valid_after_utc
    if now >= ends.timestamp():
        raise _refusal(CERTIFICATE, files.certificate, f"the certificate expired at {_text(ends)}", "renew it")
    if now < begins.timestamp():
        what = f"the certificate is valid from {_text(begins)}"
        raise _refusal(CERTIFICATE, files.certificate, what, "check the clock of this machine")
    return ends.timestamp()


def _check_key(files: TlsFiles, key: bytes, chain: list[Certificate]) -> None:
    try:
        found = _bytes_of(load_pem_private_key(key, password=None).public_key())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        what, fix = "no private key in PEM without a password", f"openssl pkey -in {files.key} -out NEW_FILE"
        raise _refusal(KEY, files.key, what, fix) from None
    certified = [_bytes_of(each.public_key()) for each in chain]
    if found == certified[0]:
        return
    what = f"not the key of the certificate {files.certificate}"
    if found in certified:
        raise _refusal(KEY, files.key, f"{what}, but of a later one in it", "put the broker's certificate first")
    raise _refusal(KEY, files.key, what, f"name the key that belongs to {CERTIFICATE}")


def _bytes_of(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _certificates(setting: str, path: str, data: bytes) -> list[Certificate]:
    try:
        found = load_pem_x509_certificates(data)
    except ValueError:
        found = []
    if not found:
        fix = f"openssl x509 -in {path} -inform der -out NEW_FILE converts a certificate in DER"
        raise _refusal(setting, path, "no certificate in PEM", fix)
    return found


def _read(setting: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        fix = "check the path and the permissions of the file"
        raise _refusal(setting, path, f"cannot read the file: {error.strerror}", fix) from error


def _refusal(setting: str, path: str, what: str, fix: str) -> ConfigurationError:
    return ConfigurationError(f"{setting}={path}: {what}\nhint: {fix}")


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
