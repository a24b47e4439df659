"""CONNECT and AUTH_RESPONSE: a client proves its role before any other command is accepted.

The state table of ``wire.connection`` accepts no other command while the proof of CONNECT is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.base.errors import RemoteProtocolError
from magnetar.broker.session.handshake.checking import SERVER_VERSION, admit_role, authenticating, peer_of
from magnetar.broker.session.handshake.renewal import SessionRenewal
from magnetar.security.providers.proof import Proof
from magnetar.security.providers.service import Original
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.broker.session.session import Session

_FEATURES = pb.FeatureFlags(supports_get_partitioned_metadata_without_auto_creation=True)
_FEATURES_FOR_MAGNETAR = pb.FeatureFlags(
    supports_get_partitioned_metadata_without_auto_creation=True,
    supports_link_watches=True,
    supports_resting_links=True,
    supports_link_buckets=True,
    supports_link_runs=True,
    supports_link_place=True,
    supports_custody=True,
    supports_custody_runs=True,
)
"""Features for clients of Magnetar. Other clients get what Apache Pulsar sends."""

_NO_METHOD: Final = "none"


def connect(session: Session, command: pb.CommandConnect) -> None:
    """Answer CONNECT with CONNECTED, at once if the broker does not authenticate; otherwise when the role is proved.

    A client that does not prove one gets Pulsar's error, and its connection is closed.
    """
    authentication = session.environment.authentication
    if authentication is None:
        _establish(session, command.protocol_version)
        return
    proof = Proof(command.auth_method_name or _NO_METHOD, command.auth_data, session.peer_certificate)
    original = _original(session, command)
    can_renew = command.feature_flags.supports_auth_refresh and original.proof is None
    version = command.protocol_version

    async def check() -> None:
        principal = await authentication.of_connection(proof, original, peer_of(session))
        if session.is_open and admit_role(session, principal.acting_role):
            session.principal = principal
            _establish(session, version)
            if principal.expires_at is not None:
                session.renewal = SessionRenewal(session, authentication, can_renew=can_renew)

    authenticating(session, check)


def renew(session: Session, command: pb.CommandAuthResponse) -> None:
    """Check the credentials of AUTH_RESPONSE; raises RemoteProtocolError if no challenge waits for them."""
    if session.renewal is None:
        message = "AUTH_RESPONSE without a challenge"
        raise RemoteProtocolError(message)
    session.renewal.answer(command)


def _original(session: Session, command: pb.CommandConnect) -> Original:
    """Return the client of a proxy. Its credentials count only if the broker is to check them."""
    if not session.environment.config.authenticateOriginalAuthData or not command.HasField("original_principal"):
        return Original(command.original_principal)
    method = command.original_auth_method or _NO_METHOD
    return Original(command.original_principal, Proof(method, command.original_auth_data.encode()))


def _establish(session: Session, protocol_version: int) -> None:
    life = session.environment.store.life
    session.write(
        commands.connected(
            server_version=SERVER_VERSION,
            protocol_version=min(protocol_version, commands.PROTOCOL_VERSION),
            max_message_size=session.environment.config.maxMessageSize,
            feature_flags=_FEATURES_FOR_MAGNETAR if session.connection.peer_is_magnetar else _FEATURES,
            life=None if life is None else str(life),
        )
    )
    session.connection.connected()
    session.has_connected = True
    session.environment.connections.succeeded += 1
