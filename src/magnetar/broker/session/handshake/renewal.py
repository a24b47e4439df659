"""Renewal of the credentials of a live connection with AUTH_CHALLENGE and AUTH_RESPONSE.

When they expire, the client is asked for new ones, and may go on meanwhile. The connection ends if they do not arrive
in time, prove another role, or cannot be renewed: the client has no support for it, or its proof is a certificate.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import structlog

from magnetar.base.errors import RemoteProtocolError
from magnetar.broker.session.handshake.checking import SERVER_VERSION, authenticating, peer_of
from magnetar.security.audit import AuditEvent, Kind, Result
from magnetar.security.providers.certificates import METHOD as TLS
from magnetar.security.providers.proof import Proof
from magnetar.security.providers.service import Original
from magnetar.wire import commands

if TYPE_CHECKING:
    import asyncio

    from magnetar.broker.authentication.authentication import Authentication
    from magnetar.broker.session.session import Session
    from magnetar.security.principal import Principal
    from magnetar.wire.proto import pulsar_api_pb2 as pb

log = structlog.get_logger(__name__)

_REFRESH: Final = b"PulsarAuthRefresh"
"""Data of a challenge that asks for new credentials, as of Pulsar's brokers."""


class Due(Enum):
    """What to do about the credentials of a connection."""

    NOTHING = auto()
    CHALLENGE = auto()
    CLOSE = auto()


def due(principal: Principal, now: float, *, is_challenged: bool, can_renew: bool) -> Due:
    """Decide at ``now``, in seconds since the epoch; ``is_challenged``: a challenge was not answered in time."""
    if not principal.has_expired(now):
        return Due.NOTHING
    if is_challenged or not can_renew or principal.method == TLS:
        return Due.CLOSE
    return Due.CHALLENGE


class SessionRenewal:
    """The renewal of one connection."""

    def __init__(self, session: Session, authentication: Authentication, *, can_renew: bool) -> None:
        """Watch the principal of ``session``, which expires."""
        self._session = session
        self._authentication = authentication
        self._can_renew = can_renew
        self._is_challenged = False
        self._is_checking = False
        """Whether the answer to the challenge is being checked."""
        self._timer: asyncio.TimerHandle | None = None
        self._check_later()

    def cancel(self) -> None:
        """See Renewal."""
        if self._timer is not None:
            self._timer.cancel()

    def answer(self, response: pb.CommandAuthResponse) -> None:
        """See Renewal."""
        if not self._is_challenged or self._is_checking:
            message = "AUTH_RESPONSE without a challenge"
            raise RemoteProtocolError(message)
        self._is_checking = True
        data = response.response
        proof = Proof(data.auth_method_name, data.auth_data, self._session.peer_certificate)

        async def check() -> None:
            session = self._session
            original = Original(session.principal.original)
            self._renewed(await self._authentication.of_connection(proof, original, peer_of(session)))

        authenticating(self._session, check)

    def _renewed(self, principal: Principal) -> None:
        session, before = self._session, self._session.principal
        if not session.is_open:
            return
        if principal.role != before.role:
            log.warning("authentication_role_changed", address=session.address, role=before.role)
            reason = "the credentials were renewed with those of another role"
            session.environment.record(
                AuditEvent(
                    Kind.AUTHENTICATION,
                    Result.DENIED,
                    principal.method,
                    principal=before,
                    address=session.address,
                    reason=reason,
                )
            )
            session.disconnect()
            return
        session.principal = principal
        self._is_challenged = self._is_checking = False
        self.cancel()
        self._check_later()

    def _check_later(self) -> None:
        """Check when the credentials expire, or a challenge must be answered; in steps, because clocks may be set."""
        environment, expires_at = self._session.environment, self._session.principal.expires_at
        if expires_at is None:
            return
        wait_s = environment.config.authenticationRefreshCheckSeconds
        if not self._is_challenged:
            wait_s = min(wait_s, max(0.0, expires_at - environment.clock.now()))
        self._timer = environment.loop.call_later(wait_s, self._check)

    def _check(self) -> None:
        session = self._session
        if not session.is_open:
            return
        principal, now = session.principal, session.environment.clock.now()
        found = due(principal, now, is_challenged=self._is_challenged, can_renew=self._can_renew)
        if found is Due.CLOSE:
            log.warning("credentials_expired", address=session.address, client=session.client_version)
            session.disconnect()
            return
        self._is_challenged = found is Due.CHALLENGE
        self._check_later()
        if self._is_challenged:
            session.write(
                commands.auth_challenge(
                    server_version=SERVER_VERSION,
                    auth_method_name=principal.method,
                    auth_data=_REFRESH,
                    protocol_version=session.connection.peer_protocol_version,
                )
            )
