"""Credentials of a client: its identity, and the servers that it trusts."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field, replace

from magnetar.base.errors import ConfigurationError
from magnetar.security.authentication import Anonymous, Authentication, Certificate, authentication
from magnetar.security.tls_versions import Versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The settings of Pulsar's client.conf for authentication and TLS; all are optional."""

    auth_plugin: str = ""
    """``authPlugin``, see ``authentication``."""
    auth_params: str = field(default="", repr=False)
    """``authParams``."""
    tls_trust_certs_file_path: str = ""
    """Certificates of authorities in PEM (``tlsTrustCertsFilePath``); empty: those of the system."""
    tls_certificate_file_path: str = ""
    """Certificate of the client in PEM (``tlsCertificateFilePath``)."""
    tls_key_file_path: str = ""
    """Its private key in PEM (``tlsKeyFilePath``)."""
    tls_allow_insecure_connection: bool = False
    """Whether to accept any certificate of a server (``tlsAllowInsecureConnection``)."""
    tls_enable_hostname_verification: bool = True
    """Whether the certificate of a server must name its host (``tlsEnableHostnameVerification``, in Pulsar false)."""
    tls_versions: Versions = field(default=Versions(), repr=False)
    """Versions and cipher suites of connections."""
    authentication: Authentication = field(init=False)
    """The proof of the client's identity."""

    def __post_init__(self) -> None:
        """Check the settings, but no files; raises ConfigurationError."""
        found = authentication(self.auth_plugin, self.auth_params)
        object.__setattr__(self, "authentication", found)
        if bool(self.tls_certificate_file_path) != bool(self.tls_key_file_path):
            message = "tlsCertificateFilePath and tlsKeyFilePath must be given together"
            raise ConfigurationError(message)

    @property
    def is_anonymous(self) -> bool:
        """Whether the client has no proof of an identity."""
        return self.authentication == Anonymous()

    def anonymous(self) -> Credentials:
        """Return credentials without a proof of an identity, which trust the same servers."""
        return replace(self, auth_plugin="", auth_params="", tls_certificate_file_path="", tls_key_file_path="")

    def presenting(self, proof: Authentication) -> Credentials:
        """Return credentials with this proof only, which trust the same servers."""
        found = self.anonymous()
        object.__setattr__(found, "authentication", proof)
        return found

    def tls(self) -> ssl.SSLContext:
        """Return the context of TLS connections to servers; raises ConfigurationError if a file cannot be read.

        It reads files, so it does not belong on an event loop.
        """
        context = self._trusting()
        self.tls_versions.apply(context)
        context.check_hostname = self.tls_enable_hostname_verification and not self.tls_allow_insecure_connection
        if self.tls_allow_insecure_connection:
            context.verify_mode = ssl.CERT_NONE
        certificate, key = self.tls_certificate_file_path, self.tls_key_file_path
        if isinstance(self.authentication, Certificate):
            certificate, key = self.authentication.certificate_path, self.authentication.key_path
        if certificate:
            try:
                context.load_cert_chain(certificate, key)
            except OSError as error:
                message = f"cannot use the certificate {certificate} with the key {key}: {_reason(error)}"
                raise ConfigurationError(message) from error
        return context

    def _trusting(self) -> ssl.SSLContext:
        path = self.tls_trust_certs_file_path
        try:
            return ssl.create_default_context(cafile=path or None)
        except OSError as error:
            message = f"cannot read certificates from {path}: {_reason(error)}"
            raise ConfigurationError(message) from error


NONE = Credentials()


def _reason(error: OSError) -> str:
    return str(error.strerror or error)  # an SSLError is an OSError, too
