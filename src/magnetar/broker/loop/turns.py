"""A budget for the work of one turn of the event loop, shared by all that clients make a broker do."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from magnetar.base.world import Clock

TURN_S = 0.005
"""Seconds of a turn in which work is begun; the last piece of work comes on top. Other clients wait so long at most."""

LEVELS_S = (0.00025, 0.001, 0.004, 0.016, 0.064)
"""Upper bounds of the levels: seconds of work that a client had lately, inclusive. The last level has none."""

PIECES_S = tuple(min(bound, TURN_S) for bound in (*LEVELS_S, TURN_S))
"""Seconds in which a piece of work of each level begins what it consists of."""

LEVEL_PART = 0.6
"""The part of what is left of a turn that one level has at most, while work of later ones waits."""

NEW_S = LEVELS_S[-1]
"""Seconds of work that are added for a client until it asks for nothing for the first time."""

KEPT = 0.5
"""The part of the work that a client had which still counts each time it asks for nothing more."""

TURN_ITEMS_MAX = 1000
"""Pieces of work that are begun in a turn, however quick they are."""

LIGHT_PART = 0.2
"""The part of a turn's time and pieces of work up to which the turn is light."""

PAUSE_S = 0.0002
"""Seconds without work for clients that end a light turn: the event loop has looked for input meanwhile."""


class Share:
    """One client, or one topic, whose work is done in turns."""

    __slots__ = ("had_s", "is_known", "waiting")

    def __init__(self) -> None:
        """It has asked for nothing yet, and comes behind those that are known to ask for little.

        Many that come at once would else delay everybody before it shows how much they ask for.
        """
        self.had_s = 0.0
        """Seconds of work that it had lately: all of it since it last asked for nothing, and a part of that before."""
        self.is_known = False
        """Whether it has once had all that it asked for."""
        self.waiting = 0
        """Pieces of its work that wait."""


class LoopTurns:
    """Runs pieces of work in as many turns of the event loop as that takes.

    Those come first that had the least work lately. They are sorted into levels; those of one level come in the order
    in which they asked. So a client that asks for a little at a time does not notice how many others ask for much, or
    without end. Each level has a part of each turn.

    A turn begins with what was left over, so what arrives on a socket in a turn that is over waits. A piece of work
    that may take long does a part, and calls ``soon`` for the rest. Work that raises does not keep the rest from being
    run; the loop's exception handler is told.

    A turn ends with an iteration of the event loop. A light turn ends with the first pause, because a callback that
    tells the end of an iteration costs another iteration.
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
        self._levels: tuple[deque[tuple[Callable[[], None], Share]], ...] = tuple(deque() for _ in (*LEVELS_S, "more"))
        """What waits, by how much work its share had: the least comes first."""
        self._next_turn: asyncio.Handle | None = None
        """What begins the next turn; None while this one is light and nothing is left over."""
        self._started_at = -TURN_S
        self._last_at = -TURN_S
        """When work last began or ended."""
        self._ends_at = 0.0
        self._items = 0
        self._charged_s = 0.0
        """Seconds of work outside of turns that count in this one."""

    def soon(self, work: Callable[[], None], share: Share) -> None:
        """Do ``work`` in the next turn, or in a later one if there is much to do before it."""
        share.waiting += 1
        self._added.append((work, share))
        if self._next_turn is None:
            self._next_turn = self._loop.call_soon(self._run)

    def begin(self, now: float) -> bool:
        """Count a piece of work in, at ``now`` on the monotonic clock; False if it has to wait for a later turn."""
        if self._next_turn is None:
            if now - self._last_at > PAUSE_S:
                self._start(now)
            elif not self._is_light(now):
                self._next_turn = self._loop.call_soon(self._run)
        self._last_at = now
        self._items += 1
        return now + self._charged_s < self._ends_at and self._items <= TURN_ITEMS_MAX

    def is_over(self) -> bool:
        """Count a piece of work as done; whether no other one may begin in this turn."""
        self._items += 1
        self._last_at = now = self._monotonic()
        return self._items > TURN_ITEMS_MAX or now + self._charged_s >= self._ends_at

    def charge(self, seconds: float) -> None:
        """Count work that the loop does after this turn, because of what was done in it."""
        self._charged_s += seconds

    def _is_light(self, now: float) -> bool:
        used_s = now + self._charged_s - self._started_at
        return used_s <= TURN_S * LIGHT_PART and self._items < TURN_ITEMS_MAX * LIGHT_PART

    def _start(self, now: float) -> None:
        self._started_at = now
        self._ends_at = now + TURN_S
        self._items = 0
        self._charged_s = 0.0

    def _run(self) -> None:
        now = self._monotonic()
        self._start(now)
        if not self._added and not any(self._levels):
            self._next_turn = None
            return
        # ``_next_turn`` stays set meanwhile: work that calls ``soon`` would else begin a second chain of turns.
        self._queue_added()  # what is added from now on comes in the next turn: what this one writes goes out before
        ends_at = self._ends_at
        try:
            for level, waiting in enumerate(self._levels):
                if waiting:
                    part = LEVEL_PART if any(self._levels[level + 1 :]) else 1.0
                    now = self._run_some(waiting, now + (ends_at - now) * part, PIECES_S[level])
        finally:
            self._ends_at = ends_at
            is_done = not self._added and not any(self._levels) and self._is_light(self._last_at)
            self._next_turn = None if is_done else self._loop.call_soon(self._run)

    def _queue_added(self) -> None:
        for work, share in self._added:
            had_s = share.had_s if share.is_known else share.had_s + NEW_S
            self._levels[bisect_left(LEVELS_S, had_s)].append((work, share))
        self._added.clear()

    def _run_some(self, waiting: deque[tuple[Callable[[], None], Share]], ends_at: float, piece_s: float) -> float:
        """Run the first piece, and more until ``ends_at``; each may begin work for ``piece_s`` seconds if others wait.

        Returns when the last one ended.
        """
        now, used_s = self._now()
        while waiting:
            (work, share), before_s = waiting.popleft(), used_s
            share.waiting -= 1
            self._ends_at = min(ends_at, now + piece_s) if any(self._levels) else ends_at
            try:
                work()
            finally:
                now, used_s = self._now()
                share.had_s += used_s - before_s
                if not share.waiting:
                    if share.is_known:
                        share.had_s *= KEPT
                    share.is_known = True
            self._items += 1
            if self._items > TURN_ITEMS_MAX or now >= ends_at:
                break
        return now

    def _now(self) -> tuple[float, float]:
        """Return the time, and the processor time used, as if what was charged in this turn were done."""
        self._last_at = now = self._monotonic()
        return now + self._charged_s, self._processor_time() + self._charged_s
