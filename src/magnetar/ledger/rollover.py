"""The ledger of a topic that takes appends, and the next one, to which entries are held until it is listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import StorageError
from magnetar.ledger.chain import ChainLedger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.world import Clock
    from magnetar.ledger.ledger_list import LedgerList
    from magnetar.ledger.log_positions import LogPositions
    from magnetar.ledger.store import LedgerStore, OnDurable

_MIB = 1024 * 1024
_MINUTE_MS = 60_000


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
class HeldRun:
    """A run that waits for its ledger to be listed. A run without entries is a barrier."""

    entries: Sequence[bytes]
    report: OnDurable
    annotation: bytes


class Rollover:
    """The last ledgers of one topic's chain. Used on the event loop's thread."""

    def __init__(
        self, store: LedgerStore, listed: LedgerList, log: LogPositions, config: ManagedLedgerConfig, clock: Clock
    ) -> None:
        """Begin with closed ledgers: the first append begins a new one."""
        self._store = store
        self._listed = listed
        self._log = log
        self._config = config
        self._clock = clock
        self._current: ChainLedger | None = None
        """The ledger that takes appends: the last of the chain, or none."""
        self._next: ChainLedger | None = None
        """The ledger that becomes the current one when its listing is durable: the last of the chain."""
        self._held: list[HeldRun] = []
        """Runs for the next ledger, which are written once that is listed."""
        self._is_ended = False

    def ledger_for_append(self) -> ChainLedger:
        """Return the ledger for the next run. Where the current one is full or missing, the next one is listed now.

        Raises StorageError if none can be listed.
        """
        now_ms = int(self._clock.now() * 1000)
        if self._current is not None and self._is_full(self._current, now_ms):
            self._close(self._current)
        if self._current is None and self._next is None:
            self._list_next(now_ms)
        found = self._current or self._next
        assert found is not None
        return found

    def write(self, ledger: ChainLedger, entries: Sequence[bytes], report: OnDurable, annotation: bytes) -> int:
        """Write a run to ``ledger``, or hold it until that is listed; return the entry id of its first entry."""
        if ledger is self._next:
            self._held.append(HeldRun(entries, report, annotation))
            return ledger.entries
        return self._store.append(ledger.ledger_id, entries, report, annotation, urgent=False)

    def barrier(self, on_durable: OnDurable) -> None:
        """Call ``on_durable`` in the order of the appends, once all of them until now are durable, or why not."""
        if self._held and self._next is not None:
            self._held.append(HeldRun((), on_durable, b""))
        else:
            self._store.barrier(on_durable)

    def fail_held(self, error: StorageError) -> None:
        """Report that the held runs are not written: a run before them was not."""
        held, self._held = self._held, []
        for run in held:
            run.report(error)

    def end(self) -> None:
        """Take no more appends."""
        self._is_ended = True
        self.close_current()

    def close_current(self) -> None:
        """Close the current ledger, also an empty one."""
        if self._current is not None:
            self._close(self._current)

    def close_if_old(self, now_ms: int) -> None:
        """Close the current ledger if it has reached its greatest age, also an empty one."""
        current = self._current
        if current is not None and now_ms - current.created_ms >= self._config.max_rollover_ms:
            self._close(current)

    def _list_next(self, now_ms: int) -> None:
        """List a new ledger for appends; raises StorageError if there is none, and none can be listed."""
        name, last = self._listed.name, self._log.last_confirmed_entry
        assert not self._is_ended, f"{name} takes no appends: it is closed"
        begun = ChainLedger(self._store.create(), now_ms)
        if begun.ledger_id <= last.ledger_id:
            self._store.delete(begun.ledger_id)
            message = f"{name}: ledger {begun.ledger_id} was used before {last}"
            raise StorageError(message)
        self._next = begun
        self._log.chain.add(begun)
        refusal: StorageError | None = None

        def listed(error: StorageError | None) -> None:
            nonlocal refusal
            refusal = error
            if error is None:
                self._begin(begun)
            else:
                self.fail_held(error)
                self._give_up(begun)

        try:
            self._listed.commit(self._log, listed)
        except BaseException:
            self._give_up(begun)
            raise
        if refusal is not None:
            raise refusal

    def _begin(self, begun: ChainLedger) -> None:
        """The listing of the next ledger is durable: it takes the appends from now on."""
        if self._is_ended:  # it is listed and empty: the next load of the topic deletes it
            self.fail_held(StorageError(f"{self._listed.name} was closed before its ledger was listed"))
            return
        self._next = None
        self._current = begun
        held, self._held = self._held, []
        for run in held:
            if run.entries:
                self._store.append(begun.ledger_id, run.entries, run.report, run.annotation, urgent=False)
            else:
                self._store.barrier(run.report)

    def _give_up(self, begun: ChainLedger) -> None:
        """The next ledger cannot be listed: it takes nothing, or it would not be found again."""
        self._next = None
        self._log.chain.remove_last()
        self._store.delete(begun.ledger_id)

    def _is_full(self, ledger: ChainLedger, now_ms: int) -> bool:
        # A clock that went back must not keep a ledger open until it has caught up: its age counts from now.
        ledger.created_ms = min(ledger.created_ms, now_ms)
        config, age_ms = self._config, now_ms - ledger.created_ms
        if age_ms >= config.max_rollover_ms:
            return ledger.entries > 0
        full = ledger.entries >= config.max_entries_per_ledger or ledger.size >= config.max_size_per_ledger_bytes
        return full and age_ms >= config.min_rollover_ms

    def _close(self, current: ChainLedger) -> None:
        self._store.seal(current.ledger_id)
        current.closed_ms = self._log.wall_ms()
        self._current = None
        self._listed.is_unsaved = True
