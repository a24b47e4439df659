"""Permissions of the clients of sessions: checks of their commands (`magnetar.authorization.commands`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from magnetar.authorization.commands import COMMANDS, demands
from magnetar.authorization.needs import Scope
from magnetar.base.errors import InvalidTopicNameError, RequestError, ServerError
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.broker.session.session import Session

    Handler = Callable[[Session, pb.BaseCommand], None]

_AT_OPENING: Final = (pb.BaseCommand.PRODUCER, pb.BaseCommand.SUBSCRIBE)
"""Commands that may wait, and are checked when they open a producer or consumer."""

CHECKED: Final = frozenset(
    kind
    for kind, rows in COMMANDS.items()
    if kind not in _AT_OPENING and any(row.need.scope not in (Scope.ANYONE, Scope.OWN) for row in rows)
)
"""Commands that are checked before their handler."""

_REFUSED_BY: Final[Mapping[int, Callable[..., bytes]]] = {
    pb.BaseCommand.LOOKUP: commands.lookup_failed,
    pb.BaseCommand.PARTITIONED_METADATA: commands.partitioned_metadata_failed,
    pb.BaseCommand.GET_SCHEMA: commands.get_schema_failed,
    pb.BaseCommand.GET_OR_CREATE_SCHEMA: commands.get_or_create_schema_failed,
}
"""Answers other than ERROR."""


def guarded(kind: int, field: str, handler: Handler) -> Handler:
    """Return a handler that answers a command in ``field`` with AuthorizationError if the client may not do it."""
    return partial(_handle, kind, field, handler)


def _handle(kind: int, field: str, handler: Handler, session: Session, command: pb.BaseCommand) -> None:
    body = getattr(command, field)
    try:
        check(session, kind, body)
    except InvalidTopicNameError:
        pass  # the handler refuses it
    except RequestError as error:
        refuse = _REFUSED_BY.get(kind)
        if refuse is None:
            session.answer_error(body.request_id, error)
        else:
            session.write(refuse(request_id=body.request_id, code=error.code, message=str(error)))
        return
    handler(session, command)


def check(session: Session, kind: int, body: Any) -> None:  # noqa: ANN401 - the body of any command
    """Raise RequestError with AuthorizationError if the client may not do what a command requests.

    Raises InvalidTopicNameError, too.
    """
    access = session.environment.access
    if access is None:
        return
    for demand in demands(kind, body):
        refused = access.refusal(demand.need, demand.resource, session.principal, session.address)
        if refused is not None:
            raise RequestError(ServerError.AuthorizationError, refused.subscription_reason or demand.refusal)
