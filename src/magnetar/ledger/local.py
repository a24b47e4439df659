"""The embedded ledger store: one log on this machine's disk, shared by all ledgers of a broker."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.durable import storage_error, write_again
from magnetar.base.errors import ConfigurationError, DiskFullError, StorageError
from magnetar.base.histogram import Histogram
from magnetar.base.life import Life
from magnetar.ledger.medium.space import Space
from magnetar.ledger.segments.record import Kind
from magnetar.ledger.shared_log.committer import Committer
from magnetar.ledger.shared_log.life_file import read_life, write_life
from magnetar.ledger.shared_log.log import Log, Operation, with_entries, without_entries
from magnetar.ledger.shared_log.reader import LogReader
from magnetar.ledger.shared_log.tail_cache import TailCache
from magnetar.ledger.store import StoreState

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from magnetar.base.world import Files
    from magnetar.ledger.segments.index import LedgerIndex
    from magnetar.ledger.segments.recovery import Progress
    from magnetar.ledger.shared_log.committer import Commit, Report
    from magnetar.ledger.store import OnDurable, Run

"""File in the log's directory that names the cluster's life."""

UNSYNCED_NAME = "unsynced"
"""File in the log's directory while entries are written that are not synced, until the log is closed in order."""

_MIB = 1024 * 1024
_SEGMENT_BYTES_MAX = 1024 * _MIB
"""Offsets in a segment have 32 bits, and its last group and its index come on top."""


@dataclass(frozen=True, slots=True)
class LocalStoreOptions:
    """Limits of the embedded store."""

    sync: bool = True
    """Whether an entry is reported after it is on the disk (``journalSyncData``), or when the kernel has it: then power
    loss takes the newest ones."""
    segment_bytes: int = 64 * _MIB
    """Size of a segment; trimmed entries give their space back when no entry of their segment is needed."""
    group_bytes: int = 8 * _MIB
    """Entries that are written at once before they are synced; one run more may come on top."""
    tail_cache_bytes: int = 64 * _MIB
    """Memory for the newest entries, with what each of them takes beside its bytes."""
    table_cache_bytes: int = 16 * _MIB
    """Memory for the places of runs in sealed segments, and for what was noted with these runs."""
    read_threads: int = 2
    """Reads of entries that are no longer in memory, at the same time."""
    reserve_bytes: int = 0
    """Room on the disk that is held back for what is urgent when the disk is full."""
    low_water_bytes: int = 0
    """Free space of the disk below which only what is urgent is taken; 0: the disk is not watched."""
    ledger_id_block: int = 512
    """Ledger ids reserved when the store is opened. A crash skips those that are left, and ids grow like the clock's
    milliseconds (see ``first_ledger_id`` of the broker): fewer than those that pass in a start."""
    ledger_id_block_max: int = 65_536
    """Ledger ids reserved at once as they are used, each time twice as many."""

    identity: str = ""
    """What tells this life of the cluster from others, if the directory has none yet; empty: it gets none."""
    first_ledger_id: int = 1
    """Where the ids of a store begin that has never given any."""
    named_ledger_id: int = 0
    """The highest id that the metadata names. Ids given from now on are greater, even if the log lost its files."""

    def __post_init__(self) -> None:
        """Raise ConfigurationError for what cannot work."""
        if not 0 < self.segment_bytes <= _SEGMENT_BYTES_MAX:
            message = f"segment_bytes is {self.segment_bytes}, must be in 1..{_SEGMENT_BYTES_MAX}"
            raise ConfigurationError(message)


class _Ledger:
    """A ledger as its owner sees it, ahead of the log by what is pending."""

    __slots__ = ("length", "sealed")

    def __init__(self, length: int = 0, *, sealed: bool = False) -> None:
        self.length = length
        self.sealed = sealed


