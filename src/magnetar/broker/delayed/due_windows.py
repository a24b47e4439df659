"""Windows of a topic's subscriptions on its delayed entries, and the timer for the next due entry."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from itertools import islice
from typing import TYPE_CHECKING

from magnetar.base.position import LATEST
from magnetar.broker.delayed.window import PAGE_MAX, TIME_MAX_MS, Delayed, DueWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from magnetar.base.world import Clock
    from magnetar.metadata.policy.values import DelayedDeliveryPolicies

CLOCK_CHECK_S = 5.0
"""Longest wait before the clock is checked again, since it may have jumped."""


ADDED_AT_ONCE_MAX = 5_000
"""Maximum number of entries that are added to windows in one turn, a few milliseconds of work."""

PAGES_AT_ONCE_MAX = 8
"""Maximum number of pages that are read together; a window takes some milliseconds to add one."""

SHARED_MAX = 10 * PAGE_MAX
"""Maximum number of entries that windows have in common; others have copies, of 200 bytes each."""


class Pages:
    """Pages of the index that are being read for some windows."""

    def __init__(self, asked: list[tuple[DueWindow, int, Delayed]], shared: dict[Delayed, Delayed]) -> None:
        """Create it with each window, its epoch, and the entry after which its page begins.

        ``shared`` has entries of earlier pages, so that windows at the same place have the same objects.
        """
        self._asked = asked
        self._shared = shared

    @property
    def after(self) -> list[Delayed]:
        """Return the entries after which the pages begin."""
        return [after for _, _, after in self._asked]

    def read(self, pages: Iterable[Sequence[Delayed]]) -> None:
        """Pass the pages to the windows."""
        shared = self._shared
        for (window, epoch, _), page in zip(self._asked, pages, strict=True):
            if len(shared) > SHARED_MAX:
                shared.clear()
            window.page(epoch, [shared.setdefault(each, each) for each in page], is_last=len(page) < PAGE_MAX)

    def failed(self) -> None:
        """Handle that the pages could not be read."""
        for window, epoch, _ in self._asked:
            window.no_page(epoch)


class DueWindows(Collection[DueWindow]):
    """The windows. Used on the event loop's thread."""

    def __init__(
        self, clock: Clock, policies: Callable[[], DelayedDeliveryPolicies], notify: Callable[[], None]
    ) -> None:
        """Create it without windows; ``notify`` is called when an entry may be due for a waiting subscription."""
        self._clock = clock
        self._policies = policies
        self._notify = notify
        self._loop = asyncio.get_running_loop()
        self._windows: dict[DueWindow, None] = {}
        self._shared: dict[Delayed, Delayed] = {}
        """Entries of the newest pages."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0  # in the loop's time; uvloop's timer does not have it
        self._looked_at = 0.0
        self._closed = False

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self._windows)

    def __iter__(self) -> Iterator[DueWindow]:
        """Return the windows."""
        return iter(self._windows)

    def __contains__(self, window: object) -> bool:
        """Return whether the window was added."""
        return window in self._windows

    def add(self, window: DueWindow) -> None:
        """Add the window of a subscription."""
        self._windows[window] = None

    def discard(self, window: DueWindow) -> None:
        """Remove the window of a subscription, and free its entries."""
        self._windows.pop(window, None)
        window.restart(complete=False)
        if not self._windows:
            self._shared.clear()

    def withhold(self, entries: Sequence[Delayed]) -> None:
        """Add entries to all windows. If these are many, they read the entries from the store instead."""
        if len(entries) * len(self._windows) > ADDED_AT_ONCE_MAX and len(entries) > 1:
            first = min(entries)
            for window in self._windows:
                window.cut(first)
            return
        for window in self._windows:
            for entry in entries:
                window.add(entry)

    def take(self, window: DueWindow, count_max: int) -> list[Delayed]:
        """Take the next due entries; if there are none, the timer waits for the window."""
        is_enabled = self._policies().active
        taken = window.take(int(self._clock.now() * 1000) if is_enabled else TIME_MAX_MS, count_max)
        window.is_awaited = not taken
        return taken

    def taken_through(self) -> Delayed:
        """Return the entry up to which all windows have handed out all entries; without windows, all due entries."""
        now_ms = int(self._clock.now() * 1000)
        return min([Delayed(now_ms, LATEST), *(window.taken_through for window in self._windows)])

    def handed_out(self, entries: Iterable[Delayed]) -> list[Delayed]:
        """Return those of ``entries`` that all windows have handed out."""
        through = self.taken_through()
        return [entry for entry in entries if entry <= through]

    def begin_pages(self) -> Pages:
        """Start reading a page for some windows that need one; the others are first the next time."""
        wanting = list(islice((window for window in self._windows if window.wants_page), PAGES_AT_ONCE_MAX))
        for window in wanting:
            del self._windows[window]
            self._windows[window] = None
        return Pages([(window, window.epoch, window.begin_page()) for window in wanting], self._shared)

    @property
    def is_page_awaited(self) -> bool:
        """Whether a waiting subscription may need an entry of a page that is not read yet."""
        return any(window.wants_page and window.is_awaited for window in self._windows)

    def arm(self, windows: Iterable[DueWindow] | None = None) -> None:
        """Set the timer for the next due entry of a waiting subscription: of all, or of those with these windows."""
        times = [window.next_due_ms for window in windows or self._windows if window.is_awaited]
        due_ms = min((time for time in times if time is not None), default=None)
        if due_ms is None or self._closed:
            return
        looked_s_ago = self._clock.monotonic() - self._looked_at
        wait_s = max(
            min(due_ms / 1000 - self._clock.now(), CLOCK_CHECK_S),
            self._policies().tickTime / 1000 - looked_s_ago,
            0.0,
        )
        at = self._loop.time() + wait_s
        if self._timer is not None:
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(at, self._notify_due), at

    def _notify_due(self) -> None:
        """Notify waiting subscriptions, which register again if they still wait."""
        self._timer = None
        now_ms = self._clock.now() * 1000
        if any(window.next_due_ms is not None and window.next_due_ms <= now_ms for window in self._windows):
            self._looked_at = self._clock.monotonic()
        for window in self._windows:
            window.is_awaited = False
        self._notify()

    def close(self) -> None:
        """Cancel the timer."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
