"""Options and limits of a client's connections."""

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
"""Maximum number of redirects of a lookup."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of a client: the name of an authentication method, and its data."""

    method: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Options of a connection; times are in seconds, and ``frame_size_max`` in bytes with the size fields."""

    client_version: str = f"Magnetar {__version__}"
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    keep_alive_interval_s: float = KEEP_ALIVE_INTERVAL_SECONDS
    frame_size_max: int = FRAME_SIZE_MAX
    replicator: bool = False
    """Whether the client announces that replicated entries contain their position at the source. Otherwise Apache
    Pulsar detects duplicates of them by producer and sequence id, which a restarted producer may use again."""

    tls: ssl.SSLContext | None = None
    """TLS context. Unused: no connection is encrypted yet."""
    credentials: Credentials | None = None
    """Credentials. Unused: they are not sent yet."""

    @property
    def feature_flags(self) -> pb.FeatureFlags:
        """The feature flags of CONNECT."""
        return pb.FeatureFlags(supports_repl_dedup_by_lid_and_eid=self.replicator)


DEFAULT_OPTIONS = ClientOptions()


def address_of(url: str) -> tuple[str, int]:
    """Return host and port of ``pulsar://host[:port]``; raises ConfigurationError with the URL if it is invalid."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or parts.scheme != "pulsar":
        message = f"not a broker's URL of the form pulsar://host:port: {url!r}"
        raise ConfigurationError(message)
    return host, DEFAULT_PORT if port is None else port
