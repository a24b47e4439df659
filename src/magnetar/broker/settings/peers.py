"""Addresses of brokers for this broker's own connections, and its credentials there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.client.options import ClientOptions, PeerAddress
from magnetar.metadata.policies import ClusterData
from magnetar.security.credentials import Credentials
from magnetar.security.tls_versions import parse_versions

if TYPE_CHECKING:
    from magnetar.broker.settings.config import BrokerConfig

NOT_REGISTERED: Final = ClusterData()
"""The record of a cluster without addresses."""


def peer_address(config: BrokerConfig, peer: ClusterData) -> PeerAddress | None:
    """Return the address of another cluster's brokers; None if it has no suitable URL.

    The connection has TLS if the record of the cluster or the broker's settings say so (``brokerClientTlsEnabled``), or
    if the cluster has no URL without TLS.
    """
    is_encrypted = peer.brokerClientTlsEnabled or config.brokerClientTlsEnabled or not peer.brokerServiceUrl
    url = peer.brokerServiceUrlTls if is_encrypted else peer.brokerServiceUrl
    return PeerAddress(url, ClientOptions(credentials=own_credentials(config, peer))) if url else None


def own_address(config: BrokerConfig, own: ClusterData) -> PeerAddress:
    """Return the address of this broker itself: that of the port without TLS, if it is open."""
    url = own.brokerServiceUrl or own.brokerServiceUrlTls or ""
    return PeerAddress(url, ClientOptions(credentials=own_credentials(config, own)))


def own_credentials(config: BrokerConfig, peer: ClusterData = NOT_REGISTERED) -> Credentials:
    """Return the credentials of this broker for a cluster, whose record may name files of its own.

    Raises ConfigurationError for invalid settings.
    """
    certificate, key = peer.brokerClientCertificateFilePath or "", peer.brokerClientKeyFilePath or ""
    if not (certificate and key):
        certificate, key = config.brokerClientCertificateFilePath, config.brokerClientKeyFilePath
    return Credentials(
        auth_plugin=config.brokerClientAuthenticationPlugin,
        auth_params=config.brokerClientAuthenticationParameters,
        tls_trust_certs_file_path=peer.brokerClientTrustCertsFilePath or config.brokerClientTrustCertsFilePath,
        tls_certificate_file_path=certificate,
        tls_key_file_path=key,
        tls_allow_insecure_connection=peer.tlsAllowInsecureConnection or config.tlsAllowInsecureConnection,
        tls_enable_hostname_verification=config.tlsHostnameVerificationEnabled,
        tls_versions=parse_versions(config.brokerClientTlsProtocols, config.brokerClientTlsCiphers),
    )
