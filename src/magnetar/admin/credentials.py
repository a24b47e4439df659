"""Credentials for the admin API of a cluster that authenticates its clients, such as Apache Pulsar."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from magnetar.base.errors import ConfigurationError

FORMS = "token:TOKEN or file:///path/of/a/token"
"""Accepted authentication parameters, as those of Pulsar's ``AuthenticationToken``."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A token, and the authorities whose certificates are trusted; both are optional."""

    auth_params: str | None = None
    """See FORMS (``authParams`` of Pulsar's client.conf). A file is read for each request, so it can be replaced."""
    tls_trust_certs_file_path: str | None = None
    """Certificates of authorities in PEM (``tlsTrustCertsFilePath``); None: those of the system."""

    def __post_init__(self) -> None:
        """Check the form; raises ConfigurationError."""
        if self.auth_params is not None and not self.auth_params.startswith(("token:", "file:")):
            message = f"the parameters of authentication must be {FORMS}"  # they may contain a secret
            raise ConfigurationError(message)

    def authorization(self) -> str | None:
        """Return the value of the header Authorization; None without a token. Raises ConfigurationError."""
        if self.auth_params is None:
            return None
        scheme, _, rest = self.auth_params.partition(":")
        token = rest if scheme == "token" else _content(unquote(urlsplit(self.auth_params).path))
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            message = f"the token is empty or no token\nhint: write {FORMS}"
            raise ConfigurationError(message)
        return f"Bearer {token}"

    def trusted(self) -> ssl.SSLContext | bool:
        """Return what checks the certificates of servers, as httpx expects it; raises ConfigurationError."""
        if self.tls_trust_certs_file_path is None:
            return True
        try:
            return ssl.create_default_context(cafile=self.tls_trust_certs_file_path)
        except OSError as error:  # an SSLError is one, too
            message = f"cannot read certificates from {self.tls_trust_certs_file_path}: {error.strerror or error}"
            raise ConfigurationError(message) from error


NONE = Credentials()


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        message = f"cannot read the token in {path}: {reason}"
        raise ConfigurationError(message) from error
