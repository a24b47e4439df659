"""Risks of a server that its operator may not know: ports without authentication, and secrets that others can read."""

from __future__ import annotations

import ipaddress
import stat
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable


HEADER: Final = "Magnetar-Risk"
"""Header of the answer about the health of a broker. It has one for each finding."""


class Risk(StrEnum):
    """Kinds of risks; the values are those of a label of a metric."""

    NO_AUTHENTICATION = "no_authentication"
    """A port can be reached from other machines, and each client may do everything."""
    READABLE_SECRET = "readable_secret"  # noqa: S105 - the name of a risk
    """Each user of the machine can read a file with a secret."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One risk of a server."""

    risk: Risk
    text: str
    hint: str

    def __str__(self) -> str:
        """Return it as one line."""
        return f"{self.text}; {self.hint}"


@dataclass(frozen=True, slots=True)
class ListeningPort:
    """A port on which a server listens."""

    name: str
    """Its setting or option."""
    number: int
    addresses: tuple[str, ...]
    """Addresses of its sockets."""
    requires_certificate: bool = False
    """Whether clients must present a certificate of a trusted authority."""


def is_loopback(host: str) -> bool:
    """Return whether an address or a host name leads only to the machine itself. Names are not resolved.

    The unspecified addresses, ``0.0.0.0`` and ``::``, stand for all addresses of the machine.
    """
    name = host.strip("[]").partition("%")[0].rstrip(".").lower()
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")  # RFC 6761, section 6.3
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def reachable(ports: Iterable[ListeningPort], advertised: str = "") -> list[ListeningPort]:
    """Return the ports that clients without a certificate can reach from other machines.

    A server that listens on loopback and has another ``advertised`` address is reached through a forwarder.
    """
    is_forwarded = bool(advertised) and not is_loopback(advertised)
    return [
        port
        for port in ports
        if not port.requires_certificate and (is_forwarded or not all(map(is_loopback, port.addresses)))
    ]


def unauthenticated(ports: Iterable[ListeningPort], reason: str, hint: str) -> list[Finding]:
    """Return a finding for each port."""
    return [
        Finding(
            Risk.NO_AUTHENTICATION,
            f"{port.name} {port.number} on {', '.join(port.addresses)} is open to other machines, and {reason}",
            hint,
        )
        for port in ports
    ]


def readable_secrets(files: Iterable[tuple[str, str]]) -> list[Finding]:
    """Return a finding for each file, given with its setting, that each user of the machine can read."""
    return [
        Finding(Risk.READABLE_SECRET, f"{name}: each user of this machine can read {path}", f"chmod o-rwx {path}")
        for name, path in files
        if is_readable_by_others(Path(path))
    ]


def file_of(value: str) -> str:
    """Return the path in a value of the form ``file:///path``; empty for other forms."""
    return unquote(urlsplit(value).path) if value.startswith("file:") else ""


def is_readable_by_others(path: Path) -> bool:
    """Return whether users who are neither the owner nor in the group can read a file; False if it does not exist."""
    try:
        found = path.resolve(strict=True)
        is_reached = all(each.stat().st_mode & stat.S_IXOTH for each in found.parents)
        return is_reached and bool(found.stat().st_mode & stat.S_IROTH)
    except (OSError, ValueError):
        return False
