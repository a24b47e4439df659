"""CONNECT, CONNECTED, PING and PONG, and the answers that any request may get."""

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
    """Open the handshake."""
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
    """Finish the handshake; ``life`` is the life of the broker's cluster (base/life.py)."""
    body = pb.CommandConnected(
        server_version=server_version,
        protocol_version=protocol_version,
        max_message_size=max_message_size,
        feature_flags=feature_flags,
        life=life,
    )
    return encode(body)


def ping() -> bytes:
    """Ask whether the peer lives."""
    return _PING


def pong() -> bytes:
    """Say that we live."""
    return _PONG


_PING = encode(pb.CommandPing())


_PONG = encode(pb.CommandPong())


def success(*, request_id: int) -> bytes:
    """Grant a request that has no answer of its own."""
    return encode(pb.CommandSuccess(request_id=request_id))


def error(*, request_id: int, code: ServerError, message: str) -> bytes:
    """Refuse a request."""
    return encode(pb.CommandError(request_id=request_id, error=code_of(code), message=message))


def link_held(*, request_id: int, message: str, pipeline: str | None) -> bytes:
    """Refuse a link that another task holds: one of another ``pipeline``, or one with a newer lease if that is None."""
    body = pb.CommandError(request_id=request_id, error=pb.ConsumerBusy, message=message, link_holder=pipeline)
    body.link_refusal = pb.LinkOfNewerLease if pipeline is None else pb.LinkOfOtherPipeline
    return encode(body)
