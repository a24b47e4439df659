"""Execution of a connection's requests, at once or in a task, and conversion of their errors to answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.base.errors import RemoteProtocolError, RequestError, ServerError
from magnetar.base.limits import Limit
from magnetar.base.tasks import report_bug, start_task
from magnetar.broker.session.refusals import REFUSED, as_request_error, internal_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from magnetar.broker.session.session import Session


PENDING_REQUESTS_MAX: Final = 5000
"""Maximum number of requests in progress of a connection, about 3 KB each."""


def check_room(session: Session) -> None:
    """Raise RequestError if the connection has too many requests in progress.

    Call it once for each request that may take longer than one turn.
    """
    if len(session.tasks) >= PENDING_REQUESTS_MAX:
        limit = Limit.PENDING_REQUESTS
        message = f"{PENDING_REQUESTS_MAX} requests of the connection are under way ({limit})"
        raise RequestError(ServerError.TooManyRequests, message, limit)


def attempt(session: Session, request_id: int, work: Callable[[], None]) -> None:
    """Run ``work`` now; a refusal becomes the answer of the request. Raises RemoteProtocolError only."""
    try:
        work()
    except REFUSED as error:
        session.answer_error(request_id, as_request_error(error))
    except RemoteProtocolError:
        raise
    except Exception as error:  # noqa: BLE001 - the root of a request's work
        answer_bug(session, request_id, error)


def start(session: Session, request_id: int, work: Awaitable[None]) -> None:
    """Run ``work`` in the background; an error becomes the answer of the request."""
    task = start_task(session.environment.loop, _run(session, request_id, work), f"request of {session.address}")
    session.tasks.add(task)
    task.add_done_callback(session.tasks.discard)


def start_after(
    session: Session,
    event: Awaitable[object],
    starting: dict[int, object],
    key: int,
    request_id: int,
    work: Callable[[], None],
) -> None:
    """Run ``work`` after ``event``, unless ``key`` was removed from ``starting`` or the connection was closed.

    CLOSE removes it, and its answer ends the request. A later request with the same id is independent.
    """
    token = starting[key] = object()

    def once() -> Generator[None, None, None]:
        if starting.get(key) is token:
            del starting[key]
            if session.is_open:
                work()
        yield

    async def wait() -> None:
        try:
            await event
            await session.environment.slices.run(once())  # thousands may have waited for the same event
        finally:
            if starting.get(key) is token:
                del starting[key]

    start(session, request_id, wait())


async def _run(session: Session, request_id: int, work: Awaitable[None]) -> None:
    try:
        await work
    except REFUSED as error:
        session.answer_error(request_id, as_request_error(error))
    except Exception as error:  # noqa: BLE001 - the root of a request's task
        answer_bug(session, request_id, error)


def answer_bug(session: Session, request_id: int, error: Exception) -> None:
    """Answer a request that failed because of a bug; other topics of the connection are not affected."""
    report_bug(session.environment.loop, f"request {request_id} of {session.address} failed", error)
    session.answer_error(request_id, internal_error())
