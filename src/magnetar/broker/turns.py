"""A budget for the work of one turn of the event loop, shared by all that clients make a broker do."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from magnetar.base.world import Clock

TURN_S = 0.005
"""Seconds of a turn in which work is begun; the last piece of work comes on top. Other clients wait so long at most."""

TURN_ITEMS_MAX = 1000
"""Pieces of work that are begun in a turn, however quick they are."""


class Share:
    """What one client, or one topic, has had of the turns."""

    __slots__ = ("finish_s",)

    def __init__(self) -> None:
        """Nothing yet."""
        self.finish_s = 0.0
        """The virtual time at which its last piece of work ended (``LoopTurns``)."""


class LoopTurns:
    """Runs pieces of work in as many turns of the event loop as that takes, fairly between those that they are for.

    This is start-time fair queueing: a piece may begin at the virtual time at which the piece before it of the same
    share ended, and the piece that may begin first comes next. So what is for a client that asks for little comes soon,
    however many others ask for much, and work for one share is done in order. Virtual time goes on with the time that
    pieces take, and stands still while none waits.

    A turn begins with what was left over, so what arrives on a socket in a turn that is over waits. A piece of work
    that may take long does a part, and calls ``soon`` for the rest. Work that raises does not keep the rest from being
    run; the loop's exception handler is told.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        """Nothing is to be done."""
        self._loop = loop
        self._monotonic = clock.monotonic
        self._waiting: list[tuple[float, float, int, Callable[[], None], Share]] = []
        """A heap: from when a piece may begin and when the one before it ended, in virtual time, and its number."""
        self._added: list[tuple[Callable[[], None], Share]] = []
        """What came since the last turn began."""
        self._virtual_s = 0.0
        """From when the first piece of the newest turn might have begun."""
        self._numbers = count()
        self._next_turn: asyncio.Handle | None = None
        """What begins the next turn; None if nothing was done in this one."""
        self._ends_at = 0.0
        self._items = 0

    def soon(self, work: Callable[[], None], share: Share) -> None:
        """Do ``work`` in the next turn, or in a later one if there is much to do before it."""
        self._added.append((work, share))
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
        self._queue_added()
        waiting = self._waiting
        if not waiting:
            self._next_turn = None
            return
        # ``_next_turn`` stays set meanwhile: work that calls ``soon`` would else begin a second chain of turns.
        now = self._monotonic()
        self._start(now)
        self._virtual_s = waiting[0][0]
        try:
            while waiting:  # what is added comes in the next turn: what this one has written goes out before
                start_s, _, _, work, share = heappop(waiting)
                try:
                    work()
                finally:
                    ended = self._monotonic()
                    share.finish_s = start_s + ended - now
                    now = ended
                self._items += 1
                if self._items > TURN_ITEMS_MAX or now >= self._ends_at:
                    break
        finally:
            self._next_turn = self._loop.call_soon(self._run)

    def _queue_added(self) -> None:
        for work, share in self._added:
            start_s = max(self._virtual_s, share.finish_s)
            heappush(self._waiting, (start_s, share.finish_s, next(self._numbers), work, share))
        self._added.clear()
