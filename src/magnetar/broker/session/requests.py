"""How the requests of a connection are worked on, now or in a task, and how what goes wrong becomes their answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.tasks import report_bug, start_task
from magnetar.broker.session.refusals import REFUSED, as_request_error, internal_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from magnetar.broker.session.session import Session


def attempt(session: Session, request_id: int, work: Callable[[], None]) -> None:
    """Do ``work`` now; what it refuses is the request's answer. Raises RemoteProtocolError only."""
    try:
        work()
    except REFUSED as error:
        session.answer_error(request_id, as_request_error(error))
    except RemoteProtocolError:
        raise
    except Exception as error:  # noqa: BLE001 - the root of a request's work
        answer_bug(session, request_id, error)


def start(session: Session, request_id: int, work: Awaitable[None]) -> None:
    """Run ``work`` in the background; what it raises is the request's answer."""
    task = start_task(session.environment.loop, _run(session, request_id, work), f"request of {session.address}")
    session.tasks.add(task)
    task.add_done_callback(session.tasks.discard)


def start_after(
    session: Session,
    event: Awaitable[None],
    starting: dict[int, object],
    key: int,
    request_id: int,
    work: Callable[[], None],
) -> None:
    """Do ``work`` after ``event``, unless ``key`` was taken out of ``starting`` or the connection was closed.

    CLOSE takes it out: the client was told that nothing is left. A later request with the same id has its own turn.
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
            await session.environment.slices.run(once())  # thousands may have waited for the same
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
    """Answer a request that met a bug: the client hears something, and its other topics do not notice."""
    report_bug(session.environment.loop, f"request {request_id} of {session.address} failed", error)
    session.answer_error(request_id, internal_error())
