"""The check of a proof in the background, and the refusal of a client that proves no role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

import magnetar
from magnetar.base.errors import AuthenticationFailedError, AuthenticationFailure, RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.base.tasks import start_task
from magnetar.broker.authentication.authentication import Peer
from magnetar.wire import commands

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from magnetar.broker.session.session import Session

log = structlog.get_logger(__name__)

SERVER_VERSION: Final = f"Magnetar {magnetar.__version__}"
"""Name of the broker; peers that recognize it may send progress markers."""

_NO_REQUEST: Final = (1 << 64) - 1
"""Request id of errors that answer no request."""


def authenticating(session: Session, check: Callable[[], Awaitable[None]]) -> None:
    """Run ``check`` in the background. If it fails, the client gets Pulsar's error, and its connection is closed."""

    async def run() -> None:
        try:
            await check()
        except AuthenticationFailedError as error:
            _refuse(session, error)
        except Exception:
            session.disconnect()  # a defect gives no access; the loop's exception handler logs it
            raise

    task = start_task(session.environment.loop, run(), f"authentication of {session.address}")
    session.tasks.add(task)
    task.add_done_callback(session.tasks.discard)


def admit_role(session: Session, role: str) -> bool:
    """Count the connection for its role; False, and the client is refused, if the role has too many.

    Clients connect again after a pause.
    """
    environment, limit = session.environment, Limit.CONNECTIONS_PER_ROLE
    if environment.connection_limits.admits_role(role):
        session.counted_role = role
        return True
    log.warning("connection_refused", address=session.address, role=role, limit=limit.value)
    message = f"Reached the maximum number of connections of role {role} ({limit})"
    _end(session, RequestError(ServerError.TooManyRequests, message, limit))
    return False


def refuse_address(session: Session) -> None:
    """Refuse a client whose address has too many connections, as Apache Pulsar does."""
    limit = Limit.CONNECTIONS_PER_ADDRESS
    log.warning("connection_refused", address=session.address, limit=limit.value)
    message = f"Reached the maximum number of connections on address {session.address} ({limit})"
    _end(session, RequestError(ServerError.NotAllowedError, message, limit))


def peer_of(session: Session) -> Peer:
    """Return the client of a connection, for the limits and the log."""
    host = session.address.removeprefix("/").rpartition(":")[0]
    return Peer(host, session.address, session.client_version)


def _refuse(session: Session, error: AuthenticationFailedError) -> None:
    """Tell the client nothing about the reason, except that it may try again later."""
    code, message = ServerError.AuthenticationError, "Failed to authenticate"
    if error.kind is AuthenticationFailure.LIMIT:
        code, message = ServerError.TooManyRequests, f"Too many attempts to authenticate ({error.limit})"
    _end(session, RequestError(code, message))


def _end(session: Session, error: RequestError) -> None:
    """Tell the client why it is refused, and close the connection."""
    session.environment.limit_hits.note(error)
    session.write(commands.error(request_id=_NO_REQUEST, code=error.code, message=str(error)))
    session.disconnect()
