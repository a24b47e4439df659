"""Options and limits of a lookup service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.security.credentials import NONE, Credentials

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.wire.listeners import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOptions:
    """Options of one instance."""

    broker_urls: tuple[str, ...]
    """Admin URLs of the brokers from which it gets the routes, of one or several clusters."""
    data_directory: Path
    """Where it keeps the newest routes."""
    default_cluster: str | None = None
    """The cluster of topics without a route; None: lookups of them are refused."""
    host: str = "0.0.0.0"  # noqa: S104 - a service listens on all addresses, unless it is told otherwise
    port: int = 6650
    web_port: int = 8080
    tls_port: int | None = None
    """Port of the binary protocol with TLS; None: none."""
    bind_addresses: tuple[Endpoint, ...] = ()
    """Further addresses of the binary protocol. Clients that connect there use its listener, unless they name one."""
    tls_certificate: Path | None = None
    """Certificate in PEM, with those of the authorities between; for all ports with TLS."""
    tls_key: Path | None = None
    """Its private key in PEM."""
    connections_max: int = 10_000
    """Connections of clients. A further one is closed at once."""
    questions_max: int = 10_000
    """Requests that wait for an answer of a cluster. A further one is refused with TooManyRequests, and tried again."""
    questions_of_connection_max: int = 5_000
    """The same of one connection."""
    identities_max: int = 1_000
    """Different credentials of clients, times clusters, for which connections to brokers are kept."""
    answers_max: int = 100_000
    """Answers that are kept for further clients."""
    answer_validity_s: float = 2.0
    """Seconds for which an answer is given to further clients. A change of a route ends it at once."""
    answer_timeout_s: float = 10.0
    """Seconds within which a cluster must answer."""
    credentials: Credentials = NONE
    """The identity with which it gets the routes, and the certificates that it trusts for all connections."""
