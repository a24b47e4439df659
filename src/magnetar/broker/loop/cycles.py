"""Python's collector of reference cycles, which stops the event loop while it runs.

Reference counting frees nearly all objects of a broker. A topic and its parts refer to each other, and so do a
subscription and its parts. These cycles are broken some time after a topic or a subscription was closed. The collector
therefore examines new objects only. Objects that survive two collections, or one large collection, are frozen.
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
    from collections.abc import Callable

    from magnetar.base.parts import Part
    from magnetar.base.world import Clock
    from magnetar.broker.loop.slices import SlicedWork

log = structlog.get_logger(__name__)

NEW_OBJECTS_MAX = 5_000
"""Net number of new objects between two collections. A collection takes a millisecond, one in four some 4 ms."""

COLLECTIONS_UNTIL_OLD = 3
"""Collections after which the new objects are examined together and frozen."""

EXAMINED_MAX_S = 0.004
"""Seconds of collections of new objects from which the remaining objects are frozen without another examination.

Another examination would take as long as these collections together.
"""

NEVER = 2**31 - 1

FULL_INTERVAL_S = 86_400.0
"""Least seconds between two full collections, which take some 0.4 us for each object.

No cycles are known that only a full collection finds. A topic without clients consists of 70 objects.
"""

QUIET_S = 1.0
"""Seconds without work for clients from which a broker is quiet. Full collections take place in quiet brokers only."""

QUIET_CHECK_S = 60.0
"""Seconds until a broker that was not quiet is checked again."""

RETIRED_S = 60.0
"""Seconds after closing in which a part stays intact, for requests in progress that still use it."""

RETIRED_INTERVAL_S = 1.0
"""Minimum seconds between two checks for parts that are due."""

RETIRED_MAX = 10_000
"""Maximum number of closed parts that stay intact, including subscriptions of topics; some 40 MB.

Beyond it, the oldest part is cleared earlier. The newest part stays intact, for any size.
"""


class Retired:
    """Closed parts that wait to be taken apart, which breaks their reference cycles and frees them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, sliced: SlicedWork[object, Any]) -> None:
        """Start without closed parts."""
        self._loop = loop
        self._clock = clock
        self._sliced = sliced
        self._parts: deque[tuple[float, int, Part]] = deque()
        """Closed parts with the time when they are due and the number of parts in them."""
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, part: Part) -> None:
        """Take the closed ``part`` apart after RETIRED_S."""
        count = count_of(part)
        self._parts.append((self._clock.monotonic() + RETIRED_S, count, part))
        self._count += count
        while self._count > RETIRED_MAX and len(self._parts) > 1:
            self._take_apart_oldest()
        if self._timer is None:
            self._timer = self._loop.call_later(RETIRED_S, self._clear_due)

    def _clear_due(self) -> None:
        self._timer = None
        parts, now = self._parts, self._clock.monotonic()
        while parts and parts[0][0] <= now:
            self._take_apart_oldest()
        if parts:
            self._timer = self._loop.call_later(max(parts[0][0] - now, RETIRED_INTERVAL_S), self._clear_due)

    def _take_apart_oldest(self) -> None:
        _, count, part = self._parts.popleft()
        self._count -= count
        self._sliced.start(part, parts_of(part), take_apart)


class CycleCollector:
    """Configures Python's collector of reference cycles for a broker process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, idle_s: Callable[[], float]) -> None:
        """Change nothing before ``start``; ``idle_s`` returns the seconds since the last work for a client."""
        self._loop = loop
        self._idle_s = idle_s
        self._threshold = gc.get_threshold()
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0
        self._examined_s = 0.0
        """Seconds of the collections of new objects since objects were frozen last."""

    def start(self) -> None:
        """Freeze all objects that exist, and set the thresholds."""
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS_MAX, COLLECTIONS_UNTIL_OLD, NEVER)
        gc.callbacks.append(self._looked)
        self._timer = self._loop.call_later(FULL_INTERVAL_S, self._full)

    def stop(self) -> None:
        """Restore the configuration of the process."""
        if self._timer is not None:
            self._timer.cancel()
            gc.callbacks.remove(self._looked)
            gc.set_threshold(*self._threshold)
            gc.unfreeze()

    def collect_new(self) -> None:
        """Examine the new objects. Call it about every 50 ms.

        Python itself starts a collection by the net number of new objects. New objects that replace frozen ones do not
        count: 10,000 topics that each replace some add 100,000 objects, and 100 ms, to the next collection.
        """
        gc.collect(int(gc.get_count()[1] > COLLECTIONS_UNTIL_OLD))

    def collect_all(self) -> None:
        """Run a full collection; log its duration and the number of freed objects."""
        began = time.perf_counter()
        gc.unfreeze()
        freed = gc.collect()
        gc.freeze()
        log.info("cycles_collected", seconds=round(time.perf_counter() - began, 3), objects_freed=freed)

    def _full(self) -> None:
        is_quiet = self._idle_s() >= QUIET_S
        if is_quiet:
            self.collect_all()
        self._timer = self._loop.call_later(FULL_INTERVAL_S if is_quiet else QUIET_CHECK_S, self._full)

    def _looked(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
            return
        self._examined_s += time.perf_counter() - self._began
        if info["generation"] == 1 or self._examined_s >= EXAMINED_MAX_S:
            gc.freeze()
            self._examined_s = 0.0
