"""Work in threads of a test, and calls without a time-out, that keep no test waiting without a bound."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

STOP_TIMEOUT_S = 120.0
"""How long work may take to notice that it is to stop."""


class Background:
    """Work in a thread, until it is stopped; a thread that hangs does not keep the process."""

    def __init__(self) -> None:
        """Nothing runs yet: ``begin`` starts it."""
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self.work, daemon=True)

    def work(self) -> None:
        """Run until ``stopping`` is set."""
        raise NotImplementedError

    def begin(self) -> None:
        """Start the work."""
        self._thread.start()

    def end(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the work and wait for its end; raises TimeoutError, naming the kind of work, if that does not come."""
        self.stopping.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            message = f"{type(self).__name__} did not stop within {timeout_s:g} s"
            raise TimeoutError(message)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is done."""
        return not self._thread.is_alive()


def within(timeout_s: float, call: Callable[[], T], *, what: str) -> T:
    """Return what ``call`` returns; raise TimeoutError, naming ``what``, if that takes longer.

    For calls of the official client that have no time-out. One that hangs is left to its thread.
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
