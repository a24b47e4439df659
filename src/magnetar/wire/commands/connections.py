"""CONNECT, CONNECTED, PING and PONG, and the generic replies SUCCESS and ERROR."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.base.errors import ServerError

from magnetar.wire.commands.encoding import PROTOCOL_VERSION, code_of, encode


def connect(
    *,
    client_version: str,
    protocol_version: int = PROTOCOL_VERSION,
    feature_flags: pb.FeatureFlags | None = None,
    auth_method_name: str | None = None,
    auth_data: bytes | None = None,
) -> bytes:
    """Build CONNECT, the client's half of the handshake."""
    body = pb.CommandConnect(
        client_version=client_version,
        protocol_version=protocol_version,
        feature_flags=feature_flags,
        auth_method_name=auth_method_name,
        auth_data=auth_data,
    )
    return encode(body)


def connected(
    *,
    server_version: str,
    protocol_version: int,
    max_message_size: int,
    feature_flags: pb.FeatureFlags | None = None,
    life: str | None = None,
) -> bytes:
    """Build CONNECTED, the broker's half of the handshake; ``life`` is that of the broker's cluster (base/life.py)."""
    body = pb.CommandConnected(
        server_version=server_version,
        protocol_version=protocol_version,
        max_message_size=max_message_size,
        feature_flags=feature_flags,
        life=life,
    )
    return encode(body)


def auth_response(
    *, client_version: str, auth_method_name: str, auth_data: bytes, protocol_version: int = PROTOCOL_VERSION
) -> bytes:
    """Build AUTH_RESPONSE, the answer to AUTH_CHALLENGE."""
    response = pb.AuthData(auth_method_name=auth_method_name, auth_data=auth_data)
    return encode(
        pb.CommandAuthResponse(client_version=client_version, protocol_version=protocol_version, response=response)
    )


def auth_challenge(*, server_version: str, auth_method_name: str, auth_data: bytes, protocol_version: int) -> bytes:
    """Build AUTH_CHALLENGE, which asks for credentials."""
    challenge = pb.AuthData(auth_method_name=auth_method_name, auth_data=auth_data)
    return encode(
        pb.CommandAuthChallenge(server_version=server_version, protocol_version=protocol_version, challenge=challenge)
    )


def ping() -> bytes:
    """Build PING, which the peer answers with PONG."""
    return _PING


def pong() -> bytes:
    """Build PONG, the answer to PING."""
    return _PONG


_PING = encode(pb.CommandPing())


_PONG = encode(pb.CommandPong())


def success(*, request_id: int) -> bytes:
    """Build SUCCESS, the reply to a request that has no response command of its own."""
    return encode(pb.CommandSuccess(request_id=request_id))


def error(*, request_id: int, code: ServerError, message: str) -> bytes:
    """Build ERROR, the refusal of a request."""
    return encode(pb.CommandError(request_id=request_id, error=code_of(code), message=message))


def link_held(*, request_id: int, message: str, pipeline: str | None) -> bytes:
    """Refuse a link that another task holds: one of another ``pipeline``, or one with a newer lease if that is None."""
    body = pb.CommandError(request_id=request_id, error=pb.ConsumerBusy, message=message, link_holder=pipeline)
    body.link_refusal = pb.LinkOfNewerLease if pipeline is None else pb.LinkOfOtherPipeline
    return encode(body)
