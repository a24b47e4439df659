"""Reference cycles, and the collector that looks for them while nobody is served.

Nearly all that a broker drops is freed at once, because nothing refers to it any more. A topic and its parts refer to
each other, and so do a subscription and its parts: they are taken apart after they were closed. So it is enough to look
among objects that are new. What survives two looks is set aside.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import structlog

from magnetar.base.parts import count_of, parts_of, take_apart

if TYPE_CHECKING:
    import asyncio

    from magnetar.base.parts import Part
    from magnetar.base.world import Clock
    from magnetar.broker.loop.slices import SlicedWork

log = structlog.get_logger(__name__)

NEW_OBJECTS_MAX = 5_000
"""Objects that are made, and not freed, between two looks. A look takes a millisecond, one in four takes some 8 ms."""

LOOKS_UNTIL_OLD = 3
"""Looks after which the objects that came meanwhile are looked at together, and set aside."""

NEVER = 2**31 - 1

FULL_INTERVAL_S = 86_400.0
"""Seconds between two looks among all objects, each of which takes some 0.4 us for each of them.

There is nothing to be found as far as is known. A topic without clients is 70 objects.
"""

RETIRED_S = 60.0
"""Seconds for which what was closed stays whole: requests may be under way that still look at it."""

RETIRED_LOOK_S = 1.0
"""Seconds between two looks for what is to be taken apart, at least."""

RETIRED_MAX = 10_000
"""Things that were closed and stay whole, each subscription of a topic counted; some 40 MB.

Beyond it the oldest is taken apart before its time. The newest stays whole, however large it is.
"""


class Retired:
    """What was closed, until it is taken apart: then it is freed at once, although its parts refer to each other."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, sliced: SlicedWork[object, Any]) -> None:
        """Nothing was closed yet."""
        self._loop = loop
        self._clock = clock
        self._sliced = sliced
        self._parts: deque[tuple[float, int, Part]] = deque()
        """What stays whole: until when, how many things it is, and itself."""
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, part: Part) -> None:
        """Take ``part``, which was closed, apart once nobody looks at it any more."""
        count = count_of(part)
        self._parts.append((self._clock.monotonic() + RETIRED_S, count, part))
        self._count += count
        while self._count > RETIRED_MAX and len(self._parts) > 1:
            self._take_apart_oldest()
        if self._timer is None:
            self._timer = self._loop.call_later(RETIRED_S, self._look)

    def _look(self) -> None:
        self._timer = None
        parts, now = self._parts, self._clock.monotonic()
        while parts and parts[0][0] <= now:
            self._take_apart_oldest()
        if parts:
            self._timer = self._loop.call_later(max(parts[0][0] - now, RETIRED_LOOK_S), self._look)

    def _take_apart_oldest(self) -> None:
        _, count, part = self._parts.popleft()
        self._count -= count
        self._sliced.start(part, parts_of(part), take_apart)


class CycleCollector:
    """Says when Python's collector looks for cycles in this process, and at what."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Nothing changes before ``start``."""
        self._loop = loop
        self._threshold = gc.get_threshold()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Set aside what there is, and begin."""
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS_MAX, LOOKS_UNTIL_OLD, NEVER)
        gc.callbacks.append(self._looked)
        self._plan()

    def stop(self) -> None:
        """Leave the process as it was."""
        if self._timer is not None:
            self._timer.cancel()
            gc.callbacks.remove(self._looked)
            gc.set_threshold(*self._threshold)
            gc.unfreeze()

    def look_at_all(self) -> None:
        """Look among all objects, and log how long that took and how many were freed."""
        began = time.perf_counter()
        gc.unfreeze()
        freed = gc.collect()
        gc.freeze()
        log.info("cycles_collected", seconds=round(time.perf_counter() - began, 3), objects_freed=freed)

    def _plan(self) -> None:
        self._timer = self._loop.call_later(FULL_INTERVAL_S, self._full)

    def _full(self) -> None:
        self.look_at_all()
        self._plan()

    def _looked(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "stop" and info["generation"] == 1:
            gc.freeze()
