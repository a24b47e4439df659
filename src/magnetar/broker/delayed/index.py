"""The delayed entries of one topic, for all its subscriptions: which are withheld, and when each is due.

Where they are is in memory, as bitmaps: a reader that comes to a withheld entry passes it over without reading it. When
they are due is in the store, in the order of time; each Shared subscription looks at it through a window and takes from
there what is due. What all of them have taken is no longer withheld, and leaves the store.

From this follows why nothing is lost, early or twice:

* An entry is withheld before it can be read: it is added when it becomes durable, and dispatch follows that. A reader
  that finds one nevertheless (the clock went back, the index is being made again) adds it then.
* While an entry is withheld, each window that has not handed it out will. An entry stops being withheld when every
  window has handed it out, so a reader that starts over from the beginning finds it withheld and in its window, or
  neither.
* Who takes from a window knows what it has taken, so an entry that comes twice does no harm. The index may therefore be
  lost, or be behind, and be made again from the log at any time.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import RequestError, ServerError, StorageError
from magnetar.base.limits import Limit
from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.base.tasks import start_task
from magnetar.broker.delayed.positions import PositionSet
from magnetar.broker.delayed.store import REMOVABLE_MAX, Request
from magnetar.broker.delayed.window import PAGE_MAX, TIME_MAX_MS, Delayed
from magnetar.wire.entries import entry as wire_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from magnetar.base.world import Clock
    from magnetar.broker.delayed.store import Answer, Loaded
    from magnetar.broker.delayed.thread import StoreThread
    from magnetar.broker.delayed.window import DueWindow
    from magnetar.cursor.state import CursorState
    from magnetar.ledger.managed_ledger import ManagedLedger
    from magnetar.metadata.policies import DelayedDeliveryPolicies
    from magnetar.wire.proto import pulsar_api_pb2 as pb

log = structlog.get_logger(__name__)

INCARNATION_PROPERTY = "magnetar.delayed"
"""Managed-ledger property of a topic that has had a delayed entry: no entry up to this position was one.

