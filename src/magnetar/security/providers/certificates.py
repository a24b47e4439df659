"""``AuthenticationProviderTls``: the role is the common name of the client's certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.base.errors import AuthenticationFailedError, AuthenticationFailure
from magnetar.security.principal import Principal

if TYPE_CHECKING:
    from magnetar.security.providers.proof import Proof

METHOD: Final = "tls"


class CertificateProvider:
    """Takes the role from certificates that the TLS handshake has verified.

    The proof expires with the certificate. A client cannot renew it on a connection, only with a new one.
    """

    method = METHOD

    async def authenticate(self, proof: Proof, now: float) -> Principal:
        """See Provider."""
        certificate = proof.certificate
        if certificate is None:
            message = "the client has shown no certificate"
            raise AuthenticationFailedError(message, AuthenticationFailure.MISSING)
        if not certificate.common_name.strip():
            message = "the certificate of the client has no common name"
            raise AuthenticationFailedError(message)
        if certificate.expires_at <= now:
            message = "the certificate of the client has expired"
            raise AuthenticationFailedError(message, AuthenticationFailure.EXPIRED)
        return Principal(certificate.common_name, METHOD, expires_at=certificate.expires_at)

    def close(self) -> None:
        """See Provider; there is nothing to release."""
