"""Settings of TLS."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, Field, field_validator

PORTS: Final = ("brokerServicePort", "brokerServicePortTls", "webServicePort", "webServicePortTls")
"""Settings of ports. An empty value closes the port."""


class TlsSettings(BaseModel):
    """TLS of the ports."""

    brokerServicePortTls: int | None = Field(
        None, ge=0, le=65535, description="Port of the binary protocol over TLS; 0: any free port; empty: none."
    )
    webServicePortTls: int | None = Field(
        None, ge=0, le=65535, description="Port of the admin REST API over TLS; 0: any free port; empty: none."
    )
    tlsCertificateFilePath: str = Field(
        "",
        description="PEM file with the certificate of the broker, RSA or ECDSA, followed by intermediate ones. Renewed "
        "files are used for new connections without a restart.",
    )
    tlsKeyFilePath: str = Field("", description="PEM file with the private key of the certificate, without a password.")
    tlsTrustCertsFilePath: str = Field(
        "",
        description="PEM file with the certificates of the authorities that issue certificates of clients. A client "
        "may then present a certificate, which is verified. Empty: clients are not asked for one.",
    )
    tlsRequireTrustedClientCertOnConnect: bool = Field(
        default=False,
        description="Whether a client must present a certificate that an authority in tlsTrustCertsFilePath issued. "
        "It does not apply to ports without TLS.",
    )
    tlsAllowInsecureConnection: bool = Field(
        default=False,
        description="Do not verify certificates: clients are not asked for one, and the broker's own connections "
        "accept any.",
    )
    tlsProtocols: str = Field(
        "",
        description="Versions that brokerServicePortTls accepts, separated by commas: TLSv1.2, TLSv1.3. Empty: both.",
    )
    tlsCiphers: str = Field(
        "",
        description="Cipher suites that brokerServicePortTls accepts, by their standard names or those of OpenSSL, "
        "separated by commas. Those of TLS 1.3 can only be allowed together. Empty: the choice of OpenSSL.",
    )
    webServiceTlsProtocols: str = Field("", description="As tlsProtocols, for webServicePortTls.")
    webServiceTlsCiphers: str = Field("", description="As tlsCiphers, for webServicePortTls.")
    tlsCertRefreshCheckDurationSec: float = Field(
        300, ge=0, description="Seconds between two checks for renewed certificates; at least one second."
    )
    brokerClientTlsEnabled: bool = Field(
        default=False,
        description="Whether the broker's own connections to other clusters have TLS. The record of a cluster can "
        "enable it for this cluster only; it is used in any case for a cluster without brokerServiceUrl.",
    )
    brokerClientTrustCertsFilePath: str = Field(
        "",
        description="PEM file with the certificates of the authorities that the broker's own connections trust. Empty: "
        "those of the system.",
    )
    brokerClientCertificateFilePath: str = Field(
        "", description="PEM file with the certificate of the broker's own connections."
    )
    brokerClientKeyFilePath: str = Field("", description="PEM file with its private key.")
    brokerClientTlsProtocols: str = Field("", description="As tlsProtocols, for the broker's own connections.")
    brokerClientTlsCiphers: str = Field("", description="As tlsCiphers, for the broker's own connections.")
    tlsHostnameVerificationEnabled: bool = Field(
        default=True, description="Whether the broker's own connections verify that a certificate names the host."
    )
    maxConcurrentTlsHandshakes: int = Field(
        256,
        gt=0,
        description="Maximum number of handshakes of TLS in progress. Beyond it, new clients wait, and a client that "
        "sends nothing for a second loses its place.",
    )
    tlsHandshakeTimeoutSeconds: float = Field(
        10, gt=0, description="Seconds within which the handshake of TLS must be complete."
    )

    @field_validator(*PORTS, mode="before", check_fields=False)
    @classmethod
    def _empty_closes_the_port(cls, value: Any) -> Any:  # noqa: ANN401 - of any source
        return None if value == "" else value
