"""A topic's log: a chain of ledgers, with rollover and trimming.

The list of ledgers is one JSON value in the metadata store, and the topic exists as long as there is one::

    {"ledgers": [{"ledgerId": 5, "createdAt": ms, "closedAt": ms or null, "entries": 10,
                  "appendedBy": ms, "recovered": true}, ...],
     "lastPosition": "4:9", "properties": {"name": "value"}}

A ledger is listed before its first entry is written. ``entries`` is how many were known to be durable when the list
was written: the ledger may hold more, never fewer. ``appendedBy`` is when the last entry of a closed ledger was
appended; where it is missing, ``closedAt`` is a later bound. ``recovered`` is there only if the ledger was closed when
the topic was opened after a crash: nobody recorded when its last entries were appended. ``lastPosition`` is the newest
durable entry by then, trimmed or not.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from magnetar.base.errors import DataLossError, StorageError
from magnetar.base.parts import Part
from magnetar.base.position import EARLIEST, Position
from magnetar.ledger.append_times import AppendTimes
from magnetar.ledger.chain import ChainLedger, LedgerChain
from magnetar.ledger.deletions import delete_ledgers
from magnetar.ledger.ledger_list import LedgerList
from magnetar.metadata.resources import DELETED_TOPIC
from magnetar.metadata.store import ABSENT, Put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from magnetar.base.names import TopicName
    from magnetar.base.world import Clock
    from magnetar.ledger.store import LedgerStore, OnDurable, Run
    from magnetar.metadata.store import MetadataStore

_MIB = 1024 * 1024
_MINUTE_MS = 60_000

_CLOCK_SET_MS = 1000
"""Milliseconds by which the wall clock may move against the monotonic one without being followed."""


@dataclass(frozen=True, slots=True)
class ManagedLedgerConfig:
    """When a ledger is closed and the next one begun; the defaults are Pulsar's."""

    max_entries_per_ledger: int = 50_000
    """``managedLedgerMaxEntriesPerLedger``."""
    max_size_per_ledger_bytes: int = 2048 * _MIB
    """``managedLedgerMaxSizePerLedgerMbytes``, in bytes."""
    min_rollover_ms: int = 10 * _MINUTE_MS
    """``managedLedgerMinLedgerRolloverTimeMinutes``: a younger ledger goes on, however full it is."""
    max_rollover_ms: int = 240 * _MINUTE_MS
    """``managedLedgerMaxLedgerRolloverTimeMinutes``: an older one is closed, however empty it is."""


@dataclass(frozen=True, slots=True)
class _HeldRun:
    """A run for a ledger that is not listed yet; without entries it is a barrier."""

    ledger_id: int
    entries: Sequence[bytes]
    report: OnDurable
    annotation: bytes


