"""What a session needs of its connection: the transport, and the renewal of credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class Transport(Protocol):
    """The transport of a session."""

    def write(self, frame: bytes) -> None:
        """Send a frame."""
        ...

    def probe(self) -> None:
        """Send a PING to the client."""
        ...

    def close(self) -> None:
        """Close the connection after sending all written data."""
        ...

    def abort(self) -> None:
        """Close the connection at once."""
        ...

    def pause_reading(self) -> None:
        """Stop reading from the client."""
        ...

    def resume_reading(self) -> None:
        """Read on."""
        ...


class Renewal(Protocol):
    """Renewal of credentials that expire."""

    def cancel(self) -> None:
        """Stop it: the connection is closed."""
        ...

    def answer(self, response: pb.CommandAuthResponse) -> None:
        """Check new credentials; raises RemoteProtocolError if the broker has not asked for them."""
        ...


class _NoSocket:
    """Transport of a session whose connection is closed."""

    def nothing(self) -> None:
        """Do nothing, since the connection is closed."""

    close = abort = probe = pause_reading = resume_reading = nothing

    def write(self, frame: bytes) -> None:
        """Drop data."""


NO_SOCKET = _NoSocket()
