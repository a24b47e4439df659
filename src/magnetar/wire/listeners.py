"""Listeners of a server: networks by name, each with addresses, in the syntax of Apache Pulsar (PIP-61)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

BINARY, BINARY_TLS, WEB, WEB_TLS = SCHEMES = ("pulsar", "pulsar+ssl", "http", "https")

PORT_MAX: Final = 65_535


class Endpoint(NamedTuple):
    """An address of a listener."""

    listener: str
    scheme: str
    """One of SCHEMES."""
    host: str
    """Host name or address, without brackets."""
    port: int

    @property
    def place(self) -> str:
        """The host and the port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The address as a URL."""
        return f"{self.scheme}://{self.place}"


def parse_endpoints(text: str, schemes: Sequence[str] = SCHEMES, *, port_min: int = 1) -> list[Endpoint]:
    """Return the endpoints in ``name:scheme://host:port,...``, in order; raises ValueError that names a wrong one."""
    return [_parse(each.strip(), schemes, port_min) for each in text.split(",") if each.strip()]


def _parse(text: str, schemes: Sequence[str], port_min: int) -> Endpoint:
    name, _, url = text.partition(":")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is no number, or unbalanced brackets
        host = port = None
    is_bare = parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username) if host else False
    if not (name and host and is_bare and port is not None and parts.scheme in schemes):
        message = f"{text!r} is not of the form name:scheme://host:port with the scheme {_any_of(schemes)}"
        raise ValueError(message)
    if not port_min <= port <= PORT_MAX:
        message = f"{text!r}: the port must be between {port_min} and {PORT_MAX}"
        raise ValueError(message)
    return Endpoint(name, parts.scheme, host, port)


def _any_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
