"""``AuthenticationProviderTls``: the role is the common name of the client's certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from magnetar.base.errors import AuthenticationFailedError
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
        if proof.certificate is None:
            message = "the client has shown no certificate"
            raise AuthenticationFailedError(message)
        try:
            certificate = x509.load_der_x509_certificate(proof.certificate)
            names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            expires_at = certificate.not_valid_after_utc.timestamp()
        except ValueError:
            message = "the certificate of the client cannot be read"
            raise AuthenticationFailedError(message) from None
        # As in Pulsar, of several names the most specific one, which is the last.
        role = str(names[-1].value) if names else ""
        if not role.strip():
            message = "the certificate of the client has no common name"
            raise AuthenticationFailedError(message)
        if expires_at <= now:
            message = "the certificate of the client has expired"
            raise AuthenticationFailedError(message)
        return Principal(role, METHOD, expires_at=expires_at)

    def close(self) -> None:
        """See Provider; there is nothing to release."""
