"""A budget for the work of one turn of the event loop, shared by all that clients make a broker do."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from magnetar.base.world import Clock

TURN_S = 0.005
"""Seconds of a turn in which work is begun; the last piece of work comes on top. Other clients wait so long at most."""

TURN_ITEMS_MAX = 1000
"""Pieces of work that are begun in a turn, however quick they are."""


class LoopTurns:
    """Runs pieces of work in the order in which they came, in as many turns of the event loop as that takes.

    A turn begins with what was left over, so what arrives on a socket in a turn that is over waits behind everything
    that came before. A piece of work that may take long does a part, and calls ``soon`` for the rest: it is then behind
    everybody else. Work that raises does not keep the rest from being run; the loop's exception handler is told.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        """Nothing is to be done."""
        self._loop = loop
        self._monotonic = clock.monotonic
        self._waiting: deque[Callable[[], None]] = deque()
        self._next_turn: asyncio.Handle | None = None
        """What begins the next turn; None if nothing was done in this one."""
        self._ends_at = 0.0
        self._items = 0

    def soon(self, work: Callable[[], None]) -> None:
        """Do ``work`` in the next turn, or in a later one if there is much to do before it."""
        self._waiting.append(work)
        if self._next_turn is None:
            self._next_turn = self._loop.call_soon(self._run)

    def begin(self, now: float) -> bool:
        """Count a piece of work in, at ``now`` on the monotonic clock; False if it has to wait for a later turn."""
        if self._next_turn is None:
            self._next_turn = self._loop.call_soon(self._run)
            self._start(now)
        self._items += 1
        return now < self._ends_at and self._items <= TURN_ITEMS_MAX

    def is_over(self) -> bool:
        """Count a piece of work as done; whether no other one may begin in this turn."""
        self._items += 1
        return self._items > TURN_ITEMS_MAX or self._monotonic() >= self._ends_at

    def _start(self, now: float) -> None:
        self._ends_at = now + TURN_S
        self._items = 0

    def _run(self) -> None:
        if not self._waiting:
            self._next_turn = None
            return
        # ``_next_turn`` stays set meanwhile: work that calls ``soon`` would else begin a second chain of turns.
        self._start(self._monotonic())
        waiting = self._waiting
        try:
            for _ in range(len(waiting)):  # what they add comes in the next turn: what is written goes out before
                waiting.popleft()()
                if self.is_over():
                    break
        finally:
            self._next_turn = self._loop.call_soon(self._run)
