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

HEAVY_S = 0.002
"""Seconds of a turn that are left to clients that ask for much, when others have work for all of it."""

LIGHT_S = 0.0005
"""Seconds of work that a client may have at once and count among those that ask for little."""

LIGHT_SHARE = 0.1
"""The part of the time in which a client asks for nothing that is credited to it as work."""

DEBT_MAX_S = 0.02
"""Seconds of work that are remembered of a client: one that asked for much asks for little again after 0.2 s."""

TURN_ITEMS_MAX = 1000
"""Pieces of work that are begun in a turn, however quick they are."""


class Share:
    """One client, or one topic, whose work is done in turns."""

    __slots__ = ("debt_s", "ended_at")

    def __init__(self) -> None:
        """It has asked for nothing."""
        self.debt_s = 0.0
        """Seconds of work that it had and that are not credited to it yet."""
        self.ended_at = 0.0
        """When its last piece of work ended."""


class LoopTurns:
    """Runs pieces of work in as many turns of the event loop as that takes.

    In each turn those come first that ask for little, then those that ask for much, each in the order in which they
    came. So a client that asks for little does not notice how many others ask for much, and these have a part of each
    turn whatever the others do.

    A turn begins with what was left over, so what arrives on a socket in a turn that is over waits. A piece of work
    that may take long does a part, and calls ``soon`` for the rest. Work that raises does not keep the rest from being
    run; the loop's exception handler is told.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, processor_time: Callable[[], float] | None = None
    ) -> None:
        """Nothing is to be done.

        ``processor_time`` tells how many seconds of a processor the thread of the loop has had, by default those that
        have passed. On a busy machine these differ, and a client does not ask for more because others run.
        """
        self._loop = loop
        self._monotonic = clock.monotonic
        self._processor_time = processor_time or clock.monotonic
        self._added: list[tuple[Callable[[], None], Share]] = []
        """What came since the last turn began."""
        self._light: deque[tuple[Callable[[], None], Share]] = deque()
        self._heavy: deque[tuple[Callable[[], None], Share]] = deque()
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
        if not self._added and not self._light and not self._heavy:
            self._next_turn = None
            return
        # ``_next_turn`` stays set meanwhile: work that calls ``soon`` would else begin a second chain of turns.
        now = self._monotonic()
        self._start(now)
        self._queue_added(now)  # what is added from now on comes in the next turn: what this one writes goes out before
        ends_at = self._ends_at
        try:
            self._run_some(self._light, ends_at - HEAVY_S if self._heavy else ends_at, LIGHT_S)
            self._run_some(self._heavy, ends_at, TURN_S)
        finally:
            self._ends_at = ends_at
            self._next_turn = self._loop.call_soon(self._run)

    def _queue_added(self, now: float) -> None:
        for work, share in self._added:
            if share.debt_s:
                share.debt_s = max(0.0, share.debt_s - (now - share.ended_at) * LIGHT_SHARE)
            (self._light if share.debt_s <= LIGHT_S else self._heavy).append((work, share))
        self._added.clear()

    def _run_some(self, waiting: deque[tuple[Callable[[], None], Share]], ends_at: float, piece_s: float) -> None:
        """Run the first piece, and more until ``ends_at``; each may begin work for ``piece_s`` seconds at most."""
        now, used_s = self._monotonic(), self._processor_time()
        while waiting:
            (work, share), began, before_s = waiting.popleft(), now, used_s
            self._ends_at = min(ends_at, now + piece_s)
            try:
                work()
            finally:
                share.ended_at = now = self._monotonic()
                used_s = self._processor_time()
                share.debt_s = min(DEBT_MAX_S, share.debt_s + used_s - before_s)
                if now - began >= LIGHT_S:
                    share.debt_s = max(share.debt_s, 2 * LIGHT_S)
            self._items += 1
            if self._items > TURN_ITEMS_MAX or now >= ends_at:
                break
