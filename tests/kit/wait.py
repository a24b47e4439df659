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


def wait_until(
    predicate: Callable[[], T], timeout_s: float = PATIENCE_S, *, what: str = "", interval_s: float = 0.02
) -> T:
    """Return the first true value of ``predicate``; raises TimeoutError with ``what`` after the time limit."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            message = f"not within {timeout_s:g} s: {what or predicate}; last value {value!r}"
            raise TimeoutError(message)
        time.sleep(interval_s)


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
