"""Check of a whole data directory: the log, the metadata, and their agreement with each other.

The check changes nothing. Unreadable data is reported twice: as a problem with its place, and as a loss with its
topic or subscription.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from magnetar.base.errors import CorruptionError, DataLossError, StorageError
from magnetar.base.position import Position
from magnetar.base.real import SystemClock, SystemFiles
from magnetar.broker.delayed.store import DELAYED, DelayedStore
from magnetar.broker.log.origin_summaries import summaries_path
from magnetar.broker.publish.sequence_ids import SequenceIds
from magnetar.broker.settings.data_directory import LEDGERS, METADATA
from magnetar.cursor.cursor import Cursor
from magnetar.cursor.info import CursorHome
from magnetar.geo.origins.summary import OriginSummary, decode_summary
from magnetar.ledger.deletions import noted_deletions
from magnetar.ledger.managed_ledger import ManagedLedger
from magnetar.ledger.medium.blocking import run_blocking
from magnetar.ledger.medium.local import LocalMedium
from magnetar.ledger.read_only import ReadOnlyLedgerStore
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.ledger.segments import check as ledger_check
from magnetar.ledger.segments.recovery import survey
from magnetar.ledger.shared_log.notes import UNSYNCED_NAME
from magnetar.metadata.local import LocalMetadataStore
from magnetar.metadata.resources import Topics, managed_ledger_path
from magnetar.offline.delayed_check import problems_of
from magnetar.offline.repair import Repair, carry_out, plan_repairs, values_before
from magnetar.wire.links import DEDUPLICATION_CURSOR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from magnetar.base.names import TopicName
    from magnetar.ledger.segments.check import Damage, Report
    from magnetar.ledger.segments.index import LogIndex

    Progress = Callable[[str, int, int], None]
    """Called with a kind of work ("segments", "topics"), the amount done, and the total."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Data that is lost if the directory is used in its present state."""

    topic: str
    subscription: str | None
    """None: entries of the topic are lost; else acknowledgements after the subscription's last readable state."""
    first: Position | None = None
    last: Position | None = None
    """First and last lost entry, both inclusive."""
    entries: int = 0


@dataclass(slots=True)
class DirectoryReport:
    """Content and damage of a data directory."""

    log: Report
    topics: int = 0
    cursors: int = 0
    problems: list[str] = field(default_factory=list)
    """Damage of the log and of the metadata, each with its place."""
    losses: list[Loss] = field(default_factory=list)
    repairs: list[Repair] = field(default_factory=list)
    """Repairs that make damaged topics loadable, and the data that each gives up."""
    orphans: list[int] = field(default_factory=list)
    """Ledgers that no topic and no subscription lists. They take space, and may hold data of a lost topic."""
    orphans_bytes: int = 0
    """Bytes of the entries in ``orphans``."""

    @property
    def intact(self) -> bool:
        """Whether there is no damage."""
        return not self.problems and not self.losses and not self.repairs


def check(directory: Path, progress: Progress = lambda _what, _done, _total: None) -> DirectoryReport:
    """Check a data directory. The caller holds its lock."""
    log = ledger_check.check(_medium(directory), lambda done, total: progress("segments", done, total))
    report = DirectoryReport(log, problems=list(log.problems))
    try:
        metadata = LocalMetadataStore(directory / METADATA, SystemClock(), read_only=True)
        report.problems += metadata.damage()
    except StorageError as error:
        report.problems.append(f"{error}; topics and subscriptions were not checked")
        return report
    try:
        _examine(directory, metadata, report, progress)
    except StorageError as error:
        report.problems.append(f"{error}; topics and subscriptions were not checked")
    finally:
        metadata.close()
    return report


def repair(directory: Path, repairs: Sequence[Repair], now: float) -> Path:
    """Carry out repairs; return the file in ``directory`` with the replaced metadata, which is written first.

    The caller holds the lock of the directory. ``now`` is in seconds since the epoch.
    """
    metadata = LocalMetadataStore(directory / METADATA, SystemClock())
    try:
        record = directory / f"repaired-{int(now * 1000)}.json"
        described = [{"topic": each.topic, "action": each.action, "givesUp": each.gives_up} for each in repairs]
        replaced = {path: value.decode(errors="backslashreplace") for path, value in values_before(metadata, repairs)}
        record.write_text(json.dumps({"repairs": described, "replaced": replaced}, indent=2))
        carry_out(metadata, repairs)
    finally:
        metadata.close()
    return record


def _medium(directory: Path) -> LocalMedium:
    return LocalMedium(directory / LEDGERS, SystemFiles())


def _examine(directory: Path, metadata: LocalMetadataStore, report: DirectoryReport, progress: Progress) -> None:
    medium = _medium(directory)
    index = run_blocking(survey, medium).index
    store = ReadOnlyLedgerStore(medium, index)
    examination = _Examination(metadata, store, index, report)
    examination.may_lack_entries = run_blocking(medium.note, UNSYNCED_NAME) is not None
    topics = sorted(Topics(metadata).all())
    report.repairs = plan_repairs(metadata, store, index, topics)
    for done, name in enumerate(topics):
        progress("topics", done, len(topics))
        examination.topic(name)
    progress("topics", len(topics), len(topics))
    examination.finish()
    _examine_delayed(directory, examination.opened, report)


def _examine_delayed(directory: Path, logs: list[ManagedLedger], report: DirectoryReport) -> None:
    """Compare the index of delayed messages with the log. Damage of the index is no loss."""
    if not (directory / DELAYED).exists():
        return
    store = DelayedStore(directory / DELAYED, read_only=True)
    try:
        for log in logs:
            report.problems += asyncio.run(problems_of(store, log))
    except StorageError as error:
        report.problems.append(f"{error}; a starting broker rebuilds the index from the log")
    finally:
        store.close()


