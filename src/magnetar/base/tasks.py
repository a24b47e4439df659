"""Background tasks whose exceptions are always reported.

asyncio reports an exception that was not retrieved only when the task is garbage-collected, which may be never. All
tasks of Magnetar are started here: an unhandled exception goes to the loop's exception handler at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

Result = TypeVar("Result")


def start_task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result], name: str) -> asyncio.Task[Result]:
    """Run ``work`` in the background; the loop's exception handler gets its exception, with ``name`` in the message.

    Cancellation is no failure. Keep the returned task: the loop has only a weak reference to it.
    """
    task = loop.create_task(work, name=name)
    task.add_done_callback(_report)
    return task


def report_bug(loop: asyncio.AbstractEventLoop, message: str, error: BaseException) -> None:
    """Pass a bug that the caller handles to the loop's exception handler, which logs it.

    The simulator counts every such report as a violation, so handling a bug does not hide it.
    """
    loop.call_exception_handler({"message": message, "exception": error})


def _report(ended: asyncio.Task[Any]) -> None:
    if ended.cancelled():
        return
    error = ended.exception()
    if error is not None:
        report_bug(ended.get_loop(), f"task {ended.get_name()} failed", error)