class LocalLedgerStore:
    """See LedgerStore. The event loop's thread decides, one thread writes, a small pool reads what is not cached."""

    def __init__(
        self,
        directory: Path,
        files: Files,
        loop: asyncio.AbstractEventLoop,
        options: LocalStoreOptions,
        committer: Callable[[Commit, int, Report, Callable[[], None]], Committer] = Committer,
    ) -> None:
        """Use ``directory``, which must be nobody else's; nothing happens before ``open``.

        ``committer`` is what brings appends to the disk: a thread, if nothing else is said.
        """
        self._make_committer = committer
        self._directory = directory
        self._files = files
        self._loop = loop
        self._options = options
        self._state = StoreState()
        self.commit_times = Histogram()
        self._cache = TailCache(options.tail_cache_bytes)
        self._space = Space(files, directory, options.reserve_bytes, options.low_water_bytes)
        self._ledgers: dict[int, _Ledger] = {}
        self._deferred: list[Operation] = []
        """Control operations that found the disk full; tried again before whatever is asked next."""
        self._next_ledger_id = self._began_at = 0
        self._earlier_ids = range(0)
        """The ids that earlier runs may have given, as far as the log knows."""
        self._reserving = 0
        """Upper bound, exclusive, of the ids whose reservation was asked for; ``_reserved`` is the durable one."""
        self._id_block = options.ledger_id_block
        """How many ids were reserved last."""
        self._may_lack_entries = False
        self._life: Life | None = None

    def open(self, progress: Progress = lambda _done, _total: None) -> None:
        """Recover what the directory holds and start to serve; ``progress`` counts segments.

        Raises CorruptionError, naming file and offset, for damage that no crash explains; DiskFullError or StorageError
        if nothing can be written.
        """
        options = self._options
        self._log = self._recover_log(progress)
        index = self._log.index
        is_unborn = index.is_unborn
        if is_unborn:
            index.next_ledger_id = options.first_ledger_id
        recovered_end = index.next_ledger_id
        index.next_ledger_id = max(recovered_end, options.named_ledger_id + 1)
        self._next_ledger_id = self._began_at = index.next_ledger_id
        self._reserving = self._next_ledger_id + options.ledger_id_block
        try:
            self._recover_life(is_unborn=is_unborn)
            if not is_unborn:
                self._earlier_ids = range(1 if self._life is None else self._life.first_ledger_id, recovered_end)
            self._note_mode()
            self._reserve_first()
        except StorageError:
            self._log.abandon()
            raise
        self._ledgers = {each.ledger_id: _Ledger(each.length, sealed=each.sealed) for each in index.ledgers.values()}
        self._reader = LogReader(self._files, self._directory, index, options.table_cache_bytes)
        self._pool = ThreadPoolExecutor(options.read_threads, thread_name_prefix="magnetar-ledger-read")
        self._remove_dead_segments()
        self._committer = self._make_committer(
            self._commit, options.group_bytes, self._report_soon, self._remove_dead_segments
        )
        self._committer.start()
        self._space.take_reserve()
        self.look_at_space()

    def look_at_space(self) -> None:
        """See LedgerStore."""
        if self._state.failure is None and self._space.is_watched:
            short = self._state.shortage is not None
            shortage = self._space.remaining_shortage() if short else self._space.shortage()
            self._state = StoreState(shortage=shortage)

    def give_reserve(self) -> bool:
        """Give back the room that is held for a full disk; whether there was any."""
        given = self._space.give_reserve()
        self.look_at_space()
        return given

    @property
    def cached_bytes(self) -> int:
        """See LedgerStore."""
        return self._cache.size_bytes + self._reader.cached_bytes

    @property
    def next_ledger_id(self) -> int:
        """The lowest id that a ledger created from now on can have."""
        return self._next_ledger_id

    def has_given(self, ledger_id: int) -> bool:
        """See LedgerStore."""
        return ledger_id in self._earlier_ids or self._began_at <= ledger_id < self._next_ledger_id

    @property
    def syncs(self) -> bool:
        """See LedgerStore."""
        return self._options.sync

    @property
    def may_lack_entries(self) -> bool:
        """Whether confirmed entries may be missing: the last run did not sync its entries and was not stopped in order.

        A store that does not sync now says so, too: an earlier release left no note of its mode.
        """
        return self._may_lack_entries

    def losses_accepted(self) -> None:
        """Note that nothing counts on missing entries any more; raises StorageError."""
        self._may_lack_entries = False
        if self._options.sync:
            self._forget_mode()

    async def close(self) -> None:
        """Make all that was asked durable and report it, seal the log, end the threads."""
        if self._deferred:
            self.barrier(lambda _error: None)
        self._committer.stop()
        await self._loop.run_in_executor(self._pool, self._committer.join)
        if self._state.healthy:
            await self._loop.run_in_executor(self._pool, self._seal_log)
        else:
            self._log.abandon()
        self._state = StoreState("the store is closed")
        self._pool.shutdown()

    @property
    def state(self) -> StoreState:
        """See LedgerStore."""
        return self._state

    @property
    def life(self) -> Life | None:
        """See LedgerStore."""
        return self._life

    def create(self) -> int:
        """See LedgerStore; raises StorageError when ids are asked for faster than they can be reserved durably."""
        ledger_id = self._next_ledger_id
        if ledger_id >= self._reserved:
            message = f"ledger ids up to {self._reserved - 1} are used up and no more could be reserved yet"
            raise StorageError(message)
        self._next_ledger_id += 1
        if self._reserving - self._next_ledger_id < self._id_block:
            self._reserve()
        self._ledgers[ledger_id] = _Ledger()
        return ledger_id

    def append(
        self,
        ledger_id: int,
        entries: Sequence[bytes],
        on_durable: OnDurable,
        annotation: bytes = b"",
        *,
        urgent: bool = True,
    ) -> int:
        """See LedgerStore."""
        assert entries, "a run has at least one entry"
        ledger = self._ledgers.get(ledger_id)
        if ledger is None or ledger.sealed:
            message = f"ledger {ledger_id} {'does not exist' if ledger is None else 'is sealed'}"
            raise StorageError(message)
        first = ledger.length
        if self._state.shortage is not None and not urgent:
            refusal = DiskFullError(self._state.shortage)
            self.barrier(lambda error: on_durable(error or refusal))  # behind what was taken before
            return first
        if self._submit(with_entries(ledger_id, first, entries, annotation, on_durable, urgent=urgent)):
            ledger.length = first + len(entries)
        return first

    def barrier(self, on_durable: OnDurable) -> None:
        """See LedgerStore."""
        self._submit(without_entries(None, on_durable=on_durable))

    def read_cached(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes] | None:
        """See LedgerStore."""
        return self._cache.read(ledger_id, first, max_entries, max_bytes)

    async def read(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """See LedgerStore."""
        self._require(ledger_id)
        cached = self._cache.read(ledger_id, first, max_entries, max_bytes)
        if cached is not None:
            return cached
        return await self._loop.run_in_executor(self._pool, self._reader.read, ledger_id, first, max_entries, max_bytes)

    def runs(self, ledger_id: int) -> Iterator[Run]:
        """See LedgerStore."""
        self._require(ledger_id)
        return self._reader.runs(ledger_id)

    def length(self, ledger_id: int) -> int:
        """See LedgerStore."""
        return self._require(ledger_id).length

    def size_bytes(self, ledger_id: int) -> int:
        """See LedgerStore."""
        self._require(ledger_id)
        durable = self._durable(ledger_id)
        return durable.entries_bytes if durable else 0

    def trim(self, ledger_id: int, before_entry_id: int) -> None:
        """See LedgerStore."""
        self._require(ledger_id)
        self._submit(without_entries(Kind.TRIM, ledger_id, before_entry_id))

    def seal(self, ledger_id: int) -> None:
        """See LedgerStore."""
        ledger = self._require(ledger_id)
        if not ledger.sealed:
            ledger.sealed = True
            self._submit(without_entries(Kind.SEAL, ledger_id))

    def delete(self, ledger_id: int) -> None:
        """See LedgerStore."""
        if self._ledgers.pop(ledger_id, None) is not None:
            self._cache.drop(ledger_id)
            self._submit(without_entries(Kind.DELETE, ledger_id))

    def oldest_segment_of(self, ledger_id: int) -> int | None:
        """See LedgerStore."""
        durable = self._durable(ledger_id)
        extents = durable.extents if durable else []
        return extents[0].segment if extents else None

    def segments(self) -> list[int]:
        """See LedgerStore."""
        return sorted(self._log.index.segments.copy())

    def pinned_by(self, segment: int) -> list[int]:
        """See LedgerStore."""
        return sorted(self._log.index.segments.get(segment, {}).copy())

    def _require(self, ledger_id: int) -> _Ledger:
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            message = f"ledger {ledger_id} does not exist"
            raise StorageError(message)
        return ledger

    def _durable(self, ledger_id: int) -> LedgerIndex | None:
        return self._log.index.ledgers.get(ledger_id)

    def _recover_log(self, progress: Progress) -> Log:
        """Recover the log, in the room that is held back if there is no other."""
        options = self._options
        try:
            return Log(self._files, self._directory, options.segment_bytes, progress, sync=options.sync)
        except DiskFullError:
            if not self._space.give_reserve():
                raise
            return Log(self._files, self._directory, options.segment_bytes, progress, sync=options.sync)

    def _reserve_first(self) -> None:
        """Reserve the first ids, in the room that is held back if there is no other."""
        reservation = [without_entries(Kind.RESERVE, self._reserving)]
        try:
            self._log.commit(reservation)
        except DiskFullError:
            if not self._space.give_reserve():
                raise
            self._log.commit(reservation)

    def _reserve(self) -> None:
        self._id_block = min(2 * self._id_block, max(self._options.ledger_id_block_max, self._id_block))
        self._reserving += self._id_block
        self._submit(without_entries(Kind.RESERVE, self._reserving))

    @property
    def _reserved(self) -> int:
        """Upper bound, exclusive, of the ids that are durably reserved; grows on the committing thread."""
        return self._log.index.next_ledger_id

    def _recover_life(self, *, is_unborn: bool) -> None:
        """Find the life that the directory belongs to, or begin it durably, before the first id is given.

        A log of an earlier release may have given any id.
        """
        found = read_life(self._files, self._directory)
        self._life = None if is_unborn else found  # the log of a life without an id is gone, and the life with it
        if self._life is None and self._options.identity:
            self._life = Life(self._options.identity, self._next_ledger_id if is_unborn else 1)
            write_life(self._files, self._directory, self._life)

    def _note_mode(self) -> None:
        """Note durably that entries are not synced, before the first one; find out whether the last run did so."""
        found = UNSYNCED_NAME in self._files.list(self._directory)
        self._may_lack_entries = found or not self._options.sync
        if not found and not self._options.sync:
            try:
                write_again(self._files, self._directory / UNSYNCED_NAME, b"")
            except OSError as error:
                raise storage_error(self._directory / UNSYNCED_NAME, error) from error

    def _forget_mode(self) -> None:
        """Remove the note that entries were not synced, if there is one."""
        if UNSYNCED_NAME not in self._files.list(self._directory):
            return
        try:
            self._files.remove(self._directory / UNSYNCED_NAME)
            self._files.sync_directory(self._directory)
        except OSError as error:
            raise storage_error(self._directory / UNSYNCED_NAME, error) from error

    def _submit(self, operation: Operation) -> bool:
        """Hand an operation to the committer, or say that it fails and return False."""
        if self._state.failure is not None:
            if operation.on_durable is not None:
                self._loop.call_soon(operation.on_durable, StorageError(self._state.failure))
            return False
        if self._deferred:
            deferred, self._deferred = self._deferred, []
            for each in deferred:
                self._committer.submit(each)
        self._committer.submit(operation)
        return True

    def _commit(self, operations: Sequence[Operation]) -> None:
        """Have the log commit, on the thread of the committer, and observe how long that takes."""
        begun_at = self._loop.time()
        try:
            self._log.commit(operations)
        finally:
            self.commit_times.observe(self._loop.time() - begun_at)

    def _report_soon(self, operations: Sequence[Operation], error: StorageError | None) -> None:
        self._loop.call_soon_threadsafe(self._report, operations, error)

    def _report(self, operations: Sequence[Operation], error: StorageError | None) -> None:
        """Tell the owners of a group what became of it."""
        if error is not None:
            operations = self._fail(operations, error)
        for operation in operations:
            if operation.kind is Kind.RUN and error is None and operation.ledger_id in self._ledgers:
                self._cache.add(operation.ledger_id, operation.argument, operation.entries, operation.size)
            if operation.on_durable is not None:
                try:
                    operation.on_durable(error)
                except Exception as raised:  # noqa: BLE001 - one owner's bug must not keep the others waiting for ever
                    context = {"message": "on_durable of a ledger operation raised", "exception": raised}
                    self._loop.call_exception_handler(context)

    def _fail(self, operations: Sequence[Operation], error: StorageError) -> list[Operation]:
        """Take back the failed group and all that was asked after it; return what has to be told."""
        failed = [*operations, *self._committer.take_back()]
        for operation in failed:
            ledger = self._ledgers.get(operation.ledger_id) if operation.kind is Kind.RUN else None
            if ledger is not None:
                durable = self._durable(operation.ledger_id)
                ledger.length = durable.length if durable else 0
        if isinstance(error, DiskFullError):
            return self._fail_for_now(failed, error)
        self._state = StoreState(str(error))
        return failed

    def _fail_for_now(self, failed: Sequence[Operation], error: DiskFullError) -> list[Operation]:
        """Go on in the room that is held back, with what is urgent; without any, keep only what must not be dropped."""
        if self._space.is_watched:
            self._state = StoreState(shortage=str(error))
        has_room = self._space.give_reserve()
        told: list[Operation] = []
        for operation in failed:
            if not operation.is_control and not (has_room and self._goes_on(operation)):
                told.append(operation)
            elif has_room:
                self._committer.submit(operation)
            else:
                self._deferred.append(operation)
        self._committer.resume()
        return told

    def _goes_on(self, operation: Operation) -> bool:
        """Whether a run that was taken back is asked again, in its old place."""
        ledger = self._ledgers.get(operation.ledger_id)
        if not operation.urgent or ledger is None:
            return False
        assert ledger.length == operation.argument, "all appends to a ledger are alike"
        ledger.length += len(operation.entries)
        return True

    def _remove_dead_segments(self) -> None:
        """Give the space of segments back that nobody needs; runs where the index is changed."""
        for segment in self._log.index.take_dead_segments():
            with suppress(OSError):  # the file is found dead again when the store is next opened
                self._reader.remove_segment(segment)

    def _seal_log(self) -> None:
        try:
            self._log.close(self._next_ledger_id)
            if not self._may_lack_entries:
                self._forget_mode()
        except StorageError:
            self._log.abandon()  # the next opening walks through the unsealed segment

    def list(self) -> list[int]:
        """See LedgerStore."""
        return sorted(self._ledgers)
