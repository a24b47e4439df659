"""The delayed entries of one topic, for all its subscriptions: the withheld entries, and their times.

Their positions are in memory, as bitmaps: a reader skips a withheld entry without reading it. Their times are in the
store, in order. Each Shared subscription reads the store through a window, and takes due entries from it. Entries that
all subscriptions have taken are no longer withheld, and are removed from the store.

No entry is lost, early or repeated:

* An entry is withheld before it can be read: it is added when it becomes durable, and dispatch happens later. If a
  reader finds an entry that is not due (the clock was set back, or the index is being rebuilt), it adds the entry then.
* While an entry is withheld, each window that has not handed it out will do so. An entry is withheld until every window
  has handed it out, so a reader that starts again finds it withheld and in its window, or neither.
* A subscription knows the entries that it has taken, so a repeated entry does no harm. The index may therefore be lost
  or incomplete, and can be rebuilt from the log at any time.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import RequestError, ServerError, StorageError
from magnetar.base.limits import Limit
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.delayed.due_windows import DueWindows
from magnetar.broker.delayed.incarnation import Incarnation
from magnetar.broker.delayed.log_search import LogSearch
from magnetar.broker.delayed.positions import PositionSet
from magnetar.broker.delayed.store import REMOVABLE_MAX, Request
from magnetar.broker.delayed.unwritten import UnwrittenEntries
from magnetar.broker.delayed.window import TIME_MAX_MS, Delayed
from magnetar.wire.entries import entry as wire_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from magnetar.base.world import Clock
    from magnetar.broker.delayed.store import Answer, Loaded
    from magnetar.broker.delayed.thread import StoreThread
    from magnetar.broker.delayed.window import DueWindow
    from magnetar.ledger.managed_ledger import ManagedLedger
    from magnetar.metadata.policy.values import DelayedDeliveryPolicies
    from magnetar.wire.proto import pulsar_api_pb2 as pb

log = structlog.get_logger(__name__)

WRITE_AFTER_S = 1.0
"""Seconds for which entries wait to be written together."""

RETRY_S = 1.0
"""Seconds after which a failed write or read is retried."""


class DelayedIndex:
    """The delayed entries of a topic. Used on the event loop's thread.

    A topic without delayed entries has no cost: no timer, no access to the store.
    """

    def __init__(
        self,
        thread: StoreThread,
        ledger: ManagedLedger,
        clock: Clock,
        policies: Callable[[], DelayedDeliveryPolicies],
        notify: Callable[[], None],
    ) -> None:
        """Start loading from the store; ``notify`` is called when there may be entries to dispatch."""
        self.withheld = PositionSet()
        self.is_loading = False
        """Whether the withheld entries are not known yet."""
        self.is_expecting = False
        """Whether an entry with a ``deliver_at_time`` was published since the topic was loaded."""
        self._thread = thread
        self._ledger = ledger
        self._clock = clock
        self._policies = policies
        self._notify = notify
        self._windows = DueWindows(clock, policies, notify)
        self._incarnation = Incarnation(ledger, clock)
        self._unwritten = UnwrittenEntries(ledger)
        self._watermark = EARLIEST
        """Watermark that was written last, or a lower one after entries were dropped."""
        self._delete_through: Delayed | None = None
        self._turn_runs = False
        self._write_timer: asyncio.TimerHandle | None = None
        self._search: LogSearch | None = None
        """Set while the log is searched."""
        self._written: asyncio.Event | None = None
        """Set after each turn; created for a search that waits, because most topics have no delayed entries."""
        self._closed = False
        self._is_unknown = self.is_used
        """Whether the store may have entries that are missing in ``withheld``, because it could not be read."""
        if self._is_unknown:
            self.is_loading = True
            self._watermark = self._incarnation.floor
            thread.users[self] = None
            self._load()

    # -- new entries --------------------------------------------------------------------------------------------

    def check(self, metadata: pb.MessageMetadata) -> None:
        """Prepare for an entry with a ``deliver_at_time``; raises RequestError if it is too late."""
        _check_delay(metadata, self._policies().maxDeliveryDelayInMillis)
        self.begin()

    def begin(self) -> None:
        """Allow entries with a ``deliver_at_time`` from now on."""
        self.is_expecting = True
        if not self.is_used:
            self._incarnation.begin()
            self._watermark = self._incarnation.floor
            self._thread.users[self] = None

    def appended(self, first: Position, entries: Sequence[bytes]) -> None:
        """Add durable entries before their dispatch; called for all of them while ``is_expecting``."""
        if self._policies().active:
            self._add(list(_delayed_in(first, entries, self._clock.now() * 1000)))
            self._added()

    def withhold(self, position: Position, deliver_at_ms: int) -> None:
        """Add an entry that a reader found before its time, and skips."""
        self.begin()
        self._add([Delayed(deliver_at_ms, position)])
        self._added()

    def _add(self, entries: Sequence[Delayed]) -> None:
        for entry in entries:
            self.withheld.add(entry.position)
            self._unwritten.add(entry)
        if entries:
            self._windows.withhold(entries)

    def _added(self) -> None:
        """Note that all entries of a run are added. Only now may they be written, with a watermark after the run."""
        if self._unwritten.are_many or self._windows.is_page_awaited:
            self._turn()
        elif self._unwritten:
            self._write_soon()
        self._windows.arm()

    # -- subscriptions ------------------------------------------------------------------------------------------

    def attach(self, window: DueWindow) -> None:
        """Add a subscription."""
        self._windows.add(window)
        window.restart(complete=not self.is_used)

    def detach(self, window: DueWindow) -> None:
        """Remove a subscription."""
        self._windows.discard(window)

    @property
    def is_used(self) -> bool:
        """Whether the topic has had a delayed entry."""
        return self._incarnation.name is not None

    def due(self, window: DueWindow, count_max: int) -> list[Position]:
        """Take the next due entries, at most ``count_max``; ``notify`` is called when there are more."""
        taken = self._windows.take(window, count_max)
        if window.wants_page and not self.is_loading:
            self._turn()
        if taken:
            self._write_soon()
        else:
            self._windows.arm((window,))
        return [entry.position for entry in taken]

    @property
    def size_bytes(self) -> int:
        """The topic's share of the store's file."""
        return self._thread.store.size_of(len(self.withheld))

    def policies_changed(self) -> None:
        """Apply the current policy of delayed delivery."""
        if self._windows:
            self._notify()

    # -- the store ----------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Write entries and the watermark, and drop entries that are no longer withheld; called periodically."""
        is_current = self._watermark == self._vouched() and not self._is_unknown
        if self.is_used and (self._unwritten or self.withheld or not is_current):
            self._turn()

    def trim(self, first: Position) -> None:
        """Remove the entries before ``first``, which were trimmed."""
        if self.withheld.discard_before(first):
            name, ledger_id = self._ledger.name, first.ledger_id
            self._thread.do(lambda store: store.delete_before(name, ledger_id), partial(_forgotten, name))

    def close(self) -> None:
        """Write unwritten entries."""
        self.tidy()
        self.abandon()

    def abandon(self) -> None:
        """Stop; nothing is written."""
        self._closed = True
        self._thread.users.pop(self, None)
        if self._write_timer is not None:
            self._write_timer.cancel()
        self._windows.close()
        self._end_search()

    def delete(self) -> None:
        """Delete the index of the topic."""
        self.abandon()
        if self.is_used:
            name = self._ledger.name
            self._thread.do(lambda store: store.forget(name), partial(_forgotten, name))

    def store_lost(self) -> None:
        """See StoreUser."""
        self._watermark = self._incarnation.floor
        self._delete_through = None
        self._go_through()

    def _load(self) -> None:
        name, incarnation = self._ledger.name, self._incarnation.name
        assert incarnation is not None
        self._is_unknown = False
        self._thread.do(lambda store: store.load(name, incarnation), self._loaded)

    def _loaded(self, loaded: Loaded | None, error: StorageError | None) -> None:
        if self._closed:
            return
        watermark, last = loaded.watermark if loaded is not None else None, self._ledger.last_confirmed_entry
        if self.is_loading and watermark is not None and watermark > last:
            # The log lost unsynced entries, which the store may contain.
            log.warning("delayed_index_ahead", topic=self._ledger.name, watermark=str(watermark), log_ends_at=str(last))
            self._incarnation.renew()
            self._load()
            return
        if loaded is None:
            log.warning("delayed_index_not_loaded", topic=self._ledger.name, error=str(error))
            self._is_unknown = True
        else:
            for ledger_id, entry_ids in loaded.ledgers.items():
                self.withheld.update(ledger_id, entry_ids)
            self.withheld.discard_before(self._ledger.first_position)
        if self.is_loading:
            self.is_loading = False
            if watermark is not None:
                self._watermark = watermark
            self._go_through()
            self._notify()

    def _vouched(self) -> Position:
        """Position up to which all delayed entries of the log are in the store or wait to be written."""
        if self._unwritten.has_gap or self.is_loading:
            return min(self._watermark, self._unwritten.given_up_after)
        return self._ledger.last_confirmed_entry if self._search is None else self._search.through

    def _write_time(self) -> None:
        self._write_timer = None
        self._turn()

    def _write_soon(self, after_s: float = WRITE_AFTER_S) -> None:
        if self._write_timer is None and not self._closed:
            self._write_timer = asyncio.get_running_loop().call_later(after_s, self._write_time)

    def _turn(self) -> None:
        """Start the pending work of the store, one turn at a time, so that no work overtakes a failed turn."""
        name, incarnation = self._ledger.name, self._incarnation.name
        if self._turn_runs or self.is_loading or self._closed or incarnation is None:
            return
        self._turn_runs = True
        entries = self._unwritten.take()
        pages = self._windows.begin_pages()
        removable = self._windows.taken_through() if self.withheld else None
        request = Request(self._delete_through, entries, self._vouched(), pages.after, removable)

        def done(answer: Answer | None, error: StorageError | None) -> None:
            self._turn_runs = False
            if answer is None:
                pages.failed()
                self._turn_failed(request, error)
            else:
                pages.read(answer.pages)
                self._turn_done(request, answer)

        self._thread.do(lambda store: store.turn(name, incarnation, request), done)

    def _turn_done(self, request: Request, answer: Answer) -> None:
        self._watermark = request.watermark
        self._delete_through = None
        self._release(answer.removable)
        if self._written is not None:
            self._written.set()
            self._written = None
        if self._closed:
            return
        if request.pages_after:
            self._notify()
        if self._is_unknown:
            self._load()
        if self._unwritten.has_gap and self._search is None:
            self._go_through()
        if self._windows.is_page_awaited or len(answer.removable) == REMOVABLE_MAX or self._unwritten.are_many:
            self._turn()
        elif self._delete_through is not None:
            self._write_soon()

    def _turn_failed(self, request: Request, error: StorageError | None) -> None:
        log.warning("delayed_index_not_written", topic=self._ledger.name, error=str(error))
        self._unwritten.put_back(request.entries)
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        self._write_soon(RETRY_S)

    def _release(self, entries: Sequence[Delayed]) -> None:
        """Stop withholding entries that all windows have handed out, unless a window was restarted meanwhile."""
        released = self._windows.handed_out(entries)
        if released:
            self.withheld.discard(entry.position for entry in released)
            self._delete_through = released[-1]

    # -- searching the log ----------------------------------------------------------------------------------------

    def _go_through(self) -> None:
        """Search the log for delayed entries after the watermark, and for dropped ones."""
        self._watermark = min(self._watermark, self._unwritten.take_gap())
        self._end_search()
        after = max(self._watermark, self._ledger.previous_position(self._ledger.first_position))
        if after < self._ledger.last_confirmed_entry:
            self._search = LogSearch(self, self._unwritten, self._ledger, self._clock, after)

    def _end_search(self) -> None:
        if self._search is not None:
            self._search.cancel()
            self._search = None

    def found(self, entries: Sequence[Delayed]) -> None:
        """See SearchingIndex."""
        after_ms = self._clock.now() * 1000 if self._policies().active else TIME_MAX_MS
        self._add([each for each in entries if each.deliver_at_ms > after_ms or each.position in self.withheld])

    async def room(self) -> None:
        """See SearchingIndex; unwritten entries take memory."""
        while not self._unwritten.leave_room and not self._unwritten.has_gap:
            written = self._written = self._written or asyncio.Event()
            self._turn()
            await written.wait()

    def searched(self) -> None:
        """See SearchingIndex."""
        self._search = None
        self._windows.arm()
        self._turn()


def _check_delay(metadata: pb.MessageMetadata, delay_max_ms: int) -> None:
    if 0 < delay_max_ms < metadata.deliver_at_time - metadata.publish_time:
        message = f"Exceeds max allowed delivery delay of {delay_max_ms} milliseconds"
        raise RequestError(ServerError.NotAllowedError, message, Limit.DELIVERY_DELAY)


def _delayed_in(first: Position, entries: Sequence[bytes], now_ms: float) -> Iterator[Delayed]:
    """Yield the entries that are not due yet, from ``entries``, which are consecutive from ``first`` on."""
    for offset, entry in enumerate(entries):
        _, deliver_at_ms = wire_entry.messages_and_delivery(entry)
        if deliver_at_ms > now_ms:
            yield Delayed(deliver_at_ms, Position(first.ledger_id, first.entry_id + offset))


def _forgotten(topic: str, _: None, error: StorageError | None) -> None:
    """Log a failed deletion. Remaining records belong to a deleted topic, or are deleted when they are due."""
    if error is not None:
        log.warning("delayed_index_not_cleaned", topic=topic, error=str(error))
