"""Clients without TLS on a port with TLS."""

from __future__ import annotations

from typing import Final

_HANDSHAKE: Final = 0x16
"""First byte of a record of TLS with a part of the handshake."""

_REMEDY: Final = "this port has TLS: use a URL with pulsar+ssl:// or https://"


def remedy_for(first_bytes: bytes) -> str:
    """Return the advice for a client with these first bytes; empty if it speaks TLS."""
    return "" if first_bytes[:1] == bytes([_HANDSHAKE]) else _REMEDY
