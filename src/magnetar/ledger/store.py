"""The interface of a ledger store: append-only runs of entries, durable in one order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from magnetar.base.errors import StorageError, StorageShortageError, StoreFencedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence

    from magnetar.base.histogram import Histogram, RecentDurations
    from magnetar.base.life import Life

    OnDurable = Callable[[StorageError | None], None]
    """Told None once durable, or why it never will be."""


@dataclass(frozen=True, slots=True)
class Run:
    """Entries that were appended together: ``first_entry_id`` and the ``count - 1`` behind it."""

    first_entry_id: int
    count: int
    annotation: bytes
    """What the appender wanted to remember with them; opaque to the store."""


@dataclass(frozen=True, slots=True)
class StoreState:
    """Whether the store still takes appends."""

    failure: str | None = None
    """Why it takes none any more, until it is opened again; None while it is healthy."""
    shortage: StorageShortageError | None = None
    """Why it takes only urgent ones for now; None while there is enough room, and enough storage nodes."""
    is_fenced: bool = False
    """Whether ``failure`` is for good: another owner has the log, and opening it again would take it from that one."""

    @property
    def healthy(self) -> bool:
        """Whether nothing has failed for good."""
        return self.failure is None

    @property
    def refusal(self) -> StorageError | None:
        """What an append that is not urgent would fail with; None while it would not. A new error each time."""
        if self.failure is not None:
            return StoreFencedError(self.failure) if self.is_fenced else StorageError(self.failure)
        return None if self.shortage is None else type(self.shortage)(str(self.shortage))


class IdsOfLedgers(Protocol):
    """The ids of a store's ledgers."""

    def has_given(self, ledger_id: int) -> bool:
        """Whether the log may ever have given an id. A ledger with another one was in files that are gone."""
        ...

    def begin_at(self, ledger_id: int) -> None:
        """Give all new ledgers ids of at least ``ledger_id``, once everything asked until now is durable."""
        ...


class LedgerStore(Protocol):
    """Ledgers with one owner. Used on the event loop's thread, where it also reports.

    Nothing here waits for the disk but ``read`` and the coroutine of ``hold_runs``. What concerns the disk's health is
    reported, never raised; raised is StorageError for a ledger that does not exist or that is sealed.
    """

    @property
    def state(self) -> StoreState:
        """Whether the store still takes appends."""
        ...

    @property
    def life(self) -> Life | None:
        """The life whose ledger ids it gives; None where nobody gave it an identity."""
        ...

    @property
    def syncs(self) -> bool:
        """Whether all that is reported as durable is synced; False with ``journalSyncData=false``."""
        ...

    @property
    def cached_bytes(self) -> int:
        """Bytes of memory that entries and tables take that could be read again from the disk."""
        ...

    @property
    def commit_times(self) -> Histogram:
        """How long it took to write and sync groups of operations, each as a whole, also where one failed."""
        ...

    @property
    def write_latencies(self) -> RecentDurations:
        """Times from the append of a run to a topic until it was durable; its topic adds them."""
        ...

    @property
    def ids(self) -> IdsOfLedgers:
        """The ids that it gives to ledgers."""
        ...

    async def look_at_space(self) -> None:
        """Find out whether there is room on the disk, and change ``state`` by it; to be called every second or so."""
        ...

    def create(self) -> int:
        """Return the id of a new, empty ledger, greater than every id that was ever given in this store."""
        ...

    def append(
        self,
        ledger_id: int,
        entries: Sequence[bytes],
        on_durable: OnDurable,
        annotation: bytes = b"",
        *,
        urgent: bool = True,
    ) -> int:
        """Append a run of at least one entry and return the entry id of its first; ids are contiguous from 0.

        ``on_durable`` is called once, later, in the order of all appends and barriers of the whole store: with None
        after the run is durable, or with the error if it is not. StorageShortageError: nothing of the run remains, nor
        of any run appended before this report; their ids will be given again. Any other error: the store has failed,
        with StoreFencedError for good.

        What is ``urgent`` goes on in a shortage, in room that was held back. All appends to a ledger are alike.
        """
        ...

    def barrier(self, on_durable: OnDurable) -> None:
        """Call ``on_durable`` when everything asked before (appends, seals, trims, deletes) is durable."""
        ...

    def read_cached(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes] | None:
        """Return durable entries from ``first`` on, at least one, whatever its size; None if they are not in memory."""
        ...

    async def read(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """Return durable entries from ``first`` on: at least one, whatever its size; none at the ledger's end.

        Raises StorageError for entries that were trimmed or deleted, CorruptionError for damaged ones.
        """
        ...

    def hold_runs(self, ledger_ids: Collection[int]) -> Coroutine[Any, Any, None] | None:
        """Hold the runs of ledgers for ``runs``; return None if all of them are in memory.

        Otherwise return the coroutine that reads and holds them, without payload. If it cannot read the runs of a
        ledger, ``runs`` raises the error.
        """
        ...

    def runs(self, ledger_id: int) -> Iterator[Run]:
        """Yield the durable runs of a ledger whose runs are held, in order, if they still have an entry.

        Raises StorageError or CorruptionError if they could not be read.
        """
        ...

    def release_runs(self, ledger_ids: Collection[int]) -> None:
        """Release the runs of ledgers that may be held."""
        ...

    def length(self, ledger_id: int) -> int:
        """Entries ever appended, durable or not yet, trimmed or not; those that failed are taken back."""
        ...

    def size_bytes(self, ledger_id: int) -> int:
        """Bytes of the durable entries that still take space."""
        ...

    def trim(self, ledger_id: int, before_entry_id: int) -> None:
        """Allow the entries below ``before_entry_id`` to be forgotten; the ids of the others stay."""
        ...

    def seal(self, ledger_id: int) -> None:
        """Take no more appends; sealing again changes nothing."""
        ...

    def delete(self, ledger_id: int) -> None:
        """Forget the ledger; deleting one that does not exist changes nothing."""
        ...

    def oldest_segment_of(self, ledger_id: int) -> int | None:
        """Sequence of the oldest segment that the ledger keeps from being removed; None if it keeps none."""
        ...

    def segments(self) -> list[int]:
        """Sequences of all segments, ascending; the last is the one written to."""
        ...

    def pinned_by(self, segment: int) -> list[int]:
        """Ids of the ledgers that keep ``segment`` from being removed, ascending."""
        ...

    def list(self) -> list[int]:
        """Ids of the ledgers that exist, ascending."""
        ...