class _Examination:
    """Comparison of topics and cursors with the log."""

    def __init__(
        self, metadata: LocalMetadataStore, store: ReadOnlyLedgerStore, index: LogIndex, report: DirectoryReport
    ) -> None:
        self._metadata = metadata
        self._store = store
        self._index = index
        self._report = report
        self._damaged: dict[int, list[Damage]] = {}
        for damage in report.log.damaged:
            self._damaged.setdefault(damage.ledger_id, []).append(damage)
        self.opened: list[ManagedLedger] = []
        """Logs of the topics without missing entries."""
        self.may_lack_entries = False
        """Whether a starting broker accepts a log that is shorter than the topics' lists of ledgers state."""
        self._named: set[int] = set()
        """Ledgers that a topic, a cursor or a deletion names."""

    def topic(self, name: TopicName) -> None:
        """Check a topic's list of ledgers and its cursors."""
        path = managed_ledger_path(name)
        stored = self._metadata.get(path)
        if stored is None:  # the topic is being deleted; only its cursors are left
            self._cursors(name, None)
            return
        self._report.topics += 1
        try:
            listed: list[dict[str, Any]] = json.loads(stored.value)["ledgers"]
            missing = [each for each in listed if not self._holds(name, each["ledgerId"], each["entries"])]
        except (ValueError, KeyError, TypeError) as error:
            self._report.problems.append(f"{path}: the list of ledgers cannot be read: {error!r}")
            return
        self._summaries(name)
        log = None
        if not missing:
            try:
                log = ManagedLedger.open(self._store, self._metadata, name, ManagedLedgerConfig(), SystemClock())
            except (CorruptionError, DataLossError) as error:
                self._report.problems.append(str(error))
            else:
                self.opened.append(log)
        self._cursors(name, log)

    def finish(self) -> None:
        """Find the ledgers that nothing names."""
        self._named.update(noted_deletions(self._metadata))
        self._report.orphans = sorted(set(self._index.ledgers) - self._named)
        self._report.orphans_bytes = sum(self._index.ledgers[each].entries_bytes for each in self._report.orphans)

    def _holds(self, name: TopicName, ledger_id: int, confirmed: int) -> bool:
        """Return whether a ledger holds the entries that were recorded as durable; report those that it lacks."""
        self._named.add(ledger_id)
        found = self._index.ledgers.get(ledger_id)
        length = found.length if found else 0
        for damage in self._damaged.get(ledger_id, ()):
            self._lose(name, ledger_id, damage.first, damage.end)
        if length >= confirmed:
            return True
        ends = f"holds {length} entries" if found else "is not in the log"
        what = f"ledger {ledger_id} {ends}, {confirmed} were durable"
        if self.may_lack_entries:
            what = f"ledger {ledger_id} {ends}, {confirmed} were confirmed without a sync (journalSyncData=false)"
        self._report.problems.append(f"{managed_ledger_path(name)}: {what}")
        self._lose(name, ledger_id, length, confirmed)
        return False

    def _summaries(self, name: TopicName) -> None:
        """Check that the stored summaries of the origins of ledgers agree with their runs."""
        root = summaries_path(name)
        for child in self._metadata.children(root):
            stored, ledger = self._metadata.get(f"{root}/{child}"), self._index.ledgers.get(int(child))
            if stored is None or ledger is None:
                continue
            if decode_summary(stored.value, ledger.length) is None:  # rebuilt when the topic is loaded
                continue
            summary = OriginSummary()
            for run in self._store.runs(ledger.ledger_id):
                summary.add(run.count, run.annotation)
            if summary.encode() != stored.value:
                self._report.problems.append(f"{root}/{child}: the summary of origins differs from the log")

    def _lose(self, name: TopicName, ledger_id: int, first: int, end: int) -> None:
        positions = Position(ledger_id, first), Position(ledger_id, end - 1)
        self._report.losses.append(Loss(str(name), None, *positions, end - first))

    def _cursors(self, name: TopicName, log: ManagedLedger | None) -> None:
        root = f"{managed_ledger_path(name)}/cursors"
        for child in self._metadata.children(root):
            path = f"{root}/{child}"
            stored = self._metadata.get(path)
            if stored is None:
                continue
            try:
                value = json.loads(stored.value)
                self._named.add(value["cursorsLedgerId"])
                if not value.get("deleted"):
                    self._report.cursors += 1
                    self._cursor(path, unquote_plus(child), value, log)
            except (CorruptionError, ValueError, KeyError, TypeError) as error:
                self._report.problems.append(f"{path}: the cursor cannot be read: {error!r}")
                self._report.losses.append(Loss(str(name), unquote_plus(child)))

    def _cursor(self, path: str, name: str, value: dict[str, Any], log: ManagedLedger | None) -> None:
        """Check that the records of a cursor are readable and lie within the topic."""
        if log is None:
            return
        home = CursorHome(self._store, self._metadata, path)
        began = Position.parse(value["markDeletePosition"])
        cursor = Cursor.recover(home, name, log, value)
        if name == DEDUPLICATION_CURSOR:
            SequenceIds().load(cursor.attachments, 0)
        newest = max(cursor.state.mark_delete_position, cursor.recovered_through or began)
        if newest > max(log.last_confirmed_entry, began):
            what = f"acknowledged up to {newest}, but the log ends at {log.last_confirmed_entry}"
            self._report.problems.append(f"{path}: {what}")
