"""Options and limits of a client's connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from magnetar import __version__
from magnetar.base.errors import ConfigurationError
from magnetar.base.limits import KEEP_ALIVE_INTERVAL_SECONDS
from magnetar.security.credentials import NONE, Credentials
from magnetar.wire.frame import FRAME_SIZE_MAX
from magnetar.wire.proto import pulsar_api_pb2 as pb

_TLS = "pulsar+ssl"

_PORTS = {"pulsar": 6650, _TLS: 6651}
"""Default ports by scheme."""

LOOKUP_REDIRECTS_MAX = 8
"""Maximum number of redirects of a lookup."""


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

    credentials: Credentials = NONE
    """The identity of the client, and the certificates that it trusts if the URL is one of TLS."""

    @property
    def feature_flags(self) -> pb.FeatureFlags:
        """The feature flags of CONNECT."""
        return pb.FeatureFlags(
            supports_repl_dedup_by_lid_and_eid=self.replicator,
            # Apache Pulsar closes other connections when their credentials expire.
            supports_auth_refresh=not self.credentials.is_anonymous,
        )


DEFAULT_OPTIONS = ClientOptions()


class PeerAddress(NamedTuple):
    """The URL of a broker, and the options of connections to it."""

    url: str
    options: ClientOptions = DEFAULT_OPTIONS


class Address(NamedTuple):
    """Address of a broker."""

    host: str
    port: int
    is_encrypted: bool
    """Whether connections use TLS."""


def address_of(url: str) -> Address:
    """Return the address in ``pulsar://host[:port]`` or ``pulsar+ssl://host[:port]``.

    Raises ConfigurationError with the URL if it is invalid.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or parts.scheme not in _PORTS:
        message = f"not a broker's URL of the form pulsar://host:port or pulsar+ssl://host:port: {url!r}"
        raise ConfigurationError(message)
    return Address(host, _PORTS[parts.scheme] if port is None else port, parts.scheme == _TLS)
