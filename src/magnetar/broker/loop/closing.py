"""Closing of several parts. If one part fails to close, the others are closed nevertheless."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import structlog

from magnetar.base.errors import MagnetarError
from magnetar.base.tasks import report_bug

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    Step: TypeAlias = tuple[str, Callable[[], object]]
    """The name of a part, and the function that closes it."""

log = structlog.get_logger(__name__)


def close_each(loop: asyncio.AbstractEventLoop, what: object, steps: Iterable[Step]) -> None:
    """Run every step of closing ``what``, in order. A step that raises is logged, and the next step follows.

    Never raises. A failed step has the effect of a crash: the next load recovers the durable state.
    """
    for name, step in steps:
        close_one(loop, what, name, step)


def close_one(loop: asyncio.AbstractEventLoop, what: object, name: str, step: Callable[[], object]) -> None:
    """Run one step of closing ``what``, as ``close_each`` does. Never raises."""
    try:
        step()
    except MagnetarError as error:
        log.warning("close_failed", of=str(what), step=name, error=str(error))
    except Exception as error:  # noqa: BLE001 - the root of one step's work: the other steps have to run
        report_bug(loop, f"closing {what} failed at {name}", error)
