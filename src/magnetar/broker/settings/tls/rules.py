"""Rules between the settings of ports and of TLS. They need no files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.security.tls_versions import parse_versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.broker.settings.config import BrokerConfig


def problems(config: BrokerConfig) -> Iterator[tuple[str, str]]:
    """Yield settings that contradict others, each with the problem."""
    for port in ("brokerServicePort", "webServicePort"):
        if getattr(config, port) is None and getattr(config, f"{port}Tls") is None:
            yield port, f"set it or {port}Tls: a broker needs one of them"
    if config.has_tls:
        for path in ("tlsCertificateFilePath", "tlsKeyFilePath"):
            if not getattr(config, path):
                yield path, "a port with TLS needs it"
    yield from _of_clients(config)
    if bool(config.brokerClientCertificateFilePath) != bool(config.brokerClientKeyFilePath):
        yield "brokerClientCertificateFilePath", "it must be given together with brokerClientKeyFilePath"
    for versions in ("tls", "webServiceTls", "brokerClientTls"):
        yield from _of_versions(config, f"{versions}Protocols", f"{versions}Ciphers")


def _of_clients(config: BrokerConfig) -> Iterator[tuple[str, str]]:
    name = "tlsRequireTrustedClientCertOnConnect"
    if not config.tlsRequireTrustedClientCertOnConnect:
        return
    if not config.tlsTrustCertsFilePath:
        yield name, "it needs tlsTrustCertsFilePath, the authorities of the certificates of clients"
    if config.tlsAllowInsecureConnection:
        yield name, "it contradicts tlsAllowInsecureConnection"


def _of_versions(config: BrokerConfig, protocols: str, ciphers: str) -> Iterator[tuple[str, str]]:
    for name, given in ((protocols, (getattr(config, protocols), "")), (ciphers, ("", getattr(config, ciphers)))):
        try:
            parse_versions(*given)
        except ValueError as error:
            yield name, str(error)
            return
    try:
        parse_versions(getattr(config, protocols), getattr(config, ciphers))
    except ValueError as error:
        yield ciphers, str(error)
