"""The certificate that a client has proved to own in the handshake of TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

STATE_KEY: Final = "magnetar.peer_certificate"
"""Key of the certificate in the ``state`` of the scope of a REST request."""


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """A certificate that an authority in ``tlsTrustCertsFilePath`` has issued."""

    subject: tuple[tuple[str, str], ...]
    """Attributes of the subject in their order, such as ``("commonName", "client")``."""
    alternative_names: tuple[tuple[str, str], ...]
    """Alternative names of the subject, such as ``("DNS", "client.example.com")``."""
    expires_at: float
    """When it expires, in seconds since the epoch."""

    @property
    def common_name(self) -> str:
        """The last common name of the subject, which is the most specific one, as in Pulsar; empty without one."""
        return next((value for name, value in reversed(self.subject) if name == "commonName"), "")


UNREADABLE = PeerCertificate((), (), 0.0)
"""A certificate that names nobody."""


def peer_certificate(transport: asyncio.BaseTransport) -> PeerCertificate | None:
    """Return the verified certificate of a client; None without TLS, or if the client has sent none.

    One that an authority has issued, and that cannot be read, names nobody: it gives no role.
    """
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    try:
        found = tls.getpeercert() if tls is not None else None
        return parse_peer_certificate(found) if found else None
    except (ssl.SSLError, ValueError, KeyError):
        return UNREADABLE


def parse_peer_certificate(found: Mapping[str, Any]) -> PeerCertificate:
    """Return a certificate from the form of ``ssl.SSLSocket.getpeercert``, empty for one that is not verified."""
    return PeerCertificate(
        tuple(attribute for relative in found.get("subject", ()) for attribute in relative),
        tuple(found.get("subjectAltName", ())),
        ssl.cert_time_to_seconds(found["notAfter"]),
    )
