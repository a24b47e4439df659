"""Waiting for a condition; the only module of the suites that sleeps."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PATIENCE_S = 30.0
"""Default time-out, far above any usual duration on a busy machine with two cores."""


INTERVAL_S, INTERVAL_MAX_S = 0.02, 0.2
WAITED_SHARE = 0.05
"""Share of the time already waited after which the condition is checked again: checks take processor time."""


def wait_until(
    predicate: Callable[[], T], timeout_s: float = PATIENCE_S, *, what: str = "", interval_s: float | None = None
) -> T:
    """Return the first true value of ``predicate``; raises TimeoutError with ``what`` after the time limit.

    Without ``interval_s``, the condition is checked often at first, and five times per second at last.
    """
    began = time.monotonic()
    while True:
        value = predicate()
        if value:
            return value
        waited_s = time.monotonic() - began
        if waited_s > timeout_s:
            message = f"not within {timeout_s:g} s: {what or predicate}; last value {value!r}"
            raise TimeoutError(message)
        pause_s = min(max(INTERVAL_S, waited_s * WAITED_SHARE), INTERVAL_MAX_S)
        time.sleep(pause_s if interval_s is None else interval_s)


def holds_for(predicate: Callable[[], object], seconds: float, *, interval_s: float = 0.02) -> bool:
    """Return whether ``predicate`` stays true for ``seconds``, for events that must not happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not predicate():
            return False
        time.sleep(interval_s)
    return True


async def turns(count: int = 1) -> None:
    """Let the event loop of the test run ``count`` turns."""
    for _ in range(count):
        await asyncio.sleep(0)
