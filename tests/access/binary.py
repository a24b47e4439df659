"""One command of one client on a connection of its own, and the outcome."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from magnetar.wire.frame import encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.access.bodies import REQUEST_ID, body_of
from tests.access.roles import UNPROVED, token_of
from tests.kit.addresses import loopback_addresses
from tests.kit.raw import ClosedByPeerError, RawConnection, name_of, part_of

if TYPE_CHECKING:
    import ssl

    from magnetar.wire.frame import Frame

ANSWER_TIMEOUT_S: Final = 20.0


class Port(NamedTuple):
    """A port of a broker."""

    url: str
    tls: ssl.SSLContext | None = None


class Outcome(NamedTuple):
    """What a client got."""

    kind: str
    """``unproved``, ``refused``, ``answered``, ``silent`` or ``closed``."""
    text: str = ""
    """The refusal, or the name of the answer."""
    code: str = ""
    """The name of the error in the answer."""


_ADDRESSES: Final = loopback_addresses()


def connection_of(port: Port, client: str) -> RawConnection:
    """Open a connection, from an address of its own for a client that proves no role."""
    return RawConnection(port.url, port.tls, next(_ADDRESSES) if client in UNPROVED else "")


def connect_of(client: str) -> bytes:
    """Return the CONNECT of a client."""
    token = token_of(client)
    connect = pb.CommandConnect(client_version="matrix", protocol_version=20, auth_method_name="none")
    if token:
        connect.auth_method_name, connect.auth_data = "token", token.encode()
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.CONNECT, connect=connect))


def outcome_of(port: Port, client: str, command: pb.BaseCommand) -> Outcome:
    """Connect, send the command, and wait for the answer, or for the answer to a PING behind a command without one."""
    with connection_of(port, client) as connection:
        connection.socket.sendall(connect_of(client))
        refused = _refusal(connection)
        if refused is not None:
            with contextlib.suppress(OSError):
                connection.socket.sendall(encode_command(command))
            assert connection.is_closed_by_peer()
            assert not connection.taken(), "a client without a role gets no answer"
            return refused
        try:
            connection.socket.sendall(encode_command(command))
            return _answer(connection, command)
        except (ClosedByPeerError, ConnectionError):
            return Outcome("closed")


def pipelined_outcome_of(port: Port, client: str, command: pb.BaseCommand) -> list[Frame]:
    """Send CONNECT and the command in one write; return all that comes before the connection is closed."""
    with connection_of(port, client) as connection:
        connection.socket.sendall(connect_of(client) + encode_command(command))
        assert connection.is_closed_by_peer()
        return connection.taken()


def _refusal(connection: RawConnection) -> Outcome | None:
    """Return the refusal of CONNECT; None if it is answered with CONNECTED."""
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < deadline:
        for frame in connection.gather(ANSWER_TIMEOUT_S):
            if name_of(frame) == "CONNECTED":
                return None
            error = part_of(frame)
            return Outcome("unproved", error.message, pb.ServerError.Name(error.error))
    message = "no answer to CONNECT"
    raise TimeoutError(message)


def _answer(connection: RawConnection, command: pb.BaseCommand) -> Outcome:
    request_id = body_of(command).DESCRIPTOR.fields_by_name.get("request_id")
    has_answer = request_id is not None and request_id.is_required
    connection.send("PING")
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < deadline:
        for frame in connection.gather(ANSWER_TIMEOUT_S):
            if name_of(frame) == "PONG":
                if not has_answer:
                    return Outcome("silent")
            elif getattr(part_of(frame), "request_id", None) == REQUEST_ID:
                return _outcome(frame)
    message = f"no answer to {pb.BaseCommand.Type.Name(command.type)}"
    raise TimeoutError(message)


def _outcome(frame: Frame) -> Outcome:
    part = part_of(frame)
    names = part.DESCRIPTOR.fields_by_name
    field = next((name for name in ("error", "error_code") if name in names and part.HasField(name)), "")
    code = pb.ServerError.Name(getattr(part, field)) if field else ""
    if code == "AuthorizationError":
        text = next(getattr(part, name) for name in ("message", "error_message") if name in names)
        return Outcome("refused", text, code)
    return Outcome("answered", name_of(frame), code)