With the time of the first one behind it, which tells a topic from a later one of its name.
"""

WRITE_AFTER_S = 1.0
"""Seconds that entries wait to be written together."""

WRITE_AFTER_ENTRIES = 4096
"""Entries that are written at once."""

UNWRITTEN_MAX = 16 * WRITE_AFTER_ENTRIES
"""Entries kept in memory while they cannot be written; beyond it they are found in the log again later."""

RETRY_S = 1.0
"""Seconds after which a failed write or read is tried again."""

CLOCK_CHECK_S = 5.0
"""Longest wait for an entry before looking at the clock, which may have jumped."""

SCAN_ENTRIES = 1000
SCAN_BYTES = 4 << 20
"""How much of the log is gone through at once."""

PROGRESS_LOG_S = 10.0
"""Seconds between two reports of how far going through the log has come."""


class DelayedIndex:
    """The delayed entries of a topic. Used on the event loop's thread.

    A topic that never had one costs nothing: no timer, no access to the store.
    """

    def __init__(
        self,
        thread: StoreThread,
        ledger: ManagedLedger,
        clock: Clock,
        policies: Callable[[], DelayedDeliveryPolicies],
        notify: Callable[[], None],
    ) -> None:
        """Begin to load what the store knows; ``notify`` is called when there may be something to dispatch."""
        self.withheld = PositionSet()
        self.is_loading = False
        """Whether it is not known yet which entries are withheld."""
        self.is_expecting = False
        """Whether an entry with a ``deliver_at_time`` was published since the topic was loaded."""
        self._thread = thread
        self._ledger = ledger
        self._clock = clock
        self._policies = policies
        self._notify = notify
        self._loop = asyncio.get_running_loop()
        self._incarnation = ledger.properties.get(INCARNATION_PROPERTY)
        self._windows: dict[DueWindow, None] = {}
        self._unwritten: list[Delayed] = []
        self._watermark = EARLIEST
        """As it was written last, or before what was given up since."""
        self._through: Position | None = None
        """How far the log has been gone through while that goes on; None: to its end."""
        self._given_up_after = LATEST
        """Before all entries that were dropped from memory unwritten: the log has to be gone through from there.

        That may be far below the watermark, since a reader adds again what a clock that went back made early again.
        """
        self._delete_through: Delayed | None = None
        self._turn_runs = False
        self._write_timer: asyncio.TimerHandle | None = None
        self._due_timer: asyncio.TimerHandle | None = None
        self._due_timer_at = 0.0  # of the loop's time; the timer itself may not know: see uvloop
        self._looked_at = 0.0
        self._scan: asyncio.Task[None] | None = None
        self._written = asyncio.Event()
        self._closed = False
        self._is_recorded = self._incarnation is not None
        """Whether the list of ledgers says that there is an index."""
        self._is_unknown = self._incarnation is not None
        """Whether the store may have entries that are not in ``withheld`` because it could not be read."""
        if self._is_unknown:
            self.is_loading = True
            self._watermark = self._floor()
            thread.users[self] = None
            self._load()

    # -- what comes into the log --------------------------------------------------------------------------------

    def check(self, metadata: pb.MessageMetadata) -> None:
        """Expect an entry with a ``deliver_at_time``; raises RequestError if that is too far away, or StorageError."""
        delay_max_ms = self._policies().maxDeliveryDelayInMillis
        if 0 < delay_max_ms < metadata.deliver_at_time - metadata.publish_time:
            message = f"Exceeds max allowed delivery delay of {delay_max_ms} milliseconds"
            raise RequestError(ServerError.NotAllowedError, message, Limit.DELIVERY_DELAY)
        self.begin()

    def begin(self) -> None:
        """An entry with a ``deliver_at_time`` may be appended from now on; durable on return. Raises StorageError."""
        self.is_expecting = True
        if self._incarnation is None:
            self._watermark = self._ledger.last_confirmed_entry
            self._incarnation = f"{self._watermark}@{int(self._clock.now() * 1000)}"
            self._thread.users[self] = None
        if not self._is_recorded:
            self._ledger.set_property(INCARNATION_PROPERTY, self._incarnation)
            self._is_recorded = True

    def appended(self, first: Position, entries: Sequence[bytes]) -> None:
        """Entries are durable, and not dispatched yet; told of all of them while ``is_expecting``."""
        now_ms = self._clock.now() * 1000
        if self._policies().active:
            for offset, entry in enumerate(entries):
                _, deliver_at_ms = wire_entry.messages_and_delivery(entry)
                if deliver_at_ms > now_ms:
                    self._add(Delayed(deliver_at_ms, Position(first.ledger_id, first.entry_id + offset)))
            self._added()

    def withhold(self, position: Position, deliver_at_ms: int) -> None:
        """A reader came to an entry that is not due, and passes it over."""
        with suppress(StorageError):  # after a restart without the record the reader comes to the entry again
            self.begin()
        self._add(Delayed(deliver_at_ms, position))
        self._added()

    def _add(self, entry: Delayed) -> None:
        self.withheld.add(entry.position)
        self._unwritten.append(entry)
        if len(self._unwritten) > UNWRITTEN_MAX:
            self._fall_behind()
        for window in self._windows:
            window.add(entry)

    def _added(self) -> None:
        """All entries of a run are added: not before may they be written, with a watermark behind the run."""
        if len(self._unwritten) >= WRITE_AFTER_ENTRIES:
            self._turn()
        elif self._unwritten:
            self._write_soon()
        self._arm()

    def _fall_behind(self) -> None:
        """Give up what is not written: memory is bounded, and the log has it all."""
        if not self._is_behind:
            log.warning("delayed_index_behind", topic=self._ledger.name, watermark=str(self._watermark))
        first = min(entry.position for entry in self._unwritten)
        self._given_up_after = min(self._given_up_after, self._ledger.previous_position(first))
        self._unwritten.clear()

    @property
    def _is_behind(self) -> bool:
        """Whether entries were given up that have not been looked for in the log since."""
        return self._given_up_after < LATEST

    # -- who takes what is due ----------------------------------------------------------------------------------

    def attach(self, window: DueWindow) -> None:
        """A subscription begins to look."""
        self._windows[window] = None
        window.restart(complete=not self.is_used)

    def detach(self, window: DueWindow) -> None:
        """A subscription looks no longer."""
        self._windows.pop(window, None)

    @property
    def is_used(self) -> bool:
        """Whether the topic has ever had a delayed entry."""
        return self._incarnation is not None

    def due(self, window: DueWindow, count_max: int) -> list[Position]:
        """Take the next entries that are due, at most ``count_max``; ``notify`` is called when there are more."""
        enabled = self._policies().active
        taken = window.take(int(self._clock.now() * 1000) if enabled else TIME_MAX_MS, count_max)
        window.is_waited_for = not taken
        if window.wants_page and not self.is_loading:
            self._turn()
        if taken:
            self._write_soon()
        else:
            self._arm()
        return [entry.position for entry in taken]

    def undeleted(self, state: CursorState) -> int:
        """How many entries are withheld that a cursor has not acknowledged."""
        return sum(state.undeleted_among(ledger_id, entry_ids) for ledger_id, entry_ids in self.withheld.ledgers())

    @property
    def size_bytes(self) -> int:
        """The topic's share of the store's file."""
        store = self._thread.store
        return store.used_bytes * len(self.withheld) // max(store.entries, 1) if self.withheld else 0

    def policies_changed(self) -> None:
        """Delayed delivery may be on or off now."""
        if self._windows:
            self._notify()

    def _arm(self) -> None:
        """Wake up when the next entry is due that somebody waits for."""
        times = [window.next_due_ms for window in self._windows if window.is_waited_for]
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
        if self._due_timer is not None:
            if self._due_timer_at <= at:
                return
            self._due_timer.cancel()
        self._due_timer, self._due_timer_at = self._loop.call_at(at, self._look), at

    def _look(self) -> None:
        """Let those look who wait; who still waits then says so again."""
        self._due_timer = None
        now_ms = self._clock.now() * 1000
        if any(window.next_due_ms is not None and window.next_due_ms <= now_ms for window in self._windows):
            self._looked_at = self._clock.monotonic()
        for window in self._windows:
            window.is_waited_for = False
        self._notify()

    # -- the store ----------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Write what is not written, the watermark too, and drop what needs no withholding; now and then."""
        is_current = self._watermark == self._vouched() and not self._is_unknown
        if self.is_used and (self._unwritten or self.withheld or not is_current):
            self._turn()

    def trim(self, first: Position) -> None:
        """The entries before ``first`` are no longer in the log."""
        if self.withheld.discard_before(first):
            name, ledger_id = self._ledger.name, first.ledger_id
            self._thread.do(lambda store: store.delete_before(name, ledger_id), self._forgotten)

    def close(self) -> None:
        """Write what is left."""
        self.tidy()
        self._end()

    def abandon(self) -> None:
        """End; nothing is written."""
        self._end()

    def delete(self) -> None:
        """Forget the topic."""
        self._end()
        if self.is_used:
            name = self._ledger.name
            self._thread.do(lambda store: store.forget(name), self._forgotten)

    def store_lost(self) -> None:
        """See StoreUser."""
        self._watermark = self._floor()
        self._delete_through = None
        self._go_through()

    def _end(self) -> None:
        self._closed = True
        self._thread.users.pop(self, None)
        for timer in (self._write_timer, self._due_timer):
            if timer is not None:
                timer.cancel()
        if self._scan is not None:
            self._scan.cancel()

    def _forgotten(self, _: None, error: StorageError | None) -> None:
        """What could not be deleted is of a topic that is gone, or due one day and deleted then."""
        if error is not None:
            log.warning("delayed_index_not_tidied", topic=self._ledger.name, error=str(error))

    def _floor(self) -> Position:
        """No entry up to here was delayed."""
        assert self._incarnation is not None
        return Position.parse(self._incarnation.partition("@")[0])

    def _load(self) -> None:
        name, incarnation = self._ledger.name, self._incarnation
        assert incarnation is not None
        self._is_unknown = False
        self._thread.do(lambda store: store.load(name, incarnation), self._loaded)

    def _loaded(self, loaded: Loaded | None, error: StorageError | None) -> None:
        if self._closed:
            return
        watermark = loaded.watermark if loaded is not None and self.is_loading else None
        if watermark is not None and watermark > self._ledger.last_confirmed_entry:
            self._begin_anew(watermark)
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
            if loaded is not None and loaded.watermark is not None:
                self._watermark = loaded.watermark
            self._go_through()
            self._notify()

    def _begin_anew(self, watermark: Position) -> None:
        """Forget what the store knows: the log lost entries that were not synced, and the store may have them.

        The new incarnation is durable, so that entries of the old one are never taken for entries of the log again.
        """
        last = self._ledger.last_confirmed_entry
        log.warning("delayed_index_ahead", topic=self._ledger.name, watermark=str(watermark), log_ends_at=str(last))
        self._incarnation = f"{self._floor()}@{int(self._clock.now() * 1000)}"
        self._ledger.set_property(INCARNATION_PROPERTY, self._incarnation)
        self._load()

    def _vouched(self) -> Position:
        """Up to where all delayed entries of the log are in the store or waiting to be written to it."""
        if self._is_behind or self.is_loading:
            return min(self._watermark, self._given_up_after)
        return self._ledger.last_confirmed_entry if self._through is None else self._through

    def _write_time(self) -> None:
        self._write_timer = None
        self._turn()

    def _write_soon(self) -> None:
        if self._write_timer is None and not self._closed:
            self._write_timer = self._loop.call_later(WRITE_AFTER_S, self._write_time)

    def _turn(self) -> None:
        """Have the store do all that is to be done; one turn at a time, so that nothing overtakes what failed."""
        if self._turn_runs or self.is_loading or self._closed or self._incarnation is None:
            return
        self._turn_runs = True
        entries, self._unwritten = self._unwritten, []
        windows = [(window, window.epoch, window.begin_page()) for window in self._windows if window.wants_page]
        removable = self._removable_through() if self.withheld else None
        pages_after = [after for _, _, after in windows]
        request = Request(self._delete_through, entries, self._vouched(), pages_after, removable)
        name, incarnation = self._ledger.name, self._incarnation

        def done(answer: Answer | None, error: StorageError | None) -> None:
            self._turn_runs = False
            asked = [(window, epoch) for window, epoch, _ in windows]
            if answer is None:
                self._turn_failed(request, asked, error)
            else:
                self._turn_done(request, asked, answer)

        self._thread.do(lambda store: store.turn(name, incarnation, request), done)

    def _turn_done(self, request: Request, asked: Iterable[tuple[DueWindow, int]], answer: Answer) -> None:
        self._watermark = request.watermark
        self._delete_through = None
        for (window, epoch), page in zip(asked, answer.pages, strict=True):
            window.page(epoch, page, is_last=len(page) < PAGE_MAX)
        self._release(answer.removable)
        self._written.set()
        if self._closed:
            return
        if request.pages_after:
            self._notify()
        if self._is_unknown:
            self._load()
        if self._is_behind and self._scan is None:
            self._go_through()
        wanted = any(window.wants_page and window.is_waited_for for window in self._windows)
        if wanted or len(answer.removable) == REMOVABLE_MAX or len(self._unwritten) >= WRITE_AFTER_ENTRIES:
            self._turn()
        elif self._delete_through is not None:
            self._write_soon()

    def _turn_failed(
        self, request: Request, asked: Iterable[tuple[DueWindow, int]], error: StorageError | None
    ) -> None:
        log.warning("delayed_index_not_written", topic=self._ledger.name, error=str(error))
        for window, epoch in asked:
            window.no_page(epoch)
        self._unwritten = [*request.entries, *self._unwritten]
        if len(self._unwritten) > UNWRITTEN_MAX:
            self._fall_behind()
        if not self._closed:
            if self._write_timer is not None:
                self._write_timer.cancel()
            self._write_timer = self._loop.call_later(RETRY_S, self._write_time)

    def _removable_through(self) -> Delayed:
        """Up to where no window has entries still to hand out; all that is due when there is no window."""
        now_ms = int(self._clock.now() * 1000)
        through = [Delayed(now_ms, LATEST), *(window.taken_through for window in self._windows)]
        return min(through)

    def _release(self, entries: Sequence[Delayed]) -> None:
        """Withhold no longer what every window has handed out, unless one has begun again meanwhile."""
        through = self._removable_through()
        released = [entry for entry in entries if entry <= through]
        if released:
            self.withheld.discard(entry.position for entry in released)
            self._delete_through = released[-1]

    # -- going through the log ------------------------------------------------------------------------------------

    def _go_through(self) -> None:
        """Look for delayed entries beyond the watermark, and for those that were given up."""
        self._watermark, self._given_up_after = min(self._watermark, self._given_up_after), LATEST
        if self._scan is not None:
            self._scan.cancel()
            self._scan = None
        after = max(self._watermark, self._ledger.previous_position(self._ledger.first_position))
        through = self._ledger.last_confirmed_entry
        if after < through:
            self._through = after
            name = f"search for delayed entries of {self._ledger.name}"
            self._scan = start_task(self._loop, self._look_through(after, through), name)
        else:
            self._through = None

    async def _look_through(self, after: Position, through: Position) -> None:
        """Find the delayed entries in ``(after, through]``; those that come behind are added as they come."""
        total, reported_at = self._ledger.count(after, through), self._clock.monotonic()
        position = self._ledger.next_position(after)
        while position <= through and not self._is_behind:
            for found, entry in await self._read(position):
                if found <= through:
                    self._found(found, entry)
                    position = found
            self._through = position
            position = self._ledger.next_position(position)
            while len(self._unwritten) > UNWRITTEN_MAX // 2 and not self._is_behind:
                self._written.clear()
                self._turn()
                await self._written.wait()
            if self._clock.monotonic() - reported_at > PROGRESS_LOG_S:
                reported_at = self._clock.monotonic()
                left = self._ledger.count(position, through)
                log.info("delayed_index_recovering", topic=self._ledger.name, entries=total, entries_left=left)
        self._through = self._scan = None
        self._arm()
        self._turn()

    async def _read(self, position: Position) -> list[tuple[Position, bytes]]:
        """Entries from ``position`` on; none where they cannot be read, for then they cannot be delivered either."""
        await asyncio.sleep(0)  # in turn with everybody else
        try:
            cached = self._ledger.read_cached(position, SCAN_ENTRIES, SCAN_BYTES)
            return cached or await self._ledger.read(position, SCAN_ENTRIES, SCAN_BYTES)
        except StorageError as error:
            log.warning("delayed_index_skips", topic=self._ledger.name, position=str(position), error=str(error))
            return []

    def _found(self, position: Position, entry: bytes) -> None:
        _, deliver_at_ms = wire_entry.messages_and_delivery(entry)
        is_delayed = deliver_at_ms > self._clock.now() * 1000 and self._policies().active
        if deliver_at_ms and (is_delayed or position in self.withheld):
            self._add(Delayed(deliver_at_ms, position))
