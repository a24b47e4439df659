"""A time budget for the work that clients cause in one turn of the event loop."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from magnetar.base.world import Clock

TURN_S = 0.005
"""Seconds of a turn in which work may begin. The last piece may exceed it. Other clients wait this long at most."""

LEVELS_S = (0.00025, 0.001, 0.004, 0.016, 0.064)
"""Upper bounds of the levels, inclusive, in seconds of recent work of a client. The last level has no bound."""

PIECES_S = tuple(min(bound, TURN_S) for bound in (*LEVELS_S, TURN_S))
"""Seconds in which a piece of work of each level may begin its parts."""

LEVEL_PART = 0.6
"""Maximum fraction of the rest of a turn for one level while work of later levels waits."""

NEW_S = LEVELS_S[-1]
"""Seconds of work that count in addition for a client until its queue is empty for the first time."""

KEPT = 0.5
"""Fraction of the recent work of a client that remains each time its queue is empty."""

TURN_ITEMS_MAX = 1000
"""Maximum number of pieces of work that begin in a turn."""

LIGHT_PART = 0.2
"""Fraction of the time and of the pieces of work of a turn up to which the turn is light."""

_LIGHT_S = TURN_S * LIGHT_PART

PAUSE_S = 0.0002
"""Seconds without work that end a light turn. The event loop has polled for input in such a pause."""


class Share:
    """The account of one client, or of one topic, whose work is done in turns."""

    __slots__ = ("had_s", "is_known", "waiting")

    def __init__(self) -> None:
        """Start without work, behind clients that are known to cause little work.

        Otherwise many new clients would delay all others before their load is known.
        """
        self.had_s = 0.0
        """Recent work in seconds: all work since the queue was last empty, and a fraction of the work before."""
        self.is_known = False
        """Whether the queue was empty once."""
        self.waiting = 0
        """Number of waiting pieces of work."""


class LoopTurns:
    """A multilevel feedback queue: runs pieces of work in as many turns of the event loop as necessary.

    Shares are sorted into levels by their recent work. Levels with less work run first. Within a level, work runs in
    the order of the requests. A client with few requests therefore does not notice clients with many, and each level
    has a fraction of each turn.

    A turn begins with the work that the last one left over. Input that arrives in a turn without time left waits for
    the next one. Work that may take long does a part and calls ``soon`` for the rest. If a piece of work raises, the
    loop's exception handler is called, and the other pieces run.

    A turn ends with an iteration of the event loop. A light turn ends with the first pause, because a callback that
    tells the end of an iteration costs another iteration. Pauses do not end other turns: in one iteration, the event
    loop may read a socket up to 32 times, and another process may take the processor between two reads.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, processor_time: Callable[[], float] | None = None
    ) -> None:
        """Start without work.

        ``processor_time`` returns the processor time of the loop's thread in seconds. The default is elapsed time. On a
        busy machine the two differ, and other processes must not count as work of a client.
        """
        self._loop = loop
        self._monotonic = clock.monotonic
        self._processor_time = processor_time or clock.monotonic
        self._added: list[tuple[Callable[[], None], Share]] = []
        """Work that was added since the last turn began."""
        self._levels: tuple[deque[tuple[Callable[[], None], Share]], ...] = tuple(deque() for _ in (*LEVELS_S, "more"))
        """Waiting work by level. The level with the least recent work comes first."""
        self._next_turn: asyncio.Handle | None = None
        """The callback that begins the next turn; None while this turn is light and no work is left over."""
        self._last_at = -TURN_S
        """Time at which work last began or ended."""
        self._ends_at = 0.0
        """Time from which no more work begins; ``charge`` moves it back."""
        self._light_until = 0.0
        """Time until which the turn is light; ``charge`` moves it back."""
        self._items = 0
        self._charged_s = 0.0
        """Seconds of work outside of turns that count in this turn."""

    def soon(self, work: Callable[[], None], share: Share) -> None:
        """Run ``work`` in the next turn, or in a later one if much work is waiting."""
        share.waiting += 1
        self._added.append((work, share))
        if self._next_turn is None:
            self._next_turn = self._loop.call_soon(self._run)

    def begin(self, now: float) -> bool:
        """Begin a piece of work at ``now`` in monotonic seconds; False if it has to wait for a later turn."""
        if self._next_turn is None:
            if now - self._last_at > PAUSE_S:
                self._last_at = now
                self._start(now)
                self._items = 1
                return True
            if not self._is_light(now):
                self._next_turn = self._loop.call_soon(self._run)
        self._last_at = now
        self._items += 1
        return now < self._ends_at and self._items <= TURN_ITEMS_MAX

    def is_over(self) -> bool:
        """End a piece of work; return whether no other piece may begin in this turn."""
        self._items = items = self._items + 1
        self._last_at = now = self._monotonic()
        if now > self._light_until and self._next_turn is None:
            self._next_turn = self._loop.call_soon(self._run)
        return now >= self._ends_at or items > TURN_ITEMS_MAX

    def charge(self, seconds: float) -> None:
        """Count work that this turn causes and that the loop does after it."""
        self._charged_s += seconds
        self._ends_at -= seconds
        self._light_until -= seconds

    def idle_s(self) -> float:
        """Return the seconds since work last began or ended."""
        return self._monotonic() - self._last_at

    def _is_light(self, now: float) -> bool:
        return now <= self._light_until and self._items < TURN_ITEMS_MAX * LIGHT_PART

    def _start(self, now: float) -> None:
        self._ends_at = now + TURN_S
        self._light_until = now + _LIGHT_S
        self._items = 0
        self._charged_s = 0.0

    def _run(self) -> None:
        now = self._monotonic()
        self._start(now)
        if len(self._added) <= 1 and not any(self._levels):
            self._run_only()
            return
        # ``_next_turn`` stays set meanwhile: otherwise work that calls ``soon`` would start a second chain of turns.
        self._queue_added()  # later additions wait for the next turn, so the output of this turn is sent first
        ends_at = self._ends_at
        try:
            for level, waiting in enumerate(self._levels):
                if waiting:
                    part = LEVEL_PART if any(self._levels[level + 1 :]) else 1.0
                    now = self._run_some(waiting, now + (ends_at - now) * part, PIECES_S[level])
        finally:
            self._ends_at = ends_at - self._charged_s
            is_done = not self._added and not any(self._levels) and self._is_light(self._last_at)
            self._next_turn = None if is_done else self._loop.call_soon(self._run)

    def _run_only(self) -> None:
        """Run the only waiting piece of work, if there is one: a broker with little load has no others."""
        if not self._added:
            self._next_turn = None
            return
        (work, share), began_s = self._added.pop(), self._processor_time()
        try:
            work()
        finally:
            self._last_at = now = self._monotonic()
            self._items += 1
            self._account(share, self._processor_time() + self._charged_s - began_s)
            is_done = not self._added and self._is_light(now)
            self._next_turn = None if is_done else self._loop.call_soon(self._run)

    def _queue_added(self) -> None:
        for work, share in self._added:
            had_s = share.had_s if share.is_known else share.had_s + NEW_S
            self._levels[bisect_left(LEVELS_S, had_s)].append((work, share))
        self._added.clear()

    def _run_some(self, waiting: deque[tuple[Callable[[], None], Share]], ends_at: float, piece_s: float) -> float:
        """Run the first piece, and more until ``ends_at``; return when the last one ended.

        While other work waits, each piece may begin parts for ``piece_s`` seconds.
        """
        now, used_s = self._now()
        while waiting:
            (work, share), before_s = waiting.popleft(), used_s
            self._ends_at = (min(ends_at, now + piece_s) if any(self._levels) else ends_at) - self._charged_s
            try:
                work()
            finally:
                now, used_s = self._now()
                self._account(share, used_s - before_s)
            self._items += 1
            if self._items > TURN_ITEMS_MAX or now >= ends_at:
                break
        return now

    @staticmethod
    def _account(share: Share, used_s: float) -> None:
        """Add the work of a piece to its share, which forgets a part of its work when its queue is empty."""
        share.waiting -= 1
        share.had_s += used_s
        if not share.waiting:
            if share.is_known:
                share.had_s *= KEPT
            share.is_known = True

    def _now(self) -> tuple[float, float]:
        """Return the time and the processor time, both with the work that was charged in this turn."""
        self._last_at = now = self._monotonic()
        return now + self._charged_s, self._processor_time() + self._charged_s
