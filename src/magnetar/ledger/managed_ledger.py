"""A topic's log: a chain of ledgers, with rollover and trimming."""

from __future__ import annotations

from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Self

from magnetar.base.errors import ManagedLedgerFencedError
from magnetar.base.position import Position
from magnetar.ledger.chain_recovery import RecoveredChain, recover_chain
from magnetar.ledger.ledger_list import LedgerList
from magnetar.ledger.log_positions import LogPositions
from magnetar.ledger.retention import count_unneeded
from magnetar.ledger.rollover import Rollover
from magnetar.ledger.statistics import LedgerStatistics
from magnetar.metadata.store import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.base.names import TopicName
    from magnetar.base.world import Clock
    from magnetar.ledger.rollover import ManagedLedgerConfig
    from magnetar.ledger.store import LedgerStore, OnDurable, Run
    from magnetar.metadata.store import Delete, MetadataStore, Put


class ManagedLedger(LogPositions):
    """The log of one topic, with one writer. Used on the event loop's thread."""

    def __init__(
        self,
        store: LedgerStore,
        listed: LedgerList,
        recovered: RecoveredChain,
        config: ManagedLedgerConfig,
        clock: Clock,
    ) -> None:
        """Use ``open``."""
        super().__init__(recovered, clock)
        self.name = listed.name
        self.properties = listed.properties
        """What the topic keeps with its list of ledgers; changed by ``set_property``."""
        self.entries_added = 0
        """Entries that became durable since the topic was opened."""
        self.statistics = LedgerStatistics()
        self._store = store
        self._listed = listed
        self._rollover = Rollover(store, listed, self, config, clock)

    @classmethod
    def open(
        cls, store: LedgerStore, metadata: MetadataStore, name: TopicName, config: ManagedLedgerConfig, clock: Clock
    ) -> Self:
        """Load the topic's chain, empty if there is none; the next append begins a new ledger.

        What an earlier owner of the topic appended must have been reported: wait for a barrier after its ``close``.

        Raises DataLossError, naming two positions, if entries are missing that were once durable, and CorruptionError,
        naming the path, if the list of ledgers cannot be read.
        """
        listed = LedgerList(store, metadata, name, clock)
        stored = listed.load()
        recovered = RecoveredChain(clock.now() - clock.monotonic())
        if stored is not None:
            try:
                assert isinstance(stored["properties"], dict)
                listed.properties.update(stored["properties"])
                recovered = recover_chain(store, listed.name, stored, clock)
            except (ValueError, KeyError, TypeError, AssertionError) as error:
                raise listed.unreadable(error) from error
            listed.is_unsaved = recovered.is_unsaved
        ledger = cls(store, listed, recovered, config, clock)
        ledger._note_wall_clock()
        return ledger

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
    def list_version(self) -> int:
        """The version of the list of ledgers."""
        return self._listed.version

    @property
    def is_being_listed(self) -> bool:
        """Whether a change of the list of ledgers is on its way to the disk."""
        return self._listed.pending > 0

    @property
    def is_trim_unstored(self) -> bool:
        """Whether a crash brings back entries that were trimmed, because the list without them is not durable."""
        return self._listed.has_dropped

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
        ledger = self._rollover.ledger_for_append()
        sizes = list(map(len, entries))
        count, size, began = len(entries), sum(sizes), self._clock.monotonic()

        def report(error: StorageError | None) -> None:
            if error is None:
                self.last_confirmed_entry = Position(first.ledger_id, first.entry_id + count - 1)
                self.entries_added += count
                now = self._clock.monotonic()
                self.times.note(first, now)
                self.statistics.written(sizes, now - began)
                self._store.write_latencies.observe(now - began)
            else:
                self.chain.change(ledger, -count, -size)
            on_durable(first, error)
            if error is not None:
                self._rollover.fail_held(error)

        first = Position(ledger.ledger_id, self._rollover.write(ledger, entries, report, annotation))
        self.chain.change(ledger, count, size)
        return first

    def barrier(self, on_durable: OnDurable) -> None:
        """Call ``on_durable`` in the order of the appends, once all of them until now are durable, or why not."""
        self._rollover.barrier(on_durable)

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
        """Yield the durable runs of one ledger of the chain, in order; they must be held (see LedgerStore)."""
        return self._store.runs(ledger_id)

    def trim(
        self,
        consumed_through: Position,
        now_ms: int,
        retention: tuple[int, int],
        remember: Callable[[Position], Mapping[str, str]] = lambda _: {},
    ) -> Position | None:
        """Delete the oldest ledgers that nobody needs; return the new first position, None if nothing was deleted.

        ``count_unneeded`` decides which. A ledger that takes appends is closed first if it is old.

        ``remember`` gets the last position that goes; the properties that it returns are kept with the new list, so
        nothing that they are needed for is ever deleted without them.

        The ledgers are not in the chain any more on return. They are deleted when a list without them is durable; until
        then a crash brings them back. If the list cannot be stored now, the next one is without them.
        """
        if self._listed.failure is not None:
            return None
        self._note_wall_clock()
        self._rollover.close_if_old(now_ms)
        count = count_unneeded(self.chain, consumed_through, now_ms, retention)
        if not count:
            return None
        unneeded = self.chain.ledgers[:count]
        self.properties.update(remember(Position(unneeded[-1].ledger_id, unneeded[-1].entries - 1)))
        self._listed.drop(ledger.ledger_id for ledger in unneeded)
        self.chain.remove_first(count)
        self.times.trim(self.first_position)
        self.save()
        return self.first_position

    def close_current(self) -> None:
        """Close the ledger that takes appends, so that it can be trimmed; the next append begins another one."""
        self._rollover.close_current()

    def create(self) -> None:
        """Let the topic exist before its first entry; it is fenced if that cannot be stored.

        Raises StorageError where that is known at once.
        """
        if self._listed.version == ABSENT:
            self._listed.commit(self, self._require_stored)
            if self._listed.failure is not None:
                raise self._listed.failure

    def set_property(
        self, key: str, value: str, along_with: Sequence[Put] = (), on_durable: OnDurable = lambda _: None
    ) -> None:
        """Set a property from now on, and store it in one transaction with ``along_with``.

        ``on_durable`` is told the outcome. If it cannot be stored, the topic is fenced before that. Raises
        ManagedLedgerFencedError.
        """

        def stored(error: StorageError | None) -> None:
            self._require_stored(error)
            on_durable(error)

        self.properties[key] = value
        self._listed.commit(self, stored, along_with)

    def remove_property(self, key: str) -> None:
        """Remove a property, like ``set_property``."""
        if self.properties.pop(key, None) is not None:
            self._listed.commit(self, self._require_stored)

    def note_property(self, key: str, value: str) -> None:
        """Set a property that may be lost in a crash; if it cannot be stored now, it is stored with the next list."""
        self.properties[key] = value
        self._listed.is_unsaved = True
        self.save()

    def close(self) -> None:
        """Take no more appends until opened again; those under way are still reported."""
        self._rollover.end()
        self._note_wall_clock()
        if self._listed.is_unsaved and self._listed.failure is None:
            self._listed.commit(self)

    def save(self) -> None:
        """Write down which ledgers were closed, and when, if that changed; what cannot be written is written next time.

        Entries of a ledger that was closed since then seem younger after a crash than they are. If the wall clock was
        set ahead since then, they seem older.
        """
        self._note_wall_clock()
        if self._listed.is_unsaved:
            with suppress(ManagedLedgerFencedError):
                self._listed.commit(self)

    def delete(
        self,
        also: Sequence[int] = (),
        along_with: Sequence[Put | Delete] = (),
        on_durable: OnDurable = lambda _: None,
    ) -> None:
        """Delete the topic, which takes no appends any more, in one transaction with ``along_with``.

        ``also`` are ledgers to be deleted besides those of the topic. A crash or a failed write before ``on_durable``
        is told leaves the topic as it was. Afterwards there is no topic any more; ``erasure`` has to follow. Raises
        ManagedLedgerFencedError.
        """
        self._rollover.end()
        if self._listed.version == ABSENT:
            on_durable(None)
        else:
            self._listed.delete(self, also, along_with, on_durable)

    def erasure(self) -> Iterator[None]:
        """Delete all entries of a topic whose deletion is durable, in steps."""
        return self._listed.erasure()

    def _require_stored(self, error: StorageError | None) -> None:
        if error is not None:
            self._listed.fail(error)

    def _note_wall_clock(self) -> None:
        """If the wall clock was set, have the list written again, so that no ledger seems older than it is."""
        if self.follow_wall_clock():
            self._listed.is_unsaved = True


def _with_positions(first: Position, entries: list[bytes]) -> list[tuple[Position, bytes]]:
    ledger_id, entry_id = first
    places = zip(repeat(ledger_id), range(entry_id, entry_id + len(entries)), strict=False)
    return list(zip(map(Position._make, places), entries, strict=True))
