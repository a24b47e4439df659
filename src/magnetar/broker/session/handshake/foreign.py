"""Clients of other protocols on the port of the binary protocol."""

from __future__ import annotations

from typing import Final

_TLS_HANDSHAKE: Final = b"\x16\x03"
"""First bytes of a TLS record of type handshake; the second one is the major version of all versions since SSL 3."""

_HTTP_METHODS: Final = frozenset(
    {b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"CONNECT", b"PRI"}
)
"""PRI begins HTTP/2."""

_REMEDIES: Final = {
    "TLS": "this port has no TLS: pulsar+ssl:// is for brokerServicePortTls, and pulsar:// for this port",
    "HTTP": "this port is not for HTTP: use webServicePort",
    "PROXY": "switch the PROXY protocol off in the proxy",
}


def foreign_protocol(data: bytes) -> str | None:
    """Return the protocol of a client whose first bytes are ``data``; None if it is not known."""
    if data.startswith(_TLS_HANDSHAKE):
        return "TLS"
    if data.startswith((b"PROXY ", b"\r\n\r\n\x00\r\nQUIT\n")):
        return "PROXY"
    method, separator, _ = data[:8].partition(b" ")
    return "HTTP" if separator and method in _HTTP_METHODS else None


def remedy(name: str) -> str:
    """Return the advice for a client of the protocol ``name``."""
    return _REMEDIES[name]