class ManagedLedger(Part):
    """The log of one topic, with one writer. Used on the event loop's thread.

    Positions that hold no entry are welcome everywhere: they stand for their place in the order.
    """

    def __init__(
        self, store: LedgerStore, metadata: MetadataStore, name: TopicName, config: ManagedLedgerConfig, clock: Clock
    ) -> None:
        """Use ``open``."""
        self.name = str(name)
        self.properties: dict[str, str] = {}
        """What the topic keeps with its list of ledgers; changed by ``set_property``."""
        self.entries_added = 0
        """Entries that became durable since the topic was opened."""
        self.last_confirmed_entry = EARLIEST
        """The newest durable entry, even if it has been trimmed since; EARLIEST if there never was one."""
        self._store = store
        self._metadata = metadata
        self._listed = LedgerList(metadata, name)
        self._config = config
        self._clock = clock
        self._chain = LedgerChain()
        self._times = AppendTimes()
        self._current: ChainLedger | None = None
        """The ledger that takes appends: the last of the chain, or none."""
        self._next: ChainLedger | None = None
        """The ledger that becomes the current one when its listing is durable: the last of the chain."""
        self._held: list[_HeldRun] = []
        """What was appended to the next ledger, which is written once that is listed."""
        self._is_closed = False
        self._is_unsaved = False
        """Whether a ledger was closed, or the wall clock set, since the list was written."""
        self._wall_offset_s = clock.now() - clock.monotonic()
        """The wall clock's lead over the monotonic clock, to which the times of the closed ledgers refer."""

    @classmethod
    def open(
        cls, store: LedgerStore, metadata: MetadataStore, name: TopicName, config: ManagedLedgerConfig, clock: Clock
    ) -> Self:
        """Load the topic's chain, empty if there is none; the next append begins a new ledger.

        What an earlier owner of the topic appended must have been reported: wait for a barrier after its ``close``.

        Raises DataLossError, naming two positions, if entries are missing that were once durable, and CorruptionError,
        naming the path, if the list of ledgers cannot be read.
        """
        opened = cls(store, metadata, name, config, clock)
        stored = opened._listed.load()
        if stored is not None:
            try:
                opened._load(stored)
            except (ValueError, KeyError, TypeError, AssertionError) as error:
                raise opened._listed.unreadable(error) from error
        return opened

    def observe_fencing(self, fenced: Callable[[StorageError], None]) -> None:
        """Have ``fenced`` told once when the topic must not be written any more.

        Another writer has it now, or its list could not be stored.
        """
        self._listed.when_fenced = fenced

    @property
    def failure(self) -> StorageError | None:
        """Why the topic must not be written any more; None while it may be."""
        return self._listed.failure

    @property
    def is_being_listed(self) -> bool:
        """Whether a change of the list of ledgers is on its way to the disk."""
        return self._listed.pending > 0

    @property
    def entries(self) -> int:
        """Number of durable entries in the chain."""
        return self._chain.rank_after(self.last_confirmed_entry)

    @property
    def size_bytes(self) -> int:
        """Bytes of the entries in the chain."""
        return self._chain.size

    @property
    def last_position(self) -> Position:
        """The newest entry, durable or not yet; the last confirmed one if the chain holds none."""
        entries = self._chain.entries
        return self._chain.position_of(entries - 1) if entries else self.last_confirmed_entry

    @property
    def first_position(self) -> Position:
        """The oldest entry; where the next one would go if the chain holds none."""
        if self._chain.entries:
            return self._chain.position_of(0)
        return self._chain.next_position(self.last_confirmed_entry)

    def ledgers(self) -> Sequence[ChainLedger]:
        """Return the ledgers of the chain, oldest first; not to be changed."""
        return self._chain.ledgers

    def next_position(self, position: Position) -> Position:
        """Return the first entry after ``position``, or a position up to which none can come any more."""
        return self._chain.next_position(position)

    def previous_position(self, position: Position) -> Position:
        """Return the last entry before ``position``; a lower position without an entry if there is none."""
        return self._chain.previous_position(position)

    def contains(self, position: Position) -> bool:
        """Whether there is an entry at ``position``, durable or not yet."""
        return self._chain.contains(position)

    def entries_in(self, ledger_id: int) -> int:
        """Return how many entries a ledger has, durable or not yet; 0 for one that is not in the chain."""
        ledger = self._chain.find(ledger_id)
        return ledger.entries if ledger is not None else 0

    def confirmed_in(self, ledger: ChainLedger) -> int:
        """Return how many entries of a ledger of the chain are durable."""
        newest = min(self.last_confirmed_entry, Position(ledger.ledger_id, ledger.entries))
        return self.count(Position(ledger.ledger_id, -1), newest)

    def count(self, after: Position, through: Position) -> int:
        """Return how many entries lie in ``(after, through]``."""
        return max(self._chain.rank_after(through) - self._chain.rank_after(after), 0)

    def size_after(self, position: Position) -> int:
        """Return the bytes of the entries after ``position``, about: those of one ledger count as of one size."""
        return self._chain.size_after(position)

    def position_before_last(self, size: int) -> Position:
        """Return the lowest position with at most ``size`` bytes after it, as ``size_after`` counts them."""
        return self._chain.position_before_last(size)

    def position_at(self, first: Position, index: int) -> Position:
        """Return the entry that is ``index`` entries behind ``first``; raises IndexError if there is none."""
        return self._chain.position_of(self._rank_from(first) + index)

    def age_of(self, position: Position) -> float:
        """Return for how many seconds, at least, the entry at ``position`` has been in the log; 0.0 if there is none.

        The time of an append before a crash may not have been recorded: its entry counts from when the topic was opened
        after the crash (see ``has_recorded``).
        """
        bound = self._times.bound_of(position)
        return max(self._clock.monotonic() - bound, 0.0) if bound is not None else 0.0

    def has_recorded(self, position: Position) -> bool:
        """Whether the time of the append at ``position`` was recorded, at least roughly: when its ledger was closed."""
        ledger = self._chain.find(position.ledger_id)
        return ledger is not None and not ledger.is_recovered

    def position_older_than(self, age_s: float, *, inclusive: bool = False) -> Position:
        """Return the position up to which every entry has been in the log for more than ``age_s`` seconds.

        ``inclusive``: for exactly that long is enough. Only durable entries count. The age is that of the copy in this
        cluster: publish times, which are the producers', have no influence, nor has a wall clock that is set. An entry
        is never taken for older than it is.
        """
        first = self._times.first_since(self._clock.monotonic() - age_s, inclusive=not inclusive)
        return self.last_confirmed_entry if first is None else self._chain.previous_position(first)

    def append(
        self,
        entries: Sequence[bytes],
        on_durable: Callable[[Position, StorageError | None], None],
        annotation: bytes = b"",
    ) -> Position:
        """Append a run of at least one entry to one ledger and return the position of its first.

        ``on_durable`` gets that position and the outcome, in the order of all appends (see LedgerStore). After an error
        the run is no longer in the chain, nor is any appended before that report; their positions may be given again.

        A ledger is listed before its first entry is written. Where there is none, or the current one is full, runs are
        held until the next one is listed.
        """
        ledger = self._ledger_for_append()
        count, size = len(entries), sum(map(len, entries))

        def report(error: StorageError | None) -> None:
            if error is None:
                self.last_confirmed_entry = Position(first.ledger_id, first.entry_id + count - 1)
                self.entries_added += count
                self._times.note(first, self._clock.monotonic())
            else:
                self._chain.change(ledger, -count, -size)
            on_durable(first, error)
            if error is not None:
                self._fail_held(error)

        first = Position(ledger.ledger_id, ledger.entries)
        run = _HeldRun(ledger.ledger_id, entries, report, annotation)
        if ledger is self._next:
            self._held.append(run)
        else:
            first = Position(ledger.ledger_id, self._append_to_store(run))
        self._chain.change(ledger, count, size)
        return first

    def barrier(self, on_durable: OnDurable) -> None:
        """Call ``on_durable`` in the order of the appends, once all of them until now are durable, or why not."""
        if self._held and self._next is not None:
            self._held.append(_HeldRun(self._next.ledger_id, (), on_durable, b""))
        else:
            self._store.barrier(on_durable)

    def _append_to_store(self, run: _HeldRun) -> int:
        return self._store.append(run.ledger_id, run.entries, run.report, run.annotation, urgent=False)

    def _fail_held(self, error: StorageError) -> None:
        """Runs that are held are not written: a run before them was not."""
        held, self._held = self._held, []
        for run in held:
            run.report(error)

    def read_cached(self, position: Position, max_entries: int, max_bytes: int) -> list[tuple[Position, bytes]] | None:
        """Return durable entries from ``position`` on, of one ledger, at least one; None if they are not in memory.

        If there is no entry at ``position`` reading starts at the next one; the list is empty if that is not durable.
        """
        first, limit = self._readable(position, max_entries)
        if not limit:
            return []
        entries = self._store.read_cached(first.ledger_id, first.entry_id, limit, max_bytes)
        return None if entries is None else _with_positions(first, entries)

    async def read(self, position: Position, max_entries: int, max_bytes: int) -> list[tuple[Position, bytes]]:
        """As ``read_cached``, but from the disk if need be; raises StorageError or CorruptionError."""
        first, limit = self._readable(position, max_entries)
        if not limit:
            return []
        return _with_positions(first, await self._store.read(first.ledger_id, first.entry_id, limit, max_bytes))

    def runs_of(self, ledger_id: int) -> Iterator[Run]:
        """Yield the durable runs of one ledger of the chain, in order."""
        return self._store.runs(ledger_id)

    def trim(
        self,
        consumed_through: Position,
        now_ms: int,
        retention: tuple[int, int],
        remember: Callable[[Position], Mapping[str, str]] = lambda _: {},
    ) -> Position | None:
        """Delete the oldest ledgers that nobody needs; return the new first position, None if nothing was deleted.

        Needed is the ledger that takes appends, every entry beyond ``consumed_through``, and what retention keeps:
        ``(minutes, MiB)``, as in Pulsar: a ledger goes when it was closed so long ago, or when what stays behind it has
        still that size; -1 is for ever, or without bound. A ledger that takes appends is closed first if it is old.

        ``remember`` gets the last position that goes; the properties that it returns are kept with the new list, so
        nothing that they are needed for is ever deleted without them. Raises StorageError with nothing deleted.
        """
        self._follow_wall_clock()
        current = self._current
        if current is not None and now_ms - current.created_ms >= self._config.max_rollover_ms:
            self._close_current(now_ms)
        doomed = 0
        remaining = self._chain.size
        for ledger in self._chain.ledgers:
            remaining -= ledger.size
            consumed = not ledger.entries or Position(ledger.ledger_id, ledger.entries - 1) <= consumed_through
            if (
                ledger.closed_ms is None
                or not consumed
                or _is_retained(retention, now_ms - ledger.closed_ms, remaining)
            ):
                break
            doomed += 1
        if not doomed:
            return None
        last = self._chain.ledgers[doomed - 1]
        self._drop_first(doomed, remember(Position(last.ledger_id, last.entries - 1)))
        return self.first_position

    def create(self) -> None:
        """Let the topic exist before its first entry; it is fenced if that cannot be stored.

        Raises StorageError where that is known at once.
        """
        if self._listed.version == ABSENT:
            self._listed.commit(self._list(), lambda error: None if error is None else self._listed.fail(error))
            if self._listed.failure is not None:
                raise self._listed.failure

    def set_property(self, key: str, value: str, along_with: Sequence[Put] = ()) -> None:
        """Keep a property; durable on return, in one transaction with ``along_with``.

        A failed write leaves everything as it was.
        """
        put = self._listed.put(self._list(properties={**self.properties, key: value}))
        self._listed.write(lambda: self._metadata.put_many([put, *along_with])[0])
        self.properties[key] = value
        self._is_unsaved = False

    def close(self) -> None:
        """Take no more appends until opened again; those under way are still reported."""
        self._is_closed = True
        if self._current is not None:
            self._close_current(self._now_ms())
        self._follow_wall_clock()
        if self._is_unsaved and self._listed.failure is None:
            self._persist()

    def save(self) -> None:
        """Write down which ledgers were closed, and when, if that changed; what cannot be written is written next time.

        Entries of a ledger that was closed since then seem younger after a crash than they are. If the wall clock was
        set ahead since then, they seem older.
        """
        self._follow_wall_clock()
        if self._is_unsaved:
            with suppress(StorageError):
                self._persist()

    def delete(self, along_with: Sequence[Put] = ()) -> None:
        """Delete the topic's list of ledgers, durably on return, and all entries.

        The list is marked as deleted in one transaction with ``along_with``. A crash or a failed write before it leaves
        the topic as it was. After it there is no topic any more.
        """
        listed = self._listed
        if listed.version == ABSENT:
            return
        self._is_closed = True
        if self._current is not None:
            self._close_current(self._now_ms())
        doomed = [ledger.ledger_id for ledger in self._chain.ledgers]
        marked = Put(listed.path, DELETED_TOPIC, listed.version)
        if doomed:
            listed.write(lambda: delete_ledgers(self._store, self._metadata, doomed, marked, along_with))
        else:
            listed.write(lambda: self._metadata.put_many([marked, *along_with])[0])
        self._chain.remove_first(len(self._chain.ledgers))
        self._metadata.delete(listed.path, listed.version)

    def _ledger_for_append(self) -> ChainLedger:
        """The ledger for the next run. Where the current one is full or missing, the next one is about to be listed."""
        now_ms = self._now_ms()
        if self._current is not None and self._is_full(self._current, now_ms):
            self._close_current(now_ms)
        if self._current is None and self._next is None:
            self._list_next(now_ms)
        found = self._current or self._next
        assert found is not None
        return found

    def _list_next(self, now_ms: int) -> None:
        """List a new ledger for appends; raises StorageError if there is none, and none can be listed."""
        assert not self._is_closed, f"{self.name} takes no appends: it is closed"
        begun = ChainLedger(self._store.create(), now_ms)
        if begun.ledger_id <= self.last_confirmed_entry.ledger_id:
            self._store.delete(begun.ledger_id)
            message = f"{self.name}: ledger {begun.ledger_id} was used before {self.last_confirmed_entry}"
            raise StorageError(message)
        self._next = begun
        self._chain.add(begun)
        refusal: StorageError | None = None

        def listed(error: StorageError | None) -> None:
            nonlocal refusal
            refusal = error
            if error is None:
                self._begin(begun)
            else:
                self._fail_held(error)
                self._give_up(begun)

        try:
            self._listed.commit(self._list(), listed)
        except BaseException:
            self._give_up(begun)
            raise
        self._is_unsaved = self._is_unsaved and refusal is not None
        if refusal is not None:
            raise refusal

    def _begin(self, begun: ChainLedger) -> None:
        """The listing of the next ledger is durable: it takes the appends from now on."""
        if self._is_closed:  # it is listed and empty: the next load of the topic deletes it
            self._fail_held(StorageError(f"{self.name} was closed before its ledger was listed"))
            return
        self._next = None
        self._current = begun
        held, self._held = self._held, []
        for run in held:
            if run.entries:
                self._append_to_store(run)
            else:
                self._store.barrier(run.report)

    def _give_up(self, begun: ChainLedger) -> None:
        """The next ledger cannot be listed: it takes nothing, or it would not be found again."""
        self._is_unsaved = True
        self._next = None
        self._chain.remove_last()
        self._store.delete(begun.ledger_id)

    def _is_full(self, ledger: ChainLedger, now_ms: int) -> bool:
        # A clock that went back must not keep a ledger open until it has caught up: its age counts from now.
        ledger.created_ms = min(ledger.created_ms, now_ms)
        config, age_ms = self._config, now_ms - ledger.created_ms
        if age_ms >= config.max_rollover_ms:
            return ledger.entries > 0
        full = ledger.entries >= config.max_entries_per_ledger or ledger.size >= config.max_size_per_ledger_bytes
        return full and age_ms >= config.min_rollover_ms

    def _close_current(self, now_ms: int) -> None:
        assert self._current is not None
        self._store.seal(self._current.ledger_id)
        self._current.closed_ms = now_ms
        self._current = None
        self._is_unsaved = True

    def _follow_wall_clock(self) -> None:
        """If the wall clock was set, move the times of closing by as much, so that no ledger seems older than it is."""
        offset_s = self._clock.now() - self._clock.monotonic()
        moved_ms = round((offset_s - self._wall_offset_s) * 1000)
        if abs(moved_ms) < _CLOCK_SET_MS:
            return
        self._wall_offset_s = offset_s
        for ledger in self._chain.ledgers:
            if ledger.closed_ms is not None:
                ledger.closed_ms += moved_ms
                self._is_unsaved = True

    def _drop_first(self, count: int, properties: Mapping[str, str] = MappingProxyType({})) -> None:
        """Delete the first ``count`` ledgers and keep ``properties``; a failed write leaves everything as it was."""
        doomed = [ledger.ledger_id for ledger in self._chain.ledgers[:count]]
        kept = {**self.properties, **properties}
        put = self._listed.put(self._list(count, kept))
        self._listed.write(lambda: delete_ledgers(self._store, self._metadata, doomed, put))
        self.properties.update(properties)
        self._chain.remove_first(count)
        self._times.trim(self.first_position)
        self._is_unsaved = False

    def _rank_from(self, position: Position) -> int:
        """Return the rank of the first entry at or after ``position``."""
        return self._chain.rank_after(Position(position.ledger_id, position.entry_id - 1))

    def _readable(self, position: Position, max_entries: int) -> tuple[Position, int]:
        """Return the first entry at or after ``position``, and how many of its ledger may be read from there."""
        chain, last = self._chain, self.last_confirmed_entry
        rank = self._rank_from(position)
        if rank >= chain.rank_after(last):
            return position, 0
        first = chain.position_of(rank)
        ledger = chain.find(first.ledger_id)
        assert ledger is not None
        end = last.entry_id + 1 if first.ledger_id == last.ledger_id else ledger.entries
        return first, min(max_entries, end - first.entry_id)

    def _now_ms(self) -> int:
        return int(self._clock.now() * 1000)

    def _load(self, stored: dict[str, object]) -> None:
        listed, properties = stored["ledgers"], stored["properties"]
        assert isinstance(listed, list)
        assert isinstance(properties, dict)
        self.properties = properties
        self.last_confirmed_entry = Position.parse(str(stored["lastPosition"]))
        for info in listed:
            ledger_id, confirmed = info["ledgerId"], info["entries"]
            entries = self._stored_length(ledger_id)
            if entries < confirmed:
                found, expected = Position(ledger_id, entries - 1), Position(ledger_id, confirmed - 1)
                message = f"{self.name}: the log ends at {found}, entries up to {expected} were durable"
                raise DataLossError(message)
            if entries:
                self._store.seal(ledger_id)
                self._add_closed(info, entries)
            else:
                self._store.delete(ledger_id)
        self.last_confirmed_entry = max(self.last_confirmed_entry, self.last_position)

    def _add_closed(self, info: Mapping[str, Any], entries: int) -> None:
        """Add a ledger of an earlier run: its entries were appended before it was closed."""
        ledger_id, closed_ms, now_ms = info["ledgerId"], info["closedAt"], self._now_ms()
        # Entries that became durable after the list was written are not in it, nor is when that was.
        is_recovered = closed_ms is None or entries > info["entries"] or "recovered" in info
        if closed_ms is None:
            closed_ms, self._is_unsaved = now_ms, True
        size = self._store.size_bytes(ledger_id)
        self._chain.add(ChainLedger(ledger_id, info["createdAt"], entries, size, closed_ms, is_recovered))
        appended_by_ms = info.get("appendedBy", closed_ms)
        if entries > info["entries"]:
            appended_by_ms, self._is_unsaved = now_ms, True
        age_s = max(now_ms - appended_by_ms, 0) / 1000
        self._times.begin_window(Position(ledger_id, 0), self._clock.monotonic() - age_s)

    def _stored_length(self, ledger_id: int) -> int:
        try:
            return self._store.length(ledger_id)
        except StorageError:
            if self._store.has_given(ledger_id):
                return 0  # it was listed, but nothing of it became durable
            message = (
                f"{self.name}: ledger {ledger_id} is unknown to the log: files of the ledger directory are missing, or "
                f"it is another one. Restore it from a copy, or delete the topic with force"
            )
            raise DataLossError(message) from None

    def _persist(self) -> None:
        """Write the list as it is; what cannot be stored is written with the next list."""

        def stored(error: StorageError | None) -> None:
            if error is not None:
                self._is_unsaved = True

        self._is_unsaved = False
        self._listed.commit(self._list(), stored)

    def _times_of(self, ledger: ChainLedger) -> dict[str, int | bool]:
        """Return what is kept of the append times of a closed ledger."""
        bound = self._times.bound_of(Position(ledger.ledger_id, ledger.entries - 1))
        if ledger.closed_ms is None or bound is None or not ledger.entries:
            return {}
        age_ms = int((self._clock.monotonic() - bound) * 1000)
        recovered = {"recovered": True} if ledger.is_recovered else {}
        return {"appendedBy": self._now_ms() - age_ms + 1, **recovered}  # both are cut to milliseconds

    def _list(self, skipped: int = 0, properties: Mapping[str, str] | None = None) -> dict[str, object]:
        """Make the list without the first ``skipped`` ledgers, by default with the properties as they are."""
        listed = [
            {
                "ledgerId": ledger.ledger_id,
                "createdAt": ledger.created_ms,
                "closedAt": ledger.closed_ms,
                "entries": self.confirmed_in(ledger),
                **self._times_of(ledger),
            }
            for ledger in self._chain.ledgers[skipped:]
        ]
        return {
            "ledgers": listed,
            "lastPosition": str(self.last_confirmed_entry),
            "properties": self.properties if properties is None else properties,
        }


def _with_positions(first: Position, entries: list[bytes]) -> list[tuple[Position, bytes]]:
    ledger_id, entry_id = first
    places = zip(repeat(ledger_id), range(entry_id, entry_id + len(entries)), strict=False)
    return list(zip(map(Position._make, places), entries, strict=True))


def _is_retained(retention: tuple[int, int], closed_for_ms: int, size_behind: int) -> bool:
    """Whether retention keeps a ledger that was closed so long ago and is followed by this many bytes."""
    minutes, size_mib = retention
    expired = 0 <= minutes * _MINUTE_MS <= closed_for_ms
    over_size = 0 <= size_mib * _MIB <= size_behind
    return not expired and not over_size
