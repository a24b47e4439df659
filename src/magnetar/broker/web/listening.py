"""The sockets of the web server. They are bound before it starts, because its URL names the port."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError

if TYPE_CHECKING:
    from magnetar.broker.tls.connection import SecurePort

RECEIVE_BUFFER_BYTES = 16 * 1024
"""Receive buffer of a connection in the kernel, which uses at most twice of it.

A read takes all of it. So it bounds the received bytes that wait for their turn. Otherwise 500 clients with large
bodies would hold 256 KB each.
"""


class WebSockets:
    """Sockets bound to each address of a host. Clients can connect when the web server listens on them."""

    def __init__(self, host: str, port: int, setting: str = "webServicePort", secure: SecurePort | None = None) -> None:
        """Bind them. The system chooses the port for 0.

        Raises ConfigurationError with the name of the setting if the port is not available.
        """
        self.sockets: list[socket.socket] = []
        self.addresses: list[str] = []
        """The address of each."""
        self.port = port
        self.secure = secure
        """The port with TLS; None without TLS."""
        self._name = f"{setting} {port} of {host}"
        try:
            for family, address in _addresses(host):
                self._bind(family, address)
                self.addresses.append(address)
        except OSError as error:
            self.close()
            raise self.refusal(error) from error

    def refusal(self, error: OSError) -> ConfigurationError:
        """Return the error of a port that is not available."""
        return ConfigurationError(f"cannot listen on {self._name}: {error}")

    def close(self) -> None:
        """Close all sockets."""
        for each in self.sockets:
            each.close()

    def _bind(self, family: socket.AddressFamily, address: str) -> None:
        made = socket.socket(family, socket.SOCK_STREAM)
        self.sockets.append(made)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)  # connections inherit it
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address, self.port))
        self.port = made.getsockname()[1]


def _addresses(host: str) -> dict[tuple[socket.AddressFamily, str], None]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return {(family, str(address[0])): None for family, _, _, _, address in found}
