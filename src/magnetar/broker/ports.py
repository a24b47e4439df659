"""The ports of a broker, and its addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import ConfigurationError
from magnetar.broker.resources.process import connections_max, raise_descriptor_limit
from magnetar.broker.settings.config import TLS_SCHEMES
from magnetar.broker.settings.listeners import bind_addresses, internal
from magnetar.broker.tls.handshakes import waiting_max
from magnetar.broker.tls.service import BINARY, WEB
from magnetar.broker.web.listening import WebSockets
from magnetar.metadata.policies import ClusterData
from magnetar.security.exposure import ListeningPort
from magnetar.wire.listeners import BINARY as BINARY_SCHEME
from magnetar.wire.listeners import BINARY_TLS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from magnetar.broker.session.server import Server
    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.broker.tls.connection import SecurePort
    from magnetar.broker.tls.service import BrokerTls
    from magnetar.wire.listeners import Endpoint

log = structlog.get_logger(__name__)


def connections_allowed(config: BrokerConfig) -> tuple[int, int]:
    """Return the maximum numbers of connections of the binary protocol and of REST that file descriptors allow."""
    descriptors = raise_descriptor_limit()
    if config.has_tls:
        descriptors -= waiting_max(descriptors)
    allowed = connections_max(config.maxConcurrentConnections, config.maxHttpServerConnections, descriptors)
    if allowed < (config.maxConcurrentConnections, config.maxHttpServerConnections):
        log.warning(
            "connections_limited",
            connections=allowed[0],
            maxConcurrentConnections=config.maxConcurrentConnections,
            http_connections=allowed[1],
            maxHttpServerConnections=config.maxHttpServerConnections,
            open_files=descriptors,
            remedy="raise the limit of open files (ulimit -n)",
        )
    return allowed


class Ports:
    """The configured ports of the binary protocol and of the admin API, with and without TLS."""

    def __init__(self, config: BrokerConfig, tls: BrokerTls | None) -> None:
        """Create them closed; ``tls`` is not None if a port has TLS."""
        self._config = config
        self._tls = tls
        self.web: list[WebSockets] = []
        """The sockets of the admin API. They are bound, and the web server listens on them later."""
        self.listening: list[ListeningPort] = []
        """All open ports."""

    async def open(self, server: Server) -> ClusterData:
        """Listen on the ports of the binary protocol, and bind those of the admin API; return the addresses.

        Raises ConfigurationError with the name of the setting if a port is not available.
        """
        host, found = self._config.advertisedAddress, dict[str, str]()
        for name, port, secure in self._configured("brokerServicePort", BINARY):
            number = await self._listen(server, name, self._config.bindAddress, port, secure)
            if secure is None:
                found["brokerServiceUrl"] = f"pulsar://{host}:{number}"
            else:
                found["brokerServiceUrlTls"] = f"pulsar+ssl://{host}:{number}"
        for name, port, secure in self._configured("webServicePort", WEB):
            number = self._bind_web(name, self._config.bindAddress, port, secure)
            if secure is None:
                found["serviceUrl"] = f"http://{host}:{number}"
            else:
                found["serviceUrlTls"] = f"https://{host}:{number}"
        for each in bind_addresses(self._config):
            await self._bind(server, each)
        return ClusterData.model_validate({**found, **internal(self._config).model_dump(exclude_none=True)})

    async def _bind(self, server: Server, endpoint: Endpoint) -> None:
        is_binary, is_secure = endpoint.scheme in (BINARY_SCHEME, BINARY_TLS), endpoint.scheme in TLS_SCHEMES
        secure = self._tls.port(BINARY if is_binary else WEB) if is_secure and self._tls is not None else None
        name, host, port = f"bindAddresses ({endpoint.listener})", endpoint.host, endpoint.port
        if is_binary:
            await self._listen(server, name, host, port, secure, endpoint.listener)
        else:
            self._bind_web(name, host, port, secure)

    def close(self) -> None:
        """Close the sockets of the admin API."""
        for sockets in self.web:
            sockets.close()

    def _configured(self, plain: str, secure: str) -> Iterator[tuple[str, int, SecurePort | None]]:
        """Yield the configured ones of a port and its counterpart with TLS."""
        for name in (plain, secure):
            port: int | None = getattr(self._config, name)
            if port is not None:
                yield name, port, None if name == plain or self._tls is None else self._tls.port(name)

    def _bind_web(self, name: str, host: str, port: int, secure: SecurePort | None) -> int:
        sockets = WebSockets(host, port, name, secure)
        self.web.append(sockets)
        self._note(name, sockets.port, sockets.addresses, secure)
        return sockets.port

    async def _listen(
        self, server: Server, name: str, host: str, port: int, secure: SecurePort | None, listener: str = ""
    ) -> int:
        try:
            found = await server.listen(host, port, secure, listener)
        except OSError as error:
            message = f"cannot listen on {name} {port} of {host}: {error}"
            raise ConfigurationError(message) from error
        number = found[0][1]
        self._note(name, number, (address for address, _ in found), secure)
        return number

    def _note(self, name: str, number: int, addresses: Iterable[str], secure: SecurePort | None) -> None:
        is_closed_to_strangers = secure is not None and self._config.tlsRequireTrustedClientCertOnConnect
        self.listening.append(ListeningPort(name, number, tuple(addresses), is_closed_to_strangers))
