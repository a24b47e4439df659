"""A ledger store over one shared log, whose segments a medium keeps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from magnetar.base.errors import StorageError, StorageShortageError, StoreFencedError
from magnetar.base.histogram import RecentDurations
from magnetar.ledger.medium.blocking import run_blocking
from magnetar.ledger.segments.record import Kind
from magnetar.ledger.shared_log.committer import Committer
from magnetar.ledger.shared_log.log import Log, Operation, with_entries, without_entries
from magnetar.ledger.shared_log.notes import UNSYNCED_NAME
from magnetar.ledger.shared_log.opening import open_log
from magnetar.ledger.shared_log.reader import LogReader
from magnetar.ledger.shared_log.reports import Reports
from magnetar.ledger.shared_log.tail_cache import TailCache
from magnetar.ledger.store import StoreState

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence

    from magnetar.base.life import Life
    from magnetar.ledger.medium.interface import SegmentMedium
    from magnetar.ledger.segments.index import LedgerIndex
    from magnetar.ledger.segments.recovery import Progress
    from magnetar.ledger.shared_log.log import Report
    from magnetar.ledger.shared_log.options import SharedLogOptions
    from magnetar.ledger.store import OnDurable, Run

Result = TypeVar("Result")


class _Ledger:
    """A ledger as its owner sees it, ahead of the log by what is pending."""

    __slots__ = ("length", "sealed")

    def __init__(self, length: int = 0, *, sealed: bool = False) -> None:
        self.length = length
        self.sealed = sealed


class SharedLogStore:
    """See LedgerStore. The event loop's thread decides; what waits for a medium that blocks runs on other threads."""

    def __init__(
        self,
        medium: SegmentMedium,
        loop: asyncio.AbstractEventLoop,
        options: SharedLogOptions,
        committer: Callable[[Log, int, Report], Committer] = Committer,
    ) -> None:
        """Use ``medium``, which must be nobody else's; nothing happens before ``open``.

        ``committer`` is what brings operations to the log: a thread, if nothing else is said.
        """
        self.state = StoreState()
        self.life: Life | None = None
        self.syncs = options.sync
        self.may_lack_entries = False
        """Whether confirmed entries may be missing: the last run did not sync its entries and was not stopped in order.

        A store that does not sync now says so, too: an earlier release left no note of its mode.
        """
        self._make_committer = committer
        self._medium = medium
        self._loop = loop
        self._options = options
        self._log = Log(medium, options.segment_bytes, loop.time, sync=options.sync)
        self.commit_times = self._log.commit_times
        self.write_latencies = RecentDurations()
        self._cache = TailCache(options.tail_cache_bytes)
        self._ledgers: dict[int, _Ledger] = {}
        self._reports = Reports(loop, self._cache, self._ledgers)
        self._deferred: list[Operation] = []
        """Control operations that met a shortage; tried again before whatever is asked next."""

    async def open(self, progress: Progress | None = None) -> None:
        """Recover what the medium holds and start to serve; ``progress`` counts segments, on the event loop.

        Raises CorruptionError, naming segment and offset, for damage that no crash explains; StorageShortageError or
        StorageError if nothing can be written.
        """

        def told(done: int, total: int) -> None:
            if progress is not None:
                self._loop.call_soon_threadsafe(progress, done, total)

        self._pool = ThreadPoolExecutor(self._options.read_threads, thread_name_prefix="magnetar-ledger-read")
        try:
            self.ids, self.life, self.may_lack_entries = await self._run(
                open_log, self._log, self._medium, self._options, told
            )
        except BaseException:
            self._pool.shutdown(wait=False)
            raise
        self.ids.reserve, index = self._reserve, self._log.index
        self._ledgers |= {each.ledger_id: _Ledger(each.length, sealed=each.sealed) for each in index.ledgers.values()}
        self._reader = LogReader(self._medium, index, self._options.table_cache_bytes)
        self._committer = self._make_committer(self._log, self._options.group_bytes, self._report_soon)
        self._committer.start()
        self._medium.take_reserve()
        await self.look_at_space()

    async def look_at_space(self) -> None:
        """See LedgerStore."""
        before = self.state
        if before.failure is None and self._medium.watches_shortage:
            look = partial(self._medium.shortage, is_short=before.shortage is not None)
            found = await self._loop.run_in_executor(self._pool, look) if self._medium.blocks else look()
            if self.state is before:  # else a write has failed since
                self.state = StoreState(shortage=found)

    def give_reserve(self) -> bool:
        """Give back the room that is held for a shortage, at a start; whether there was any."""
        given = self._medium.give_reserve()
        if self.state.failure is None:
            self.state = StoreState(shortage=self._medium.shortage(is_short=self.state.shortage is not None))
        return given

    @property
    def cached_bytes(self) -> int:
        """See LedgerStore."""
        return self._cache.size_bytes + self._reader.cached_bytes

    @property
    def next_ledger_id(self) -> int:
        """The lowest id that a ledger created from now on can have."""
        return self.ids.next

    def losses_accepted(self) -> None:
        """Note that nothing counts on missing entries any more; raises StorageError."""
        self.may_lack_entries = False
        if self.syncs:
            run_blocking(self._medium.remove_note, UNSYNCED_NAME)

    async def close(self) -> None:
        """Make all that was asked durable and report it, seal the log, end the threads."""
        if self._deferred:
            self.barrier(lambda _error: None)
        await self._committer.end()
        self._reports.finish()
        await self._run(self._seal_log if self.state.healthy else self._log.abandon)
        self.state = StoreState("the store is closed")
        self._pool.shutdown()

    def create(self) -> int:
        """See LedgerStore; raises StorageError when ids are asked for faster than they can be reserved durably."""
        try:
            ledger_id = self.ids.give()
        except StorageError:
            if self._deferred:  # the reservation may be one of them, and nobody may ask for anything else
                self.barrier(lambda _error: None)
            raise
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
        if self.state.shortage is not None and not urgent:
            refusal = self.state.refusal
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
        return await self._run(self._reader.read, ledger_id, first, max_entries, max_bytes)

    def hold_runs(self, ledger_ids: Collection[int]) -> Coroutine[Any, Any, None] | None:
        """See LedgerStore."""
        return None if self._reader.hold_runs(ledger_ids) else self._run(self._reader.read_runs, ledger_ids)

    def runs(self, ledger_id: int) -> Iterator[Run]:
        """See LedgerStore."""
        self._require(ledger_id)
        return self._reader.runs(ledger_id)

    def release_runs(self, ledger_ids: Collection[int]) -> None:
        """See LedgerStore."""
        self._reader.release_runs(ledger_ids)

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

    def _reserve(self, bound: int) -> None:
        self._submit(without_entries(Kind.RESERVE, bound))

    async def _run(self, function: Callable[..., Coroutine[Any, Any, Result]], *args: object) -> Result:
        """Run what waits for the medium, on another thread if that blocks."""
        if self._medium.blocks:
            return await self._loop.run_in_executor(self._pool, run_blocking, function, *args)
        return await function(*args)

    async def _seal_log(self) -> None:
        try:
            await self._log.close(self.next_ledger_id)
            if not self.may_lack_entries:
                await self._medium.remove_note(UNSYNCED_NAME)
        except StorageError:
            await self._log.abandon()  # the next opening walks through the unsealed segment

    def _submit(self, operation: Operation) -> bool:
        """Hand an operation to the committer, or say that it fails and return False."""
        if self.state.failure is not None:
            if operation.on_durable is not None:
                self._loop.call_soon(operation.on_durable, self.state.refusal)
            return False
        if self._deferred:
            deferred, self._deferred = self._deferred, []
            for each in deferred:
                self._committer.submit(each)
        self._committer.submit(operation)
        return True

    def _report_soon(self, operations: Sequence[Operation], error: StorageError | None) -> None:
        """Report the outcome of a group. Called on the committing thread, which may wait for the disk."""
        if error is None:
            self._loop.call_soon_threadsafe(self._reports.add, operations)
        else:
            has_room = isinstance(error, StorageShortageError) and self._medium.give_reserve()
            self._loop.call_soon_threadsafe(partial(self._fail, operations, error, has_room=has_room))

    def _fail(self, operations: Sequence[Operation], error: StorageError, *, has_room: bool) -> None:
        """Take back and report the failed group and all that was asked after it.

        At once, because nothing may be appended to a cut ledger before. ``has_room``: the reserve was given back.
        """
        self._reports.finish()
        failed = [*operations, *self._committer.take_back()]
        for operation in failed:
            ledger = self._ledgers.get(operation.ledger_id) if operation.kind is Kind.RUN else None
            if ledger is not None:
                durable = self._durable(operation.ledger_id)
                ledger.length = durable.length if durable else 0
        if isinstance(error, StorageShortageError):
            if self._medium.watches_shortage:
                self.state = StoreState(shortage=error)
            failed = self._dropped(failed, has_room=has_room)
            self._committer.resume()
        else:
            self.state = StoreState(str(error), is_fenced=isinstance(error, StoreFencedError))
        self._reports.tell(failed, error)

    def _dropped(self, failed: Sequence[Operation], *, has_room: bool) -> list[Operation]:
        """Go on with what is urgent if there is room, otherwise keep what must not be dropped; return the rest."""
        dropped: list[Operation] = []
        for operation in failed:
            ledger = self._ledgers.get(operation.ledger_id)
            if not operation.is_control and not (has_room and _goes_on(operation, ledger)):
                dropped.append(operation)
            elif has_room:
                self._committer.submit(operation)
            else:
                self._deferred.append(operation)
        return dropped

    def list(self) -> list[int]:
        """See LedgerStore."""
        return sorted(self._ledgers)


def _goes_on(operation: Operation, ledger: _Ledger | None) -> bool:
    """Whether a run that was taken back from a ledger is asked again, in its old place."""
    if not operation.urgent or ledger is None:
        return False
    assert ledger.length == operation.argument, "all appends to a ledger are alike"
    ledger.length += len(operation.entries)
    return True
