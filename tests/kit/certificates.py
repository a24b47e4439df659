"""Certificates for tests, written to files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import trustme

from tests.kit.child import LOOPBACK

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Issued:
    """The files of a certificate."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority with its certificate in ``trust``."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        """Create its key."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.trust = directory / f"{name}.pem"
        self._authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self._authority.cert_pem.write_to_path(self.trust)

    def issue(self, name: str, host: str = LOOPBACK, *, is_rsa: bool = False, **options: object) -> Issued:
        """Write a certificate and its key to files with this name, or over them; ``options`` are trustme's."""
        kind = trustme.KeyType.RSA if is_rsa else trustme.KeyType.ECDSA
        issued = self._authority.issue_cert(host, key_type=kind, **options)  # type: ignore[arg-type]
        files = Issued(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        files.certificate.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
        files.key.write_bytes(issued.private_key_pem.bytes())
        return files

    def settings(self, name: str = "broker", **options: object) -> dict[str, str]:
        """Issue a certificate for a broker, and return its settings."""
        issued = self.issue(name, **options)  # type: ignore[arg-type]
        return {"tlsCertificateFilePath": str(issued.certificate), "tlsKeyFilePath": str(issued.key)}
