"""Threads of tests, and time limits for blocking calls, so that no test waits without a limit."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

STOP_TIMEOUT_S = 120.0
"""Time limit for stopping a thread, in seconds."""


class Background:
    """A daemon thread that runs until it is stopped."""

    def __init__(self) -> None:
        """Create the thread; ``begin`` starts it."""
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self.work, daemon=True)

    def work(self) -> None:
        """Run until ``stopping`` is set."""
        raise NotImplementedError

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the thread and wait for its end; raises TimeoutError with the class name after the time limit."""
        self.stopping.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            message = f"{type(self).__name__} did not stop within {timeout_s:g} s"
            raise TimeoutError(message)

    @property
    def has_ended(self) -> bool:
        """Return whether the thread has ended."""
        return not self._thread.is_alive()


def within(timeout_s: float, call: Callable[[], T], *, what: str) -> T:
    """Return the result of ``call``; raises TimeoutError with ``what`` after the time limit.

    For calls of the official client without a time-out. A call that hangs stays in its thread.
    """
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return outcome.result(timeout_s)
    except TimeoutError:
        if outcome.done():
            raise
        message = f"not within {timeout_s:g} s: {what}"
        raise TimeoutError(message) from None
