"""What a client brings to a connection, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from magnetar import __version__
from magnetar.base.errors import ConfigurationError
from magnetar.base.limits import KEEP_ALIVE_INTERVAL_SECONDS
from magnetar.wire.frame import FRAME_SIZE_MAX
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    import ssl

DEFAULT_PORT = 6650

LOOKUP_REDIRECTS_MAX = 8
"""How often a lookup lets itself be sent to another broker."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who a client is: the name of an authentication method, and what that method sends."""

    method: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How a client connects; times are in seconds, and ``frame_size_max`` in bytes with the size fields."""

    client_version: str = f"Magnetar {__version__}"
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    keep_alive_interval_s: float = KEEP_ALIVE_INTERVAL_SECONDS
    frame_size_max: int = FRAME_SIZE_MAX
    replicator: bool = False
    """Whether to say that replicated entries will name their position at the source. Without that, Apache Pulsar tells
    duplicates of them by producer and sequence id, which a producer that starts anew may use again."""

    tls: ssl.SSLContext | None = None
    """How to encrypt. Carried only: no connection is encrypted yet."""
    credentials: Credentials | None = None
    """Who to be. Carried only: no broker is told yet."""

    @property
    def feature_flags(self) -> pb.FeatureFlags:
        """What CONNECT offers."""
        return pb.FeatureFlags(supports_repl_dedup_by_lid_and_eid=self.replicator)


DEFAULT_OPTIONS = ClientOptions()


def address_of(url: str) -> tuple[str, int]:
    """Return host and port of ``pulsar://host[:port]``; raises ConfigurationError, naming the URL, for another."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or parts.scheme != "pulsar":
        message = f"not a broker's URL of the form pulsar://host:port: {url!r}"
        raise ConfigurationError(message)
    return host, DEFAULT_PORT if port is None else port
